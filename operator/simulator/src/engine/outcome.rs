//! What came of a run.

use serde::Serialize;

use super::{JobIndex, Millis, Phase};

/// A job that is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Which job.
    pub index: JobIndex,
    /// When it was submitted.
    pub submit: Millis,
    /// When it was given GPUs for the first time.
    pub start: Millis,
    /// When it was done.
    pub end: Millis,
    /// The GPUs that it asked for.
    pub gpus: i64,
    /// The time that it needs on them.
    pub run: Millis,
    /// How often it was stopped.
    pub stops: u32,
}

impl Finished {
    /// From its submission to its end: the job completion time.
    pub fn completion(&self) -> Millis {
        self.end - self.submit
    }

    /// From its submission to its first start.
    pub fn wait(&self) -> Millis {
        self.start - self.submit
    }
}

/// For how long a job held how many GPUs, and what for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Which job.
    pub index: JobIndex,
    /// From when.
    pub from: Millis,
    /// Until when.
    pub until: Millis,
    /// How many GPUs.
    pub gpus: i64,
    /// To work, to save its state or to restore it.
    pub phase: Phase,
}

/// What holds from a moment on, until the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Level {
    /// From when.
    pub at: Millis,
    /// GPUs that are held.
    pub held: i64,
    /// Jobs that wait.
    pub waiting: i64,
    /// GPUs that they ask for.
    pub asked: i64,
}

/// What came of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The jobs, in the order in which they ended.
    pub finished: Vec<Finished>,
    /// Who held GPUs when.
    pub segments: Vec<Segment>,
    /// How many GPUs were held, and who waited, from each change on.
    pub levels: Vec<Level>,
    /// Events that were dealt with.
    pub events: u64,
    /// GPUs of the cluster.
    pub gpus: i64,
    /// GPU-milliseconds in which a job made progress.
    pub worked: i64,
    /// GPU-milliseconds that were held.
    pub held: i64,
}

impl Outcome {
    /// When the first job was submitted.
    pub fn first_submit(&self) -> Millis {
        self.finished.iter().map(|job| job.submit).min().unwrap_or_default()
    }

    /// From the first submission to the last end.
    pub fn makespan(&self) -> Millis {
        self.finished.iter().map(|job| job.end).max().unwrap_or_default() - self.first_submit()
    }
}
