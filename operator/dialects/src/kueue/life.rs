//! What befalls a Workload while it waits and while it holds quota, whatever job it stands for: it is deactivated, its
//! queue is stopped, its checks answer, its time is over, its pause is over.
//!
//! Everything is decided from what is known now; nothing is remembered. [`next`] gives the one write that is due, or
//! the moment at which one will be if nothing changes until then.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use whalezen_core::{
    name::CheckName,
    queue::{ClusterQueue, Stop},
    workload::{Admission, Phase, Timestamp},
};
use whalezen_crds::kueue::{
    constants::{condition as types, reason},
    v1beta2::{AdmissionCheckState, CheckState, RequeueState},
};

use super::{
    admission::{self, Eviction},
    conditions,
    jobs::{Of, Surroundings},
    mig,
    settings::{PodsReady, Requeuing},
    workload::WorkloadView,
    workload_target,
};
use crate::write::{Note, Write};

/// What is due for a Workload.
#[derive(Clone, PartialEq, Debug)]
pub enum Fate {
    /// This write, and then a word about it.
    Write(Box<Write>, Option<Note>),
    /// Nothing, until something changes or, if there is one, this moment comes.
    Until(Option<Timestamp>),
}

const NOTHING: Fate = Fate::Until(None);

/// What is due. `idle` is whether nothing of it runs that is known here: only then is quota taken back.
pub fn next(of: Of<'_>, around: Surroundings<'_>, idle: bool) -> Fate {
    let Of { key, view, workload } = of;
    if view.unreadable || view.deleting {
        return NOTHING;
    }
    if workload.phase == Phase::Finished {
        return finished(of, around);
    }
    let given = workload.admission();
    let target = conditions::find(&view.conditions, types::DEACTIVATION_TARGET);
    if view.active && target.is_some_and(|target| target.status == "True") {
        return write(admission::take_out(key, view));
    }
    if !view.active && !view.is(types::EVICTED) {
        let cause = target.map_or(String::new(), |target| format!("DueTo{}", target.reason));
        let due_to = target.map_or(String::new(), |target| format!(" due to {}", target.message));
        let word = format!("EvictedDueToDeactivated{cause}");
        let write = admission::deactivate(key, view, given, around.settings.granular_reasons, around.now);
        return told(write, of, word, false, format!("The workload is deactivated{due_to}"));
    }
    if !view.active && view.requeue != RequeueState::default() {
        return write(admission::forget_requeue(key, view));
    }
    match given {
        None if view.active => waiting(of, around),
        Some(given) if !view.is(types::EVICTED) => holding(of, given, around, idle),
        _ => NOTHING,
    }
}

/// What is due for one that is over: that it goes, where an administrator wants that.
fn finished(of: Of<'_>, around: Surroundings<'_>) -> Fate {
    let finished = conditions::find(&of.view.conditions, types::FINISHED);
    match finished.zip(around.settings.keep_finished) {
        Some((finished, kept)) => {
            let goes = later(conditions::timestamp(&finished.last_transition_time), kept);
            if around.now < goes {
                Fate::Until(Some(goes))
            } else {
                write(admission::delete(of.key, of.view))
            }
        }
        None => NOTHING,
    }
}

