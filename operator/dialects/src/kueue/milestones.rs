//! What happened to a Workload between two looks at it, whoever did it: what metrics count.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use whalezen_core::{
    name::{ClusterQueueName, LocalQueueKey, WorkloadKey},
    workload::Workload,
};
use whalezen_crds::kueue::constants::{condition as types, reason};

use super::{conditions, workload::WorkloadView};

/// Something that happened to a Workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Milestone {
    /// The Workload.
    pub workload: WorkloadKey,
    /// Whose quota it holds, or held.
    pub cluster_queue: ClusterQueueName,
    /// Where it was submitted to.
    pub local_queue: LocalQueueKey,
    /// The priority class that it names, or nothing.
    pub priority_class: String,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// It got quota.
    Reserved {
        /// For how long it was queued.
        waited: Duration,
    },
    /// It was admitted.
    Admitted {
        /// For how long it was queued.
        waited: Duration,
        /// For how long it had quota already, if there were checks to wait for.
        checked: Option<Duration>,
    },
    /// All its pods are ready.
    Ready {
        /// For how long it was queued, and then admitted.
        queued: Duration,
        /// For how long it was admitted.
        admitted: Duration,
    },
    /// It was told to stop.
    Evicted {
        /// The reason.
        reason: String,
        /// What led to it, where the reason is not all.
        cause: String,
        /// Whether it was for the first time for this reason.
        first: bool,
        /// For how long its pods were ready, if they were.
        ready: Option<Duration>,
    },
    /// It gave its quota back after it was told to stop.
    Released {
        /// The reason.
        reason: String,
        /// How long that took.
        after: Duration,
    },
    /// It is over.
    Finished {
        /// Whether it is the slice of a job that goes on in another.
        replaced: bool,
    },
}

/// What happened between two looks. `workload` is the core's view of it now, `holder` the ClusterQueue whose quota it
/// held before.
pub fn milestones(
    before: &WorkloadView,
    now: &WorkloadView,
    workload: &Workload,
    holder: Option<&ClusterQueueName>,
) -> Vec<Milestone> {
    let became = |type_: &str| (now.is(type_) && !before.is(type_)).then(|| find(now, type_)).flatten();
    let queued = before.since.0;
    let mut happened = Vec::new();
    let reserved = became(types::QUOTA_RESERVED);
    if let Some(reserved) = reserved {
        happened.push(What::Reserved { waited: between(queued, reserved) });
    }
    if let Some(admitted) = became(types::ADMITTED) {
        let since = find(now, types::QUOTA_RESERVED).map(at).unwrap_or_default();
        let checked = (!now.checks.is_empty()).then(|| between(since, admitted));
        happened.push(What::Admitted { waited: between(queued, admitted), checked });
    }
    if let Some(ready) = became(types::PODS_READY)
        && let Some(admitted) = find(now, types::ADMITTED).filter(|_| now.is(types::ADMITTED))
    {
        let queued = between(now.since.0, ready);
        happened.push(What::Ready { queued, admitted: between(at(admitted), ready) });
    }
    if let Some(evicted) = became(types::EVICTED) {
        let ready = find(before, types::PODS_READY).filter(|ready| ready.status == "True");
        let ready = ready.map(|ready| between(at(ready), evicted));
        let counted = now.evictions.iter().find(|eviction| !before.evictions.contains(eviction));
        happened.push(match counted {
            Some(counted) => What::Evicted {
                reason: counted.reason.clone(),
                cause: counted.underlying_cause.clone(),
                first: counted.count == 1,
                ready,
            },
            // By somebody who does not count.
            None => What::Evicted {
                reason: short(&evicted.reason).to_owned(),
                cause: String::new(),
                first: false,
                ready,
            },
        });
    }
    if before.is(types::EVICTED)
        && before.is(types::QUOTA_RESERVED)
        && !now.is(types::QUOTA_RESERVED)
        && let (Some(evicted), Some(released)) =
            (find(before, types::EVICTED), find(now, types::QUOTA_RESERVED))
    {
        let reason = short(&evicted.reason).to_owned();
        happened.push(What::Released { reason, after: between(at(evicted), released) });
    }
    if let Some(finished) = became(types::FINISHED) {
        let replaced = finished.reason == reason::finished::WORKLOAD_SLICE_REPLACED;
        happened.push(What::Finished { replaced });
    }
    let Some(cluster_queue) = workload.admission().map(|given| &given.cluster_queue).or(holder) else {
        return Vec::new();
    };
    let milestone = |what| Milestone {
        workload: workload.key.clone(),
        cluster_queue: cluster_queue.clone(),
        local_queue: workload.queue.clone(),
        priority_class: now.priority_class.as_ref().map(|class| class.name.clone()).unwrap_or_default(),
        what,
    };
    happened.into_iter().map(milestone).collect()
}

fn find<'a>(of: &'a WorkloadView, type_: &str) -> Option<&'a Condition> {
    conditions::find(&of.conditions, type_)
}

fn at(condition: &Condition) -> i64 {
    conditions::timestamp(&condition.last_transition_time).0
}

/// Conditions are whole seconds, and clocks differ: less than nothing is nothing.
fn between(since: i64, until: &Condition) -> Duration {
    Duration::from_millis(at(until).saturating_sub(since).try_into().unwrap_or_default())
}

/// The reason of an eviction: in the condition of a deactivation what led to it is part of the word.
fn short(word: &str) -> &str {
    if word.starts_with(reason::evicted::DEACTIVATED) { reason::evicted::DEACTIVATED } else { word }
}
