//! Queues and cohorts as people declare them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    labels::Selector,
    name::{
        CheckName, ClusterQueueName, CohortName, FlavorName, FlavorResource, LocalQueueKey, ResourceName,
    },
    quantity::Amount,
    workload::Admission,
};

/// Quota for one resource of one flavor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Quota {
    /// What is always there for this node of the forest.
    pub nominal: Amount,
    /// How much more may be borrowed from the cohort; without limit if none.
    pub borrowing_limit: Option<Amount>,
    /// How much of what is unused may be lent to the cohort; all of it if none.
    pub lending_limit: Option<Amount>,
}

/// Quotas by flavor and resource.
pub type Quotas = BTreeMap<FlavorResource, Quota>;

/// A flavor within a resource group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlavorQuotas {
    /// The flavor.
    pub flavor: FlavorName,
    /// Its quota for each resource that the group covers, in the group's order.
    pub quotas: Vec<(ResourceName, Quota)>,
}

/// Resources that a pod set gets from one and the same flavor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResourceGroup {
    /// The resources, in the order declared.
    pub resources: Vec<ResourceName>,
    /// The flavors, in the order in which they are tried.
    pub flavors: Vec<FlavorQuotas>,
}

/// In what order a ClusterQueue's workloads are admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Strategy {
    /// Older ones first, but one that does not fit lets others pass.
    #[default]
    BestEffortFifo,
    /// Strictly in order: the first that does not fit blocks the rest.
    StrictFifo,
}

/// What a flavor that fits only by borrowing does to the search for flavors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum WhenCanBorrow {
    /// It is taken.
    #[default]
    StopSearch,
    /// Later flavors are tried first for one that fits without.
    TryNextFlavor,
}

/// What a flavor does to the search for flavors that fits only by taking quota from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum WhenCanPreempt {
    /// It is taken.
    StopSearch,
    /// Later flavors are tried first for one that fits without.
    #[default]
    TryNextFlavor,
}

/// Which of two flavors is better, of which one borrows and the other preempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Preference {
    /// The one that borrows.
    #[default]
    BorrowingOverPreemption,
    /// The one that preempts.
    PreemptionOverBorrowing,
}

/// How a flavor is chosen among those of a resource group (KEP-582).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Fungibility {
    /// What borrowing does to the search.
    pub when_can_borrow: WhenCanBorrow,
    /// What preemption does to the search.
    pub when_can_preempt: WhenCanPreempt,
    /// What is better.
    pub preference: Preference,
}

/// Whom a workload may preempt in its own ClusterQueue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum WithinQueue {
    /// Nobody.
    #[default]
    Never,
    /// Whoever has a lower priority.
    LowerPriority,
    /// Those, and who has the same priority and came later.
    LowerOrNewerEqualPriority,
}

/// Whom a workload may preempt in other `ClusterQueues`, where they borrow what it has a right to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Reclaim {
    /// Nobody.
    #[default]
    Never,
    /// Whoever has a lower priority.
    LowerPriority,
    /// Anybody.
    Any,
}

/// Whether a workload may preempt in other `ClusterQueues` while its own borrows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum BorrowWithinCohort {
    /// No.
    #[default]
    Never,
    /// Whoever has a lower priority than it has, and none above the threshold, if there is one.
    LowerPriority {
        /// The highest priority that may be preempted.
        threshold: Option<i32>,
    },
}

/// Whom the workloads of a ClusterQueue may preempt (KEP-83, KEP-1337).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Preemption {
    /// In the ClusterQueue.
    pub within: WithinQueue,
    /// In others of the cohort.
    pub reclaim: Reclaim,
    /// In others of the cohort, while borrowing.
    pub borrow: BorrowWithinCohort,
}

/// The weight of a node in fair sharing (KEP-1714), in billionths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Weight(pub u64);

impl Default for Weight {
    fn default() -> Self {
        Self(1_000_000_000)
    }
}

