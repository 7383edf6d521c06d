//! What is kept of a job, whatever its kind, and how its priority is found.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Toleration;
use whalezen_crds::kueue::v1beta2::PriorityClassRef;

use super::{super::pods::Pods, slices};
use crate::write::Target;

/// A job's address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobKey {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// How a job ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ending {
    /// Whether it ended well.
    pub succeeded: bool,
    /// What its controller says about it.
    pub message: String,
}

/// How many completions a job has when it gets another number of pods than it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completions {
    /// Those that it asks for.
    AsAsked,
    /// As many as pods.
    AsManyAsPods,
}

/// What is kept of a job, whatever its kind: no pod templates.
#[derive(Clone, PartialEq, Debug)]
pub struct JobView {
    /// Where it is.
    pub target: Target,
    /// Its uid.
    pub uid: String,
    /// Its `resourceVersion`.
    pub version: u64,
    /// The LocalQueue that it asks for.
    pub queue: Option<String>,
    /// Other controllers' gates that keep it from queueing, as they are written.
    pub gates: Option<String>,
    /// For how many seconds it may run.
    pub max_seconds: Option<i32>,
    /// The `WorkloadPriorityClass` that it asks for.
    pub workload_priority_class: Option<String>,
    /// The pods' `PriorityClass`.
    pub pod_priority_class: Option<String>,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Whether its pod template may be changed now: it is suspended and its controller has taken notice.
    pub at_rest: bool,
    /// Pods of it that have not ended, those that are on their way out among them.
    pub active: i32,
    /// How many of the pods that it wants are neither ready nor have succeeded.
    pub unready: i32,
    /// How it ended, if it has.
    pub ending: Option<Ending>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its pods as it asks for them now, or what is wrong with them.
    pub pods: Result<Arc<[Pods]>, String>,
    /// The Workload for which the pod template carries the marks of an admission, if it carries any. Anybody can
    /// put them there.
    pub injected: Option<String>,
    /// The tolerations in the pod template.
    pub tolerations: Vec<Toleration>,
    /// Its labels.
    pub template_labels: BTreeMap<String, String>,
    /// Its annotations.
    pub template_annotations: BTreeMap<String, String>,
    /// How many of its pods have nothing to do any more.
    pub done: u32,
    /// How many completions it has when it gets another number of pods.
    pub completions: Completions,
    /// What is kept of it besides, if it may grow and shrink while it runs.
    pub elastic: Option<slices::Elastic>,
}

/// What the priority classes say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Priorities {
    /// Values of `WorkloadPriorityClass` objects.
    pub workload: BTreeMap<String, i32>,
    /// Values of `PriorityClass` objects, and whether each is the default for all pods.
    pub pod: BTreeMap<String, (i32, bool)>,
}

/// A job's priority: the class that it is from, if any, and the value.
pub type Priority = (Option<PriorityClassRef>, i32);

impl Priorities {
    /// The priority of a job, or the name of the class that does not exist (yet).
    pub fn of(&self, job: &JobView) -> Result<Priority, String> {
        if let Some(name) = &job.workload_priority_class {
            let value = self.workload.get(name);
            let value = value.ok_or_else(|| format!("WorkloadPriorityClass {name} doesn't exist"))?;
            return Ok((Some(PriorityClassRef::workload(name)), *value));
        }
        if let Some(name) = &job.pod_priority_class {
            let (value, _) =
                self.pod.get(name).ok_or_else(|| format!("PriorityClass {name} doesn't exist"))?;
            return Ok((Some(PriorityClassRef::pod(name)), *value));
        }
        // There should be one default; of several the lowest counts, as for Kubernetes.
        let defaults = self.pod.iter().filter(|(_, (_, default))| *default);
        let default = defaults.min_by_key(|(_, (value, _))| *value);
        Ok(default.map_or((None, 0), |(name, (value, _))| (Some(PriorityClassRef::pod(name)), *value)))
    }
}
