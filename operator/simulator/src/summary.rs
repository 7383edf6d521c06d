//! What a run comes to in a few numbers.

use serde::Serialize;

use crate::{
    engine::{Finished, Outcome},
    figures::{count, float, in_hours, mean, quantile},
};

/// The numbers of one run. Times are in hours.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The policy.
    pub policy: String,
    /// Jobs that were played; all of them ended.
    pub jobs: usize,
    /// GPUs of the cluster.
    pub gpus: i64,
    /// From submission to end, the mean.
    pub mean_jct_h: f64,
    /// The median of the same.
    pub median_jct_h: f64,
    /// The 95th percentile of the same.
    pub p95_jct_h: f64,
    /// The 99th percentile of the same.
    pub p99_jct_h: f64,
    /// From submission to the first start, the mean.
    pub mean_wait_h: f64,
    /// The longest of the same.
    pub max_wait_h: f64,
    /// From the first submission to the last end.
    pub makespan_h: f64,
    /// The part of all GPU-time until the last end in which jobs made progress.
    pub utilisation: f64,
    /// The part in which GPUs were idle though jobs waited: what was free was too little for them, or kept.
    pub idle_while_waiting: f64,
    /// How often jobs were stopped.
    pub stops: u64,
    /// Events that were dealt with.
    pub events: u64,
}

impl Summary {
    /// Of a run under a policy.
    pub fn of(policy: &str, outcome: &Outcome) -> Self {
        let hours = |of: fn(&Finished) -> i64| {
            let mut all: Vec<f64> = outcome.finished.iter().map(|job| in_hours(of(job))).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (completion, wait) = (hours(Finished::completion), hours(Finished::wait));
        let all = float(outcome.gpus) * float(outcome.makespan().max(1));
        let levels = outcome.levels.iter().zip(outcome.levels.iter().skip(1));
        let idle: f64 = levels
            .filter(|(level, _)| level.waiting > 0)
            .map(|(level, next)| float(outcome.gpus - level.held) * float(next.at - level.at))
            .sum();
        Self {
            policy: policy.to_owned(),
            jobs: outcome.finished.len(),
            gpus: outcome.gpus,
            mean_jct_h: mean(completion.iter().copied()),
            median_jct_h: quantile(&completion, 500),
            p95_jct_h: quantile(&completion, 950),
            p99_jct_h: quantile(&completion, 990),
            mean_wait_h: mean(wait.iter().copied()),
            max_wait_h: wait.last().copied().unwrap_or_default(),
            makespan_h: in_hours(outcome.makespan()),
            utilisation: float(outcome.worked) / all,
            idle_while_waiting: idle / all,
            stops: outcome.finished.iter().map(|job| u64::from(job.stops)).sum(),
            events: outcome.events,
        }
    }

    /// The mean completion time beside another's.
    pub fn ratio_to(&self, other: &Self) -> f64 {
        if other.mean_jct_h > 0.0 { self.mean_jct_h / other.mean_jct_h } else { count(1) }
    }
}