/// Whether a person stopped a queue, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Stop {
    /// It is open.
    #[default]
    No,
    /// Nobody new is admitted.
    Hold,
    /// Nobody new is admitted, and who was admitted is evicted.
    HoldAndDrain,
}

/// A check that workloads of a ClusterQueue must pass once they have quota.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CheckRule {
    /// The check.
    pub check: CheckName,
    /// The flavors that demand it. Empty: every flavor does.
    pub flavors: Vec<FlavorName>,
}

/// An admission check as it is declared: the answer to it is another controller's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Check {
    /// Its name.
    pub name: CheckName,
    /// Whether its controller answers.
    pub active: bool,
}

/// A ClusterQueue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterQueue {
    /// Its name.
    pub name: ClusterQueueName,
    /// The cohort it shares unused quota with.
    pub cohort: Option<CohortName>,
    /// Its resources and flavors.
    pub groups: Vec<ResourceGroup>,
    /// The order of admission.
    pub strategy: Strategy,
    /// How flavors are chosen among.
    pub fungibility: Fungibility,
    /// Whom its workloads may preempt.
    pub preemption: Preemption,
    /// Its weight among its siblings.
    pub weight: Weight,
    /// Whether workloads of `LocalQueues` that consumed less lately go first, where that is [remembered].
    ///
    /// [remembered]: crate::consumption
    pub by_consumption: bool,
    /// The namespaces whose workloads may use it.
    pub namespaces: Selector,
    /// Whether a person stopped it.
    pub stop: Stop,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// The checks that it demands of workloads that have quota.
    pub admission_checks: Vec<CheckRule>,
    /// Why its declaration cannot be honoured, if it cannot.
    pub invalid: Option<String>,
}

impl ClusterQueue {
    /// The group that covers `resource`.
    pub fn group_of(&self, resource: &ResourceName) -> Option<&ResourceGroup> {
        self.groups.iter().find(|group| group.resources.contains(resource))
    }

    /// Its quotas, by flavor and resource.
    pub fn quotas(&self) -> Quotas {
        let flavors = self.groups.iter().flat_map(|group| &group.flavors);
        flavors
            .flat_map(|f| {
                f.quotas.iter().map(|(resource, quota)| {
                    (FlavorResource { flavor: f.flavor.clone(), resource: resource.clone() }, *quota)
                })
            })
            .collect()
    }

    /// The checks that whoever is given this has to pass, by name.
    pub fn checks_of(&self, given: &Admission) -> BTreeSet<&CheckName> {
        let used: BTreeSet<&FlavorName> =
            given.pod_sets.iter().flat_map(|set| set.flavors.values()).collect();
        let demands = |rule: &&CheckRule| {
            rule.flavors.iter().any(|flavor| used.contains(flavor))
                || (rule.flavors.is_empty() && self.flavors().any(|flavor| used.contains(flavor)))
        };
        self.admission_checks.iter().filter(demands).map(|rule| &rule.check).collect()
    }

    /// The names of its flavors, in order, each once.
    pub fn flavors(&self) -> impl Iterator<Item = &FlavorName> {
        self.groups.iter().flat_map(|group| &group.flavors).map(|f| &f.flavor)
    }
}

/// A cohort that is declared by an object of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cohort {
    /// Its name.
    pub name: CohortName,
    /// The cohort above it.
    pub parent: Option<CohortName>,
    /// Quota that belongs to no ClusterQueue in particular.
    pub quotas: Quotas,
    /// Its weight among its siblings.
    pub weight: Weight,
    /// Why its declaration cannot be honoured, if it cannot.
    pub invalid: Option<String>,
}

/// A LocalQueue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocalQueue {
    /// Its namespace and name.
    pub key: LocalQueueKey,
    /// The ClusterQueue it leads to.
    pub cluster_queue: ClusterQueueName,
    /// Whether a person stopped it.
    pub stop: Stop,
    /// Its weight among those of its ClusterQueue.
    pub weight: Weight,
}
