//! The metrics that have Kueue's names, and what each means. Every one has the label `replica_role` besides.
//!
//! Kueue's names, labels and buckets are kept, so that dashboards and alerts go on working; a test holds the list
//! against Kueue's own.

/// What kind of numbers a metric has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One that only grows.
    Counter,
    /// One that is as it is now.
    Gauge,
    /// Seconds that somebody waited, in this many buckets: 1, 2.5, and twice as much each time.
    Waits(u16),
    /// Seconds that the operator worked.
    Works,
}

/// A metric.
#[derive(Debug)]
pub struct Definition {
    /// Its name, behind `kueue_`.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
}

const QUEUE: &[&str] = &["cluster_queue"];
const QUEUE_CLASS: &[&str] = &["cluster_queue", "priority_class"];
const LOCAL: &[&str] = &["name", "namespace"];
const LOCAL_CLASS: &[&str] = &["name", "namespace", "priority_class"];
const COHORT: &[&str] = &["cohort"];
const OF_QUEUE: &[&str] = &["cohort", "cluster_queue", "flavor", "resource"];
const OF_LOCAL: &[&str] = &["name", "namespace", "flavor", "resource"];
const OF_COHORT: &[&str] = &["cohort", "flavor", "resource"];
const WAITS: Kind = Kind::Waits(14);

macro_rules! definitions {
    ($($constant:ident = $name:literal, $kind:expr, $labels:expr, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Definition =
                Definition { name: $name, help: $help, kind: $kind, labels: $labels };
        )*
        /// All of them.
        pub const ALL: &[&Definition] = &[$(&$constant),*];
    };
}

