//! The nodes with what is free on them, and for each shape that was asked for the scores of all of them.
//!
//! What depends on a node alone is kept with the node and computed when it changes. What depends on a node and a shape is computed
//! when the shape is asked for, and then only for the nodes that changed since: a log says which those are.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{
    WHOLE_GPU,
    devices::Devices,
    domains::{Counts, Domains},
    fragment::{Fragments, Standing},
    mix::{MIX_WEIGHT, TaskMix},
    node::{GpuKind, Node, Room},
    ranking::{NOWHERE, Ranking, Tie},
    score::{Fit, Kind, Score, Scorer},
    shape::{Ask, Shape, ShapeError},
    weights::{Class, Weights},
};

/// A node of a [`Cluster`]: its place in the order of domains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub(super) u32);

/// A shape that a [`Cluster`] was told of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShapeId(usize);

/// Where one task would be placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The node.
    pub node: NodeId,
    /// Its GPUs.
    pub devices: Devices,
}

/// Why something cannot be done.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlacementError {
    /// A node with more GPUs than can be told apart, or more of anything than is counted.
    #[error("node {0} has more than 64 GPUs, or more free of something than it has")]
    Node(String),
    /// Nodes at different depths of the topology.
    #[error("node {0} is in {1} domains and others are in {2}")]
    Depth(String, usize, usize),
    /// A shape that is none.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Something of another cluster.
    #[error("there is no such node or shape here")]
    Unknown,
    /// What is to be taken is not free, or what is to be given back was not taken.
    #[error("node {0} has changed since that was decided")]
    Changed(String),
}

/// What is kept for one shape.
pub(super) struct View {
    shape: Shape,
    class: Class,
    /// How it runs on the nodes of each kind.
    fits: Vec<Option<Fit>>,
    pub(super) ranking: Ranking,
    ranked: Seen,
    pub(super) counts: Counts,
    counted: Seen,
}

/// Which state of each node something was computed from.
#[derive(Default)]
struct Seen {
    versions: Vec<u32>,
    /// Up to where in the log; `None` before the first time.
    upto: Option<u64>,
}

/// Which nodes changed, in order, each change with its number. Of a node only the last change is needed: the others are
/// dropped when there are many, so the log stays about as long as the cluster has nodes.
#[derive(Default)]
struct Log {
    changes: Vec<(u64, u32)>,
    next: u64,
}

impl Log {
    /// What changed since; `None` if all is new.
    fn since(&self, upto: Option<u64>) -> Option<&[(u64, u32)]> {
        let upto = upto?;
        self.changes.get(self.changes.partition_point(|(number, _)| *number < upto)..)
    }

    /// A node of so many changed.
    fn push(&mut self, node: u32, nodes: usize) {
        // Few enough to be worth it, and so few that small clusters do it too.
        if self.changes.len() > 2 * nodes + 16 {
            let mut seen = vec![false; nodes];
            let mut last: Vec<_> = std::mem::take(&mut self.changes);
            last.reverse();
            last.retain(|(_, node)| {
                let seen = usize::try_from(*node).ok().and_then(|node| seen.get_mut(node));
                seen.is_some_and(|seen| !std::mem::replace(seen, true))
            });
            last.reverse();
            self.changes = last;
        }
        self.changes.push((self.next, node));
        self.next += 1;
    }
}

/// Nodes, the mix of tasks that usually come, and weights: all that placements are decided from.
pub struct Cluster {
    pub(super) nodes: Vec<Node>,
    /// The kind of each node.
    kind_of: Vec<usize>,
    kinds: Vec<Kind>,
    standings: Vec<Standing>,
    pub(super) ties: Vec<Tie>,
    rooms: Vec<Room>,
    versions: Vec<u32>,
    log: Log,
    pub(super) domains: Domains,
    weights: Weights,
    cpu_per_gpu: u32,
    pub(super) views: Vec<View>,
    known: BTreeMap<Shape, ShapeId>,
    scratch: Vec<i64>,
}

