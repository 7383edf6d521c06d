//! The transitions of a Workload's status, one write each.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};
use whalezen_core::{
    name::{CheckName, WorkloadKey},
    plan::{Admit, Evict},
    verdict::{Reason, Verdict},
    workload::{Admission, PodSet, Timestamp, total},
};
use whalezen_crds::kueue::{
    constants::{condition as types, reason},
    v1beta2::{AdmissionCheckState, CheckState, RequeueState},
};

pub use super::owned::ADMISSION_MANAGER;
use super::{
    conditions::{self, Saying},
    jobs::lost::PODS_LOST,
    owned::{Owned, apply},
    reasons,
    workload::{WorkloadView, quantities},
    workload_target,
};
use crate::write::{Verb, Write};

/// The field manager of what the job's side reports, as in Kueue.
pub const JOB_MANAGER: &str = "kueue-job-controller";

/// The field manager of the list of nodes that fail. It is one of its own, so that who reports one does not have to know the
/// rest of the status.
pub const NODES_MANAGER: &str = "kueue-unhealthy-nodes";

/// The field manager of how many pods have done their work, as in Kueue.
pub const RECLAIMABLE_MANAGER: &str = "kueue-reclaimable-pods";

/// What an admission comes with.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The checks that have to be passed before anything may run.
    pub checks: BTreeSet<CheckName>,
    /// Whether it is reported when the pods are ready.
    pub reports_pods: bool,
    /// Whether reasons are granular, and that there is no leave to run yet is said too.
    pub granular: bool,
}

/// Gives a workload its quota and, unless it has checks to pass, its leave to run.
pub fn admit(admit: &Admit, view: &WorkloadView, terms: &Terms) -> Write {
    let mut own = Owned::holding(view, Some(&admit.admission), admit.at);
    let message = format!("Quota reserved in ClusterQueue {}", admit.admission.cluster_queue);
    own.say(types::QUOTA_RESERVED, true, "QuotaReserved", &message);
    for ended in [types::EVICTED, types::PREEMPTED, types::BLOCKED_ON_PREEMPTION_GATES, PODS_LOST] {
        if let Some(before) = conditions::find(&view.conditions, ended).filter(|c| c.status == "True") {
            own.say(ended, false, "QuotaReserved", &format!("Previously: {}", before.message));
        }
    }
    own.checks = checks(&view.checks, &terms.checks, admit.at);
    if own.checks.iter().all(|check| check.state == CheckState::Ready) {
        own.say(types::ADMITTED, true, "Admitted", "The workload is admitted");
    } else if terms.granular {
        let reason = reason::admitted::UNSATISFIED_ADMISSION_CHECKS;
        own.say(types::ADMITTED, false, reason, "The workload has not all checks ready");
    }
    if terms.reports_pods {
        own.wait_for_pods();
    }
    own.write(&admit.workload)
}

/// Gives a workload that holds quota its leave to run: it has passed its checks.
pub fn let_run(key: &WorkloadKey, view: &WorkloadView, given: &Admission, now: Timestamp) -> Write {
    let mut own = Owned::holding(view, Some(given), now);
    own.say(types::ADMITTED, true, "Admitted", "The workload is admitted");
    own.write(key)
}

/// Takes a leave to run back that a workload without quota has for whatever reason.
pub fn take_back_leave(key: &WorkloadKey, view: &WorkloadView, now: Timestamp) -> Write {
    let mut own = Owned::seen(view, now);
    let reason = reason::admitted::NO_RESERVATION;
    own.say(types::ADMITTED, false, reason, "The workload has no reservation");
    own.write(key)
}

/// Brings the list of a workload's checks to those that are demanded of it. It is not an apply: what others have put
/// there goes only by being left out of the whole list.
pub fn sync_checks(
    key: &WorkloadKey,
    view: &WorkloadView,
    demanded: &BTreeSet<CheckName>,
    now: Timestamp,
) -> Write {
    let body = json!({
        "metadata": { "uid": view.uid, "resourceVersion": view.version.to_string() },
        "status": { "admissionChecks": checks(&view.checks, demanded, now) },
    });
    merge_status(key, body)
}

