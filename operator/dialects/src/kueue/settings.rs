//! What an administrator decides for the whole cluster, as plain data: the part of Kueue's configuration that changes
//! what happens to workloads. The defaults are those of Kueue 0.19.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use whalezen_core::{
    consumption::Rules,
    labels::Selector,
    name::ResourceName,
    plan::{FairStrategy, Policy},
    topology::Profile,
};

use super::jobs::kinds::{self, JobKind};

/// All settings of the dialect.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// How long pods may take to get ready; `None`: as long as they like, and `PodsReady` is not reported.
    pub pods_ready: Option<PodsReady>,
    /// `fairSharing.preemptionStrategies`, one of the lists that Kueue allows, if fair sharing is on.
    pub fair_sharing: Option<Vec<FairStrategy>>,
    /// `admissionFairSharing`: by which rules it is remembered what `LocalQueues` consumed, if it is.
    pub admission_fair_sharing: Option<Rules>,
    /// What counts of what pods request.
    pub resources: Resources,
    /// Whether the annotation `priority-boost` of a Workload adds to its priority (Kueue's gate `PriorityBoost`).
    pub priority_boost: bool,
    /// `integrations.frameworks`: the kinds of jobs that are managed.
    pub frameworks: Frameworks,
    /// `managedJobsNamespaceSelector`: only jobs in such namespaces are managed.
    pub managed_namespaces: ManagedNamespaces,
    /// `objectRetentionPolicies.workloads.afterFinished`: for how long a Workload is kept that is over; `None`: for ever.
    pub keep_finished: Option<Duration>,
    /// Whether the reason of `QuotaReserved=False` is a granular one (Kueue's gate
    /// `UnadmittedWorkloadsObservability`) and not `Pending` or `Inadmissible`.
    pub granular_reasons: bool,
    /// How pods are placed (Kueue's gates `TASProfileMixed` and `TASBalancedPlacement`).
    pub placement: Profile,
    /// How long a node may be not ready before pods that are being deleted on it are taken for lost.
    pub lost_after: LostAfter,
    /// How long a pod may wait for room on the host that it was bound to before its job is stopped and queues again.
    pub stuck_after: StuckAfter,
}

impl Settings {
    /// What holds where nobody has decided anything, as in Kueue 0.19.
    pub fn kueue() -> Self {
        Self { pods_ready: Some(PodsReady::default()), ..Self::default() }
    }

    /// What of it steers a plan.
    pub fn policy(&self) -> Policy {
        Policy {
            fair_sharing: self.fair_sharing.clone(),
            ignore_undeclared: self.resources.undeclared == Undeclared::Ignore,
            one_at_a_time: self.pods_ready.as_ref().is_some_and(|pods| pods.block_admission),
            topology: self.placement,
            ..Policy::default()
        }
    }

    /// By which moment a workload is ordered in its queue whose pods were not ready in time.
    pub fn requeuing(&self) -> RequeuingTimestamp {
        self.pods_ready.as_ref().map(|pods| pods.requeuing.timestamp).unwrap_or_default()
    }
}

/// Kinds of jobs that are managed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frameworks(pub BTreeSet<&'static JobKind>);

impl Default for Frameworks {
    fn default() -> Self {
        Self(BTreeSet::from([&kinds::JOB]))
    }
}

impl FromIterator<&'static JobKind> for Frameworks {
    /// These kinds; where pods serve for one of them, pods are managed too.
    fn from_iter<T: IntoIterator<Item = &'static JobKind>>(kinds: T) -> Self {
        let with_pods = |kind: &'static JobKind| [Some(kind), kind.serves.map(|_| &kinds::POD)];
        Self(kinds.into_iter().flat_map(with_pods).flatten().collect())
    }
}