impl Cluster {
    /// A cluster of these nodes. The order in which nodes are given decides only between nodes in the same state.
    pub fn new(mut nodes: Vec<Node>, mix: &TaskMix, weights: Weights) -> Result<Self, PlacementError> {
        let depth = nodes.first().map_or(0, |node| node.domains.len());
        for node in &nodes {
            check(node, depth)?;
        }
        // Stable: of nodes in one domain the order stays.
        nodes.sort_by(|a, b| a.domains.cmp(&b.domains));
        let mut gpus: Vec<GpuKind> = nodes.iter().map(|node| node.kind.clone()).collect();
        gpus.sort();
        gpus.dedup();
        let kind_of: Vec<usize> =
            nodes.iter().map(|node| gpus.binary_search(&node.kind).unwrap_or_default()).collect();
        let prices = prices(&nodes, &gpus, &kind_of, mix);
        let kinds: Vec<Kind> = gpus
            .into_iter()
            .zip(prices)
            .map(|(gpu, price)| Kind { fragments: Fragments::new(mix, &gpu), gpu, price })
            .collect();
        let domains = Domains::new(&nodes, depth);
        let standing = |(node, kind): (&Node, &usize)| {
            kinds.get(*kind).map(|kind| kind.fragments.standing(node)).unwrap_or_default()
        };
        let standings = nodes.iter().zip(&kind_of).map(standing).collect();
        let ties = nodes.iter().map(tie).collect();
        let rooms = nodes.iter().map(Node::room).collect();
        let versions = vec![1; nodes.len()];
        let cpu_per_gpu = mix.cpu_per_gpu();
        Ok(Self {
            nodes,
            kind_of,
            kinds,
            standings,
            ties,
            rooms,
            versions,
            log: Log::default(),
            domains,
            weights,
            cpu_per_gpu,
            views: Vec::new(),
            known: BTreeMap::new(),
            scratch: Vec::new(),
        })
    }

    /// Sets what one GPU of a model costs, in thousandths, in place of what the mix says. Everything is scored anew.
    pub fn set_price(&mut self, model: &str, price: u32) {
        for kind in self.kinds.iter_mut().filter(|kind| *kind.gpu.model == *model) {
            kind.price = price;
        }
        for view in &mut self.views {
            view.ranked.upto = None;
        }
    }

    /// The price of one GPU of a model, in thousandths: 1000 where, GPU by GPU, as much of what usually comes insists on this
    /// model as usually comes for the whole cluster.
    pub fn price(&self, model: &str) -> Option<u32> {
        self.kinds.iter().find(|kind| *kind.gpu.model == *model).map(|kind| kind.price)
    }

    /// Makes a shape known.
    pub fn shape(&mut self, shape: &Shape) -> Result<ShapeId, PlacementError> {
        if let Some(id) = self.known.get(shape) {
            return Ok(*id);
        }
        shape.check()?;
        let id = ShapeId(self.views.len());
        self.views.push(View {
            shape: shape.clone(),
            class: Class::of(shape),
            fits: self.kinds.iter().map(|kind| Fit::new(shape, &kind.gpu)).collect(),
            ranking: Ranking::default(),
            ranked: Seen::default(),
            counts: Counts::default(),
            counted: Seen::default(),
        });
        self.known.insert(shape.clone(), id);
        Ok(id)
    }

