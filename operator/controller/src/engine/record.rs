//! What is put on record: decisions that were carried out, those that were refused, and what they were made from.

use whalezen_core::{
    name::{ClusterQueueName, WorkloadKey},
    plan::{Plan, Policy},
    state::{Snapshot, State},
    workload::Timestamp,
};
use whalezen_crds::kueue::constants::reason::evicted;
use whalezen_decisions::line::{Decision, Refused, amounts, given};
use whalezen_dialects::kueue::milestones::{Milestone, What};

use super::now;
use crate::{applier::Task, log::DecisionLog};

/// The decision log, if one is kept.
pub(super) struct Record(pub(super) Option<DecisionLog>);

/// What decisions are made from.
impl Record {
    /// Has the journal go on from a settled state, where it needs to: to be called before anything is planned.
    pub(super) fn keep_up(&mut self, state: &mut State, now: Timestamp, policy: &Policy) {
        let Some(DecisionLog { journal, .. }) = &mut self.0 else { return };
        if journal.needs_snapshot() {
            journal.write(state.take_steps());
            journal.begin(Snapshot::of(state, now, policy));
            state.start_recording();
        }
    }

    /// Puts what happened in the journal.
    pub(super) fn take_steps(&mut self, state: &mut State) {
        if let Some(log) = &mut self.0 {
            log.journal.write(state.take_steps());
        }
    }

    /// Nothing is planned any more.
    pub(super) fn end(&mut self, state: &mut State) {
        if let Some(log) = &mut self.0 {
            log.journal.write(state.take_steps());
            log.journal.end();
            state.stop_recording();
        }
    }
}

/// Decisions.
impl Record {
    /// Writes what is found, if a log is kept: without one nothing is looked up.
    pub(super) fn write(&mut self, at: Timestamp, decision: impl FnOnce() -> Option<Decision>) {
        if let Some(log) = &mut self.0
            && let Some(decision) = decision()
        {
            log.write(at, decision);
        }
    }

    /// A plan keeps quota for somebody. Said once, and again when that is another one or another amount.
    pub(super) fn held(&mut self, plan: &Plan, state: &State, now: Timestamp) {
        for hold in &plan.hold {
            let kept = state.reservation(&hold.queue);
            if kept.is_some_and(|kept| kept.workload == hold.order.key && kept.usage == hold.usage) {
                continue;
            }
            self.write(now, || {
                Some(Decision::Held {
                    workload: hold.order.key.clone(),
                    cluster_queue: hold.queue.clone(),
                    kept: amounts(&hold.usage),
                })
            });
        }
    }

    /// A task was carried out. To be called before the state is told.
    pub(super) fn carried_out(&mut self, task: &Task, state: &State) {
        if let Task::Admit(key) = task {
            self.write(now(), || admitted(state, key));
        }
    }

    /// The API server refused a task for good.
    pub(super) fn refused(&mut self, task: &Task, problem: &str) {
        let (object, what) = match task {
            Task::Admit(key) => (key.clone(), Refused::Admission),
            Task::Evict(key) => (key.clone(), Refused::Preemption),
            Task::Orphan(key) => (key.clone(), Refused::Step),
            Task::Job(job) => (WorkloadKey::new(job.namespace.clone(), job.name.clone()), Refused::Step),
            _ => return,
        };
        self.write(now(), || Some(Decision::Refused { object, what, problem: problem.to_owned() }));
    }

    /// Something happened to a Workload. Preemptions are on record with more than its conditions say.
    pub(super) fn happened(&mut self, milestone: &Milestone, state: &State) {
        self.write(now(), || {
            let (workload, cluster_queue) = (milestone.workload.clone(), milestone.cluster_queue.clone());
            match &milestone.what {
                What::Evicted { reason, cause, .. } => {
                    ended(workload, cluster_queue, reason.clone(), cause.clone())
                }
                What::Released { reason, .. } => {
                    let waits = state.workload(&workload).is_some_and(|workload| workload.active);
                    waits.then(|| Decision::Requeued { workload, cluster_queue, reason: reason.clone() })
                }
                What::Reserved { .. }
                | What::Admitted { .. }
                | What::Ready { .. }
                | What::Finished { .. } => None,
            }
        });
    }
}

fn ended(
    workload: WorkloadKey,
    cluster_queue: ClusterQueueName,
    reason: String,
    cause: String,
) -> Option<Decision> {
    match reason.as_str() {
        evicted::PREEMPTED => None,
        evicted::DEACTIVATED => Some(Decision::Deactivated { workload, cluster_queue, cause }),
        _ => Some(Decision::Evicted { workload, cluster_queue, reason, cause }),
    }
}

fn admitted(state: &State, key: &WorkloadKey) -> Option<Decision> {
    let admission = state.admission(key)?;
    Some(Decision::Admitted {
        workload: key.clone(),
        cluster_queue: admission.cluster_queue.clone(),
        pod_sets: given(admission),
    })
}
