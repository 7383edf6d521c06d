//! Everything the scheduler knows, fed by events.
//!
//! The *facts* are what objects say: flavors, cohorts, queues, namespaces, workloads, and the assumptions about
//! workloads whose write is under way. Everything else is *derived* and could be recomputed from the facts at any
//! time ([`State::from_snapshot`] does, and [`State::audit`] compares): the quota forest, what is used in it, who
//! waits where, the counts.
//!
//! There is one way in: [`State::tell`], and [`State::follow`] for a plan; what comes in can be put on record there.
//! Workload events are applied at once. A change of a declaration (a queue, a flavor, a cohort, a namespace) is only
//! noted, and [`settle`](State::settle) recomputes what depends on it once for all changes before it; a plan needs a
//! settled state.

mod activity;
mod audit;
mod declarations;
mod event;
pub mod explain;
mod ground;
mod holders;
mod memories;
mod places;
mod repair;
mod reports;
mod slices;
mod snapshot;
mod tally;
mod telling;
mod waiting;
mod workloads;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

pub use self::{
    activity::Inactive,
    event::{Event, Planned, Step},
    holders::Holder,
    reports::Report,
    slices::Replaced,
    snapshot::Snapshot,
    tally::Tally,
};
use self::{places::Standing, tally::Counts};
use crate::{
    brakes::Past,
    consumption::{Memory, Rules},
    flavor::Flavor,
    forest::{Forest, NodeId, NodeName, Used},
    labels::Labels,
    name::{
        CheckName, ClusterQueueName, CohortName, FlavorName, HostName, LocalQueueKey, PodKey, TopologyName,
        WorkloadKey,
    },
    pending::Pending,
    plan::Evict,
    quantity::Usage,
    queue::{Check, ClusterQueue, Cohort, LocalQueue},
    topology::{Node, Pod, Stays, Taken, Topology, Trees},
    workload::{Admission, PodSet, PodSetAssignment, Workload},
};

/// What the objects say: all that a plan depends on, for replay.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Facts {
    flavors: BTreeMap<FlavorName, Flavor>,
    cohorts: BTreeMap<CohortName, Cohort>,
    queues: BTreeMap<ClusterQueueName, ClusterQueue>,
    local_queues: BTreeMap<LocalQueueKey, LocalQueue>,
    namespaces: BTreeMap<Arc<str>, Labels>,
    checks: BTreeMap<CheckName, Check>,
    #[serde(default)]
    topologies: BTreeMap<TopologyName, Topology>,
    /// The nodes that are ready and schedulable.
    #[serde(default)]
    nodes: BTreeMap<HostName, Node>,
    /// The pods that no placement accounts for.
    #[serde(default)]
    pods: BTreeMap<PodKey, Pod>,
    workloads: BTreeMap<WorkloadKey, Workload>,
    /// Admissions that are believed and not yet confirmed by the API server.
    assumed: BTreeMap<WorkloadKey, Admission>,
    /// What workloads hold after they got another place, as it is being written.
    #[serde(default)]
    moved: BTreeMap<WorkloadKey, Admission>,
    /// Workloads whose admission the API server refused, until they change or are tried again.
    refused: BTreeMap<WorkloadKey, String>,
    /// Workloads that are to stop so that another fits, until their objects say so.
    evicting: BTreeMap<WorkloadKey, Evict>,
    /// The evictions of the last hour.
    past_evictions: VecDeque<Past>,
    /// What is remembered of `LocalQueues`, if anything is.
    #[serde(default)]
    consumption: Option<Rules>,
    /// What is remembered of each.
    #[serde(default)]
    memories: BTreeMap<LocalQueueKey, Memory>,
    /// What is kept, in each ClusterQueue, for who waits for others to stop on its account.
    reserved: BTreeMap<ClusterQueueName, Reservation>,
}

/// Quota that is kept for a workload which does not hold it yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reservation {
    /// For whom.
    pub workload: WorkloadKey,
    /// What.
    pub usage: Usage,
    /// The same, pod set by pod set.
    pub pod_sets: Vec<PodSetAssignment>,
    /// What is kept of the nodes.
    #[serde(default)]
    pub stays: Stays,
}