    /// The nodes, in the order of their domains.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        (0..).map(NodeId).zip(&self.nodes)
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(usize::try_from(id.0).ok()?)
    }

    /// The expected fragment of all nodes, in thousandths of a GPU, rounded down.
    pub fn fragment(&self) -> i64 {
        self.standings.iter().map(Standing::fragment).sum::<i64>() / MIX_WEIGHT
    }

    /// Where a task of this shape is placed best; `None` if it fits nowhere.
    pub fn choose(&mut self, shape: ShapeId) -> Option<Choice> {
        self.rank(shape)?;
        let best = NodeId(self.views.get(shape.0)?.ranking.best()?);
        let (_, devices) = self.score_on(shape, best)?;
        Some(Choice { node: best, devices })
    }

    /// The score of a node for a shape, and which of its GPUs a task would take; `None` if it does not fit. Computed
    /// from nothing but the node.
    pub(super) fn score_on(&mut self, shape: ShapeId, id: NodeId) -> Option<(Score, Devices)> {
        let index = usize::try_from(id.0).ok()?;
        let Self { nodes, kind_of, kinds, standings, views, weights, cpu_per_gpu, scratch, .. } = self;
        let view = views.get(shape.0)?;
        let scorer = Scorer { terms: weights.of(view.class), cpu_per_gpu: *cpu_per_gpu };
        let kind = *kind_of.get(index)?;
        let fit = (*view.fits.get(kind)?)?;
        scorer.score(
            nodes.get(index)?,
            (kinds.get(kind)?, standings.get(index)?),
            (&view.shape, fit),
            scratch,
        )
    }

    /// Takes what was chosen.
    pub fn place(&mut self, shape: ShapeId, choice: &Choice) -> Result<(), PlacementError> {
        self.change(shape, choice, Node::take)
    }

    /// Gives back what was placed.
    pub fn remove(&mut self, shape: ShapeId, choice: &Choice) -> Result<(), PlacementError> {
        self.change(shape, choice, Node::give)
    }

    fn change(
        &mut self,
        shape: ShapeId,
        choice: &Choice,
        act: fn(&mut Node, &Shape, u32, &Devices) -> bool,
    ) -> Result<(), PlacementError> {
        let index = usize::try_from(choice.node.0).map_err(|_| PlacementError::Unknown)?;
        let view = self.views.get(shape.0).ok_or(PlacementError::Unknown)?;
        let kind = self.kind_of.get(index).copied().ok_or(PlacementError::Unknown)?;
        let node = self.nodes.get_mut(index).ok_or(PlacementError::Unknown)?;
        let fit = view.fits.get(kind).copied().flatten();
        let done = fit.is_some_and(|fit| act(node, &view.shape, fit.per_gpu, &choice.devices));
        if !done {
            return Err(PlacementError::Changed(node.name.to_string()));
        }
        if let (Some(standing), Some(kind)) = (self.standings.get_mut(index), self.kinds.get(kind)) {
            *standing = kind.fragments.standing(node);
        }
        if let Some(place) = self.ties.get_mut(index) {
            *place = tie(node);
        }
        if let Some(place) = self.rooms.get_mut(index) {
            *place = node.room();
        }
        if let Some(version) = self.versions.get_mut(index) {
            *version = version.wrapping_add(1);
        }
        self.log.push(choice.node.0, self.nodes.len());
        Ok(())
    }

    /// Brings the ranking of a shape up to date.
    pub(super) fn rank(&mut self, shape: ShapeId) -> Option<()> {
        let Self {
            nodes,
            kind_of,
            kinds,
            standings,
            views,
            weights,
            cpu_per_gpu,
            scratch,
            ties,
            versions,
            log,
            ..
        } = self;
        let view = views.get_mut(shape.0)?;
        let scorer = Scorer { terms: weights.of(view.class), cpu_per_gpu: *cpu_per_gpu };
        let View { shape, fits, ranking, ranked, .. } = view;
        let mut score = |id: u32| {
            let index = usize::try_from(id).ok()?;
            let kind = *kind_of.get(index)?;
            let fit = (*fits.get(kind)?)?;
            let best = scorer.score(
                nodes.get(index)?,
                (kinds.get(kind)?, standings.get(index)?),
                (shape, fit),
                scratch,
            );
            best.map(|(score, _)| score)
        };
        match ranked.changed(log, versions) {
            Changed::All => {
                *ranking = Ranking::new(versions.len());
                for id in ids(versions.len()) {
                    ranking.set(id, score(id).unwrap_or(NOWHERE));
                }
                ranking.replay_all(ties);
            }
            Changed::These(nodes) => {
                // Matches compare what all nodes are now, so all scores are set before the first match.
                for id in &nodes {
                    ranking.set(*id, score(*id).unwrap_or(NOWHERE));
                }
                for id in &nodes {
                    ranking.replay(*id, ties);
                }
            }
        }
        Some(())
    }

    /// Brings the counts of how many tasks of a shape fit up to date.
    pub(super) fn count(&mut self, shape: ShapeId) -> Option<()> {
        let Self { nodes, rooms, kind_of, views, versions, log, domains, .. } = self;
        let View { shape, fits, counts, counted, .. } = views.get_mut(shape.0)?;
        let count = |id: u32| {
            let index = usize::try_from(id).ok()?;
            let fit = fits.get(*kind_of.get(index)?).copied().flatten()?;
            let known = rooms.get(index)?.count(shape, Counts::MOST);
            known.or_else(|| Some(nodes.get(index)?.count(shape, fit.per_gpu, Counts::MOST)))
        };
        match counted.changed(log, versions) {
            Changed::All => {
                *counts = Counts::new(domains, versions.len());
                for id in ids(versions.len()) {
                    counts.set(domains, id, count(id).unwrap_or_default());
                }
            }
            Changed::These(nodes) => {
                for id in nodes {
                    counts.set(domains, id, count(id).unwrap_or_default());
                }
            }
        }
        Some(())
    }

    pub(super) fn view(&self, shape: ShapeId) -> Option<&View> {
        self.views.get(shape.0)
    }
}

