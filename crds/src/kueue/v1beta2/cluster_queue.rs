//! `ClusterQueue`: who may run how much, and by which rules.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AdmissionScope, ClusterQueuePreemption, ConcurrentAdmissionPolicy, FairSharing, FairSharingStatus,
    FlavorUsage, ResourceGroup, StopPolicy,
};
use crate::definition::{Column, CustomResource, Definition};
use crate::resource::resource;
use crate::schema::{mark, names};

resource! {
    /// A ClusterQueue holds a quota of the cluster's resources and the rules by which workloads get it:
    /// the order in which they are tried, what they may borrow from the cohort, and whom they may preempt.
    /// Tenants never name it; they submit to a LocalQueue that points here.
    ClusterQueue("kueue.x-k8s.io", "v1beta2", "clusterqueues"): ClusterResourceScope {
        /// The quota of this queue and the rules for using it.
        spec: ClusterQueueSpec,
        /// How much of the quota is in use and how many workloads wait.
        status: ClusterQueueStatus,
    }
}

impl CustomResource for ClusterQueue {
    const DEFINITION: Definition = Definition {
        short_names: &["cq"],
        columns: &[
            Column::new(
                "Cohort",
                "string",
                ".spec.cohortName",
                "The cohort that this queue shares quota with",
            ),
            Column::new(
                "Strategy",
                "string",
                ".spec.queueingStrategy",
                "The order in which workloads are tried",
            )
            .wide(),
            Column::new(
                "Pending Workloads",
                "integer",
                ".status.pendingWorkloads",
                "How many workloads wait for admission",
            ),
            Column::new(
                "Admitted Workloads",
                "integer",
                ".status.admittedWorkloads",
                "How many workloads are admitted and have not finished",
            )
            .wide(),
        ],
        selectable: &[],
        status: true,
    };
}

/// The quota of a ClusterQueue and the rules for using it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[(
    "!has(self.cohortName) && has(self.resourceGroups) ? self.resourceGroups.all(rg, rg.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit)))) : true",
    "a borrowingLimit needs a cohortName: without a cohort there is nobody to borrow from",
)]))]
pub struct ClusterQueueSpec {
    /// The quota, by groups of resources that are always taken from the same flavor, such as the GPUs of a
    /// node and its CPUs. A resource and a flavor may each stand in one group only. At most 16 groups, with
    /// 256 flavors in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), transform = mark::atomic_list)]
    pub resource_groups: Vec<ResourceGroup>,

    /// The cohort in which this queue lends the quota it does not use and borrows what others do not use.
    /// It need not exist as a Cohort object: queues that give the same name form a cohort. A queue without
    /// a cohort neither lends nor borrows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<names::Subdomain>")]
    pub cohort_name: Option<String>,

    /// The order in which waiting workloads are tried. Higher priority always goes first; this decides
    /// among equal priorities.
    #[serde(default)]
    pub queueing_strategy: QueueingStrategy,

    /// Which namespaces may send workloads here through a LocalQueue. Absent, none may; an empty selector
    /// admits every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,

    /// When a workload that does not simply fit in a flavor looks at the next one.
    #[serde(default)]
    #[schemars(transform = mark::default_empty)]
    pub flavor_fungibility: FlavorFungibility,

    /// Whom a waiting workload of this queue may preempt to get in. There are three occasions. It fits in
    /// the nominal quota, but others in the cohort have borrowed that: `reclaimWithinCohort`. It does not
    /// fit, and workloads of less priority run in this queue: `withinClusterQueue`. It would have to borrow
    /// and to preempt at once: `borrowWithinCohort`. In each case as few workloads as possible are
    /// preempted, those of the lowest priority first.
    #[serde(default)]
    #[schemars(transform = mark::default_empty)]
    pub preemption: ClusterQueuePreemption,

    /// The admission checks that a workload must pass once it holds quota here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission_checks_strategy: Option<AdmissionChecksStrategy>,

    /// Stops the queue without deleting it. Anything but `None` makes it inactive: no workload gets quota,
    /// and the queue's quota is not lent.
    #[serde(default)]
    pub stop_policy: StopPolicy,

    /// The weight of this queue among the members of its cohort. Used only where fair sharing is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharing>,

    /// Whether workloads of LocalQueues that used less lately go first in this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission_scope: Option<AdmissionScope>,

    /// Lets a workload compete for several flavors at once and start on the first that has room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent_admission_policy: Option<ConcurrentAdmissionPolicy>,
}

