//! What an admission adds to a job's pod template: what its flavors demand, and what its admission checks want. It can
//! only add; what would change something that is there is a conflict, and the job cannot be started.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Toleration;
use serde_json::{Map, Value, json};
use whalezen_core::{
    name::FlavorName,
    workload::{Admission, PodSetAssignment},
};
use whalezen_crds::kueue::v1beta2::AdmissionCheckState;

use super::{JobView, Slot, Surroundings, writes::put};

type Entries = BTreeMap<String, String>;

/// What is added to the pods.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Placement {
    labels: Entries,
    annotations: Entries,
    selector: Entries,
    tolerations: Vec<Toleration>,
}

/// Why a job cannot be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unplaceable {
    /// A flavor does not exist. It may come.
    NoFlavor(FlavorName),
    /// Two want different things of the pods: this is what. It cannot get better by itself.
    Conflict(String),
}

/// The marks that a template gets beside what it asks of nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Added {
    /// Labels.
    pub labels: Entries,
    /// Annotations.
    pub annotations: Entries,
    /// The names of scheduling gates.
    pub gates: Vec<&'static str>,
}

/// The placements of an admission whose checks stand like this, one for each pod set of the job.
pub fn placements(
    job: &JobView,
    checks: &[AdmissionCheckState],
    given: &Admission,
    around: Surroundings<'_>,
) -> Result<Vec<Placement>, Unplaceable> {
    let sets = job.pods.as_deref().unwrap_or_default().iter();
    let assigned = sets.map(|pods| given.pod_sets.iter().find(|set| set.name == pods.name));
    assigned
        .map(|set| set.map_or_else(|| Ok(Placement::default()), |set| placement(checks, set, around)))
        .collect()
}

fn placement(
    checks: &[AdmissionCheckState],
    given: &PodSetAssignment,
    around: Surroundings<'_>,
) -> Result<Placement, Unplaceable> {
    let used: BTreeSet<&FlavorName> = given.flavors.values().collect();
    let mut placement = Placement::default();
    for name in used {
        let flavor = around.flavors.get(name).ok_or_else(|| Unplaceable::NoFlavor(name.clone()))?;
        placement.selector.extend(flavor.labels.clone());
        placement.tolerate(around.flavor_tolerations.get(name).into_iter().flatten());
    }
    for check in checks {
        for update in check.pod_set_updates.iter().filter(|update| *update.name == *given.name) {
            let within =
                |problem| Unplaceable::Conflict(format!("in admission check {:?}: {problem}", check.name));
            placement.merge("annotations", &update.annotations).map_err(within)?;
            placement.merge("labels", &update.labels).map_err(within)?;
            placement.merge("nodeSelector", &update.node_selector).map_err(within)?;
            placement.tolerate(update.tolerations.iter());
        }
    }
    Ok(placement)
}

/// Whether placements change nothing that is in a job's templates already.
pub fn agree_with(placements: &[Placement], job: &JobView) -> Result<(), Unplaceable> {
    placements.iter().enumerate().try_for_each(|(index, placement)| placement.agrees_with(job, index))
}

/// Whether a job's templates have all of them.
pub fn are_in(placements: &[Placement], job: &JobView) -> bool {
    placements.iter().enumerate().all(|(index, placement)| placement.is_in(job, index))
}

