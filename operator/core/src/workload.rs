//! Workloads: the unit of admission.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    flavor::NodeDemand,
    name::{ClusterQueueName, FlavorName, FlavorResource, LocalQueueKey, ResourceName, WorkloadKey},
    quantity::{Amount, Amounts, Usage},
    topology::{Placement, Stays, TopologyRequest},
    verdict::{Told, Verdict},
};

/// A moment, in milliseconds since 1970. The core gets moments from outside and never asks for one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

/// Pods of one shape.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PodSet {
    /// Its name, unique in the workload.
    pub name: Arc<str>,
    /// How many pods.
    pub count: u32,
    /// How many are enough, if it may also run with fewer.
    pub min_count: Option<u32>,
    /// What one pod requests.
    pub per_pod: Amounts,
    /// What its pods demand of their nodes.
    pub demand: NodeDemand,
    /// What one pod requests of its node, where that is not what it requests of the quota.
    #[serde(default)]
    pub of_node: Option<Amounts>,
    /// Where its pods are to be placed, if it says so.
    #[serde(default)]
    pub topology: Option<TopologyRequest>,
}

impl PodSet {
    /// What one pod requests of its node.
    pub fn of_its_node(&self) -> &Amounts {
        self.of_node.as_ref().unwrap_or(&self.per_pod)
    }

    /// Whether it asks for a place.
    pub fn asks_for_a_place(&self) -> bool {
        self.topology.as_ref().is_some_and(TopologyRequest::is_explicit)
    }
}

/// What was given to one pod set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PodSetAssignment {
    /// The pod set.
    pub name: Arc<str>,
    /// How many pods were admitted.
    pub count: u32,
    /// The flavor of each resource.
    pub flavors: BTreeMap<ResourceName, FlavorName>,
    /// What all its pods together use.
    pub usage: Amounts,
    /// Where its pods are, if they were placed.
    #[serde(default)]
    pub placement: Option<Placement>,
}

impl PodSetAssignment {
    /// Whether pods of it were placed on this host.
    pub fn is_on(&self, host: &str) -> bool {
        self.placement.as_ref().is_some_and(|placement| placement.has(host))
    }

    /// What it uses, by flavor and resource.
    fn usage(&self) -> impl Iterator<Item = (FlavorResource, Amount)> {
        self.flavors.iter().map(|(resource, flavor)| {
            let amount = self.usage.get(resource).copied().unwrap_or_default();
            (FlavorResource { flavor: flavor.clone(), resource: resource.clone() }, amount)
        })
    }
}

/// Quota held in a ClusterQueue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Admission {
    /// Whose quota.
    pub cluster_queue: ClusterQueueName,
    /// What each pod set was given, in the workload's order.
    pub pod_sets: Vec<PodSetAssignment>,
}

impl Admission {
    /// What it uses, by flavor and resource.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::new();
        for (key, amount) in self.pod_sets.iter().flat_map(PodSetAssignment::usage) {
            *usage.entry(key).or_default() += amount;
        }
        usage
    }
}

/// Why a workload was told to stop, as far as the scheduler has to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Eviction {
    /// To make room for another: what it gives back is spoken for.
    Preempted,
    /// For any other reason.
    Otherwise,
}

/// Where a workload stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Phase {
    /// It holds nothing and waits.
    Pending,
    /// It holds quota.
    Reserved {
        /// What it holds.
        admission: Admission,
        /// Whether it may run: nothing else stands before it.
        admitted: bool,
        /// Whether it was told to stop, and why. It is charged until its pods are gone.
        evicted: Option<Eviction>,
        /// Since when it holds it.
        since: Timestamp,
    },
    /// It is over and holds nothing.
    Finished,
}

/// What keeps a workload from queueing that is not in its queue's hands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HeldBack {
    /// What it is.
    pub verdict: Verdict,
    /// Whether it counts among those that wait in its queue nevertheless.
    pub counts: bool,
}

