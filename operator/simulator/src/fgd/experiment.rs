//! One run of the experiment, and many at once.

use std::{
    num::NonZero,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Result, anyhow};
use serde::Serialize;

use super::{
    arrivals::Arrivals,
    policy::{Mix, Policy, start},
};

/// Until how much of the GPUs was asked for, in percent.
pub const ARRIVALS: u64 = 130;

/// What came of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// At each percent of arrivals, from 0 on, how many percent of the GPUs were allocated: the mean over the tasks at whose arrival
    /// the rounded percentage was this. Where no task arrived at that percentage, the figure before it.
    pub curve: Vec<f64>,
    /// GPUs that were not allocated at the end.
    pub unallocated: f64,
    /// Tasks that found no node.
    pub failed: usize,
    /// Of the GPUs that were free at the end, those that are expected to be of no use, in percent; of our policies only.
    pub fragmented: Option<f64>,
}

impl Outcome {
    /// How many percent of the GPUs were allocated when so many percent had been asked for.
    pub fn at(&self, percent: usize) -> f64 {
        self.curve.get(percent).or(self.curve.last()).copied().unwrap_or_default()
    }
}

/// Runs a policy on the arrivals of a seed.
pub fn run(policy: &Policy, mix: &Mix, seed: u64) -> Result<Outcome> {
    let capacity = mix.capacity();
    let arrivals = Arrivals::new(&mix.tasks, mix.nodes.len(), capacity, ARRIVALS, seed);
    let mut placing = start(policy, mix, &arrivals.ranks, arrivals.dice.clone())?;
    let (mut asked, mut allocated, mut failed) = (0, 0, 0);
    let mut sums = vec![(0.0, 0_u32); usize::try_from(ARRIVALS).unwrap_or_default() + 1];
    for index in &arrivals.order {
        let (Some(task), Some(kind)) = (mix.tasks.get(*index), mix.kind_of.get(*index)) else { continue };
        asked += u64::from(task.total());
        if placing.place(*kind)? {
            allocated += u64::from(task.total());
        } else {
            failed += 1;
        }
        let percent = (asked * 200 + capacity) / (2 * capacity).max(1);
        if let Some((sum, count)) = usize::try_from(percent).ok().and_then(|percent| sums.get_mut(percent)) {
            *sum += share(allocated, capacity);
            *count += 1;
        }
    }
    let mut curve = Vec::with_capacity(sums.len());
    for (sum, count) in sums {
        let before = curve.last().copied().unwrap_or_default();
        curve.push(if count == 0 { before } else { sum / f64::from(count) });
    }
    let free = capacity - allocated;
    let fragmented =
        placing.fragment().and_then(|milli| u64::try_from(milli).ok()).map(|milli| share(milli, free));
    Ok(Outcome { seed, curve, unallocated: share(free, 100_000), failed, fragmented })
}

/// A part of a whole, in percent.
#[allow(clippy::cast_precision_loss, reason = "GPUs in thousandths, far below 2^53")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Does jobs on all processors; `done` is called after each, by any thread. The results are in the order of the jobs.
pub fn all<J: Sync, R: Send>(
    jobs: &[J],
    work: impl Fn(&J) -> Result<R> + Sync,
    done: impl Fn() + Sync,
) -> Result<Vec<R>> {
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len().max(1));
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(jobs.len()));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((index, job)) = take(jobs, &next) {
                    let result = work(job);
                    done();
                    // Nobody panics while holding it, and if one did, what is in it is whole all the same.
                    results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().map_err(|_| anyhow!("a worker died"))?;
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn take<'a, J>(jobs: &'a [J], next: &AtomicUsize) -> Option<(usize, &'a J)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(index).map(|job| (index, job))
}

/// The mean and the standard deviation of a sample.
pub fn spread(values: &[f64]) -> (f64, f64) {
    let count = u32::try_from(values.len()).map_or(f64::MAX, f64::from);
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 })
}
