//! A policy at work: it is told of one task after the other and places it or does not.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Result;
use whalezen_core::placement::{Cluster, ShapeId, TaskMix, Weights};

use crate::dice::Dice;

use super::{
    field::Field,
    published::{self, Fragments, Published},
    trace::{Task, TraceNode},
};

/// How popular shapes have to be together that fragments are counted for, in percent of all tasks.
const COVERED: u32 = 95;

/// A policy.
#[derive(Clone, PartialEq, Debug)]
pub enum Policy {
    /// One of the paper's.
    Published(Published),
    /// Ours, with these weights.
    Ours(Arc<Weights>),
}

impl Policy {
    /// What it is called in tables.
    pub fn name(&self) -> String {
        match self {
            Self::Published(policy) => policy.name().to_owned(),
            Self::Ours(weights) => format!("WhaleZEN {}", weights.name),
        }
    }
}

/// A mix of tasks on nodes: what all runs of an experiment have in common.
pub struct Mix {
    /// What it is called.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<TraceNode>,
    /// Its tasks.
    pub tasks: Vec<Task>,
    /// Each different task once; a task is one of these.
    kinds: Vec<Task>,
    /// Which one each task is.
    pub kind_of: Vec<usize>,
    fragments: Fragments,
    usual: TaskMix,
}

impl Mix {
    /// These tasks on these nodes.
    pub fn new(name: &str, nodes: Vec<TraceNode>, tasks: Vec<Task>) -> Self {
        let mut kinds = tasks.clone();
        kinds.sort();
        kinds.dedup();
        let kind_of = tasks.iter().map(|task| kinds.binary_search(task).unwrap_or_default()).collect();
        let fields: Vec<_> = nodes.iter().map(Field::idle).collect();
        let fragments = Fragments::new(&tasks, 95, &fields);
        let usual = TaskMix::of(tasks.iter().map(Task::shape), COVERED);
        Self { name: name.to_owned(), nodes, tasks, kinds, kind_of, fragments, usual }
    }

    /// All GPUs, in thousandths.
    pub fn capacity(&self) -> u64 {
        self.nodes.iter().map(|node| u64::from(node.gpus) * 1000).sum()
    }
}

/// A policy with the cluster that it fills.
pub trait Placing {
    /// Places a task; says whether it found a node.
    fn place(&mut self, kind: usize) -> Result<bool>;

    /// How much of the free GPUs is expected to be of no use, in thousandths of a GPU; `None` if that is not known.
    fn fragment(&self) -> Option<i64>;
}

/// A policy on an empty cluster, whose nodes are named in this order.
pub fn start<'a>(
    policy: &Policy,
    mix: &'a Mix,
    ranks: &[usize],
    dice: Dice,
) -> Result<Box<dyn Placing + 'a>> {
    match policy {
        Policy::Published(policy) => Ok(Box::new(Classic::new(*policy, mix, ranks, dice))),
        Policy::Ours(weights) => {
            let nodes = mix.nodes.iter().map(TraceNode::idle).collect();
            let mut cluster = Cluster::new(nodes, &mix.usual, (**weights).clone())?;
            let shapes =
                mix.kinds.iter().map(|task| cluster.shape(&task.shape())).collect::<Result<_, _>>()?;
            Ok(Box::new(Ours { cluster, shapes }))
        }
    }
}

/// Ours: the core's own placement.
struct Ours {
    cluster: Cluster,
    shapes: Vec<ShapeId>,
}

impl Placing for Ours {
    fn place(&mut self, kind: usize) -> Result<bool> {
        let Some(shape) = self.shapes.get(kind).copied() else { return Ok(false) };
        let Some(choice) = self.cluster.choose(shape) else { return Ok(false) };
        self.cluster.place(shape, &choice)?;
        Ok(true)
    }

    fn fragment(&self) -> Option<i64> {
        Some(self.cluster.fragment())
    }
}

/// A published policy. Scores are kept until their node changes.
struct Classic<'a> {
    policy: Published,
    mix: &'a Mix,
    /// In the order of names, so that the first of equals has the smallest.
    nodes: Vec<Field>,
    versions: Vec<u32>,
    scores: BTreeMap<usize, Vec<Kept>>,
    dice: Dice,
}

/// What was computed of a node, and from which version of it.
#[derive(Clone, Copy, Default)]
struct Kept {
    version: u32,
    /// The score, and the GPU; `None` if it does not fit.
    score: Option<(i64, Option<usize>)>,
}

impl<'a> Classic<'a> {
    fn new(policy: Published, mix: &'a Mix, ranks: &[usize], dice: Dice) -> Self {
        let mut nodes: Vec<_> = ranks.iter().copied().zip(mix.nodes.iter().map(Field::idle)).collect();
        nodes.sort_by_key(|(rank, _)| *rank);
        let nodes: Vec<_> = nodes.into_iter().map(|(_, node)| node).collect();
        Self { policy, mix, versions: vec![1; nodes.len()], nodes, scores: BTreeMap::new(), dice }
    }

    /// The node, and the GPU of which a part is taken.
    fn choose(&mut self, kind: usize, task: &Task) -> Option<(usize, Option<usize>)> {
        let kept = self.scores.entry(kind).or_insert_with(|| vec![Kept::default(); self.nodes.len()]);
        let mut best: Option<(i64, usize, Option<usize>)> = None;
        let mut fitting = Vec::new();
        for (index, ((node, version), kept)) in self.nodes.iter().zip(&self.versions).zip(kept).enumerate() {
            if kept.version != *version {
                let score = || published::score(self.policy, node, task, &self.mix.fragments);
                *kept = Kept { version: *version, score: node.fits(task).then(score) };
            }
            let Some((score, gpu)) = kept.score else { continue };
            if self.policy == Published::Random {
                fitting.push(index);
            }
            if best.is_none_or(|(most, ..)| score > most) {
                best = Some((score, index, gpu));
            }
        }
        if self.policy == Published::Random {
            let any = self.dice.below(fitting.len());
            let index = fitting.get(any).copied()?;
            let gpu = published::any_gpu(self.nodes.get(index)?, task, &mut self.dice);
            return Some((index, gpu));
        }
        best.map(|(_, index, gpu)| (index, gpu))
    }
}

impl Placing for Classic<'_> {
    fn place(&mut self, kind: usize) -> Result<bool> {
        let Some(task) = self.mix.kinds.get(kind) else { return Ok(false) };
        let Some((index, gpu)) = self.choose(kind, task) else { return Ok(false) };
        if let (Some(node), Some(version)) = (self.nodes.get_mut(index), self.versions.get_mut(index)) {
            node.take(task, gpu);
            *version += 1;
        }
        Ok(true)
    }

    fn fragment(&self) -> Option<i64> {
        None
    }
}
