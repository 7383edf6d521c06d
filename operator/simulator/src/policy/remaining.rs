//! With preemption, whoever has the least left: SRTF by time, SRSF by GPU-time (Tiresias calls it so; sizes are known).

use super::Policy;
use crate::engine::{Cluster, Decision};

/// What is to be least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// The time that is left.
    Time,
    /// The GPUs times the time that is left.
    Service,
}

/// Runs whoever has the least left and fits, at every moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remaining(pub Measure);

impl Policy for Remaining {
    fn name(&self) -> &'static str {
        match self.0 {
            Measure::Time => "SRTF",
            Measure::Service => "SRSF",
        }
    }

    fn decide(&mut self, cluster: &Cluster<'_>, decision: &mut Decision) {
        let left = cluster.active.values().map(|active| {
            let left = match self.0 {
                Measure::Time => active.time_left(cluster.now),
                Measure::Service => active.work_left(cluster.now),
            };
            (left, active.index, active.job.gpus)
        });
        let mut left: Vec<_> = left.collect();
        left.sort_unstable();
        fill(cluster.pool.gpus, left.into_iter().map(|(_, index, gpus)| (index, gpus)), decision);
    }
}

/// Goes through jobs in order and runs whoever still fits.
pub(super) fn fill(
    gpus: i64,
    jobs: impl Iterator<Item = (crate::engine::JobIndex, i64)>,
    decision: &mut Decision,
) {
    let mut free = gpus;
    for (index, width) in jobs {
        if width <= free {
            free -= width;
            decision.run.push((index, width));
        }
    }
}
