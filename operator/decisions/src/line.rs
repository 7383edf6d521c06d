//! A line of the decision log: who got or lost what, for whom, under which policy, when.
//!
//! A line is one JSON object. Its fields keep their names and meanings for as long as [`VERSION`] is the same; a reader
//! has to expect new fields and new decisions. There is nothing in it that is not in the slim view of a Workload which
//! the scheduler keeps: no pod template, and so no environment variable and no secret.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use whalezen_core::{
    name::{ClusterQueueName, FlavorName, FlavorResource, ResourceName, WorkloadKey},
    plan::{FairStrategy, Policy},
    preempt::Ground,
    quantity::{Usage, format},
    queue::{BorrowWithinCohort, Preemption, Reclaim, WithinQueue},
    workload::{Admission, Timestamp as Moment},
};

use crate::observe::{Act, Outcome};

/// The version of the lines that are written.
pub const VERSION: u32 = 1;

/// Whether a decision was carried out, or only compared with what another scheduler did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// The operator decides.
    Decide,
    /// It looks on.
    Observe,
}

/// A line; see the module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// [`VERSION`].
    pub version: u32,
    /// When it was carried out, or seen. RFC 3339.
    pub at: Timestamp,
    /// In which mode.
    pub mode: Mode,
    /// What it was.
    #[serde(flatten)]
    pub decision: Decision,
}

/// What was decided.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Decision {
    /// A Workload got its quota.
    Admitted {
        /// The Workload.
        workload: WorkloadKey,
        /// Whose quota.
        cluster_queue: ClusterQueueName,
        /// What each pod set got.
        pod_sets: Vec<Given>,
    },
    /// A Workload was told to stop so that another fits.
    Preempted {
        /// The Workload; not shown to who may not see it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        workload: Option<WorkloadKey>,
        /// Whose quota it held.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        cluster_queue: Option<ClusterQueueName>,
        /// What it held.
        lost: Amounts,
        /// For whom; not shown to who may not see it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        preemptor: Option<WorkloadKey>,
        /// Where that one waits.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        preemptor_cluster_queue: Option<ClusterQueueName>,
        /// On what ground.
        ground: Ground,
        /// The policy in force.
        policy: InForce,
        /// When it was planned; it was carried out later.
        planned_at: Timestamp,
    },
    /// Quota is kept for a Workload until others have stopped on its account.
    Held {
        /// The Workload.
        workload: WorkloadKey,
        /// Where it waits.
        cluster_queue: ClusterQueueName,
        /// What is kept.
        kept: Amounts,
    },
    /// The API server would not have what was decided.
    Refused {
        /// The Workload, or the Job, that it was about.
        object: WorkloadKey,
        /// What was decided: `admission`, `preemption` or `step`.
        what: Refused,
        /// What the API server said.
        problem: String,
    },
    /// A Workload was told to stop for another reason than a preemption.
    Evicted {
        /// The Workload.
        workload: WorkloadKey,
        /// Whose quota it held.
        cluster_queue: ClusterQueueName,
        /// The reason of its condition `Evicted`.
        reason: String,
        /// What led to it, where the reason is not all.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        cause: String,
    },
    /// A Workload was taken out of its queue.
    Deactivated {
        /// The Workload.
        workload: WorkloadKey,
        /// Whose quota it held.
        cluster_queue: ClusterQueueName,
        /// What led to it.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        cause: String,
    },
    /// A Workload gave its quota back and waits again.
    Requeued {
        /// The Workload.
        workload: WorkloadKey,
        /// Whose quota it held.
        cluster_queue: ClusterQueueName,
        /// For what reason it had to stop.
        reason: String,
    },
    /// What was planned and what another scheduler did, once both are known or were waited for.
    Compared {
        /// The Workload.
        workload: WorkloadKey,
        /// How they compare.
        outcome: Outcome,
        /// What was planned.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        planned: Option<Act>,
        /// What was seen.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        seen: Option<Act>,
    },
    /// Lines are missing here: the disk was full, or too slow.
    Dropped {
        /// How many.
        lines: u64,
    },
}

