//! Who has how much memory: the document's two schedulers made right, and better ones.

use super::{gigabytes, play::Live, welfare, workload::MEMORY};

/// A policy for the memory of one GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryPolicy {
    /// All that a task needs or nothing, and nobody passes anybody.
    StrictFcfs,
    /// All that a task needs or nothing, and whoever fits starts: the document's static scheduler, repaired.
    FirstFit,
    /// A task starts with what is free, from its least on, and keeps that: the document's dynamic scheduler, repaired.
    ElasticStart,
    /// When a task ends, those that run grow first, and then others start: the document's rebalancing, made real.
    GrowFirst,
    /// Those that wait start with their least first, and then those that run grow.
    StartFirst,
    /// All that run shrink to their least, others start with theirs, and what is left over goes to whoever came first.
    Shrink,
    /// Whoever has the least memory times time left has its least first, whether it runs or not, and others are suspended;
    /// what is left over goes to those that gain the most by it.
    Srpt,
    /// The most value: each second's progress of a task is worth its age divided by what it has left. Exact, by dynamic
    /// programming; tasks are suspended for it.
    Welfare,
}

impl MemoryPolicy {
    /// All, in the order of the table.
    pub const ALL: [Self; 8] = [
        Self::StrictFcfs,
        Self::FirstFit,
        Self::ElasticStart,
        Self::GrowFirst,
        Self::StartFirst,
        Self::Shrink,
        Self::Srpt,
        Self::Welfare,
    ];

    /// Its name in tables, and in benchmarks.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::StrictFcfs => ("strict FCFS", "strict_fcfs"),
            Self::FirstFit => ("first-fit scan", "first_fit"),
            Self::ElasticStart => ("elastic start, then fixed", "elastic_start"),
            Self::GrowFirst => ("+ growing those that run first", "grow_first"),
            Self::StartFirst => ("start at the least first, then grow", "start_first"),
            Self::Shrink => ("+ shrink those that run", "shrink"),
            Self::Srpt => ("elastic SRPT, suspending", "srpt"),
            Self::Welfare => ("exact welfare, value = age / left", "welfare"),
        }
    }

    /// Gives memory anew after something happened at a moment; `ended` says whether a task ended. `live` is in the order of
    /// arrival and stays so.
    pub fn allot(self, live: &mut [Live], ended: bool, now: f64) {
        match self {
            Self::StrictFcfs => start(live, |live| live.task.need, |live| live.task.need, true),
            Self::FirstFit => start(live, |live| live.task.need, |live| live.task.need, false),
            Self::ElasticStart => start(live, |live| live.task.least(), |live| live.task.need, false),
            Self::GrowFirst => {
                if ended {
                    grow(live, by_start);
                }
                start(live, |live| live.task.least(), |live| live.task.need, false);
            }
            Self::StartFirst => {
                start(live, |live| live.task.least(), |live| live.task.least(), false);
                grow(live, by_start);
            }
            Self::Shrink => {
                for live in live.iter_mut().filter(|live| live.held > 0) {
                    live.held = live.task.least();
                }
                start(live, |live| live.task.least(), |live| live.task.least(), false);
                grow(live, |live| live.index);
            }
            Self::Srpt => {
                let mut order: Vec<&mut Live> = live.iter_mut().collect();
                order.sort_by(|one, other| least_left(one).total_cmp(&least_left(other)));
                let mut free = MEMORY;
                for live in &mut order {
                    live.held = if live.task.least() <= free { live.task.least() } else { 0 };
                    free -= live.held;
                }
                // What is left over goes to those that gain the most by it.
                order.sort_by(|one, other| one.task.elasticity.total_cmp(&other.task.elasticity));
                for live in order.into_iter().filter(|live| live.held > 0) {
                    let more = (live.task.need - live.held).min(free);
                    live.held += more;
                    free -= more;
                }
            }
            Self::Welfare => {
                let value =
                    |live: &Live| (now - live.task.arrival + live.task.duration) / live.left.max(1e-9);
                let best = welfare::best(live, MEMORY, value);
                for (live, held) in live.iter_mut().zip(best) {
                    live.held = held;
                }
            }
        }
    }
}

/// The memory times the seconds that a task has left with its least.
fn least_left(live: &Live) -> f64 {
    let least = live.task.least();
    live.left * gigabytes(least) / live.task.speed(least)
}

fn free(live: &[Live]) -> i64 {
    MEMORY - live.iter().map(|live| live.held).sum::<i64>()
}

/// Starts those that wait, in the order of arrival, with what is free between two limits.
fn start(live: &mut [Live], least: impl Fn(&Live) -> i64, most: impl Fn(&Live) -> i64, strict: bool) {
    let mut free = free(live);
    for live in live.iter_mut().filter(|live| live.held == 0) {
        if least(live) <= free {
            live.held = most(live).min(free);
            free -= live.held;
        } else if strict {
            break;
        }
    }
}

/// Gives what is free to those that run, up to their needs, whoever stands first in an order first.
fn grow(live: &mut [Live], order: impl Fn(&Live) -> usize) {
    let mut free = free(live);
    let mut running: Vec<&mut Live> = live.iter_mut().filter(|live| live.held > 0).collect();
    running.sort_by_key(|live| order(live));
    for live in running {
        let more = (live.task.need - live.held).min(free);
        live.held += more;
        free -= more;
    }
}

/// Who was started first; of those that start now who came first.
fn by_start(live: &Live) -> usize {
    live.started.unwrap_or(usize::MAX)
}

/// The value of an allotment: what each task's speed is worth.
pub(super) fn worth(live: &Live, held: i64, value: f64) -> f64 {
    // A little for memory that stays free, so that of equal allotments the smaller is taken.
    live.task.speed(held) * value - gigabytes(held) * 1e-12
}