/// A workload as its object tells it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// Its namespace and name.
    pub key: WorkloadKey,
    /// The object's uid: a workload of the same name made anew is another workload.
    pub uid: Arc<str>,
    /// The object's `resourceVersion`, which orders what is seen of it (KEP-5504) and is the precondition of
    /// what is written to it.
    pub version: u64,
    /// The LocalQueue it was submitted to.
    pub queue: LocalQueueKey,
    /// Higher goes first.
    pub priority: i32,
    /// Since when it waits: its creation, or its last eviction where that counts.
    pub since: Timestamp,
    /// `false`: a person took it out; it is not queued.
    pub active: bool,
    /// What else keeps it from queueing, until its object says otherwise.
    pub held_back: Option<HeldBack>,
    /// Whether its pods are all ready, or have succeeded.
    pub pods_ready: bool,
    /// Its pods without those that have done their work, or why they cannot be counted.
    pub pod_sets: Result<Arc<[PodSet]>, String>,
    /// Why its pods could not be made as they are, if the API server would refuse them: no queue admits it.
    pub inadmissible: Option<String>,
    /// The uid of the job that it stands for, if that may grow while it runs.
    pub job: Option<Arc<str>>,
    /// The workload of the same job whose place it takes: it gets what that one holds, and the rest from the quota.
    pub replaces: Option<WorkloadKey>,
    /// How many pods are left of the pod sets of which some have done their work and hold nothing any more.
    pub left: BTreeMap<Arc<str>, u32>,
    /// Where it stands.
    pub phase: Phase,
    /// What its object says about why it waits, if it says anything.
    pub reported: Option<Told>,
}

impl Workload {
    /// What it uses of what it was given: pods that have done their work use nothing.
    pub fn usage(&self, given: &Admission) -> Usage {
        let mut usage = Usage::new();
        for (key, amount) in given.pod_sets.iter().flat_map(|pod_set| self.usage_of(pod_set)) {
            *usage.entry(key).or_default() += amount;
        }
        usage
    }

    /// What it uses of what one of its pod sets was given. As in Kueue it is what one pod uses, rounded down, as often as
    /// there are pods.
    pub fn usage_of(&self, given: &PodSetAssignment) -> impl Iterator<Item = (FlavorResource, Amount)> {
        let left = self.left.get(&given.name).copied().filter(|left| *left < given.count);
        given.usage().map(move |(key, amount)| {
            let per_pod = amount.0.checked_div(i64::from(given.count)).unwrap_or_default();
            (key, left.map_or(amount, |left| Amount(per_pod * i64::from(left))))
        })
    }

    /// What it takes of the nodes of what it was given.
    pub fn stays(&self, given: &Admission) -> Stays {
        if given.pod_sets.iter().all(|given| given.placement.is_none()) {
            return Stays::default();
        }
        self.pod_sets.as_ref().map_or_else(|_| Stays::default(), |sets| Stays::of(sets, &given.pod_sets))
    }

    /// What it holds, if it holds quota.
    pub fn admission(&self) -> Option<&Admission> {
        match &self.phase {
            Phase::Reserved { admission, .. } => Some(admission),
            Phase::Pending | Phase::Finished => None,
        }
    }
}

/// What `count` pods of a pod set request together; `None` if it is past the range of `i64`.
pub fn total(per_pod: &Amounts, count: u32) -> Option<Amounts> {
    per_pod.iter().map(|(resource, amount)| Some((resource.clone(), amount.times(count)?))).collect()
}

/// Checks that the pod sets' totals, and the sum over all of them, can be counted.
pub fn check_totals(pod_sets: &[PodSet]) -> Result<(), String> {
    let mut sum = Amounts::new();
    for pod_set in pod_sets {
        for (resource, amount) in &pod_set.per_pod {
            let entry = sum.entry(resource.clone()).or_insert(Amount::ZERO);
            *entry =
                amount.times(pod_set.count).and_then(|total| entry.checked_add(total)).ok_or_else(|| {
                    format!("the requests for {resource} of all pods together exceed what can be counted")
                })?;
        }
    }
    Ok(())
}
