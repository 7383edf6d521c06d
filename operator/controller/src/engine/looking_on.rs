//! Observe mode: the queues are another scheduler's, and what it does is held against what would have been planned.
//!
//! Nothing is written: a replica that looks on never leads. A plan is believed to happen, as if it had been sent; then
//! the other's own writes come in. What it writes to Workloads is taken in a moment late, so that declarations it may
//! have decided on are known before, and before each of its decisions there is a plan with all that was known until then.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;
use whalezen_core::{
    name::WorkloadKey,
    plan::{Plan, plan},
    workload::{Phase, Timestamp},
};
use whalezen_crds::kueue::constants::{condition as types, reason::evicted};
use whalezen_decisions::{
    line::{Decision, given},
    observe::{Act, Comparison, Kind as Done, Ledger, Outcome, Summary},
};
use whalezen_dialects::kueue::milestones::{Milestone, What};

use super::{Engine, now};
use crate::{
    intake::take_in,
    watch::{Kind, Object, Seen},
};

/// How late a Workload's events are taken in.
const LATE: Duration = Duration::from_secs(1);

/// What a replica that looks on knows beside the state.
pub struct Observer {
    ledger: Ledger,
    /// Events about Workloads, and when each is taken in.
    late: VecDeque<(Instant, Seen)>,
}

impl Observer {
    /// One that waits so long for what was planned.
    pub fn new(patience: Duration) -> Self {
        let patience = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
        Self { ledger: Ledger::new(patience), late: VecDeque::new() }
    }

    /// How it stands.
    pub(super) fn summary(&self) -> Summary {
        self.ledger.summary()
    }

    /// Keeps an event back, if it is about a Workload.
    pub(super) fn hold(&mut self, event: Seen) -> Option<Seen> {
        let of_workload = match &event {
            Seen::Object(Object::Workload(_)) => true,
            Seen::Object(_) => false,
            Seen::Gone { kind, .. } | Seen::Unreadable { kind, .. } | Seen::Synced { kind, .. } => {
                *kind == Kind::Workload
            }
        };
        if of_workload {
            self.late.push_back((Instant::now() + LATE, event));
            return None;
        }
        Some(event)
    }

    fn next(&mut self) -> Option<Seen> {
        self.late.pop_front_if(|(due, _)| *due <= Instant::now()).map(|(_, event)| event)
    }
}

impl Engine {
    /// One turn of a replica that looks on.
    pub(super) fn look_on(&mut self, ticked: bool) {
        while let Some(event) = self.observer.as_mut().and_then(Observer::next) {
            let decides = is_decision(&event);
            if decides {
                self.plan_only(now());
            }
            if let Seen::Gone { namespace, name, .. } = &event
                && let Some(observer) = &mut self.observer
            {
                observer.ledger.forget(&WorkloadKey::new(&**namespace, &**name));
            }
            self.synced(&event);
            take_in(&mut self.objects, &mut self.policies, event);
            let happened = self.objects.take_milestones();
            if self.unsynced.is_empty() {
                for milestone in happened {
                    self.judge(&milestone);
                }
            }
        }
        let now = now();
        self.plan_only(now);
        // They are for who writes.
        self.objects.take_due();
        self.objects.state.take_changed();
        if ticked {
            self.brake_only(now);
            self.wait_no_longer(now);
        }
    }

    /// Plans, believes it, and notes what is to be seen.
    fn plan_only(&mut self, now: Timestamp) {
        if !self.unsynced.is_empty() {
            return;
        }
        self.objects.state.settle();
        self.record.keep_up(&mut self.objects.state, now, &self.policy);
        while self.objects.state.awake_lines().next().is_some() {
            let plan = plan(&self.objects.state, now, &self.policy);
            self.objects.state.follow(&plan, now, &self.policy);
            self.expect(&plan, now);
            if !plan.more {
                return;
            }
            self.objects.state.settle();
        }
    }

    fn expect(&mut self, plan: &Plan, now: Timestamp) {
        let Some(Observer { ledger, .. }) = &mut self.observer else { return };
        for admit in &plan.admit {
            if self.objects.state.assume(admit) {
                let (cluster_queue, pod_sets) =
                    (admit.admission.cluster_queue.clone(), given(&admit.admission));
                ledger.planned(&admit.workload, Act::Admission { cluster_queue, pod_sets }, now);
            }
        }
        for evict in &plan.evict {
            let (ground, preemptor) = (Some(evict.ground), Some(evict.preemptor.clone()));
            ledger.planned(&evict.workload, Act::Preemption { ground, preemptor }, now);
        }
    }

    /// The other scheduler did something.
    fn judge(&mut self, milestone: &Milestone) {
        let key = &milestone.workload;
        let act = match &milestone.what {
            What::Reserved { .. } => {
                self.objects.state.workload(key).and_then(|workload| workload.admission()).map(|admission| {
                    let cluster_queue = admission.cluster_queue.clone();
                    Act::Admission { cluster_queue, pod_sets: given(admission) }
                })
            }
            What::Evicted { reason, .. } if reason == evicted::PREEMPTED => {
                Some(Act::Preemption { ground: self.objects.ground_of_preemption(key), preemptor: None })
            }
            _ => None,
        };
        if let (Some(act), Some(observer)) = (act, &mut self.observer) {
            let comparison = observer.ledger.seen(key, act, now());
            self.compared(comparison);
        }
    }

    /// Gives up what was waited for long enough: the state goes on without it, as the other scheduler does.
    fn wait_no_longer(&mut self, now: Timestamp) {
        let Some(Observer { ledger, .. }) = &mut self.observer else { return };
        let state = &self.objects.state;
        let mut over = ledger.keep(now, |key, kind| match kind {
            Done::Admission => {
                let waits = state.workload(key).is_some_and(|workload| workload.phase == Phase::Pending);
                waits && state.admission(key).is_some()
            }
            Done::Preemption => state.eviction(key).is_some(),
        });
        over.extend(ledger.due(now));
        for comparison in over {
            if comparison.outcome == Outcome::NotFollowed {
                let problem =
                    "it was planned, and the scheduler that runs these queues did not do it".to_owned();
                match &comparison.planned {
                    Some(Act::Admission { .. }) => self.objects.state.refuse(&comparison.workload, problem),
                    Some(Act::Preemption { preemptor, .. }) => {
                        self.objects.state.spare(&comparison.workload);
                        if let Some(preemptor) = preemptor {
                            self.objects.state.refuse(preemptor, problem);
                        }
                    }
                    None => {}
                }
            }
            self.compared(comparison);
        }
    }

    fn compared(&mut self, comparison: Comparison) {
        self.metrics.compared(comparison.kind, comparison.outcome);
        let Comparison { at, workload, outcome, planned, seen, .. } = comparison;
        if outcome.is_difference() {
            tracing::info!(%workload, ?outcome, ?planned, ?seen, "the plan was another");
        }
        self.record.write(at, || Some(Decision::Compared { workload, outcome, planned, seen }));
    }
}

/// Whether an event may show what the other scheduler decided.
fn is_decision(event: &Seen) -> bool {
    let Seen::Object(Object::Workload(workload)) = event else { return false };
    let conditions = workload.status.iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| condition.status == "True")
        .any(|condition| [types::QUOTA_RESERVED, types::EVICTED].contains(&condition.type_.as_str()))
}
