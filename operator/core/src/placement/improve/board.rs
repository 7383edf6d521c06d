//! All jobs on a cluster, each where it is or waiting, with a way back.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use super::job::{Job, Leave, Place, Resident, Snapshot, SnapshotError};
use crate::{
    name::HostName,
    placement::{Choice, Cluster, NodeId, PlacementError, ShapeId, TaskMix, Weights},
};

/// A job, by its place in the snapshot: those that run first.
pub(super) type Who = usize;

/// Where tasks are.
pub(super) type Spots = Vec<Choice>;

/// A job on the board.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) job: Job,
    pub(super) shape: ShapeId,
    /// Where it ran when the snapshot was made; `None` if it waited.
    pub(super) home: Option<Spots>,
    /// What may be done to it; nothing can be done to who waits that it would mind.
    pub(super) leave: Leave,
    /// What it loses if it leaves home, in milliseconds of all its GPUs.
    pub(super) loss: u64,
}

impl Member {
    /// Whether it stays where it is.
    pub(super) fn is_fixed(&self) -> bool {
        self.home.is_some() && self.leave == Leave::Never
    }

    /// How many tasks it has at least, and at most. One that runs goes on as it is.
    pub(super) fn counts(&self) -> (u32, u32) {
        let running = self.home.as_ref().map(|home| u32::try_from(home.len()).unwrap_or(u32::MAX));
        running.map_or((self.job.min_count, self.job.count), |tasks| (tasks, tasks))
    }
}

/// The cluster with the jobs on it.
pub(super) struct Board {
    pub(super) cluster: Cluster,
    pub(super) members: Vec<Member>,
    at: Vec<Option<Spots>>,
    on_node: Vec<BTreeSet<Who>>,
    labels: Vec<BTreeMap<Arc<str>, u32>>,
    /// Of each level but the whole cluster, the domain of each node.
    domain_of: Vec<Vec<u32>>,
}

impl Board {
    pub(super) fn new(snapshot: &Snapshot, mix: &TaskMix, weights: Weights) -> Result<Self, SnapshotError> {
        snapshot.check()?;
        let mut cluster = Cluster::new(snapshot.nodes.clone(), mix, weights)?;
        let ids: BTreeMap<HostName, NodeId> =
            cluster.nodes().map(|(id, node)| (node.name.clone(), id)).collect();
        let mut members = Vec::new();
        for (job, resident) in snapshot.jobs() {
            let shape = cluster.shape(&job.shape)?;
            let home = resident.map(|resident| spots(&ids, job, &resident.on)).transpose()?;
            members.push(member(job, shape, home, resident));
        }
        let nodes = cluster.nodes.len();
        let domain_of = domain_of(&cluster, nodes);
        let mut board = Self {
            cluster,
            at: members.iter().map(|member| member.home.clone()).collect(),
            members,
            on_node: vec![BTreeSet::new(); nodes],
            labels: vec![BTreeMap::new(); nodes],
            domain_of,
        };
        board.settle_in()?;
        Ok(board)
    }

    /// Notes who is where, after having found that each can have been given what it says it has.
    fn settle_in(&mut self) -> Result<(), SnapshotError> {
        let homes: Vec<(Who, Spots)> = self
            .members
            .iter()
            .enumerate()
            .filter_map(|(who, member)| Some((who, member.home.clone()?)))
            .collect();
        for (who, home) in &homes {
            let Some(member) = self.members.get(*who) else { continue };
            for choice in home {
                let there = self.cluster.node(choice.node).map(|node| node.name.clone());
                self.cluster.remove(member.shape, choice).map_err(|_| {
                    SnapshotError::NotThere(member.job.id, there.unwrap_or_else(|| HostName::from("")))
                })?;
            }
        }
        for (who, home) in &homes {
            let Some(shape) = self.members.get(*who).map(|member| member.shape) else { continue };
            for choice in home {
                self.cluster.place(shape, choice)?;
            }
            self.note(*who, home, true);
        }
        // Who does not keep to what it asks for cannot be put back once it left: it stays.
        for (who, home) in &homes {
            let crowded = home.iter().any(|choice| self.label_count(*who, choice.node.0) > 1);
            if let Some(member) = self.members.get_mut(*who)
                && crowded
            {
                member.leave = Leave::Never;
            }
        }
        Ok(())
    }

    pub(super) fn at(&self, who: Who) -> Option<&Spots> {
        self.at.get(who)?.as_ref()
    }

    /// Where everybody is.
    pub(super) fn everybody(&self) -> Vec<Option<Spots>> {
        self.at.clone()
    }

    /// How many tasks with its label are on a node; 0 if it has none.
    pub(super) fn label_count(&self, who: Who, node: u32) -> u32 {
        let label = self.members.get(who).and_then(|member| member.job.apart.as_ref());
        let labels = usize::try_from(node).ok().and_then(|node| self.labels.get(node));
        label.zip(labels).and_then(|(label, labels)| labels.get(label)).copied().unwrap_or_default()
    }