impl Placement {
    fn tolerate<'a>(&mut self, tolerations: impl Iterator<Item = &'a Toleration>) {
        for toleration in tolerations {
            if !self.tolerations.contains(toleration) {
                self.tolerations.push(toleration.clone());
            }
        }
    }

    fn merge(&mut self, what: &str, more: &Entries) -> Result<(), String> {
        let into = match what {
            "annotations" => &mut self.annotations,
            "labels" => &mut self.labels,
            _ => &mut self.selector,
        };
        conflict(what, into, more)?;
        into.extend(more.clone());
        Ok(())
    }

    fn agrees_with(&self, job: &JobView, index: usize) -> Result<(), Unplaceable> {
        let Some(slot) = job.slots.get(index) else { return Ok(()) };
        let all = [
            ("annotations", &slot.annotations, &self.annotations),
            ("labels", &slot.labels, &self.labels),
            ("nodeSelector", &slot.selector, &self.selector),
        ];
        all.into_iter()
            .try_for_each(|(what, there, more)| conflict(what, there, more))
            .map_err(Unplaceable::Conflict)
    }

    fn is_in(&self, job: &JobView, index: usize) -> bool {
        let has = |all: &Entries, some: &Entries| some.iter().all(|(key, value)| all.get(key) == Some(value));
        job.slots.get(index).is_some_and(|slot| {
            has(&slot.labels, &self.labels)
                && has(&slot.annotations, &self.annotations)
                && has(&slot.selector, &self.selector)
                && self.tolerations.iter().all(|toleration| slot.tolerations.contains(toleration))
        })
    }

    /// The operations that add it and these marks to the template of a pod set, or to a pod.
    pub fn operations(&self, path: &str, slot: &Slot, mark: &Added) -> Vec<Value> {
        let with = |there: &Entries, more: &Entries, mark: &Entries| {
            let all = there.iter().chain(more).chain(mark).map(|(key, value)| (key.clone(), value.clone()));
            all.collect::<Entries>()
        };
        let labels = with(&slot.labels, &self.labels, &mark.labels);
        let annotations = with(&slot.annotations, &self.annotations, &mark.annotations);
        let mut operations = if slot.bare {
            vec![put(&format!("{path}/metadata"), json!({ "labels": labels, "annotations": annotations }))]
        } else {
            vec![
                put(&format!("{path}/metadata/labels"), json!(labels)),
                put(&format!("{path}/metadata/annotations"), json!(annotations)),
            ]
        };
        if !self.selector.is_empty() {
            let selector = with(&slot.selector, &self.selector, &Entries::new());
            operations.push(put(&format!("{path}/spec/nodeSelector"), json!(selector)));
        }
        let more: Vec<_> = self.tolerations.iter().filter(|&own| !slot.tolerations.contains(own)).collect();
        if !more.is_empty() {
            let tolerations: Vec<&Toleration> = slot.tolerations.iter().chain(more).collect();
            operations.push(put(&format!("{path}/spec/tolerations"), json!(tolerations)));
        }
        let more: Vec<&str> =
            mark.gates.iter().copied().filter(|own| slot.gates.iter().all(|gate| gate != own)).collect();
        if !more.is_empty() {
            let gates = gates(slot.gates.iter().map(String::as_str).chain(more));
            operations.push(put(&format!("{path}/spec/schedulingGates"), gates));
        }
        operations
    }

    /// What it and these marks add to the pods of a set, as a template.
    pub fn added(&self, mark: &Added) -> Value {
        let with = |more: &Entries, mark: &Entries| {
            more.iter().chain(mark).map(|(key, value)| (key.clone(), json!(value))).collect::<Value>()
        };
        let mut pod = Map::new();
        if !self.selector.is_empty() {
            pod.insert("nodeSelector".to_owned(), json!(self.selector));
        }
        if !self.tolerations.is_empty() {
            pod.insert("tolerations".to_owned(), json!(self.tolerations));
        }
        if !mark.gates.is_empty() {
            pod.insert("schedulingGates".to_owned(), gates(mark.gates.iter().copied()));
        }
        let (labels, annotations) =
            (with(&self.labels, &mark.labels), with(&self.annotations, &mark.annotations));
        json!({ "metadata": { "labels": labels, "annotations": annotations }, "spec": pod })
    }
}

/// Scheduling gates as they stand in a pod.
pub fn gates<'a>(names: impl Iterator<Item = &'a str>) -> Value {
    names.map(|name| json!({ "name": name })).collect()
}

/// Whether these entries agree wherever both have one.
fn conflict(what: &str, there: &Entries, more: &Entries) -> Result<(), String> {
    let differs = |(key, value): &(&String, &String)| there.get(*key).is_some_and(|known| known != *value);
    more.iter().find(differs).map_or(Ok(()), |(key, value)| {
        let known = there.get(key).map(String::as_str).unwrap_or_default();
        Err(format!(
            "invalid admission check PodSetUpdate: conflict for {what}: \
             conflict for key={key}, value1={known}, value2={value}"
        ))
    })
}