/// What is due for one that waits: that it may queue again.
fn waiting(of: Of<'_>, around: Surroundings<'_>) -> Fate {
    let Of { key, view, workload } = of;
    let requeued =
        conditions::find(&view.conditions, types::REQUEUED).filter(|requeued| requeued.status == "False");
    if let Some(at) = view.requeue.requeue_at.as_ref().map(conditions::timestamp)
        && at > around.now
    {
        return Fate::Until(Some(at));
    }
    if view.is(types::ADMITTED) {
        // Somebody wrote it by hand: nobody may run without quota.
        return write(admission::take_back_leave(key, view, around.now));
    }
    let let_queue = |reason, message| write(admission::let_queue(key, view, (reason, message), around.now));
    match requeued.map(|requeued| requeued.reason.as_str()) {
        None if view.requeue.requeue_at.is_some() => write(admission::finish_pause(key, view, around.now)),
        Some(reason::evicted::PODS_READY_TIMEOUT | reason::evicted::ADMISSION_CHECK) => {
            write(admission::finish_back_off(key, view, around.now))
        }
        // Also if it says what was behind the deactivation.
        Some(word) if word.starts_with(reason::evicted::DEACTIVATED) => {
            let_queue(reason::requeued::REACTIVATED, "The workload was reactivated")
        }
        Some(reason::evicted::LOCAL_QUEUE_STOPPED) => {
            let local = around.state.local_queue(&workload.queue);
            match local.filter(|local| local.stop == Stop::No) {
                Some(_) => let_queue(
                    reason::requeued::LOCAL_QUEUE_RESTARTED,
                    "The LocalQueue was restarted after being stopped",
                ),
                None => NOTHING,
            }
        }
        Some(reason::evicted::CLUSTER_QUEUE_STOPPED) => {
            let local = around.state.local_queue(&workload.queue);
            let queue = local.and_then(|local| around.state.queue(&local.cluster_queue));
            match queue.filter(|queue| queue.stop == Stop::No) {
                Some(_) => let_queue(
                    reason::requeued::CLUSTER_QUEUE_RESTARTED,
                    "The ClusterQueue was restarted after being stopped",
                ),
                None => NOTHING,
            }
        }
        _ => NOTHING,
    }
}

/// What is due for one that holds quota and was not told to stop.
fn holding(of: Of<'_>, given: &Admission, around: Surroundings<'_>, idle: bool) -> Fate {
    let queue = around.state.queue(&given.cluster_queue);
    let admitted = conditions::find(&of.view.conditions, types::ADMITTED)
        .filter(|admitted| admitted.status == "True")
        .map(|admitted| conditions::timestamp(&admitted.last_transition_time));
    if let Some(fate) = queue.and_then(|queue| checks(of, given, queue, admitted.is_some(), around)) {
        return fate;
    }
    let Some(admitted) = admitted else {
        return match around.state.obstacle(of.key) {
            Some(obstacle) if idle && is_closed(of, queue, around) => write(admission::release(
                of.key,
                of.view,
                Some(obstacle),
                None,
                around.settings.granular_reasons,
                around.now,
            )),
            _ => NOTHING,
        };
    };
    let evict = |reason, message| {
        let eviction = Eviction { reason, message, ..Eviction::default() };
        evict(of, given, &eviction, around.now)
    };
    let local = around.state.local_queue(&of.workload.queue);
    if local.is_some_and(|local| local.stop == Stop::HoldAndDrain) {
        return evict(reason::evicted::LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped");
    }
    if queue.is_some_and(|queue| queue.stop == Stop::HoldAndDrain) {
        return evict(reason::evicted::CLUSTER_QUEUE_STOPPED, "The ClusterQueue is stopped");
    }
    let pods = match &around.settings.pods_ready {
        Some(settings) => pods_ready(of, given, settings, admitted, around.now),
        None => NOTHING,
    };
    match (pods, execution_time(of, given, admitted, around.now)) {
        (write @ Fate::Write(..), _) | (_, write @ Fate::Write(..)) => write,
        (Fate::Until(a), Fate::Until(b)) => Fate::Until(a.into_iter().chain(b).min()),
    }
}

/// Whether quota that nobody uses yet has to be given back, because the way to it was closed since.
fn is_closed(of: Of<'_>, queue: Option<&ClusterQueue>, around: Surroundings<'_>) -> bool {
    let local = around.state.local_queue(&of.workload.queue);
    local.is_none_or(|local| local.stop != Stop::No)
        || queue.is_none_or(|queue| queue.stop != Stop::No || queue.terminating)
}

/// What the admission checks demand.
fn checks(
    of: Of<'_>,
    given: &Admission,
    queue: &ClusterQueue,
    admitted: bool,
    around: Surroundings<'_>,
) -> Option<Fate> {
    let Of { key, view, workload } = of;
    let now = around.now;
    let mut demanded: BTreeSet<CheckName> = queue.checks_of(given).into_iter().cloned().collect();
    if mig::is_demanded(workload, view, given, around.layouts) {
        demanded.insert(mig::CHECK.into());
    }
    if demanded.is_empty() && view.checks.is_empty() {
        // As nearly always.
        return (!admitted).then(|| write(admission::let_run(key, view, given, now)));
    }
    let mut known: Vec<&str> = view.checks.iter().map(|check| check.name.as_str()).collect();
    known.sort_unstable();
    if !demanded.iter().map(CheckName::as_str).eq(known) {
        return Some(write(admission::sync_checks(key, view, &demanded, now)));
    }
    let with = |state| view.checks.iter().filter(move |check| check.state == state);
    if let Some(message) = in_state(with(CheckState::Rejected), CheckState::Rejected) {
        let mark = (reason::evicted::ADMISSION_CHECK, message.as_str());
        let marked = admission::mark_for_deactivation(key, mark, view, given, now);
        let message = format!("Deactivated due to {message}");
        return Some(told(marked, of, "AdmissionCheckRejected", true, message));
    }
    if let Some(message) = in_state(with(CheckState::Retry), CheckState::Retry) {
        let message = format!("Evicted due to {message}");
        let at = with(CheckState::Retry).filter_map(retry_at).max().filter(|at| *at > now);
        let eviction = Eviction {
            reason: reason::evicted::ADMISSION_CHECK,
            message: &message,
            requeue: at.map(|at| put_off(&view.requeue, at)),
            ..Eviction::default()
        };
        return Some(evict(of, given, &eviction, now));
    }
    let all_ready = view.checks.iter().all(|check| check.state == CheckState::Ready);
    (!admitted && all_ready).then(|| {
        let since = conditions::find(&view.conditions, types::QUOTA_RESERVED)
            .map_or(now, |reserved| conditions::timestamp(&reserved.last_transition_time));
        let message = format!(
            "Admitted by ClusterQueue {}, wait time since reservation was {}s",
            given.cluster_queue,
            now.0.saturating_sub(since.0).max(0) / 1000
        );
        told(admission::let_run(key, view, given, now), of, "Admitted", false, message)
    })
}

/// Kueue's words for checks that are all in this state, if there are any.
fn in_state<'a>(checks: impl Iterator<Item = &'a AdmissionCheckState>, state: CheckState) -> Option<String> {
    let mut parts: Vec<String> = checks
        .map(|check| match check.message.as_str() {
            "" => format!("{:?}", check.name),
            message => format!("{:?} ({message})", check.name),
        })
        .collect();
    parts.sort();
    let noun = match parts.len() {
        0 => return None,
        1 => "AdmissionCheck",
        _ => "AdmissionChecks",
    };
    Some(format!("{noun} in {state:?} state: {}", parts.join("; ")))
}