/// The states of the demanded checks: as they are, and Pending for those that are new.
fn checks(
    known: &[AdmissionCheckState],
    demanded: &BTreeSet<CheckName>,
    now: Timestamp,
) -> Vec<AdmissionCheckState> {
    let state = |name: &CheckName| {
        let known = known.iter().find(|check| check.name == name.as_str());
        known.cloned().unwrap_or_else(|| AdmissionCheckState {
            name: name.to_string(),
            state: CheckState::Pending,
            last_transition_time: conditions::time(now),
            message: String::new(),
            requeue_after_seconds: None,
            retry_count: None,
            pod_set_updates: Vec::new(),
        })
    };
    demanded.iter().map(state).collect()
}

/// Tells a waiting workload why it waits, and what its pods request if they could be counted.
pub fn report(
    key: &WorkloadKey,
    (word, message): (&str, &str),
    pod_sets: Option<&[PodSet]>,
    view: &WorkloadView,
    now: Timestamp,
) -> Write {
    let mut own = Owned::seen(view, now);
    own.say(types::QUOTA_RESERVED, false, word, message);
    own.requests =
        pod_sets.filter(|sets| !sets.is_empty()).map(|sets| sets.iter().filter_map(requests).collect());
    own.not_admitted(true);
    own.write(key)
}

/// What a pod set requests in all.
fn requests(pod_set: &PodSet) -> Option<Value> {
    let total = total(&pod_set.per_pod, pod_set.count)?;
    Some(json!({ "name": pod_set.name, "resources": quantities(&total) }))
}

/// Takes the quota back of a workload of which nothing runs: it was evicted, or never had leave to run. `obstacle` is
/// why it cannot queue at once, if it cannot, and `lost` what there is to say of pods whose end is not waited for.
pub fn release(
    key: &WorkloadKey,
    view: &WorkloadView,
    obstacle: Option<Verdict>,
    lost: Option<&str>,
    granular: bool,
    now: Timestamp,
) -> Write {
    let mut own = Owned::seen(view, now);
    let evicted =
        conditions::find(&view.conditions, types::EVICTED).filter(|evicted| evicted.status == "True");
    if let Some(evicted) = evicted {
        requeue(&mut own, &evicted.reason, &evicted.message, now);
    }
    if let Some(lost) = lost {
        own.say(PODS_LOST, true, reason::evicted::NODE_FAILURES, lost);
    }
    let message = evicted.map_or("The workload lost its quota", |evicted| &evicted.message);
    let pending = || Verdict::new(Reason::PendingEvaluation, message);
    let obstacle = obstacle.filter(|obstacle| obstacle.reason != Reason::PendingEvaluation);
    without_quota(&mut own, &obstacle.unwrap_or_else(pending), granular);
    if evicted
        .is_some_and(|evicted| evicted.reason.ends_with(reason::evicted::MAXIMUM_EXECUTION_TIME_EXCEEDED))
    {
        // It had all of its time. Whoever activates it again gives it the same once more.
        own.past_seconds = None;
    }
    if conditions::find(&view.conditions, types::PODS_READY).is_some() {
        own.wait_for_pods();
    }
    own.write(key)
}

/// Takes the quota back of a workload that is not to be tried again for now, which it is told.
pub fn hold(key: &WorkloadKey, view: &WorkloadView, message: &str, granular: bool, now: Timestamp) -> Write {
    let mut own = Owned::seen(view, now);
    without_quota(&mut own, &Verdict::new(Reason::OnHold, message), granular);
    own.write(key)
}

/// Lets a workload queue again that was on hold.
pub fn end_hold(key: &WorkloadKey, view: &WorkloadView, granular: bool, now: Timestamp) -> Write {
    let mut own = Owned::seen(view, now);
    let message = "Workload no longer on hold; waiting for quota reservation";
    without_quota(&mut own, &Verdict::new(Reason::PendingEvaluation, message), granular);
    own.write(key)
}

/// Says whether and when an evicted workload queues again.
fn requeue(own: &mut Owned<'_>, reason: &str, message: &str, now: Timestamp) {
    let waits = own.requeue.requeue_at.as_ref().is_some_and(|at| conditions::timestamp(at) > now);
    match reason {
        reason::evicted::PREEMPTED | reason::evicted::NODE_FAILURES => {
            own.say(types::REQUEUED, true, reason, message);
        }
        reason::evicted::PODS_READY_TIMEOUT | reason::evicted::ADMISSION_CHECK if !waits => {
            back_off_finished(own);
        }
        // Something has to happen first.
        _ => own.say(types::REQUEUED, false, reason, message),
    }
}

