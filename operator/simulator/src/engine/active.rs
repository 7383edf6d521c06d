//! A job that has arrived and is not done.

use super::{Costs, JobIndex, Millis};
use crate::trace::Job;

/// What a job does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It holds nothing.
    Waiting,
    /// It holds GPUs and restores its state.
    Restoring,
    /// It holds GPUs and makes progress.
    Running,
    /// It holds GPUs and saves its state.
    Saving,
}

/// A job that has arrived and is not done.
#[derive(Clone, Debug)]
pub struct Active<'a> {
    /// Which job.
    pub index: JobIndex,
    /// What was asked for.
    pub job: &'a Job,
    /// What it does.
    pub phase: Phase,
    /// The GPUs that it holds.
    pub held: i64,
    /// When it was given GPUs for the first time.
    pub first_start: Option<Millis>,
    /// How often it was stopped.
    pub stops: u32,
    /// When it began to do what it does, or was resized.
    pub(super) since: Millis,
    /// When it began to make progress, after it was given GPUs last.
    pub(super) started: Millis,
    /// The work that was left then, in GPU-milliseconds.
    pub(super) left: i64,
    /// What it had got by then, in GPU-milliseconds.
    pub(super) attained: i64,
    /// Which of its events is the valid one.
    pub(super) stamp: u32,
}

impl<'a> Active<'a> {
    pub(super) fn new(index: JobIndex, job: &'a Job, now: Millis) -> Self {
        Self {
            index,
            job,
            phase: Phase::Waiting,
            held: 0,
            first_start: None,
            stops: 0,
            since: now,
            started: now,
            left: job.run.saturating_mul(job.gpus),
            attained: 0,
            stamp: 0,
        }
    }

    fn progress(&self, now: Millis) -> i64 {
        if self.phase == Phase::Running { (now - self.since).saturating_mul(self.held) } else { 0 }
    }

    /// The work that is left, in GPU-milliseconds: what the simulator knows, and a real scheduler does not.
    pub fn work_left(&self, now: Millis) -> i64 {
        (self.left - self.progress(now)).max(0)
    }

    /// For how long it would run on all the GPUs that it asked for, as the simulator knows.
    pub fn time_left(&self, now: Millis) -> Millis {
        div_ceil(self.work_left(now), self.job.gpus)
    }

    /// What it got so far, in GPU-milliseconds.
    pub fn attained(&self, now: Millis) -> i64 {
        self.attained + self.progress(now)
    }

    /// For how long it made progress so far, as time on all the GPUs that it asked for.
    pub fn age(&self, now: Millis) -> Millis {
        self.attained(now) / self.job.gpus.max(1)
    }

    /// Whether it holds GPUs to work on, now or as soon as its state is restored.
    pub fn is_on(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Restoring)
    }

    /// Whether it ran before and does not now: it restores its state first.
    pub fn is_resuming(&self) -> bool {
        self.first_start.is_some() && self.phase != Phase::Running
    }

    /// Settles what it got until now, so that its phase or its GPUs can change.
    pub(super) fn settle(&mut self, now: Millis) {
        let progress = self.progress(now);
        self.left = (self.left - progress).max(0);
        self.attained += progress;
        self.since = now;
    }

    /// For how long it made progress since it was given GPUs last.
    pub fn on_since_start(&self, now: Millis) -> Millis {
        if self.phase == Phase::Running { now - self.started } else { 0 }
    }

    /// For how long it still saves or restores its state.
    pub fn lasts(&self, now: Millis, costs: Costs) -> Millis {
        let all = match self.phase {
            Phase::Restoring => costs.restore,
            Phase::Saving => costs.save,
            Phase::Waiting | Phase::Running => 0,
        };
        (self.since + all - now).max(0)
    }

    /// When what it does ends, if nothing changes.
    pub(super) fn ends(&self, costs: Costs) -> Option<Millis> {
        match self.phase {
            Phase::Waiting => None,
            Phase::Restoring => Some(self.since + costs.restore),
            Phase::Saving => Some(self.since + costs.save),
            Phase::Running => Some(self.since + div_ceil(self.left, self.held)),
        }
    }
}

fn div_ceil(value: i64, by: i64) -> i64 {
    let by = by.max(1);
    value / by + i64::from(value % by > 0)
}