/// What the API server refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refused {
    /// An admission.
    Admission,
    /// An eviction that makes room for another.
    Preemption,
    /// A job's or a Workload's next step.
    Step,
}

/// Amounts as Kubernetes writes them, by `flavor/resource`.
pub type Amounts = BTreeMap<FlavorResource, String>;

/// What a pod set was given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Given {
    /// The pod set.
    pub name: Arc<str>,
    /// How many pods.
    pub count: u32,
    /// The flavor of each resource.
    pub flavors: BTreeMap<ResourceName, FlavorName>,
    /// What all its pods together use.
    pub usage: BTreeMap<ResourceName, String>,
}

/// What let a Workload be preempted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InForce {
    /// `preemption.withinClusterQueue` of the preemptor's ClusterQueue.
    pub within_cluster_queue: String,
    /// `preemption.reclaimWithinCohort` of it.
    pub reclaim_within_cohort: String,
    /// `preemption.borrowWithinCohort` of it.
    pub borrow_within_cohort: String,
    /// The strategies of fair sharing, where it is configured.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub fair_sharing: Vec<FairStrategy>,
    /// The `SchedulingPolicies` that limit it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub scheduling_policies: Vec<Arc<str>>,
}

impl Line {
    /// A line of the version that is written. A moment past the range of the calendar is its beginning.
    pub fn new(at: Moment, mode: Mode, decision: Decision) -> Self {
        Self { version: VERSION, at: calendar(at), mode, decision }
    }
}

/// A moment as the calendar has it.
pub fn calendar(at: Moment) -> Timestamp {
    Timestamp::from_millisecond(at.0).unwrap_or_default()
}

/// The lines of a file. What is no line is skipped: a process that was killed leaves half a one at the end, and
/// another version may have written others.
pub fn read(text: &str) -> impl DoubleEndedIterator<Item = Line> + '_ {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// Amounts as Kubernetes writes them.
pub fn amounts(usage: &Usage) -> Amounts {
    usage.iter().map(|(key, amount)| (key.clone(), format(key.resource.as_str(), *amount))).collect()
}

/// What each pod set was given.
pub fn given(admission: &Admission) -> Vec<Given> {
    let pod_sets = admission.pod_sets.iter().map(|pod_set| Given {
        name: Arc::clone(&pod_set.name),
        count: pod_set.count,
        flavors: pod_set.flavors.clone(),
        usage: (pod_set.usage.iter())
            .map(|(resource, amount)| (resource.clone(), format(resource.as_str(), *amount)))
            .collect(),
    });
    pod_sets.collect()
}

impl InForce {
    /// Of a preemptor's ClusterQueue, under this policy.
    pub fn new(preemption: &Preemption, policy: &Policy) -> Self {
        let mut limits: Vec<_> = policy.brakes.limits.iter().map(|limit| Arc::clone(&limit.policy)).collect();
        limits.dedup();
        Self {
            within_cluster_queue: match preemption.within {
                WithinQueue::Never => "Never",
                WithinQueue::LowerPriority => "LowerPriority",
                WithinQueue::LowerOrNewerEqualPriority => "LowerOrNewerEqualPriority",
            }
            .to_owned(),
            reclaim_within_cohort: match preemption.reclaim {
                Reclaim::Never => "Never",
                Reclaim::LowerPriority => "LowerPriority",
                Reclaim::Any => "Any",
            }
            .to_owned(),
            borrow_within_cohort: match preemption.borrow {
                BorrowWithinCohort::Never => "Never".to_owned(),
                BorrowWithinCohort::LowerPriority { threshold: None } => "LowerPriority".to_owned(),
                BorrowWithinCohort::LowerPriority { threshold: Some(most) } => {
                    format!("LowerPriority up to {most}")
                }
            },
            fair_sharing: policy.fair_sharing.clone().unwrap_or_default(),
            scheduling_policies: limits,
        }
    }
}