/// Of which nodes something has to be computed again.
enum Changed {
    All,
    These(Vec<u32>),
}

impl Seen {
    /// What changed since the last time; from now on it counts as seen.
    fn changed(&mut self, log: &Log, versions: &[u32]) -> Changed {
        let since = log.since(self.upto);
        self.upto = Some(log.next);
        let Some(nodes) = since else {
            self.versions = versions.to_vec();
            return Changed::All;
        };
        let mut changed = Vec::new();
        for (_, node) in nodes {
            let Ok(index) = usize::try_from(*node) else { continue };
            if let (Some(seen), Some(version)) = (self.versions.get_mut(index), versions.get(index))
                && seen != version
            {
                *seen = *version;
                changed.push(*node);
            }
        }
        Changed::These(changed)
    }
}

fn ids(nodes: usize) -> std::ops::Range<u32> {
    0..u32::try_from(nodes).unwrap_or(u32::MAX)
}

fn tie(node: &Node) -> Tie {
    Tie { gpu: node.free_gpu(), cpu: node.cpu.free, fingerprint: node.fingerprint() }
}

/// The largest amount of CPU or memory that a node may have: sums of 2^32 nodes' amounts stay in 64 bits anyhow.
const LARGEST: u32 = 1 << 30;

fn check(node: &Node, depth: usize) -> Result<(), PlacementError> {
    let sound = |capacity: super::Capacity| capacity.free <= capacity.all && capacity.all <= LARGEST;
    let gpu = |gpu: &super::Gpu| match gpu.slots {
        Some(slots) => gpu.free == slots.milli(),
        None => gpu.free <= WHOLE_GPU,
    };
    if node.gpus.len() > 64 || !sound(node.cpu) || !sound(node.memory) || !node.gpus.iter().all(gpu) {
        return Err(PlacementError::Node(node.name.to_string()));
    }
    if node.domains.len() != depth {
        return Err(PlacementError::Depth(node.name.to_string(), node.domains.len(), depth));
    }
    Ok(())
}

/// The price of one GPU of each kind: what tasks that name models demand of it, if each spreads its demand evenly over the
/// GPUs that it may have, in thousandths of what all tasks demand of the average GPU.
fn prices(nodes: &[Node], kinds: &[GpuKind], kind_of: &[usize], mix: &TaskMix) -> Vec<u32> {
    let mut capacity = vec![0_i64; kinds.len()];
    for (node, kind) in nodes.iter().zip(kind_of) {
        if let Some(capacity) = capacity.get_mut(*kind) {
            *capacity += i64::try_from(node.gpus.len()).unwrap_or_default();
        }
    }
    let all: i64 = capacity.iter().sum();
    // What one task takes depends on the kind where it asks by memory.
    let demand =
        |shape: &Shape, kind: &GpuKind| shape.per_gpu(kind).map(|milli| i64::from(milli * shape.count()));
    let average = |shape: &Shape| {
        let spread = kinds
            .iter()
            .zip(&capacity)
            .filter_map(|(kind, count)| Some((demand(shape, kind)? * count, *count)));
        let (sum, count) = spread.fold((0, 0), |(sum, gpus), (demand, count)| (sum + demand, gpus + count));
        (sum.checked_div(count).unwrap_or_default(), count)
    };
    let total: i64 = mix.shapes().map(|(shape, popularity)| average(shape).0 * popularity).sum();
    let of = |kind: &GpuKind| {
        let insisting =
            mix.shapes().filter(|(shape, _)| shape.gpus != Ask::Nothing && !shape.models.is_any());
        let density = insisting.filter_map(|(shape, popularity)| {
            let demand = demand(shape, kind)?;
            (demand * popularity * 1000).checked_div(average(shape).1)
        });
        let price = (density.sum::<i64>() * all).checked_div(total).unwrap_or_default();
        u32::try_from(price).unwrap_or(u32::MAX)
    };
    kinds.iter().map(of).collect()
}
