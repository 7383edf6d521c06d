//! What comes of a search, and whether it still holds.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    board::{Board, Who},
    job::{Job, JobId, Leave, Place, Resident, Snapshot},
    worth::Worth,
};
use crate::{
    name::HostName,
    placement::{Choice, Devices, Link, Node},
};

/// What is to be done with one job. What it relies on is said with it: that the job waits, or is there where it is said to come from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// It starts.
    Start {
        /// The job.
        job: JobId,
        /// Where its tasks are to be.
        on: Vec<Place>,
    },
    /// It goes on elsewhere.
    Move {
        /// The job.
        job: JobId,
        /// Where its tasks are.
        from: Vec<Place>,
        /// Where they are to be.
        to: Vec<Place>,
    },
    /// It stops, and waits.
    Stop {
        /// The job.
        job: JobId,
        /// Where its tasks are.
        from: Vec<Place>,
    },
}

/// Changes that are made together or not at all.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Proposal {
    /// The changes: who stops, who moves, who starts.
    pub changes: Vec<Change>,
}

/// Why a proposal does not hold any more.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// The job is not there, does not wait, or runs elsewhere.
    #[error("job {0} is not as it was")]
    Job(JobId),
    /// The node is not there.
    #[error("there is no node {0}")]
    Node(HostName),
    /// What it is to have is not free, or not what it asks for.
    #[error("there is no such room for job {0} on {1}")]
    Room(JobId, HostName),
    /// Too few or too many tasks, or spread too far.
    #[error("job {0} would not be whole, or not together")]
    Gang(JobId),
    /// It would be on one node with another that it has to be apart from.
    #[error("job {0} would not be apart from others on {1}")]
    Apart(JobId, HostName),
    /// It may not be moved or stopped, or not for these.
    #[error("job {0} may not be made to leave")]
    Leave(JobId),
}

/// Jobs that are not where they were, in parts that share no node with each other.
pub(super) fn parts(board: &Board) -> Vec<Vec<Who>> {
    let mut parts: Vec<(BTreeSet<u32>, Vec<Who>)> = Vec::new();
    for (who, member) in board.members.iter().enumerate() {
        let at = board.at(who);
        if at == member.home.as_ref() {
            continue;
        }
        let mut nodes: BTreeSet<u32> =
            at.into_iter().chain(&member.home).flatten().map(|choice| choice.node.0).collect();
        let mut members = vec![who];
        let (joined, apart): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|(others, _)| !others.is_disjoint(&nodes));
        for (others, more) in joined {
            nodes.extend(others);
            members.extend(more);
        }
        members.sort_unstable();
        parts = apart;
        parts.push((nodes, members));
    }
    let mut parts: Vec<Vec<Who>> = parts.into_iter().map(|(_, members)| members).collect();
    parts.sort_unstable();
    parts
}

/// By how much better it is with a part than without.
pub(super) fn gain(board: &Board, part: &[Who], horizon: u32) -> Worth {
    let mut gain = Worth::default();
    for who in part {
        if let Some(member) = board.members.get(*who) {
            gain += board.worth_of(*who, horizon) - board.worth_at(member, member.home.as_deref(), horizon);
        }
    }
    gain
}

/// What a board proposes, the best part first.
pub(super) fn of(board: &Board, horizon: u32) -> Vec<Proposal> {
    let mut parts = parts(board);
    parts.sort_by_key(|part| std::cmp::Reverse(gain(board, part, horizon)));
    let places = |spots: &[Choice]| {
        let place = |choice: &Choice| {
            Some(Place { node: board.cluster.node(choice.node)?.name.clone(), devices: choice.devices })
        };
        spots.iter().filter_map(place).collect::<Vec<_>>()
    };
    let change = |who: &Who| {
        let member = board.members.get(*who)?;
        let job = member.job.id;
        match (&member.home, board.at(*who)) {
            (Some(home), Some(at)) => Some(Change::Move { job, from: places(home), to: places(at) }),
            (Some(home), None) => Some(Change::Stop { job, from: places(home) }),
            (None, Some(at)) => Some(Change::Start { job, on: places(at) }),
            (None, None) => None,
        }
    };
    let proposal = |part: &Vec<Who>| {
        let mut changes: Vec<_> = part.iter().filter_map(change).collect();
        changes.sort_by_key(|change| match change {
            Change::Stop { job, .. } => (0, *job),
            Change::Move { job, .. } => (1, *job),
            Change::Start { job, .. } => (2, *job),
        });
        Proposal { changes }
    };
    parts.iter().map(proposal).collect()
}

impl Change {
    /// The job, where it comes from, and where it goes.
    fn parts(&self) -> (JobId, &[Place], &[Place]) {
        match self {
            Self::Start { job, on } => (*job, &[], on),
            Self::Move { job, from, to } => (*job, from, to),
            Self::Stop { job, from } => (*job, from, &[]),
        }
    }
}