definitions! {
    ATTEMPTS = "admission_attempts_total", Kind::Counter, &["result"],
        "Plans made: with an admission (success) or without (inadmissible)";
    ATTEMPT_DURATION = "admission_attempt_duration_seconds", Kind::Works, &["result"],
        "How long plans took: with an admission (success) or without (inadmissible)";

    PENDING = "pending_workloads", Kind::Gauge, &["cluster_queue", "status"],
        "Workloads that wait: to be tried (active), or for something to change (inadmissible)";
    RESERVING = "reserving_active_workloads", Kind::Gauge, QUEUE, "Workloads that hold quota";
    ADMITTED_ACTIVE = "admitted_active_workloads", Kind::Gauge, QUEUE, "Workloads that hold quota and may run";
    STATUS = "cluster_queue_status", Kind::Gauge, &["cluster_queue", "status"],
        "1 for what the ClusterQueue is: pending, active or terminating";

    RESERVED = "quota_reserved_workloads_total", Kind::Counter, QUEUE_CLASS, "Workloads that got quota";
    RESERVED_WAIT = "quota_reserved_wait_time_seconds", WAITS, QUEUE_CLASS,
        "From being queued, or queued again, until quota was got";
    ADMITTED = "admitted_workloads_total", Kind::Counter, QUEUE_CLASS, "Workloads that were admitted";
    ADMITTED_WAIT = "admission_wait_time_seconds", Kind::Waits(16), QUEUE_CLASS,
        "From being queued, or queued again, until admission";
    CHECKS_WAIT = "admission_checks_wait_time_seconds", WAITS, QUEUE_CLASS,
        "From quota until admission, of workloads with admission checks";
    READY_WAIT = "ready_wait_time_seconds", WAITS, QUEUE_CLASS,
        "From being queued, or queued again, until all pods were ready";
    ADMITTED_READY_WAIT = "admitted_until_ready_wait_time_seconds", WAITS, QUEUE_CLASS,
        "From admission until all pods were ready";
    FINISHED = "finished_workloads_total", Kind::Counter, QUEUE_CLASS, "Workloads that finished";
    REPLACED_SLICES = "replaced_workload_slices_total", Kind::Counter, QUEUE,
        "Slices of elastic jobs whose place another took";
    EVICTED = "evicted_workloads_total", Kind::Counter,
        &["cluster_queue", "reason", "underlying_cause", "priority_class"],
        "Evictions, by the reason of the condition Evicted and what led to it";
    EVICTED_ONCE = "evicted_workloads_once_total", Kind::Counter,
        &["cluster_queue", "reason", "underlying_cause", "priority_class"],
        "Workloads that were evicted for this reason for the first time";
    READY_EVICTED = "pods_ready_to_evicted_time_seconds", WAITS, &["cluster_queue", "reason", "underlying_cause"],
        "From when all pods were ready until the eviction";
    EVICTION_LATENCY = "workload_eviction_latency_seconds", WAITS, &["cluster_queue", "reason"],
        "From an eviction until the quota was given back";
    PREEMPTED = "preempted_workloads_total", Kind::Counter, &["preempting_cluster_queue", "reason"],
        "Workloads that were preempted, by the ClusterQueue that they made room for";

    RESERVATION = "cluster_queue_resource_reservation", Kind::Gauge, OF_QUEUE, "What workloads that hold quota hold";
    USAGE = "cluster_queue_resource_usage", Kind::Gauge, OF_QUEUE, "What admitted workloads hold";
    NOMINAL = "cluster_queue_nominal_quota", Kind::Gauge, OF_QUEUE, "The nominal quota";
    BORROWING = "cluster_queue_borrowing_limit", Kind::Gauge, OF_QUEUE,
        "How much may be borrowed; +Inf where there is no limit";
    LENDING = "cluster_queue_lending_limit", Kind::Gauge, OF_QUEUE,
        "How much of the nominal quota others may borrow; +Inf where there is no limit";
    SHARE = "cluster_queue_weighted_share", Kind::Gauge, &["cluster_queue", "cohort"],
        "The dominant share of what is borrowed, over the weight; NaN for weight 0. Only with fair sharing";
    INFO = "cluster_queue_info", Kind::Gauge, &["cluster_queue", "parent_cohort", "root_cohort"],
        "1, with where the ClusterQueue stands";

    COHORT_SHARE = "cohort_weighted_share", Kind::Gauge, COHORT,
        "The dominant share of what is borrowed, over the weight; NaN for weight 0. Only with fair sharing";
    COHORT_INFO = "cohort_info", Kind::Gauge, &["cohort", "parent_cohort", "root_cohort"],
        "1, with where the cohort stands";
    COHORT_QUOTA = "cohort_subtree_quota", Kind::Gauge, OF_COHORT,
        "The quota of the cohort and what those below it lend";
    COHORT_RESERVATIONS = "cohort_subtree_resource_reservations", Kind::Gauge, OF_COHORT,
        "What workloads below the cohort hold of its quota";
    COHORT_ADMITTED_ACTIVE = "cohort_subtree_admitted_active_workloads", Kind::Gauge, COHORT,
        "Workloads below the cohort that hold quota and may run";
    COHORT_ADMITTED = "cohort_subtree_admitted_workloads_total", Kind::Counter, &["cohort", "priority_class"],
        "Workloads below the cohort that were admitted";

    LOCAL_PENDING = "local_queue_pending_workloads", Kind::Gauge, &["name", "namespace", "status"],
        "Workloads that wait: to be tried (active), or for something to change (inadmissible)";
    LOCAL_RESERVING = "local_queue_reserving_active_workloads", Kind::Gauge, LOCAL, "Workloads that hold quota";
    LOCAL_ADMITTED_ACTIVE = "local_queue_admitted_active_workloads", Kind::Gauge, LOCAL,
        "Workloads that hold quota and may run";
    LOCAL_STATUS = "local_queue_status", Kind::Gauge, &["name", "namespace", "active"],
        "1 for what the condition Active of the LocalQueue is";
    LOCAL_RESERVED = "local_queue_quota_reserved_workloads_total", Kind::Counter, LOCAL_CLASS,
        "Workloads that got quota";
    LOCAL_RESERVED_WAIT = "local_queue_quota_reserved_wait_time_seconds", WAITS, LOCAL_CLASS,
        "From being queued, or queued again, until quota was got";
    LOCAL_ADMITTED = "local_queue_admitted_workloads_total", Kind::Counter, LOCAL_CLASS,
        "Workloads that were admitted";
    LOCAL_ADMITTED_WAIT = "local_queue_admission_wait_time_seconds", WAITS, LOCAL_CLASS,
        "From being queued, or queued again, until admission";
    LOCAL_CHECKS_WAIT = "local_queue_admission_checks_wait_time_seconds", WAITS, LOCAL_CLASS,
        "From quota until admission, of workloads with admission checks";
    LOCAL_READY_WAIT = "local_queue_ready_wait_time_seconds", WAITS, LOCAL_CLASS,
        "From being queued, or queued again, until all pods were ready";
    LOCAL_ADMITTED_READY_WAIT = "local_queue_admitted_until_ready_wait_time_seconds", WAITS, LOCAL_CLASS,
        "From admission until all pods were ready";
    LOCAL_FINISHED = "local_queue_finished_workloads_total", Kind::Counter, LOCAL_CLASS,
        "Workloads that finished";
    LOCAL_EVICTED = "local_queue_evicted_workloads_total", Kind::Counter,
        &["name", "namespace", "reason", "underlying_cause", "priority_class"],
        "Evictions, by the reason of the condition Evicted and what led to it";
    LOCAL_RESERVATION = "local_queue_resource_reservation", Kind::Gauge, OF_LOCAL,
        "What workloads that hold quota hold";
    LOCAL_CONSUMPTION = "local_queue_admission_fair_sharing_usage", Kind::Gauge,
        &["name", "namespace", "cluster_queue"],
        "What the LocalQueue consumed lately, weighted, over its weight. Only with admission fair sharing";
    LOCAL_USAGE = "local_queue_resource_usage", Kind::Gauge, OF_LOCAL, "What admitted workloads hold";
}