/// When a check lets a workload try again.
fn retry_at(check: &AdmissionCheckState) -> Option<Timestamp> {
    let seconds = check.requeue_after_seconds?;
    Some(later(
        conditions::timestamp(&check.last_transition_time),
        Duration::from_secs(seconds.try_into().ok()?),
    ))
}

/// What comes of pods that are not ready.
fn pods_ready(
    of: Of<'_>,
    given: &Admission,
    settings: &PodsReady,
    admitted: Timestamp,
    now: Timestamp,
) -> Fate {
    let condition = conditions::find(&of.view.conditions, types::PODS_READY);
    let (cause, since, timeout) = match condition {
        Some(Condition { status, .. }) if status == "True" => return NOTHING,
        Some(lost) if lost.reason == reason::pods_ready::WAIT_FOR_RECOVERY => {
            let Some(timeout) = settings.recovery_timeout else { return NOTHING };
            (
                reason::pods_ready::WAIT_FOR_RECOVERY,
                conditions::timestamp(&lost.last_transition_time),
                timeout,
            )
        }
        _ => (reason::pods_ready::WAIT_FOR_START, admitted, settings.timeout),
    };
    let end = later(since, timeout);
    if end > now {
        return Fate::Until(Some(end));
    }
    let count = of.view.requeue.count.unwrap_or_default().max(0).saturating_add(1);
    let limit = settings.requeuing.backoff_limit_count;
    if limit.is_some_and(|limit| i64::from(count) > i64::from(limit)) {
        let mark =
            (reason::evicted::REQUEUING_LIMIT_EXCEEDED, "exceeding the maximum number of re-queuing retries");
        return write(admission::mark_for_deactivation(of.key, mark, of.view, given, now));
    }
    let at = later(now, back_off(&settings.requeuing, count, &of.view.uid));
    let message = format!("Exceeded the PodsReady timeout {}", of.key);
    let eviction = Eviction {
        reason: reason::evicted::PODS_READY_TIMEOUT,
        cause,
        message: &message,
        requeue: Some(RequeueState { count: Some(count), ..put_off(&of.view.requeue, at) }),
    };
    evict(of, given, &eviction, now)
}

