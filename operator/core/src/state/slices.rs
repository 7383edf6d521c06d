//! Workloads that take the place of others of the same job, which grows: what the one holds, the other need not get.

use std::collections::BTreeMap;

use super::State;
use crate::{
    name::{ClusterQueueName, FlavorName, ResourceName, WorkloadKey},
    quantity::{Amount, Usage},
    workload::{Admission, Phase, Workload},
};

/// What a workload holds whose place another takes.
#[derive(Clone, Copy, Debug)]
pub struct Replaced<'a> {
    /// It.
    pub workload: &'a Workload,
    /// What it was given.
    pub admission: &'a Admission,
}

impl Replaced<'_> {
    /// What it uses for a pod set: of each resource the flavor, and how much.
    pub fn pod_set(&self, name: &str) -> BTreeMap<ResourceName, (FlavorName, Amount)> {
        let given = self.admission.pod_sets.iter().find(|given| *given.name == *name);
        let used = given.into_iter().flat_map(|given| self.workload.usage_of(given));
        used.map(|(key, amount)| (key.resource, (key.flavor, amount))).collect()
    }
}

impl State {
    /// The workload whose place this one takes in a ClusterQueue, if it holds quota of that.
    pub fn replaced(&self, workload: &Workload, queue: &ClusterQueueName) -> Option<Replaced<'_>> {
        let replaced = self.workload(workload.replaces.as_ref()?)?;
        // Anybody may claim to replace anybody: it counts within one job.
        let same_job = replaced.job.is_some()
            && replaced.job == workload.job
            && replaced.key.namespace == workload.key.namespace
            && replaced.key != workload.key;
        match &replaced.phase {
            Phase::Reserved { admission, evicted: None, .. }
                if same_job && admission.cluster_queue == *queue =>
            {
                Some(Replaced { workload: replaced, admission })
            }
            _ => None,
        }
    }

    /// What a workload is charged for what it was given: until the one whose place it takes has given back what it holds,
    /// only for the rest.
    pub(super) fn charged(&self, workload: &Workload, given: &Admission) -> Usage {
        let mut usage = workload.usage(given);
        if let Some(Replaced { workload, admission }) = self.replaced(workload, &given.cluster_queue) {
            let held = workload.usage(admission);
            for (key, amount) in &mut usage {
                *amount = (*amount - held.get(key).copied().unwrap_or_default()).max(Amount::ZERO);
            }
        }
        usage
    }

    /// Notes whose place a workload takes, which took the place of `before` until now.
    pub(super) fn note_successor(&mut self, key: &WorkloadKey, before: Option<&WorkloadKey>) {
        if let Some(before) = before
            && let Some(successors) = self.successors.get_mut(before)
        {
            successors.remove(key);
            if successors.is_empty() {
                self.successors.remove(before);
            }
        }
        if let Some(replaces) = self.workload(key).and_then(|workload| workload.replaces.clone()) {
            self.successors.entry(replaces).or_default().insert(key.clone());
        }
    }
}
