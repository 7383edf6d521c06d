//! What the conditions of waiting workloads should say.

use super::{Event, State, places::Place};
use crate::{
    assign::{Offer, Progress},
    name::{ClusterQueueName, WorkloadKey},
    overlay::Overlay,
    plan::Policy,
    preempt::{Earlier, Search},
    verdict::{Reason, Refusal, Told, Until, Verdict},
};

/// Something that a workload's condition should say and does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The workload.
    pub workload: WorkloadKey,
    /// What to say.
    pub verdict: Verdict,
}

impl State {
    /// Why a workload waits, if it waits and somebody has looked at it; with the numbers of now.
    pub fn verdict(&self, key: &WorkloadKey) -> Option<Verdict> {
        let (queue, class, order) = match &self.standings.get(key)?.place {
            Place::Blocked { verdict, .. } => return Some(verdict.clone()),
            Place::Queued { queue, class, order } => (queue, class, order),
            Place::Holding { .. } | Place::Out => return None,
        };
        let pending = self.pending.get(queue)?;
        let Refusal { verdict, until, behind } = pending.refusal(class)?;
        if let Some(head) = pending.stands_behind(class, order) {
            let message = format!(
                "waits behind {}, the first in line in ClusterQueue {queue}, which is StrictFIFO",
                head.key
            );
            return Some(Verdict::new(Reason::PendingEvaluation, message));
        }
        // What the brakes hold back is no matter of numbers.
        let braked = until.includes(&Until::Released);
        let now = if braked { None } else { self.refusal_now(key, queue, behind) };
        Some(now.filter(|now| now.reason == verdict.reason).unwrap_or_else(|| verdict.clone()))
    }

    /// What a workload would be told if it were looked at now behind the same flavors, with the numbers of now.
    fn refusal_now(&self, key: &WorkloadKey, queue: &ClusterQueueName, behind: &Progress) -> Option<Verdict> {
        let policy = Policy::default();
        let search = Search {
            state: self,
            policy: &policy,
            workload: self.workload(key)?,
            queue: self.queue(queue)?,
            leaf: self.forest.leaf(queue)?,
            counts_owners: false,
            earlier: Earlier::NOBODY,
        };
        let offer = Offer { search, planned: &[], behind };
        let refusal = match offer.assign(self.pod_sets(key)?, &mut Overlay::new(self)) {
            Ok(assignment) => assignment.refusal?,
            Err(refused) => refused.refusal,
        };
        Some(refusal.verdict)
    }

    /// Why a workload would not be queued, if it held nothing.
    pub fn obstacle(&self, key: &WorkloadKey) -> Option<Verdict> {
        match self.line(self.workload(key)?) {
            Err(Place::Blocked { verdict, .. }) => Some(verdict),
            _ => None,
        }
    }

    /// What is to be told by [`verdict`](Self::verdict).
    fn to_tell(&self, place: &Place) -> Option<Told> {
        match place {
            Place::Blocked { verdict, .. } => Some(verdict.told()),
            Place::Queued { queue, class, order } => {
                let pending = self.pending.get(queue)?;
                let verdict = &pending.refusal(class)?.verdict;
                let behind = pending.stands_behind(class, order);
                Some(
                    behind.map_or_else(
                        || verdict.told(),
                        |_| Verdict::new(Reason::PendingEvaluation, "").told(),
                    ),
                )
            }
            Place::Holding { .. } | Place::Out => None,
        }
    }

    /// Up to `limit` conditions that should be written. Each is handed out once, unless
    /// [`report_again`](Self::report_again) is called for it or the workload changes.
    pub fn take_reports(&mut self, limit: usize) -> Vec<Report> {
        let mut reports = Vec::new();
        let mut done = Vec::new();
        for key in &self.unreported {
            if reports.len() == limit {
                break;
            }
            let place = self.standings.get(key).map(|standing| &standing.place);
            let to_tell = place.and_then(|place| self.to_tell(place));
            if to_tell.is_none() && matches!(place, Some(Place::Queued { .. })) {
                // Nobody has looked at it yet.
                continue;
            }
            done.push(key.clone());
            let known = self.workload(key).and_then(|workload| workload.reported);
            if to_tell != known
                && let Some(verdict) = self.verdict(key)
            {
                reports.push(Report { workload: key.clone(), verdict });
            }
        }
        for key in done {
            self.unreported.remove(&key);
        }
        for report in &reports {
            self.tell(Event::Reported(report.workload.clone(), report.verdict.told()));
        }
        reports
    }

    pub(super) fn note_told(&mut self, key: &WorkloadKey, told: Told) {
        if let Some(workload) = self.facts.workloads.get_mut(key) {
            workload.reported = Some(told);
        }
    }

    pub(super) fn note_untold(&mut self, key: &WorkloadKey) {
        if let Some(workload) = self.facts.workloads.get_mut(key) {
            workload.reported = None;
            self.unreported.insert(key.clone());
        }
    }
}