/// The order among waiting workloads of equal priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum QueueingStrategy {
    /// Oldest first, and the oldest must get in before any other: a big workload cannot be starved, and may
    /// leave quota idle while it waits.
    #[serde(rename = "StrictFIFO")]
    StrictFifo,
    /// Oldest first, but one that does not fit lets younger ones pass that do.
    #[default]
    #[serde(rename = "BestEffortFIFO")]
    BestEffortFifo,
}

/// When a workload goes on to the next flavor of a group instead of borrowing or preempting in this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[(
    "!has(self.preference) || (self.whenCanBorrow == 'TryNextFlavor' && self.whenCanPreempt == 'TryNextFlavor')",
    "preference needs whenCanBorrow and whenCanPreempt to be TryNextFlavor: otherwise the search may stop before there is a choice",
)]))]
pub struct FlavorFungibility {
    /// What to do in a flavor where the workload fits if it borrows.
    #[serde(default = "FlavorFungibility::borrow_default")]
    pub when_can_borrow: FlavorFungibilityPolicy,

    /// What to do in a flavor where the workload fits if it preempts.
    #[serde(default = "FlavorFungibility::preempt_default")]
    pub when_can_preempt: FlavorFungibilityPolicy,

    /// Which flavor to take when each one needs borrowing, preemption or both. Absent means
    /// `BorrowingOverPreemption`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preference: Option<FlavorFungibilityPreference>,
}

impl FlavorFungibility {
    const fn borrow_default() -> FlavorFungibilityPolicy {
        FlavorFungibilityPolicy::MayStopSearch
    }

    const fn preempt_default() -> FlavorFungibilityPolicy {
        FlavorFungibilityPolicy::TryNextFlavor
    }
}

impl Default for FlavorFungibility {
    fn default() -> Self {
        Self {
            when_can_borrow: Self::borrow_default(),
            when_can_preempt: Self::preempt_default(),
            preference: None,
        }
    }
}

/// Whether the search for a flavor may end at one that is not a plain fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum FlavorFungibilityPolicy {
    /// Take this flavor and look no further.
    MayStopSearch,
    /// Remember this flavor and look for a better one.
    TryNextFlavor,
}

/// Which of two costly ways into a flavor is the lesser evil.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum FlavorFungibilityPreference {
    /// Borrow rather than preempt. Among flavors that borrow from equally near in the cohort tree, the one
    /// with the milder preemption wins: reclaiming lent quota before preempting in the own queue.
    BorrowingOverPreemption,
    /// Preempt rather than borrow. Among flavors with equally mild preemption, the one that borrows from
    /// nearer in the cohort tree wins.
    PreemptionOverBorrowing,
}

/// The admission checks of a ClusterQueue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionChecksStrategy {
    /// The checks, each for all flavors or for some.
    #[schemars(length(min = 1, max = 64), transform = mark::map_list(&["name"]))]
    pub admission_checks: Vec<AdmissionCheckStrategyRule>,
}

/// One admission check of a ClusterQueue and the flavors it is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionCheckStrategyRule {
    /// The AdmissionCheck's name.
    #[schemars(with = "names::CheckName")]
    pub name: String,

    /// The flavors that need the check. Empty means that every workload of the queue needs it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<names::Subdomain>", length(max = 64), transform = mark::set_list)]
    pub on_flavors: Vec<String>,
}

/// What is in use of a ClusterQueue's quota, and by how many workloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQueueStatus {
    /// What was last observed about the queue. `Active` says whether it can admit workloads, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), transform = mark::map_list(&["type"]))]
    pub conditions: Vec<Condition>,

    /// Quota held by workloads, by flavor, whether they may run already or still wait for admission checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), transform = mark::map_list(&["name"]))]
    pub flavors_reservation: Vec<FlavorUsage>,

    /// Quota held by admitted workloads only, by flavor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), transform = mark::map_list(&["name"]))]
    pub flavors_usage: Vec<FlavorUsage>,

    /// How many workloads wait to be admitted here.
    #[serde(default)]
    #[schemars(transform = mark::undefaulted)]
    pub pending_workloads: i32,

    /// How many workloads hold quota here.
    #[serde(default)]
    #[schemars(transform = mark::undefaulted)]
    pub reserving_workloads: i32,

    /// How many workloads are admitted here and have not finished.
    #[serde(default)]
    #[schemars(transform = mark::undefaulted)]
    pub admitted_workloads: i32,

    /// Where the queue stands in fair sharing. Absent where that is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharingStatus>,
}
