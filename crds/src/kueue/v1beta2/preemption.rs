//! Whom a ClusterQueue's workloads may preempt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::mark;

/// Whom a waiting workload of a ClusterQueue may preempt to get in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[(
    "!(self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort) &&  self.borrowWithinCohort.policy != 'Never')",
    "borrowWithinCohort.policy must be Never while reclaimWithinCohort is Never",
)]))]
pub struct ClusterQueuePreemption {
    /// Whom to preempt in other ClusterQueues of the cohort that use more than their nominal quota, so that
    /// this queue gets its own nominal quota back. With fair sharing the workload need not fit in the
    /// nominal quota, but the preemption must satisfy the fair sharing strategies.
    #[serde(default)]
    pub reclaim_within_cohort: ReclaimWithinCohortPolicy,

    /// Whom to preempt in other ClusterQueues of the cohort for a workload that will itself borrow. Has no
    /// meaning with fair sharing.
    #[serde(default)]
    #[schemars(transform = mark::default_empty)]
    pub borrow_within_cohort: BorrowWithinCohort,

    /// Whom to preempt in this ClusterQueue for a workload that does not fit in the nominal quota.
    #[serde(default)]
    pub within_cluster_queue: WithinClusterQueuePolicy,
}

/// Whom to preempt to get lent quota back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ReclaimWithinCohortPolicy {
    /// Nobody; wait until the borrowers finish.
    #[default]
    Never,
    /// Only workloads of less priority than the waiting one.
    LowerPriority,
    /// Any workload, whatever its priority.
    Any,
}

/// Whom to preempt in the own queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum WithinClusterQueuePolicy {
    /// Nobody.
    #[default]
    Never,
    /// Workloads of less priority than the waiting one.
    LowerPriority,
    /// Workloads of less priority, and younger ones of equal priority.
    LowerOrNewerEqualPriority,
}

/// Whom a workload may preempt in the cohort while it borrows itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BorrowWithinCohort {
    /// Whether a borrowing workload may preempt in other ClusterQueues.
    #[serde(default)]
    pub policy: BorrowWithinCohortPolicy,

    /// The highest priority that a victim may have. Absent, `policy` alone decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_priority_threshold: Option<i32>,
}

/// Whether a borrowing workload may preempt others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum BorrowWithinCohortPolicy {
    /// It may not.
    #[default]
    Never,
    /// It may preempt workloads of less priority.
    LowerPriority,
}
