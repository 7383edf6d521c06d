//! Flavors: the kinds of node that quota is kept for, and which pods may use them.

use serde::{Deserialize, Serialize};

use crate::{
    labels::{Labels, Requirement},
    name::{FlavorName, TopologyName},
};

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum TaintEffect {
    /// They are not placed there.
    NoSchedule,
    /// They are placed there only if nothing better is found; never a reason to refuse a flavor.
    PreferNoSchedule,
    /// They are not placed there, and those that run are evicted.
    NoExecute,
}

/// A taint of the flavor's nodes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Taint {
    /// The taint's key.
    pub key: String,
    /// Its value, empty if none.
    pub value: String,
    /// What it does.
    pub effect: TaintEffect,
}

impl std::fmt::Display for Taint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{{} {} {:?} <nil>}}", self.key, self.value, self.effect)
    }
}

/// A pod's or a flavor's toleration.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Toleration {
    /// The taint's key; empty with `exists` tolerates every key.
    pub key: String,
    /// Whether any value will do (`operator: Exists`).
    pub exists: bool,
    /// The value that must be equal, unless `exists`.
    pub value: String,
    /// The effect tolerated; every one if none.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// Whether it tolerates `taint`, by Kubernetes' rule.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key == taint.key || (self.key.is_empty() && self.exists))
            && (self.exists || self.value == taint.value)
    }
}

/// What a pod demands of its node, as far as flavors can answer it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct NodeDemand {
    /// `nodeSelector`.
    pub selector: Labels,
    /// The terms of the required node affinity, each a conjunction; one must hold, if there are any.
    pub affinity: Vec<Vec<Requirement>>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
}

/// A `ResourceFlavor`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Flavor {
    /// Its name.
    pub name: FlavorName,
    /// The labels that its nodes carry and that admitted pods get as node selector.
    pub labels: Labels,
    /// The taints that its nodes carry.
    pub taints: Vec<Taint>,
    /// The tolerations that admitted pods get.
    pub tolerations: Vec<Toleration>,
    /// The topology of its nodes, if pods are placed on them.
    #[serde(default)]
    pub topology: Option<TopologyName>,
}

impl Flavor {
    /// The first taint that keeps a pod with this demand off, if any.
    pub fn untolerated(&self, demand: &NodeDemand) -> Option<&Taint> {
        self.taints.iter().filter(|t| t.effect != TaintEffect::PreferNoSchedule).find(|taint| {
            !demand.tolerations.iter().chain(&self.tolerations).any(|toleration| toleration.tolerates(taint))
        })
    }

    /// Whether a pod's node selector and affinity admit the flavor's nodes. Only the labels that the flavor
    /// itself names are compared; nodes carry others that nobody here knows of. A term left with no such
    /// requirement says nothing about the flavor, so the whole affinity says nothing (Kueue's rule).
    pub fn satisfies(&self, demand: &NodeDemand) -> bool {
        let selected =
            demand.selector.iter().all(|(key, value)| self.labels.get(key).is_none_or(|have| have == value));
        let known = |term: &&Vec<Requirement>| term.iter().any(|r| self.labels.contains_key(&r.key));
        if !selected || !demand.affinity.iter().all(|term| known(&term)) {
            return selected;
        }
        let holds = |r: &Requirement| !self.labels.contains_key(&r.key) || r.matches(&self.labels);
        demand.affinity.is_empty() || demand.affinity.iter().any(|term| term.iter().all(holds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Operator;

    fn flavor(labels: &[(&str, &str)], taints: &[(&str, &str, TaintEffect)]) -> Flavor {
        Flavor {
            name: "f".into(),
            labels: labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            taints: taints
                .iter()
                .map(|(key, value, effect)| Taint {
                    key: (*key).into(),
                    value: (*value).into(),
                    effect: *effect,
                })
                .collect(),
            tolerations: vec![],
            topology: None,
        }
    }

    fn tolerating(key: &str, exists: bool, value: &str, effect: Option<TaintEffect>) -> NodeDemand {
        let toleration = Toleration { key: key.into(), exists, value: value.into(), effect };
        NodeDemand { tolerations: vec![toleration], ..NodeDemand::default() }
    }

    #[test]
    fn a_taint_is_tolerated_by_key_value_and_effect() {
        let spot = flavor(&[], &[("spot", "true", TaintEffect::NoSchedule)]);
        assert!(spot.untolerated(&NodeDemand::default()).is_some());
        assert!(spot.untolerated(&tolerating("spot", false, "true", None)).is_none());
        assert!(spot.untolerated(&tolerating("spot", false, "false", None)).is_some());
        assert!(spot.untolerated(&tolerating("spot", true, "", None)).is_none());
        assert!(spot.untolerated(&tolerating("", true, "", None)).is_none());
        assert!(spot.untolerated(&tolerating("spot", true, "", Some(TaintEffect::NoExecute))).is_some());
    }

    #[test]
    fn a_preference_never_keeps_pods_off_and_a_flavor_tolerates_for_its_pods() {
        assert!(
            flavor(&[], &[("x", "", TaintEffect::PreferNoSchedule)])
                .untolerated(&NodeDemand::default())
                .is_none()
        );
        let mut own = flavor(&[], &[("x", "", TaintEffect::NoSchedule)]);
        own.tolerations = tolerating("x", true, "", None).tolerations;
        assert!(own.untolerated(&NodeDemand::default()).is_none());
    }

    #[test]
    fn only_labels_that_the_flavor_names_are_compared() {
        let a100 = flavor(&[("gpu", "a100")], &[]);
        let select = |k: &str, v: &str| NodeDemand {
            selector: Labels::from([(k.into(), v.into())]),
            ..NodeDemand::default()
        };
        assert!(a100.satisfies(&select("gpu", "a100")));
        assert!(!a100.satisfies(&select("gpu", "h100")));
        assert!(a100.satisfies(&select("disk", "ssd")));
    }

    #[test]
    fn affinity_terms_are_alternatives_and_a_foreign_term_settles_nothing() {
        let a100 = flavor(&[("gpu", "a100")], &[]);
        let term = |key: &str, value: &str| {
            vec![Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] }]
        };
        let affine = |affinity| NodeDemand { affinity, ..NodeDemand::default() };
        assert!(a100.satisfies(&affine(vec![term("gpu", "h100"), term("gpu", "a100")])));
        assert!(!a100.satisfies(&affine(vec![term("gpu", "h100")])));
        assert!(a100.satisfies(&affine(vec![term("gpu", "h100"), term("disk", "ssd")])));
    }
}
