//! The domains that nodes are in, and how many tasks of a shape fit into each.
//!
//! Nodes lie in the order of their domains, so each domain is a range of nodes, and the domains in it are a range of those of
//! the level below. Level 0 is the whole cluster.

use std::ops::Range;

use super::node::Node;

/// One domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Domain {
    /// Its nodes.
    pub(super) nodes: Range<u32>,
    /// The domains of the next level in it; of the lowest level none.
    pub(super) inner: Range<usize>,
}

/// All domains, level by level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Domains {
    levels: Vec<Vec<Domain>>,
    /// Of each node, the index of its domain on each level, level by level.
    of_node: Vec<Vec<u32>>,
}

impl Domains {
    /// The domains of nodes that lie in their order.
    pub(super) fn new(nodes: &[Node], depth: usize) -> Self {
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let mut levels = vec![vec![Domain { nodes: 0..count, inner: 0..0 }]];
        let mut of_node = vec![vec![0; nodes.len()]];
        for level in 1..=depth {
            let mut domains: Vec<Domain> = Vec::new();
            let mut index = Vec::with_capacity(nodes.len());
            let mut before = None;
            for (id, node) in (0..count).zip(nodes) {
                let path = node.domains.get(..level);
                if before != path || domains.is_empty() {
                    domains.push(Domain { nodes: id..id, inner: 0..0 });
                    before = path;
                }
                if let Some(domain) = domains.last_mut() {
                    domain.nodes.end = id + 1;
                }
                index.push(u32::try_from(domains.len() - 1).unwrap_or(u32::MAX));
            }
            if let Some(wider) = levels.last_mut() {
                let mut next = 0;
                for domain in wider {
                    let first = next;
                    while domains.get(next).is_some_and(|inner| inner.nodes.end <= domain.nodes.end) {
                        next += 1;
                    }
                    domain.inner = first..next;
                }
            }
            levels.push(domains);
            of_node.push(index);
        }
        Self { levels, of_node }
    }

    /// The lowest level; nodes are below it.
    pub(super) fn lowest(&self) -> usize {
        self.levels.len().saturating_sub(1)
    }

    /// The domains of a level.
    pub(super) fn at(&self, level: usize) -> &[Domain] {
        self.levels.get(level).map(Vec::as_slice).unwrap_or_default()
    }
}

/// How many tasks of one shape fit: on each node, into each domain, and on how many nodes equally many.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    nodes: Vec<u32>,
    domains: Vec<Vec<u32>>,
    /// On how many nodes `n` tasks fit.
    histogram: Vec<u32>,
}

impl Counts {
    /// No more than this is counted on one node.
    pub(super) const MOST: u32 = 1024;

    /// Nothing fits on any of so many nodes.
    pub(super) fn new(domains: &Domains, nodes: usize) -> Self {
        let zeros = |level: &Vec<Domain>| vec![0; level.len()];
        let none = u32::try_from(nodes).unwrap_or(u32::MAX);
        Self {
            nodes: vec![0; nodes],
            domains: domains.levels.iter().map(zeros).collect(),
            histogram: vec![none],
        }
    }

    /// So many fit on this node.
    pub(super) fn set(&mut self, domains: &Domains, node: u32, count: u32) {
        let Ok(index) = usize::try_from(node) else { return };
        let Some(place) = self.nodes.get_mut(index) else { return };
        let before = std::mem::replace(place, count);
        if before == count {
            return;
        }
        for (level, of_node) in self.domains.iter_mut().zip(&domains.of_node) {
            let domain = of_node.get(index).and_then(|domain| usize::try_from(*domain).ok());
            if let Some(sum) = domain.and_then(|domain| level.get_mut(domain)) {
                *sum = *sum + count - before;
            }
        }
        let bin = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        if self.histogram.len() <= bin(count) {
            self.histogram.resize(bin(count) + 1, 0);
        }
        if let Some(bin) = self.histogram.get_mut(bin(before)) {
            *bin -= 1;
        }
        if let Some(bin) = self.histogram.get_mut(bin(count)) {
            *bin += 1;
        }
    }

    /// How many fit on this node.
    pub(super) fn on(&self, node: u32) -> u32 {
        usize::try_from(node).ok().and_then(|node| self.nodes.get(node)).copied().unwrap_or_default()
    }

    /// How many fit into each domain of a level.
    pub(super) fn at(&self, level: usize) -> &[u32] {
        self.domains.get(level).map(Vec::as_slice).unwrap_or_default()
    }

    /// How many fit on the node on which the most do.
    pub(super) fn most_on_a_node(&self) -> u32 {
        let most = self.histogram.iter().rposition(|nodes| *nodes > 0).unwrap_or_default();
        u32::try_from(most).unwrap_or(u32::MAX)
    }
}
