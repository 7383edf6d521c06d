//! One candidate, placed in time.

use super::{Instance, Standing, Task};
use crate::{backfill::Timeline, workload::Timestamp};

/// What comes of a candidate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Of each job, how much it has from now on: what it holds, or gets at once.
    pub now: Vec<i64>,
    /// When each job is done.
    pub done: Vec<i64>,
    /// Of each job, whether it runs and is to stop.
    pub stops: Vec<bool>,
}

impl Schedule {
    /// What is to be little: the sum of completion times, then the last of them, then how many are stopped.
    pub fn cost(&self) -> (i128, i64, usize) {
        let sum = self.done.iter().map(|&done| i128::from(done)).sum();
        let last = self.done.iter().copied().max().unwrap_or_default();
        (sum, last, self.stops.iter().filter(|&&stop| stop).count())
    }
}

/// What one job is given: from now on, and until when.
struct Placed {
    now: i64,
    done: i64,
}

impl Instance {
    /// Places the jobs in an order, each at the first moment that there is for it beside those before it. Those that
    /// run and are not stopped stay where they are; one that can do with less takes what is left over. None if there is
    /// no place for one of them.
    pub fn schedule(&self, order: &[usize], stops: &[bool]) -> Option<Schedule> {
        let mut timeline = Timeline::new(self.capacity);
        let stopped = |index: usize| stops.get(index).copied().unwrap_or(false);
        let mut placed: Vec<Option<Placed>> = Vec::with_capacity(self.tasks.len());
        // First what is where it is, whatever the order.
        for (index, task) in self.tasks.iter().enumerate() {
            placed.push(match task.standing {
                Standing::On { held, restoring } if !stopped(index) && task.is_rigid() => {
                    let done = restoring + div_ceil(task.work, held);
                    take(&mut timeline, 0, done, held);
                    Some(Placed { now: held, done })
                }
                _ => None,
            });
            if let Some((held, until)) = self.leaving(task, stopped(index)) {
                take(&mut timeline, 0, until, held);
            }
        }
        for &index in order {
            let task = self.tasks.get(index)?;
            let slot = placed.get_mut(index)?;
            if slot.is_none() {
                *slot = Some(self.place(&mut timeline, task, stopped(index))?);
            }
        }
        let placed: Option<Vec<Placed>> = placed.into_iter().collect();
        let (now, done) = placed?.into_iter().map(|Placed { now, done }| (now, done)).unzip();
        let stops = (0..self.tasks.len()).map(stopped).collect();
        Some(Schedule { now, done, stops })
    }

    /// What a job that saves its state holds, and until when.
    fn leaving(&self, task: &Task, stopped: bool) -> Option<(i64, i64)> {
        match task.standing {
            Standing::Saving { held, saving } => Some((held, saving)),
            // Whoever restores has nothing new to save.
            Standing::On { held, restoring } if stopped => {
                Some((held, if restoring > 0 { 0 } else { self.costs.save }))
            }
            _ => None,
        }
    }

    /// Places one job.
    fn place(&self, timeline: &mut Timeline, task: &Task, stopped: bool) -> Option<Placed> {
        let from = self.leaving(task, stopped).map_or(0, |(_, until)| until);
        let overhead = match task.standing {
            Standing::Fresh => 0,
            Standing::On { restoring, .. } if !stopped => restoring,
            _ => self.costs.restore,
        };
        if !task.is_rigid() {
            return self.place_elastic(timeline, task, from, overhead, stopped);
        }
        let run = overhead + div_ceil(task.work, task.width);
        let start = timeline.earliest(Timestamp(from), run, task.width)?.0;
        take(timeline, start, start + run, task.width);
        Some(Placed { now: if start == 0 { task.width } else { 0 }, done: start + run })
    }

    /// Gives a job what is free from step to step, as far as it gains by that, until its work is done.
    fn place_elastic(
        &self,
        timeline: &mut Timeline,
        task: &Task,
        from: i64,
        overhead: i64,
        stopped: bool,
    ) -> Option<Placed> {
        let mut held = match task.standing {
            Standing::On { held, .. } if !stopped => held,
            _ => 0,
        };
        let is_on = held > 0;
        let (mut at, mut work, mut overhead) = (from, task.work, overhead);
        let mut now = 0;
        loop {
            let free = timeline.free_at(Timestamp(at)).min(task.width);
            let next = timeline.next_after(Timestamp(at)).map(|next| next.0);
            let offered = self.grid.floor(free);
            let given = if offered < task.least {
                // Whoever runs cannot vanish: it would have to be stopped.
                if is_on && at == 0 {
                    return None;
                }
                0
            } else if held == 0 || held > free {
                offered
            } else {
                self.worthwhile(task, work, held, offered)
            };
            if given != held {
                if held > 0 && given > 0 {
                    work += self.costs.resize.saturating_mul(task.width);
                } else if held > 0 {
                    overhead = self.costs.restore;
                }
                held = given;
            }
            if at == 0 {
                now = held;
            }
            if held > 0 {
                let done = at + overhead + div_ceil(work, held);
                if next.is_none_or(|next| done <= next) {
                    take(timeline, at, done, held);
                    return Some(Placed { now, done });
                }
            }
            let next = next?;
            take(timeline, at, next, held);
            let passed = next - at;
            work -= (passed - overhead).max(0).saturating_mul(held);
            overhead = (overhead - passed).max(0);
            at = next;
        }
    }

    /// Whether to take what is offered or keep what is held, if that stayed so.
    fn worthwhile(&self, task: &Task, work: i64, held: i64, offered: i64) -> i64 {
        let lost = self.costs.resize.saturating_mul(task.width);
        if div_ceil(work + lost, offered) < div_ceil(work, held) { offered } else { held }
    }
}

fn take(timeline: &mut Timeline, from: i64, until: i64, amount: i64) {
    timeline.take(Timestamp(from), Timestamp(until), amount);
}

fn div_ceil(value: i64, by: i64) -> i64 {
    let by = by.max(1);
    value / by + i64::from(value % by > 0)
}
