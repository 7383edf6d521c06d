//! Pods that wait to be bound to the domain that was chosen for them, and whose turn it is when one does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1;
use kube::ResourceExt;
use whalezen_core::{
    name::{PodKey, WorkloadKey},
    workload::Timestamp,
};

use super::{
    super::jobs::{JobKey, JobView, Of, Step, binding, repair::Stuck},
    Objects,
};

/// How long it takes until somebody looks again whether a pod that waits can be bound: another may have been in its place.
const AGAIN_AFTER_MILLISECONDS: i64 = 3_000;

/// Pods that wait, by the mark of their Workload.
#[derive(Clone, Debug, Default)]
pub(super) struct Unbound {
    marks: BTreeMap<PodKey, WorkloadKey>,
    pods: BTreeMap<WorkloadKey, BTreeSet<PodKey>>,
    /// Those that were bound and are not let on their hosts.
    stuck: BTreeMap<WorkloadKey, BTreeMap<PodKey, Stuck>>,
}

impl Unbound {
    /// The pod with this mark that has waited longest for room on its host, if one waits.
    pub(super) fn stuck(&self, mark: &WorkloadKey) -> Option<&Stuck> {
        self.stuck.get(mark)?.values().min_by_key(|stuck| stuck.since)
    }

    fn insert_stuck(&mut self, stuck: Stuck, mark: WorkloadKey) {
        self.remove(&stuck.pod);
        self.marks.insert(stuck.pod.clone(), mark.clone());
        self.stuck.entry(mark).or_default().insert(stuck.pod.clone(), stuck);
    }

    fn insert(&mut self, pod: PodKey, mark: WorkloadKey) {
        self.remove(&pod);
        self.pods.entry(mark.clone()).or_default().insert(pod.clone());
        self.marks.insert(pod, mark);
    }

    fn remove(&mut self, pod: &PodKey) {
        let Some(mark) = self.marks.remove(pod) else { return };
        if let Some(pods) = self.pods.get_mut(&mark) {
            pods.remove(pod);
            if pods.is_empty() {
                self.pods.remove(&mark);
            }
        }
        if let Some(stuck) = self.stuck.get_mut(&mark) {
            stuck.remove(pod);
            if stuck.is_empty() {
                self.stuck.remove(&mark);
            }
        }
    }
}

impl Objects {
    /// A pod was seen that is on no node.
    pub fn apply_waiting_pod(&mut self, object: &v1::Pod) {
        let key = PodKey::new(object.namespace().unwrap_or_default(), object.name_any());
        let stuck = binding::stuck(object);
        let mark = binding::mark_of(object).filter(|_| stuck.is_some() || binding::waits(object));
        let Some(mark) = mark else { return self.unbound.remove(&key) };
        let mark = WorkloadKey::new(Arc::clone(&key.namespace), mark);
        let job = self.workloads.get(&mark).and_then(|view| view.job.clone());
        // Of a chain of Workloads the first may be gone.
        let owner = || object.owner_references().iter().find(|owner| owner.controller == Some(true));
        let job = job.or_else(|| owner().map(|owner| owner.uid.clone()));
        if let Some(job) = job.and_then(|uid| self.job_of(&mark, &uid)).cloned() {
            self.due.jobs.insert(job);
        }
        match stuck {
            Some(stuck) => self.unbound.insert_stuck(stuck, mark),
            None => self.unbound.insert(key, mark),
        }
    }

    /// A pod is on a node, or gone.
    pub fn delete_waiting_pod(&mut self, key: &PodKey) {
        self.unbound.remove(key);
    }

    /// The step by which a job's pods are bound, if any waits.
    pub(super) fn bind(&self, job: &JobView, of: Of<'_>) -> Option<Step> {
        let mark = WorkloadKey::new(Arc::clone(&of.key.namespace), of.view.mark(of.key));
        self.unbound.pods.get(&mark)?;
        binding::step(job, of)
    }

    /// When to look again whether a job's pods can be bound.
    pub(super) fn bind_again(&self, key: &JobKey, of: Of<'_>, now: Timestamp) -> Option<Timestamp> {
        self.bind(self.jobs.get(key)?, of)?;
        Some(Timestamp(now.0.saturating_add(AGAIN_AFTER_MILLISECONDS)))
    }
}
