//! EASY and conservative backfilling, by [`whalezen_core::backfill`]. Estimates are exact here, as in the reference
//! answers.

use whalezen_core::{
    backfill::{Asks, Held, Promises, easy},
    workload::Timestamp,
};

use super::{Policy, keep_running};
use crate::engine::{Active, Cluster, Decision, JobIndex, Millis, Phase};

/// First come, first served; others go before the head of the queue if that does not delay it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Easy;

impl Policy for Easy {
    fn name(&self) -> &'static str {
        "EASY"
    }

    fn decide(&mut self, cluster: &Cluster<'_>, decision: &mut Decision) {
        let free = keep_running(cluster, decision);
        let now = cluster.now;
        let until = |active: &Active<'_>| Timestamp(now + active.time_left(now));
        let held: Vec<_> = cluster
            .active
            .values()
            .filter(|active| active.is_on())
            .map(|active| Held { width: active.held, until: until(active) })
            .collect();
        let waiting: Vec<_> =
            cluster.active.values().filter(|active| active.phase == Phase::Waiting).collect();
        let asks: Vec<_> =
            waiting.iter().map(|active| Asks { width: active.job.gpus, run: active.job.run }).collect();
        let starts = easy(Timestamp(now), free, &held, &asks).start;
        decision.run.extend(
            starts
                .iter()
                .filter_map(|&place| waiting.get(place))
                .map(|active| (active.index, active.job.gpus)),
        );
    }
}

/// Everybody is promised a moment on arrival, and nobody is put off for anybody.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conservative {
    promises: Promises<JobIndex>,
}

impl Conservative {
    /// On so many GPUs.
    pub fn new(gpus: i64) -> Self {
        Self { promises: Promises::new(gpus) }
    }
}

impl Policy for Conservative {
    fn name(&self) -> &'static str {
        "conservative"
    }

    fn arrived(&mut self, job: &Active<'_>, now: Millis) {
        self.promises.ask(Timestamp(now), job.index, job.job.gpus, job.job.run);
    }

    fn finished(&mut self, job: &Active<'_>, now: Millis) {
        self.promises.end(Timestamp(now), job.index);
    }

    fn decide(&mut self, cluster: &Cluster<'_>, decision: &mut Decision) {
        keep_running(cluster, decision);
        let due = self.promises.start_due(Timestamp(cluster.now));
        let width = |index: &JobIndex| cluster.active.get(index).map(|active| (*index, active.job.gpus));
        decision.run.extend(due.iter().filter_map(width));
        decision.wake = self.promises.next().map(|next| next.0);
    }
}
