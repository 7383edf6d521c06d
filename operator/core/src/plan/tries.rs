//! How often the head of a queue is tried in one plan.
//!
//! A head that is refused and has flavors left keeps its turn: in the next cycle it goes on behind those that it chose,
//! and so does one that lost them to another. So mixes of flavors are found of which the first choice is no part. Before
//! its class is parked it begins anew once: others may have changed what the first flavors are worth. Nothing of this
//! outlives the plan, for a state is what its facts make it.

use super::entry::Decision;
use crate::{
    assign::Progress,
    pending::Order,
    queue::ClusterQueue,
    verdict::{Refusal, Until},
    workload::Workload,
};

/// The tries of one head.
#[derive(Default)]
pub(super) struct Tries<'a> {
    whose: Option<&'a Order>,
    /// What the next one goes on behind.
    behind: Progress,
    refused: usize,
    /// What could change any of the refusals.
    until: Option<Until>,
}

impl<'a> Tries<'a> {
    /// What the next try of this head goes on behind.
    pub(super) fn behind(&mut self, head: &'a Order) -> Progress {
        if self.whose != Some(head) {
            *self = Self { whose: Some(head), ..Self::default() };
        }
        self.behind.clone()
    }

    /// Whether this head was tried, and its next try is not its first over again.
    pub(super) fn are_midway(&self, head: &Order) -> bool {
        self.whose == Some(head) && (self.refused > 0 || !self.behind.is_over())
    }

    /// A try came to this.
    pub(super) fn note(&mut self, decision: &Decision<'_>) {
        self.behind = decision.progress().clone();
        if let Some(Refusal { until, .. }) = decision.refusal() {
            self.refused += 1;
            self.until = Some(self.until.as_ref().map_or_else(|| until.clone(), |before| before.or(until)));
        }
    }

    /// Whether a head that was refused is tried again: if it has flavors left, and was not refused as often as it has
    /// pod sets and its queue flavors.
    pub(super) fn go_on(&self, workload: &Workload, queue: &ClusterQueue) -> bool {
        let pod_sets = workload.pod_sets.as_deref().unwrap_or_default().len();
        !self.behind.is_over() && self.refused < pod_sets * queue.flavors().count()
    }

    /// The last refusal, which any of those before it may end.
    pub(super) fn refusal(&self, last: &Refusal) -> Refusal {
        Refusal { until: self.until.clone().unwrap_or_else(|| last.until.clone()), ..last.clone() }
    }
}