impl Proposal {
    /// Whether it can be done as things are now: everybody is as it was, nothing is given to two, and everybody has what it asks for.
    pub fn verify(&self, now: &Snapshot) -> Result<(), Refusal> {
        let mut nodes: BTreeMap<&HostName, Node> =
            now.nodes.iter().map(|node| (&node.name, node.clone())).collect();
        let jobs: BTreeMap<JobId, (&Job, Option<&Resident>)> =
            now.jobs().map(|(job, resident)| (job.id, (job, resident))).collect();
        let mut changed = BTreeSet::new();
        for change in &self.changes {
            let (id, from, to) = change.parts();
            let (job, resident) =
                jobs.get(&id).copied().filter(|_| changed.insert(id)).ok_or(Refusal::Job(id))?;
            check_leave(job, resident, change)?;
            for place in from {
                let node = nodes.get_mut(&place.node).ok_or_else(|| Refusal::Node(place.node.clone()))?;
                let gave = job.shape.per_gpu(&node.kind);
                if !gave.is_some_and(|milli| node.give(&job.shape, milli, &place.devices)) {
                    return Err(Refusal::Job(id));
                }
            }
            if !to.is_empty() {
                check_together(job, resident, to, &nodes)?;
            }
        }
        for (id, _, to) in self.changes.iter().map(Change::parts) {
            let Some((job, _)) = jobs.get(&id) else { return Err(Refusal::Job(id)) };
            for place in to {
                let node = nodes.get_mut(&place.node).ok_or_else(|| Refusal::Node(place.node.clone()))?;
                let linked = job.shape.link != Link::Required || is_linked(node, place.devices);
                let took = job.shape.per_gpu(&node.kind);
                if !linked || !took.is_some_and(|milli| node.take(&job.shape, milli, &place.devices)) {
                    return Err(Refusal::Room(id, place.node.clone()));
                }
            }
        }
        self.check_apart(now, &jobs, &changed)?;
        self.check_stops(&jobs)
    }

    /// No two tasks of one label on a node to which one of them comes.
    fn check_apart(
        &self,
        now: &Snapshot,
        jobs: &BTreeMap<JobId, (&Job, Option<&Resident>)>,
        changed: &BTreeSet<JobId>,
    ) -> Result<(), Refusal> {
        let staying = now.residents.iter().filter(|resident| !changed.contains(&resident.job.id));
        let mut taken: BTreeSet<(&HostName, &str)> = BTreeSet::new();
        for resident in staying {
            let label = resident.job.apart.as_deref();
            taken.extend(resident.on.iter().filter_map(|place| Some((&place.node, label?))));
        }
        for (id, _, to) in self.changes.iter().map(Change::parts) {
            let label = jobs.get(&id).and_then(|(job, _)| job.apart.as_deref());
            let Some(label) = label else { continue };
            if let Some(place) = to.iter().find(|place| !taken.insert((&place.node, label))) {
                return Err(Refusal::Apart(id, place.node.clone()));
            }
        }
        Ok(())
    }

    /// Who is stopped makes room for somebody, and only for those of higher priority.
    fn check_stops(&self, jobs: &BTreeMap<JobId, (&Job, Option<&Resident>)>) -> Result<(), Refusal> {
        for change in &self.changes {
            let Change::Stop { job: id, from } = change else { continue };
            let Some((job, _)) = jobs.get(id) else { return Err(Refusal::Job(*id)) };
            let here: BTreeSet<&HostName> = from.iter().map(|place| &place.node).collect();
            let comes = |(_, from, to): &(JobId, &[Place], &[Place])| {
                to.iter()
                    .any(|place| here.contains(&place.node) && !from.iter().any(|was| was.node == place.node))
            };
            let mut newcomers = self.changes.iter().map(Change::parts).filter(comes).peekable();
            let higher = |id: JobId| jobs.get(&id).is_some_and(|(other, _)| other.priority > job.priority);
            if newcomers.peek().is_none() || !newcomers.all(|(id, ..)| higher(id)) {
                return Err(Refusal::Leave(*id));
            }
        }
        Ok(())
    }
}

/// The job waits, or runs where it is said to and may leave.
fn check_leave(job: &Job, resident: Option<&Resident>, change: &Change) -> Result<(), Refusal> {
    let (id, from, _) = change.parts();
    let Some(resident) = resident else {
        return if matches!(change, Change::Start { .. }) { Ok(()) } else { Err(Refusal::Job(job.id)) };
    };
    let sorted = |places: &[Place]| {
        let mut places = places.to_vec();
        places.sort_unstable();
        places
    };
    if matches!(change, Change::Start { .. }) || sorted(from) != sorted(&resident.on) {
        return Err(Refusal::Job(id));
    }
    match (change, resident.leave) {
        (_, Leave::Never) | (Change::Stop { .. }, Leave::Move) => Err(Refusal::Leave(id)),
        _ => Ok(()),
    }
}

/// As many tasks as it makes do with, in one domain of the widest level that it may be spread over.
fn check_together(
    job: &Job,
    resident: Option<&Resident>,
    to: &[Place],
    nodes: &BTreeMap<&HostName, Node>,
) -> Result<(), Refusal> {
    let tasks = u32::try_from(to.len()).unwrap_or(u32::MAX);
    let whole = match resident {
        Some(resident) => resident.on.len() == to.len(),
        None => (job.min_count..=job.count).contains(&tasks),
    };
    let mut domains = BTreeSet::new();
    for place in to {
        let node = nodes.get(&place.node).ok_or_else(|| Refusal::Node(place.node.clone()))?;
        domains.insert(node.domains.get(..job.widest));
    }
    if whole && domains.len() == 1 && !domains.contains(&None) { Ok(()) } else { Err(Refusal::Gang(job.id)) }
}

/// Whether all of them are in one island.
fn is_linked(node: &Node, devices: Devices) -> bool {
    let island =
        |index: u32| usize::try_from(index).ok().and_then(|index| node.gpus.get(index)).map(|gpu| gpu.island);
    let islands: BTreeSet<Option<u8>> = devices.indices().map(island).collect();
    islands.len() <= 1
}
