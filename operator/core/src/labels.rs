//! Label sets and what selects them: label selectors (namespaces) and node affinity (flavors).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// How a requirement compares a label's value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Operator {
    /// The value is one of those listed.
    In,
    /// The label is absent, or its value is none of those listed.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// The value, read as an integer, is greater than the only one listed (node affinity only).
    Gt,
    /// The value, read as an integer, is less than the only one listed (node affinity only).
    Lt,
}

/// One requirement on one label.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// The comparison.
    pub operator: Operator,
    /// What it compares with.
    pub values: Vec<String>,
}

impl Requirement {
    /// Whether `labels` meet it.
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|v| self.values.contains(v)),
            Operator::NotIn => value.is_none_or(|v| !self.values.contains(v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => self.compares(value, |have, bound| have > bound),
            Operator::Lt => self.compares(value, |have, bound| have < bound),
        }
    }

    fn compares(&self, value: Option<&String>, holds: fn(i64, i64) -> bool) -> bool {
        let have = value.and_then(|v| v.parse().ok());
        let bound = self.values.first().and_then(|v| v.parse().ok());
        matches!((have, bound), (Some(have), Some(bound)) if holds(have, bound))
    }
}

/// A `metav1.LabelSelector`, read.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Selector {
    /// Selects nothing (the field was not set).
    #[default]
    Nothing,
    /// Selects what meets every requirement; with none, everything.
    All(Vec<Requirement>),
}

impl Selector {
    /// Whether it selects an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(requirements) => requirements.iter().all(|r| r.matches(labels)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(operator: Operator, values: &[&str]) -> Requirement {
        let values = values.iter().map(ToString::to_string).collect();
        Requirement { key: "k".into(), operator, values }
    }

    #[test]
    fn operators_compare_as_kubernetes_does() {
        let with = |v: &str| Labels::from([("k".to_owned(), v.to_owned())]);
        let without = Labels::new();
        for (operator, values, labels, want) in [
            (Operator::In, vec!["a", "b"], with("b"), true),
            (Operator::In, vec!["a"], without.clone(), false),
            (Operator::NotIn, vec!["a"], without.clone(), true),
            (Operator::NotIn, vec!["a"], with("a"), false),
            (Operator::Exists, vec![], with(""), true),
            (Operator::DoesNotExist, vec![], without, true),
            (Operator::Gt, vec!["8"], with("9"), true),
            (Operator::Gt, vec!["8"], with("8"), false),
            (Operator::Lt, vec!["8"], with("7"), true),
            (Operator::Lt, vec!["8"], with("many"), false),
        ] {
            assert_eq!(requirement(operator, &values).matches(&labels), want, "{operator:?} {values:?}");
        }
    }

    #[test]
    fn an_unset_selector_selects_nothing_and_an_empty_one_everything() {
        assert!(!Selector::Nothing.matches(&Labels::new()));
        assert!(Selector::All(vec![]).matches(&Labels::new()));
    }
}