/// Queues whose counts or conditions may have changed, and the cohorts above them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changed {
    /// Each a ClusterQueue.
    pub queues: BTreeSet<ClusterQueueName>,
    /// Each a LocalQueue.
    pub local_queues: BTreeSet<LocalQueueKey>,
    /// Each a cohort, of which what is used below it may have changed.
    pub cohorts: BTreeSet<CohortName>,
}

/// The scheduler's state; see the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    facts: Facts,
    standings: BTreeMap<WorkloadKey, Standing>,
    forest: Forest,
    used: Used,
    /// What will be used when those who stop so that others fit have stopped, and those others have what is kept for them.
    later: Used,
    /// The trees of the nodes of each flavor that has a topology.
    ground: Trees,
    /// What workloads take in them.
    taken: Taken,
    /// What they will, as with `later`.
    taken_later: Taken,
    /// The flavors on whose nodes workloads gave back room since the last settling.
    roomier: BTreeSet<FlavorName>,
    /// The flavors on whose nodes there may be more room for another reason.
    roomier_nodes: BTreeSet<FlavorName>,
    /// Whether a node changed since the last settling.
    nodes_changed: bool,
    /// Every ClusterQueue of each tree, by its root.
    trees: BTreeMap<NodeId, Vec<ClusterQueueName>>,
    /// The trees in which something was given back since the last settling.
    freed: BTreeSet<NodeId>,
    /// The `ClusterQueues` that can admit.
    active: BTreeSet<ClusterQueueName>,
    /// Who holds quota of each ClusterQueue, the lowest priority first.
    holders: BTreeMap<ClusterQueueName, BTreeSet<(i32, WorkloadKey)>>,
    /// Who is to take whose place.
    successors: BTreeMap<WorkloadKey, BTreeSet<WorkloadKey>>,
    /// Those of them who stop so that another fits.
    leaving: BTreeSet<WorkloadKey>,
    pending: BTreeMap<ClusterQueueName, Pending>,
    awake: BTreeSet<ClusterQueueName>,
    /// Those in which somebody is held back by the brakes.
    braked: BTreeSet<ClusterQueueName>,
    counts: BTreeMap<ClusterQueueName, Counts>,
    /// How many hold quota and have pods that are not ready.
    unready: usize,
    /// Whether the pods of somebody got ready, or he let go, since the last settling.
    got_ready: bool,
    local_counts: BTreeMap<LocalQueueKey, Counts>,
    unreported: BTreeSet<WorkloadKey>,
    changed: Changed,
    /// Whether a declaration changed since the last settling that everything depends on.
    stale: bool,
    /// The namespaces in which declarations changed since the last settling.
    stale_namespaces: BTreeSet<Arc<str>>,
    /// One copy of each list of pod sets, shared by all workloads that have it.
    shapes: BTreeSet<Arc<[PodSet]>>,
    /// What happened and was not taken yet, where it is put on record.
    record: Option<Vec<Step>>,
}

impl State {
    /// The state in which these facts hold and nothing was tried yet.
    pub fn from_snapshot(facts: Facts) -> Self {
        let mut state = Self { facts, stale: true, ..Self::default() };
        state.bring_up_to_date();
        state
    }

    /// All facts.
    pub fn snapshot(&self) -> &Facts {
        &self.facts
    }

    /// The keys of all workloads.
    pub fn workloads(&self) -> impl Iterator<Item = &WorkloadKey> {
        self.facts.workloads.keys()
    }

    /// A workload, if it is known.
    pub fn workload(&self, key: &WorkloadKey) -> Option<&Workload> {
        self.facts.workloads.get(key)
    }

    /// A ClusterQueue, if it is known.
    pub fn queue(&self, name: &ClusterQueueName) -> Option<&ClusterQueue> {
        self.facts.queues.get(name)
    }

    /// All ClusterQueues.
    pub fn queues(&self) -> impl Iterator<Item = &ClusterQueue> {
        self.facts.queues.values()
    }

