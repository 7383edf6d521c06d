//! Who runs, who waits, and what may be done to them.

use std::{collections::BTreeSet, fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    name::HostName,
    placement::{Devices, Node, PlacementError, Shape},
};

/// A job by its number, which whoever makes the snapshot chooses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a gang is and asks for, whether it runs or not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Which job.
    pub id: JobId,
    /// Only for one of higher priority is anybody stopped.
    pub priority: i32,
    /// What a GPU is worth that works for it. At least 1; 1,048,576 at most.
    pub weight: u32,
    /// The shape of each task.
    pub shape: Shape,
    /// How many tasks there are.
    pub count: u32,
    /// How many are enough.
    pub min_count: u32,
    /// The widest level of domains over which they may be spread; 0 is the whole cluster.
    pub widest: usize,
    /// No two tasks with this label are on one node, of whatever job they are.
    pub apart: Option<Arc<str>>,
}

/// Where one task is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The node.
    pub node: HostName,
    /// Its GPUs.
    pub devices: Devices,
}

/// What may be done to a job that runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Leave {
    /// Nothing.
    Never,
    /// It may go on elsewhere.
    Move,
    /// It may be stopped too, for one of higher priority.
    Stop,
}

/// A job that runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Resident {
    /// The job.
    pub job: Job,
    /// Where each of its tasks is.
    pub on: Vec<Place>,
    /// What may be done to it.
    pub leave: Leave,
    /// How long ago it saved its state: that much work is done again, in milliseconds.
    pub since_checkpoint: u32,
    /// For how long it restores its state elsewhere, in milliseconds.
    pub restore: u32,
}

/// A job that waits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Blocked {
    /// The job.
    pub job: Job,
}

/// Nodes, who runs on them, and who waits. What others hold of the nodes, who are in no list, stays.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// The nodes, with what is free on them now.
    pub nodes: Vec<Node>,
    /// Who runs.
    pub residents: Vec<Resident>,
    /// Who waits, in the order in which they would have their turn.
    pub blocked: Vec<Blocked>,
}

/// Why nothing can be made of a snapshot.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SnapshotError {
    /// What its nodes or shapes say cannot be.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// Two of one name.
    #[error("there are two nodes named {0}")]
    TwoNodes(HostName),
    /// Two of one number.
    #[error("there are two jobs numbered {0}")]
    TwoJobs(JobId),
    /// What it asks for is nothing, or too much.
    #[error("job {0} asks for {1} to {2} tasks of weight {3} over level {4}")]
    Job(JobId, u32, u32, u32, usize),
    /// Where it runs is not taken, or not what it asks for.
    #[error("job {0} does not run on {1} like that")]
    NotThere(JobId, HostName),
}

/// The largest weight.
const HEAVIEST: u32 = 1 << 20;
/// The most tasks.
const MOST_TASKS: u32 = 1 << 20;

impl Snapshot {
    /// Every job, those that run first.
    pub(super) fn jobs(&self) -> impl Iterator<Item = (&Job, Option<&Resident>)> {
        let residents = self.residents.iter().map(|resident| (&resident.job, Some(resident)));
        residents.chain(self.blocked.iter().map(|blocked| (&blocked.job, None)))
    }

    /// Whether jobs and names are what they can be.
    pub(super) fn check(&self) -> Result<(), SnapshotError> {
        let depth = self.nodes.first().map_or(0, |node| node.domains.len());
        let mut names = BTreeSet::new();
        if let Some(twice) = self.nodes.iter().find(|node| !names.insert(&node.name)) {
            return Err(SnapshotError::TwoNodes(twice.name.clone()));
        }
        let mut ids = BTreeSet::new();
        for (job, _) in self.jobs() {
            if !ids.insert(job.id) {
                return Err(SnapshotError::TwoJobs(job.id));
            }
            let counts = 1..=job.count;
            let sound = counts.contains(&job.min_count)
                && job.count <= MOST_TASKS
                && (1..=HEAVIEST).contains(&job.weight)
                && job.widest <= depth;
            if !sound {
                return Err(SnapshotError::Job(job.id, job.min_count, job.count, job.weight, job.widest));
            }
        }
        Ok(())
    }
}