    /// Who is on these nodes and not fixed.
    pub(super) fn movable_on(&self, nodes: Range<u32>) -> BTreeSet<Who> {
        let range =
            usize::try_from(nodes.start).unwrap_or_default()..usize::try_from(nodes.end).unwrap_or_default();
        let on = self.on_node.get(range).unwrap_or_default();
        on.iter()
            .flatten()
            .copied()
            .filter(|who| !self.members.get(*who).is_none_or(Member::is_fixed))
            .collect()
    }

    /// Who is on a node.
    pub(super) fn on(&self, node: NodeId) -> impl Iterator<Item = Who> {
        usize::try_from(node.0).ok().and_then(|node| self.on_node.get(node)).into_iter().flatten().copied()
    }

    /// The domain of a node on a level; 0 on that of the whole cluster.
    pub(super) fn domain_of(&self, level: usize, node: u32) -> u32 {
        let level = level.checked_sub(1).and_then(|level| self.domain_of.get(level));
        usize::try_from(node).ok().and_then(|node| level?.get(node)).copied().unwrap_or_default()
    }

    /// Takes a job off.
    pub(super) fn lift(&mut self, who: Who) -> Option<Spots> {
        let spots = self.at.get_mut(who)?.take()?;
        let shape = self.members.get(who)?.shape;
        for choice in &spots {
            // What was placed can be given back: the cluster is ours alone.
            self.cluster.remove(shape, choice).ok()?;
        }
        self.note(who, &spots, false);
        Some(spots)
    }

    /// Puts a job that waits exactly there. `false`, and nothing changes, if that is not free.
    pub(super) fn put(&mut self, who: Who, spots: &[Choice]) -> bool {
        let Some(member) = self.members.get(who) else { return false };
        let shape = member.shape;
        let alone = member.job.apart.is_none()
            || spots.iter().enumerate().all(|(index, choice)| {
                self.label_count(who, choice.node.0) == 0
                    && !spots.iter().take(index).any(|other| other.node == choice.node)
            });
        if !alone || self.at(who).is_some() {
            return false;
        }
        for (index, choice) in spots.iter().enumerate() {
            if self.cluster.place(shape, choice).is_err() {
                self.take_back(shape, spots.get(..index).unwrap_or_default());
                return false;
            }
        }
        self.sit(who, spots.to_vec());
        true
    }

    /// Gives back what was placed of a job that is not put yet.
    pub(super) fn take_back(&mut self, shape: ShapeId, placed: &[Choice]) {
        for choice in placed.iter().rev() {
            // Placed a moment ago, so it can be given back.
            let _: Result<(), PlacementError> = self.cluster.remove(shape, choice);
        }
    }

    /// Notes that a job is there, whose tasks are placed already.
    pub(super) fn sit(&mut self, who: Who, spots: Spots) {
        self.note(who, &spots, true);
        if let Some(at) = self.at.get_mut(who) {
            *at = Some(spots);
        }
    }

    fn note(&mut self, who: Who, spots: &[Choice], comes: bool) {
        let label = self.members.get(who).and_then(|member| member.job.apart.clone());
        for choice in spots {
            let Ok(node) = usize::try_from(choice.node.0) else { continue };
            if let Some(on) = self.on_node.get_mut(node) {
                if comes {
                    on.insert(who);
                } else {
                    on.remove(&who);
                }
            }
            if let (Some(label), Some(labels)) = (&label, self.labels.get_mut(node)) {
                let count = labels.entry(label.clone()).or_default();
                *count = if comes { *count + 1 } else { count.saturating_sub(1) };
            }
        }
    }
}

fn member(job: &Job, shape: ShapeId, home: Option<Spots>, resident: Option<&Resident>) -> Member {
    let loss =
        resident.map_or(0, |resident| u64::from(resident.since_checkpoint) + u64::from(resident.restore));
    let leave = resident.map_or(Leave::Stop, |resident| resident.leave);
    Member { job: job.clone(), shape, home, leave, loss }
}

fn spots(ids: &BTreeMap<HostName, NodeId>, job: &Job, on: &[Place]) -> Result<Spots, SnapshotError> {
    let spot = |place: &Place| {
        let node = ids.get(&place.node).copied();
        node.map(|node| Choice { node, devices: place.devices })
            .ok_or_else(|| SnapshotError::NotThere(job.id, place.node.clone()))
    };
    if on.is_empty() {
        return Err(SnapshotError::NotThere(job.id, HostName::from("no node")));
    }
    on.iter().map(spot).collect()
}

fn domain_of(cluster: &Cluster, nodes: usize) -> Vec<Vec<u32>> {
    let level = |level: usize| {
        let mut of = vec![0; nodes];
        for (index, domain) in (0..).zip(cluster.domains.at(level)) {
            for node in domain.nodes.clone() {
                if let Some(of) = usize::try_from(node).ok().and_then(|node| of.get_mut(node)) {
                    *of = index;
                }
            }
        }
        of
    };
    (1..=cluster.domains.lowest()).map(level).collect()
}
