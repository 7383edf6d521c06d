//! What a state can be told.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    brakes::Past,
    consumption::{Consumed, Rules},
    flavor::Flavor,
    labels::Labels,
    name::{
        CheckName, ClusterQueueName, CohortName, FlavorName, HostName, LocalQueueKey, PodKey, TopologyName,
        WorkloadKey,
    },
    plan::{Admit, Plan, Policy},
    queue::{Check, ClusterQueue, Cohort, LocalQueue},
    topology::{Node, Pod, Topology},
    verdict::Told,
    workload::{Admission, PodSet, Timestamp, Workload},
};

/// What a state can be told, beside that a plan is followed: all that may change what a plan made from it depends on.
/// The methods of [`State`](super::State) that have the same meaning say more of each.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// A flavor was seen.
    Flavor(Flavor),
    /// A flavor is gone.
    FlavorGone(FlavorName),
    /// A cohort was seen.
    Cohort(Cohort),
    /// A cohort is gone.
    CohortGone(CohortName),
    /// A ClusterQueue was seen.
    ClusterQueue(Box<ClusterQueue>),
    /// A ClusterQueue is gone.
    ClusterQueueGone(ClusterQueueName),
    /// An admission check was seen.
    Check(Check),
    /// An admission check is gone.
    CheckGone(CheckName),
    /// A topology was seen.
    Topology(Topology),
    /// A topology is gone.
    TopologyGone(TopologyName),
    /// A node was seen that pods can be bound to.
    Node(Box<Node>),
    /// A node is gone, or takes no pods.
    NodeGone(HostName),
    /// A pod was seen that takes room of a node and that no placement accounts for.
    Pod(Pod),
    /// A pod is gone, is over, or a placement accounts for it.
    PodGone(PodKey),
    /// A LocalQueue was seen.
    LocalQueue(LocalQueue),
    /// A LocalQueue is gone.
    LocalQueueGone(LocalQueueKey),
    /// A namespace was seen with these labels.
    Namespace(Arc<str>, Labels),
    /// A namespace is gone.
    NamespaceGone(Arc<str>),
    /// A workload was seen.
    Workload(Box<Workload>),
    /// A workload is gone.
    WorkloadGone(WorkloadKey),
    /// A workload's pods were counted anew.
    Recounted {
        /// The workload.
        workload: WorkloadKey,
        /// Its pods, or why they cannot be counted.
        pod_sets: Result<Arc<[PodSet]>, String>,
        /// Why they could not be made as they are.
        inadmissible: Option<String>,
    },
    /// A planned admission is being written.
    Assumed(Box<Admit>),
    /// A workload gets another place; that is being written, and this is what it holds then.
    Moved(WorkloadKey, Box<Admission>),
    /// A write was accepted, and this is the workload now.
    Confirmed(Box<Workload>),
    /// An assumption is taken back.
    Forgotten(WorkloadKey),
    /// The same, because the write was refused.
    Refused(WorkloadKey, String),
    /// Who was refused may queue again.
    TriedAgain(WorkloadKey),
    /// A planned eviction is taken back.
    Spared(WorkloadKey),
    /// It is being written why a workload waits.
    Reported(WorkloadKey, Told),
    /// That could not be written.
    Unreported(WorkloadKey),
    /// By these rules it is remembered what is consumed.
    Remembers(Option<Rules>),
    /// A LocalQueue's status says that it consumed this much.
    Recalled(LocalQueueKey, Consumed),
    /// What was consumed until this moment is worked out.
    Accounted(Timestamp),
    /// Another replica does that from now on.
    AccountingStopped,
    /// Others planned these evictions.
    EvictionsRecalled(Vec<Past>),
    /// The brakes are looked at again.
    BrakesReleased,
    /// What is derived is brought up to date.
    Settled,
}

/// A plan that is followed, and what it was made from beside the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// The moment it was made for.
    pub at: Timestamp,
    /// The policy it was made under.
    pub policy: Policy,
    /// The plan.
    pub plan: Plan,
}

/// Something that happened to a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// It was told something.
    Told(Event),
    /// A plan was made and is followed.
    Planned(Box<Planned>),
}