    /// Whether a ClusterQueue can admit.
    pub fn is_active(&self, name: &ClusterQueueName) -> bool {
        self.active.contains(name)
    }

    /// A LocalQueue, if it is known.
    pub fn local_queue(&self, key: &LocalQueueKey) -> Option<&LocalQueue> {
        self.facts.local_queues.get(key)
    }

    /// The labels of a namespace, if it is known.
    pub fn namespace(&self, name: &str) -> Option<&Labels> {
        self.facts.namespaces.get(name)
    }

    /// All flavors.
    pub fn flavors(&self) -> &BTreeMap<FlavorName, Flavor> {
        &self.facts.flavors
    }

    /// Whether a ClusterQueue uses this flavor.
    pub fn flavor_in_use(&self, name: &FlavorName) -> bool {
        self.facts.queues.values().any(|queue| queue.flavors().any(|flavor| flavor == name))
    }

    /// The quota forest.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// What is used in the forest.
    pub fn used(&self) -> &Used {
        &self.used
    }

    /// What will be used in the forest when those who stop so that others fit have stopped, and those others have what is
    /// kept for them.
    pub fn later(&self) -> &Used {
        &self.later
    }

    /// A workload's pod sets, if they can be counted.
    pub fn pod_sets(&self, key: &WorkloadKey) -> Option<&Arc<[PodSet]>> {
        self.workload(key)?.pod_sets.as_ref().ok()
    }

    /// What a workload holds or is believed to hold.
    pub fn admission(&self, key: &WorkloadKey) -> Option<&Admission> {
        self.facts.assumed.get(key).or_else(|| self.workload(key)?.admission())
    }

    /// Whether the pods of everybody who holds quota are ready: what an admission waits for where the policy blocks
    /// admissions until then.
    pub fn all_pods_ready(&self) -> bool {
        self.unready == 0
    }

    /// Every ClusterQueue in which somebody is awake, with its leaf and its line.
    pub fn awake_lines(&self) -> impl Iterator<Item = (&ClusterQueue, NodeId, &Pending)> {
        debug_assert!(self.is_settled(), "a plan needs a settled state");
        self.awake.iter().filter_map(|name| {
            Some((self.facts.queues.get(name)?, self.forest.leaf(name)?, self.pending.get(name)?))
        })
    }

    /// How many of those who wait in a ClusterQueue are still to be tried.
    pub fn awake(&self, name: &ClusterQueueName) -> usize {
        self.pending.get(name).map(|pending| pending.awake().count()).unwrap_or_default()
    }

    /// The same for each LocalQueue in which there is anybody.
    pub fn awake_by_local_queue(&self) -> BTreeMap<&LocalQueueKey, usize> {
        let mut counts = BTreeMap::new();
        let orders = self.awake.iter().filter_map(|name| self.pending.get(name)).flat_map(Pending::awake);
        for workload in orders.filter_map(|order| self.workload(&order.key)) {
            *counts.entry(&workload.queue).or_default() += 1;
        }
        counts
    }

    /// The counts of a ClusterQueue.
    pub fn tally(&self, name: &ClusterQueueName) -> Tally {
        self.counts.get(name).map(Tally::from).unwrap_or_default()
    }

    /// The counts of a LocalQueue.
    pub fn local_tally(&self, key: &LocalQueueKey) -> Tally {
        self.local_counts.get(key).map(Tally::from).unwrap_or_default()
    }

    /// The queues whose counts or conditions may have changed since the last call.
    pub fn take_changed(&mut self) -> Changed {
        let mut changed = std::mem::take(&mut self.changed);
        let leaves = changed.queues.iter().filter_map(|name| self.forest.leaf(name));
        let cohorts = leaves.flat_map(|leaf| self.forest.ancestors(leaf));
        changed.cohorts.extend(cohorts.filter_map(|node| match self.forest.name(node)? {
            NodeName::Cohort(name) => Some(name.clone()),
            NodeName::Queue(_) => None,
        }));
        changed
    }
}
