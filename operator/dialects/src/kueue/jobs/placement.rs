//! What an admission adds to a job's pod template: what its flavors demand, and what its admission checks want. It can
//! only add; what would change something that is there is a conflict, and the job cannot be started.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Toleration;
use serde_json::{Map, Value, json};
use whalezen_core::{name::FlavorName, workload::Admission};
use whalezen_crds::kueue::v1beta2::AdmissionCheckState;

use super::{super::pods::Pods, JobView, Surroundings};

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

/// The placement of an admission whose checks stand like this. All pods of a job are of one kind.
pub fn placement(
    checks: &[AdmissionCheckState],
    given: &Admission,
    around: Surroundings<'_>,
) -> Result<Placement, Unplaceable> {
    let used: BTreeSet<&FlavorName> = given.pod_sets.iter().flat_map(|set| set.flavors.values()).collect();
    let mut placement = Placement::default();
    for name in used {
        let flavor = around.flavors.get(name).ok_or_else(|| Unplaceable::NoFlavor(name.clone()))?;
        placement.selector.extend(flavor.labels.clone());
        placement.tolerate(around.flavor_tolerations.get(name).into_iter().flatten());
    }
    for check in checks {
        let concerns = |name: &str| given.pod_sets.iter().any(|set| &*set.name == name);
        for update in check.pod_set_updates.iter().filter(|update| concerns(&update.name)) {
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

    /// Whether it changes nothing that is in a job's template already.
    pub fn agrees_with(&self, job: &JobView) -> Result<(), Unplaceable> {
        let template = [
            ("annotations", &job.template_annotations, &self.annotations),
            ("labels", &job.template_labels, &self.labels),
        ];
        let selectors = job.pods.as_deref().unwrap_or_default().iter();
        let selectors =
            selectors.map(|pods| ("nodeSelector", &pods.template.demand.selector, &self.selector));
        for (what, there, more) in template.into_iter().chain(selectors) {
            conflict(what, there, more).map_err(Unplaceable::Conflict)?;
        }
        Ok(())
    }

    /// Whether a job's template has all of it.
    pub fn is_in(&self, job: &JobView) -> bool {
        let has = |all: &Entries, some: &Entries| some.iter().all(|(key, value)| all.get(key) == Some(value));
        let selects = |pods: &Pods| has(&pods.template.demand.selector, &self.selector);
        has(&job.template_labels, &self.labels)
            && has(&job.template_annotations, &self.annotations)
            && job.pods.as_ref().is_ok_and(|pods| pods.iter().all(selects))
            && self.tolerations.iter().all(|toleration| job.tolerations.contains(toleration))
    }

    /// The patch of a pod template that adds it and these marks.
    pub fn patch(&self, job: &JobView, mark: (&str, &str), note: (&str, &str)) -> Value {
        let mut pod = Map::new();
        if !self.selector.is_empty() {
            pod.insert("nodeSelector".to_owned(), json!(self.selector));
        }
        let more = self.tolerations.iter().filter(|&own| !job.tolerations.contains(own));
        let tolerations: Vec<&Toleration> = job.tolerations.iter().chain(more).collect();
        if tolerations.len() > job.tolerations.len() {
            pod.insert("tolerations".to_owned(), json!(tolerations));
        }
        let with = |entries: &Entries, (key, value): (&str, &str)| {
            let mut entries = entries.clone();
            entries.insert(key.to_owned(), value.to_owned());
            entries
        };
        let metadata =
            json!({ "labels": with(&self.labels, mark), "annotations": with(&self.annotations, note) });
        json!({ "metadata": metadata, "spec": pod })
    }
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