impl Frameworks {
    /// The kinds that have to be seen for that: these, unless each of their pods is queued by itself, and those that their
    /// controllers make of them.
    pub fn seen(&self) -> BTreeSet<&'static JobKind> {
        let own = |kind: &'static JobKind| Some(kind).filter(|kind| kind.is_seen());
        self.0.iter().flat_map(|kind| [own(kind), kind.makes()]).flatten().collect()
    }
}

/// `waitForPodsReady`: a workload whose pods do not get ready in time is evicted and comes back after a pause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodsReady {
    /// How long an admitted workload may take until its pods are ready.
    pub timeout: Duration,
    /// How long it may take to replace a pod that failed after all were ready; `None`: as long as it likes.
    pub recovery_timeout: Option<Duration>,
    /// Whether nobody is admitted while an admitted workload's pods are not ready.
    pub block_admission: bool,
    /// How a workload comes back.
    pub requeuing: Requeuing,
}

impl Default for PodsReady {
    fn default() -> Self {
        let half_an_hour = Duration::from_mins(30);
        Self {
            timeout: half_an_hour,
            recovery_timeout: Some(half_an_hour),
            block_admission: false,
            requeuing: Requeuing::default(),
        }
    }
}

/// `requeuingStrategy`: when a workload is queued again whose pods were not ready in time, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Requeuing {
    /// By which moment it is ordered in its queue.
    pub timestamp: RequeuingTimestamp,
    /// How often it comes back before it is deactivated; `None`: without end.
    pub backoff_limit_count: Option<u32>,
    /// The first pause. Each is twice as long as the one before.
    pub backoff_base: Duration,
    /// The longest pause.
    pub backoff_max: Duration,
}

impl Default for Requeuing {
    fn default() -> Self {
        Self {
            timestamp: RequeuingTimestamp::default(),
            backoff_limit_count: None,
            backoff_base: Duration::from_mins(1),
            backoff_max: Duration::from_hours(1),
        }
    }
}

/// By which moment a workload is ordered in its queue whose pods were not ready in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RequeuingTimestamp {
    /// When it was evicted: behind those that came meanwhile.
    #[default]
    Eviction,
    /// When it was made: it keeps its place.
    Creation,
}

/// `resources`: what counts of what pods request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Resources {
    /// Resources whose names begin so do not count.
    pub excluded_prefixes: Vec<String>,
    /// What is counted in place of a resource, or beside it.
    pub transformations: BTreeMap<ResourceName, Transformation>,
    /// What becomes of a resource for which the ClusterQueue has no quota.
    pub undeclared: Undeclared,
}

/// What is counted in place of a resource, or beside it (KEP-2937).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transformation {
    /// Whether the resource itself goes on counting.
    pub retained: bool,
    /// The resource whose amount in the same request multiplies the outputs.
    pub multiply_by: Option<ResourceName>,
    /// What each unit of the resource counts as, in billionths of a unit. May be negative: an allowance.
    pub outputs: BTreeMap<ResourceName, i128>,
}

/// `resources.quotaCheckStrategy`: what becomes of a resource for which the ClusterQueue has no quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Undeclared {
    /// A workload that requests it waits for ever.
    #[default]
    Block,
    /// It does not count.
    Ignore,
}

/// How long a node may be not ready before pods that are being deleted on it are taken for lost: as long as Kubernetes waits
/// before it evicts pods from such a node, unless an administrator says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostAfter(pub Duration);

impl Default for LostAfter {
    fn default() -> Self {
        Self(Duration::from_mins(5))
    }
}

/// How long a pod may wait for room on the host that it was bound to: longer than pods usually take to end, unless an
/// administrator says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StuckAfter(pub Duration);

impl Default for StuckAfter {
    fn default() -> Self {
        Self(Duration::from_mins(1))
    }
}

/// The namespaces in which jobs are managed: all of them unless a selector says otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagedNamespaces(pub Selector);

impl Default for ManagedNamespaces {
    fn default() -> Self {
        Self(Selector::All(vec![]))
    }
}