/// What is to be said of a workload's pods while its job runs, if that is another thing than what is said.
pub fn news_of_pods(view: &WorkloadView, ready: bool) -> Option<(bool, &'static str, &'static str)> {
    let said = conditions::find(&view.conditions, types::PODS_READY);
    let recovers = |said: &Condition| {
        [reason::pods_ready::WAIT_FOR_RECOVERY, reason::pods_ready::RECOVERED].contains(&&*said.reason)
    };
    match said {
        Some(said) if (said.status == "True") == ready => None,
        // That they are waited for is said with the admission.
        None if !ready => None,
        _ if !ready => Some((
            false,
            reason::pods_ready::WAIT_FOR_RECOVERY,
            "At least one pod has failed, waiting for recovery",
        )),
        said => {
            let recovered = said.is_some_and(recovers);
            let reason = if recovered { reason::pods_ready::RECOVERED } else { reason::pods_ready::STARTED };
            Some((true, reason, "All pods reached readiness and the workload is running"))
        }
    }
}

/// The `count`th pause: twice as long as the one before, and no longer than the longest. A ten-thousandth of it is
/// scattered by the uid, so that those who stopped together do not all come back at once.
fn back_off(of: &Requeuing, count: i32, uid: &str) -> Duration {
    let doublings = u32::try_from(count.saturating_sub(1)).unwrap_or_default();
    let pause = 2_u32.checked_pow(doublings).and_then(|times| of.backoff_base.checked_mul(times));
    let pause = pause.unwrap_or(of.backoff_max).min(of.backoff_max);
    let mut hash = DefaultHasher::new();
    (uid, count).hash(&mut hash);
    let thousandths = u32::try_from(hash.finish() % 1000).unwrap_or_default();
    (pause + pause * thousandths / 10_000_000).min(of.backoff_max)
}

/// The state in which a workload comes back no sooner than at a moment.
fn put_off(known: &RequeueState, at: Timestamp) -> RequeueState {
    let known_at = known.requeue_at.as_ref().map(conditions::timestamp);
    let at = conditions::time(known_at.map_or(at, |known| known.max(at)));
    RequeueState { requeue_at: Some(at), ..known.clone() }
}

/// What comes of the longest time that a workload may run.
fn execution_time(of: Of<'_>, given: &Admission, admitted: Timestamp, now: Timestamp) -> Fate {
    let Some(most) = of.view.max_seconds else { return NOTHING };
    let left = most.saturating_sub(of.view.past_seconds.unwrap_or_default()).max(0);
    let end = later(admitted, Duration::from_secs(left.try_into().unwrap_or_default()));
    if end > now {
        return Fate::Until(Some(end));
    }
    let exceeded = reason::evicted::MAXIMUM_EXECUTION_TIME_EXCEEDED;
    let mark = (exceeded, "exceeding the maximum execution time");
    let marked = admission::mark_for_deactivation(of.key, mark, of.view, given, now);
    told(marked, of, exceeded, true, format!("The maximum execution time ({most}s) exceeded"))
}

/// The order to stop, and the word about it.
pub fn evict(of: Of<'_>, given: &Admission, eviction: &Eviction<'_>, now: Timestamp) -> Fate {
    let write = admission::evict(of.key, eviction, of.view, given, now);
    told(write, of, format!("EvictedDueTo{}", eviction.reason), false, eviction.message.to_owned())
}

fn write(write: Write) -> Fate {
    Fate::Write(Box::new(write), None)
}

fn told(
    write: Write,
    of: Of<'_>,
    reason: impl Into<Cow<'static, str>>,
    warning: bool,
    message: String,
) -> Fate {
    let about = workload_target(&of.key.namespace, &of.key.name);
    let note = Note { about, uid: of.view.uid.clone(), warning, reason: reason.into(), message };
    Fate::Write(Box::new(write), Some(note))
}

/// The moment so much later.
pub(super) fn later(than: Timestamp, by: Duration) -> Timestamp {
    Timestamp(than.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