fn back_off_finished(own: &mut Owned<'_>) {
    own.requeue.requeue_at = None;
    own.say(types::REQUEUED, true, reason::requeued::BACKOFF_FINISHED, "The workload backoff was finished");
}

/// Lets a workload queue again whose pause is over.
pub fn finish_back_off(key: &WorkloadKey, view: &WorkloadView, now: Timestamp) -> Write {
    let mut own = Owned::seen(view, now);
    back_off_finished(&mut own);
    own.write(key)
}

/// Forgets a pause that is over, of a workload that was let back already.
pub fn finish_pause(key: &WorkloadKey, view: &WorkloadView, now: Timestamp) -> Write {
    let mut own = Owned::seen(view, now);
    own.requeue.requeue_at = None;
    own.write(key)
}

/// Lets a workload queue again, for this reason.
pub fn let_queue(
    key: &WorkloadKey,
    view: &WorkloadView,
    (reason, message): (&str, &str),
    now: Timestamp,
) -> Write {
    let mut own = Owned::seen(view, now);
    own.say(types::REQUEUED, true, reason, message);
    own.write(key)
}

/// An order to stop.
#[derive(Clone, Debug, Default)]
pub struct Eviction<'a> {
    /// Kueue's word for why.
    pub reason: &'a str,
    /// Kueue's word for what is behind that, if anything is.
    pub cause: &'a str,
    /// Why, for people.
    pub message: &'a str,
    /// Until when it waits afterwards, and how often it has by then, if that changes.
    pub requeue: Option<RequeueState>,
}

/// Orders a workload to stop. It keeps its quota until its pods are gone.
pub fn evict(
    key: &WorkloadKey,
    eviction: &Eviction<'_>,
    view: &WorkloadView,
    given: &Admission,
    now: Timestamp,
) -> Write {
    let mut own = Owned::holding(view, Some(given), now);
    own.say(types::EVICTED, true, eviction.reason, eviction.message);
    own.count_eviction(eviction.reason, eviction.cause);
    if let Some(requeue) = &eviction.requeue {
        own.requeue = requeue.clone();
    }
    own.write(key)
}

/// Orders a workload to stop so that another fits, on the ground that the plan names.
pub fn preempt(
    evict: &Evict,
    message: &str,
    view: &WorkloadView,
    given: &Admission,
    now: Timestamp,
) -> Write {
    let mut own = Owned::holding(view, Some(given), now);
    own.say(types::PREEMPTED, true, evict.ground.as_str(), message);
    own.say(types::EVICTED, true, reason::evicted::PREEMPTED, message);
    own.count_eviction(reason::evicted::PREEMPTED, "");
    own.write(&evict.workload)
}

/// Tells a workload that a person or its deactivation took out that it is not queued any more and, if it holds quota,
/// to stop. What it was to come back by is forgotten.
pub fn deactivate(
    key: &WorkloadKey,
    view: &WorkloadView,
    given: Option<&Admission>,
    granular: bool,
    now: Timestamp,
) -> Write {
    let mut own = Owned::holding(view, given, now);
    let deactivated = reason::evicted::DEACTIVATED;
    let target = conditions::find(&view.conditions, types::DEACTIVATION_TARGET);
    let (reason, cause, message) = target.map_or_else(
        || (deactivated.to_owned(), "", DEACTIVATED.to_owned()),
        |target| {
            let message = format!("{DEACTIVATED} due to {}", target.message);
            (format!("{deactivated}DueTo{}", target.reason), target.reason.as_str(), message)
        },
    );
    own.say(types::EVICTED, true, &reason, &message);
    own.count_eviction(deactivated, cause);
    own.forget(types::DEACTIVATION_TARGET);
    own.requeue = RequeueState::default();
    if given.is_none() {
        without_quota(&mut own, &Verdict::new(Reason::Deactivated, DEACTIVATED), granular);
    }
    own.write(key)
}

/// What Kueue says of a workload that is not active.
const DEACTIVATED: &str = "The workload is deactivated";

/// Says that a workload is about to be deactivated, and why: so that who deactivates it next knows, even if that is
/// another replica.
pub fn mark_for_deactivation(
    key: &WorkloadKey,
    (reason, message): (&str, &str),
    view: &WorkloadView,
    given: &Admission,
    now: Timestamp,
) -> Write {
    let mut own = Owned::holding(view, Some(given), now);
    own.say(types::DEACTIVATION_TARGET, true, reason, message);
    if reason == reason::evicted::MAXIMUM_EXECUTION_TIME_EXCEEDED {
        own.past_seconds = None;
    }
    own.write(key)
}

