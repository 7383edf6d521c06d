//! What is kept of a job, whatever its kind, and how its priority is found.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::core::v1::{PodTemplateSpec, Toleration},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use whalezen_crds::kueue::{
    constants::{annotation, label},
    v1beta2::PriorityClassRef,
};

use super::{
    super::{
        hosts::Lost,
        pods::Pods,
        workload::{gates, version},
    },
    build,
    group::Group,
    kinds::{self, JobKind},
    pod::Member,
    slices,
    whole::At,
};
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
    /// Its kind.
    pub kind: &'static JobKind,
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
    /// The uid of the job that made it, if one of a kind did that can be queued.
    pub owner: Option<String>,
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
    /// How it ends once its pods have, if that is settled.
    pub ends: Option<Ending>,
    /// Pods of it of which nothing is heard any more. They are not counted as active.
    pub lost: Lost,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its pods as it asks for them now, or what is wrong with them.
    pub pods: Result<Arc<[Pods]>, String>,
    /// The Workload for which a pod template carries the marks of an admission, if any does. Anybody can put them there.
    pub injected: Option<String>,
    /// Where an admission adds to its pods, in the order of its pod sets.
    pub slots: Vec<Slot>,
    /// Where an admission adds to its pods, if those are described by what its controller makes of it. Its pod sets and
    /// slots are those then to which something was added.
    pub beside: Option<At>,
    /// How many pods of each set have nothing to do any more; none, where that is not said.
    pub done: Vec<u32>,
    /// How many completions it has when it gets another number of pods.
    pub completions: Completions,
    /// The pods that it is, if it is gated by its pods.
    pub members: Vec<Member>,
    /// What there is to say of them all, if it is a group of pods.
    pub group: Option<Group>,
    /// Which of the groups of its object it is, if those are queued by themselves.
    pub number: Option<u32>,
    /// What is kept of it besides, if it may grow and shrink while it runs.
    pub elastic: Option<slices::Elastic>,
}

/// Where an admission adds to the pods of a set, and what is there that it must not change.
#[derive(Clone, PartialEq, Debug)]
pub struct Slot {
    /// Where it is.
    pub at: At,
    /// Whether the template has no metadata at all.
    pub bare: bool,
    /// The labels in the template.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// The node selector.
    pub selector: BTreeMap<String, String>,
    /// The tolerations.
    pub tolerations: Vec<Toleration>,
    /// The names of the scheduling gates.
    pub gates: Vec<String>,
}

impl Slot {
    /// The one of this template.
    pub fn new(template: &PodTemplateSpec, at: At) -> Self {
        let metadata = template.metadata.as_ref();
        let pod = template.spec.as_ref();
        Self {
            at,
            bare: metadata.is_none(),
            labels: metadata.and_then(|metadata| metadata.labels.clone()).unwrap_or_default(),
            annotations: metadata.and_then(|metadata| metadata.annotations.clone()).unwrap_or_default(),
            selector: pod.and_then(|pod| pod.node_selector.clone()).unwrap_or_default(),
            tolerations: pod.and_then(|pod| pod.tolerations.clone()).unwrap_or_default(),
            gates: slices::gates_of(pod),
        }
    }
}

impl JobView {
    /// A job whose pods are described by what its controller makes of it: as that is.
    pub fn by(&self, made: &Self) -> Self {
        let known = self.pods.as_deref().unwrap_or_default().iter().zip(&self.slots);
        let slot = |pods: &Pods| {
            let known =
                known.clone().find(|(known, _)| known.name == pods.name).map(|(_, slot)| slot.clone());
            let none = PodTemplateSpec::default();
            known.or_else(|| Some(Slot::new(&none, self.beside.clone()?)))
        };
        Self {
            slots: made.pods.as_deref().unwrap_or_default().iter().filter_map(slot).collect(),
            pods: made.pods.clone(),
            pod_priority_class: made.pod_priority_class.clone(),
            active: self.active.max(made.active),
            unready: made.unready,
            done: made.done.clone(),
            ..self.clone()
        }
    }

    /// What the metadata of a job says of it.
    pub fn new(kind: &'static JobKind, metadata: &ObjectMeta) -> Self {
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
        let labeled = |key: &str| {
            metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(key))
                .filter(|name| !name.is_empty())
                .cloned()
        };
        let owners = metadata.owner_references.iter().flatten();
        let mut owners = owners.filter(|owner| owner.controller == Some(true));
        Self {
            kind,
            target: kind.target(namespace.unwrap_or_default(), name.unwrap_or_default()),
            uid: metadata.uid.clone().unwrap_or_default(),
            version: version(metadata.resource_version.as_deref()),
            queue: labeled(label::QUEUE_NAME),
            gates: metadata.annotations.as_ref().and_then(gates).map(ToOwned::to_owned),
            max_seconds: build::max_seconds(metadata),
            workload_priority_class: labeled(label::PRIORITY_CLASS),
            pod_priority_class: None,
            owner: owners.find(|owner| kinds::of_owner(owner).is_some()).map(|owner| owner.uid.clone()),
            suspended: false,
            at_rest: false,
            active: 0,
            unready: 0,
            ending: None,
            ends: None,
            lost: Lost::default(),
            deleting: metadata.deletion_timestamp.is_some(),
            pods: Ok(Arc::from([])),
            injected: None,
            slots: vec![],
            beside: None,
            done: vec![],
            completions: Completions::AsAsked,
            members: vec![],
            group: None,
            number: None,
            elastic: None,
        }
    }
}

/// The Workload that the marks of an admission name, if the template carries any: of a chain of them the first.
pub fn injected(template: &PodTemplateSpec) -> Option<String> {
    let metadata = template.metadata.as_ref()?;
    let named = |key| metadata.annotations.as_ref().and_then(|all| all.get(key));
    let workload = named(annotation::WORKLOAD_SLICE_NAME).or_else(|| named(annotation::WORKLOAD));
    let marked = metadata.labels.as_ref().is_some_and(|all| all.contains_key(label::POD_SET));
    workload.cloned().or_else(|| marked.then(String::new))
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
