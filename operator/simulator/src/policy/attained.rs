//! Two-dimensional least attained service, discretised (Tiresias, NSDI'19): sizes are not known.

use super::{Policy, remaining::fill};
use crate::engine::{Active, Cluster, Decision, HOUR};

/// Jobs stand in queues by the GPU-time that they got so far, those with less first; in a queue who came first goes
/// first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TwoDimensionalLas {
    /// Up to how much GPU-time each queue but the last reaches, in GPU-milliseconds, ascending.
    pub until: Vec<i64>,
}

impl Default for TwoDimensionalLas {
    /// Three queues: up to one GPU-hour, up to ten, and the rest.
    fn default() -> Self {
        Self { until: vec![HOUR, 10 * HOUR] }
    }
}

impl TwoDimensionalLas {
    /// The queue of a job that got so much.
    fn queue(&self, attained: i64) -> usize {
        self.until.iter().filter(|&&until| attained >= until).count()
    }
}

impl Policy for TwoDimensionalLas {
    fn name(&self) -> &'static str {
        "2D-LAS"
    }

    fn decide(&mut self, cluster: &Cluster<'_>, decision: &mut Decision) {
        let now = cluster.now;
        let queue = |active: &Active<'_>| self.queue(active.attained(now));
        let mut jobs: Vec<_> =
            cluster.active.values().map(|active| (queue(active), active.index, active.job.gpus)).collect();
        jobs.sort_unstable();
        fill(cluster.pool.gpus, jobs.into_iter().map(|(_, index, gpus)| (index, gpus)), decision);
        // When the first of those that run falls into the next queue.
        let falls = |index| {
            let active: &Active<'_> = cluster.active.get(index)?;
            let attained = active.attained(now);
            let until = self.until.iter().find(|&&until| attained < until)?;
            let gpus = active.job.gpus;
            let restore = if active.is_resuming() { cluster.pool.costs.restore } else { 0 };
            Some(now + restore + (until - attained + gpus - 1) / gpus)
        };
        decision.wake = decision.run.iter().filter_map(|(index, _)| falls(index)).min();
    }
}