/// Takes a workload out, as it was marked.
pub fn take_out(key: &WorkloadKey, view: &WorkloadView) -> Write {
    let body = json!({
        "metadata": { "uid": view.uid, "resourceVersion": view.version.to_string() },
        "spec": { "active": false },
    });
    let target = workload_target(&key.namespace, &key.name);
    Write { target, status: false, verb: Verb::Merge, body }
}

/// Forgets what a workload was to come back by. It is not an apply: whoever else wrote it owns it too.
pub fn forget_requeue(key: &WorkloadKey, view: &WorkloadView) -> Write {
    let body = json!({
        "metadata": { "uid": view.uid, "resourceVersion": view.version.to_string() },
        "status": { "requeueState": null },
    });
    merge_status(key, body)
}

/// Reports whether a workload's pods are ready.
pub fn report_pods(
    key: &WorkloadKey,
    (ready, reason, message): (bool, &str, &str),
    view: &WorkloadView,
    given: &Admission,
    now: Timestamp,
) -> Write {
    let mut own = Owned::holding(view, Some(given), now);
    own.say(types::PODS_READY, ready, reason, message);
    own.write(key)
}

fn without_quota(own: &mut Owned<'_>, verdict: &Verdict, granular: bool) {
    own.say(types::QUOTA_RESERVED, false, reasons::word(verdict, granular), &verdict.message);
    own.not_admitted(granular);
}

/// Deletes a Workload, unless another one has its name by now.
pub fn delete(key: &WorkloadKey, view: &WorkloadView) -> Write {
    let target = workload_target(&key.namespace, &key.name);
    Write { target, status: false, verb: Verb::Delete, body: json!({ "uid": view.uid }) }
}

/// Declares a workload finished. Only the condition is written, under the job side's own manager.
pub fn finish(key: &WorkloadKey, reason: &str, message: &str, view: &WorkloadView, now: Timestamp) -> Write {
    let mut finished = Vec::new();
    let saying =
        Saying { type_: types::FINISHED, status: true, reason, message, generation: view.generation };
    conditions::set(&mut finished, saying, now);
    let mut write = apply(key, view, JOB_MANAGER, &json!({ "conditions": finished }));
    // It is final, whoever else writes meanwhile.
    if let Some(metadata) = write.body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    write
}

/// Says whether a group of pods waits for some in place of others.
pub fn report_replacements(
    key: &WorkloadKey,
    (waits, reason, message): (bool, &str, &str),
    view: &WorkloadView,
    now: Timestamp,
) -> Write {
    let type_ = types::WAITING_FOR_REPLACEMENT_PODS;
    let mut said = conditions::find(&view.conditions, type_).cloned().into_iter().collect();
    let saying = Saying { type_, status: waits, reason, message, generation: view.generation };
    conditions::set(&mut said, saying, now);
    apply(key, view, JOB_MANAGER, &json!({ "conditions": said }))
}

/// Says how many pods of these sets have done their work, and that none of the others has.
pub fn reclaim<'a>(
    key: &WorkloadKey,
    done: impl Iterator<Item = (&'a Arc<str>, u32)>,
    view: &WorkloadView,
) -> Write {
    let done: Vec<Value> = done.map(|(name, count)| json!({ "name": name, "count": count })).collect();
    let status = if done.is_empty() { json!({}) } else { json!({ "reclaimablePods": done }) };
    apply(key, view, RECLAIMABLE_MANAGER, &status)
}

/// Names the nodes that fail under a workload, and no others.
pub fn name_unhealthy<'a>(
    key: &WorkloadKey,
    view: &WorkloadView,
    nodes: impl Iterator<Item = &'a str>,
) -> Write {
    let nodes: Vec<Value> = nodes.map(|name| json!({ "name": name })).collect();
    let status = if nodes.is_empty() { json!({}) } else { json!({ "unhealthyNodes": nodes }) };
    apply(key, view, NODES_MANAGER, &status)
}

/// Gives a workload that runs other places for its pods.
pub fn relocate(key: &WorkloadKey, view: &WorkloadView, moved: &Admission, now: Timestamp) -> Write {
    Owned::holding(view, Some(moved), now).write(key)
}

fn merge_status(key: &WorkloadKey, body: Value) -> Write {
    let target = workload_target(&key.namespace, &key.name);
    Write { target, status: true, verb: Verb::Merge, body }
}
