//! The nodes of one flavor as a tree of domains: fixed until the nodes change.
//!
//! Domains are numbered level by level, and within a level by their values, so that the order of numbers is the order of
//! values, and the children of a domain are neighbours.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use super::{HOST, Node, Placement, Spot, Topology};
use crate::{
    flavor::{Flavor, NodeDemand, Taint, TaintEffect, Toleration},
    labels::Labels,
    name::{HostName, ResourceName, TopologyName},
    quantity::Amounts,
};

/// A domain's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct DomainId(pub(super) usize);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Domain {
    /// Its value at each level down to its own.
    values: Vec<Arc<str>>,
    children: Range<usize>,
}

/// What is asked of a node when pods make demands of theirs.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Host {
    labels: Labels,
    taints: Vec<Taint>,
}

/// The tree of one flavor's nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    topology: TopologyName,
    levels: Vec<Arc<str>>,
    on_hosts: bool,
    domains: Vec<Domain>,
    /// The domains of each level.
    by_level: Vec<Range<usize>>,
    /// Of what a leaf has room.
    columns: Vec<ResourceName>,
    /// How much of each each leaf has, leaf by leaf, less what pods take that no placement accounts for.
    room: Vec<i128>,
    /// Each leaf's node, where leaves are nodes.
    hosts: Vec<Host>,
    /// The tolerations that the flavor gives its pods.
    tolerations: Vec<Toleration>,
    /// Which leaf a node is in.
    leaf_of_node: BTreeMap<HostName, usize>,
    /// Which leaf a placement means by these values.
    leaf_of_values: BTreeMap<Vec<Arc<str>>, usize>,
}

/// What a pod requests, by the columns of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Row {
    pub(super) amounts: Vec<(usize, i64)>,
    /// The first resource that it requests and no node has.
    pub(super) missing: Option<ResourceName>,
}

/// Why a node does not take pods, whatever room it has.
pub(super) enum Unfit {
    Taint(Taint),
    Selector,
    Affinity,
}

/// A leaf in the making.
#[derive(Default)]
struct Leaf<'a> {
    nodes: Vec<&'a Node>,
}

impl Tree {
    /// The tree of those of these nodes that are a flavor's and have all levels of a topology.
    pub fn new<'a>(flavor: &Flavor, topology: &Topology, nodes: impl Iterator<Item = &'a Node>) -> Self {
        let on_hosts = topology.levels.last().is_some_and(|level| **level == *HOST);
        let mut paths: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new();
        let mut leaves: BTreeMap<Vec<Arc<str>>, Leaf<'a>> = BTreeMap::new();
        for node in
            nodes.filter(|node| flavor.labels.iter().all(|(key, value)| node.labels.get(key) == Some(value)))
        {
            let value = |level: &Arc<str>| node.labels.get(&**level).map(|value| Arc::from(value.as_str()));
            let Some(mut path) = topology.levels.iter().map(value).collect::<Option<Vec<Arc<str>>>>() else {
                continue;
            };
            // Where hosts are a level, a host is one leaf, however many nodes say that they are it.
            if on_hosts && let Some(host) = path.last() {
                path.clone_from(paths.entry(Arc::clone(host)).or_insert_with(|| path.clone()));
            }
            leaves.entry(path).or_default().nodes.push(node);
        }
        let mut tree = Self {
            topology: topology.name.clone(),
            levels: topology.levels.clone(),
            on_hosts,
            domains: Vec::new(),
            by_level: Vec::new(),
            columns: columns(leaves.values()),
            room: Vec::new(),
            hosts: Vec::new(),
            tolerations: flavor.tolerations.clone(),
            leaf_of_node: BTreeMap::new(),
            leaf_of_values: BTreeMap::new(),
        };
        tree.branch(&leaves);
        for (index, (path, leaf)) in leaves.into_iter().enumerate() {
            tree.add_leaf(index, path, &leaf);
        }
        tree
    }

    /// Makes all domains above and at these paths to leaves, which are in order.
    fn branch(&mut self, paths: &BTreeMap<Vec<Arc<str>>, Leaf<'_>>) {
        for depth in 1..=self.levels.len() {
            let (above, first) = (self.by_level.last().map_or(0, |level| level.start), self.domains.len());
            let mut parent = above;
            for path in paths.keys() {
                let (own, of_parent) = (path.get(..depth), path.get(..depth - 1));
                let (Some(own), Some(of_parent)) = (own, of_parent) else { continue };
                let known = self.domains.get(first..).and_then(<[Domain]>::last);
                if known.is_some_and(|known| known.values == own) {
                    continue;
                }
                let id = self.domains.len();
                if depth > 1 {
                    while self.domains.get(parent).is_some_and(|domain| domain.values != of_parent) {
                        parent += 1;
                    }
                    if let Some(parent) = self.domains.get_mut(parent) {
                        let start = if parent.children.is_empty() { id } else { parent.children.start };
                        parent.children = start..id + 1;
                    }
                }
                self.domains.push(Domain { values: own.to_vec(), children: 0..0 });
            }
            self.by_level.push(first..self.domains.len());
        }
    }

    fn add_leaf(&mut self, index: usize, path: Vec<Arc<str>>, leaf: &Leaf<'_>) {
        for column in &self.columns {
            let has = |node: &&Node| i128::from(node.allocatable.get(column).map_or(0, |amount| amount.0));
            self.room.push(leaf.nodes.iter().map(has).sum());
        }
        self.leaf_of_node.extend(leaf.nodes.iter().map(|node| (node.name.clone(), index)));
        if self.on_hosts
            && let Some(node) = leaf.nodes.first()
        {
            self.hosts.push(Host { labels: node.labels.clone(), taints: node.taints.clone() });
        }
        let named = if self.on_hosts { path.into_iter().next_back().into_iter().collect() } else { path };
        self.leaf_of_values.insert(named, index);
    }

    /// Its topology.
    pub fn topology(&self) -> &TopologyName {
        &self.topology
    }

    /// Whether each leaf is one node.
    pub(super) fn is_on_hosts(&self) -> bool {
        self.on_hosts
    }

    /// The number of a level.
    pub(super) fn level(&self, label: &str) -> Option<usize> {
        self.levels.iter().position(|level| **level == *label)
    }

    /// The label of a level.
    pub(super) fn label(&self, level: usize) -> &str {
        self.levels.get(level).map_or("", |label| label)
    }

    /// The number of the lowest level.
    pub(super) fn lowest(&self) -> usize {
        self.levels.len().saturating_sub(1)
    }

    /// The domains of a level, in order.
    pub(super) fn domains(&self, level: usize) -> impl Iterator<Item = DomainId> + use<> {
        self.by_level.get(level).cloned().unwrap_or_default().map(DomainId)
    }

    /// How many domains there are.
    pub(super) fn len(&self) -> usize {
        self.domains.len()
    }

    /// The children of a domain, in order.
    pub(super) fn children(&self, domain: DomainId) -> impl Iterator<Item = DomainId> + use<> {
        self.domains.get(domain.0).map(|domain| domain.children.clone()).unwrap_or_default().map(DomainId)
    }

    /// Of what a leaf has room, and how much: leaf by leaf.
    pub(super) fn room(&self) -> &[i128] {
        &self.room
    }

    /// How many resources a leaf has room of.
    pub(super) fn width(&self) -> usize {
        self.columns.len()
    }

    /// The resource of a column.
    pub(super) fn column(&self, column: usize) -> Option<&ResourceName> {
        self.columns.get(column)
    }

    /// What a pod that requests this much takes of a leaf.
    pub(super) fn row(&self, requests: &Amounts) -> Row {
        let mut row = Row { amounts: Vec::with_capacity(requests.len() + 1), missing: None };
        let pods = ResourceName::from(ResourceName::PODS);
        let one = std::iter::once((&pods, 1));
        let asked = requests.iter().filter(|(name, _)| **name != pods).map(|(name, amount)| (name, amount.0));
        for (resource, amount) in asked.chain(one).filter(|(_, amount)| *amount > 0) {
            match self.columns.binary_search(resource) {
                Ok(column) => row.amounts.push((column, amount)),
                Err(_) if row.missing.as_ref().is_none_or(|missing| resource < missing) => {
                    row.missing = Some(resource.clone());
                }
                Err(_) => {}
            }
        }
        row.amounts.sort_unstable();
        row
    }

    /// Pods that no placement accounts for take so much more of a node, or less.
    pub(super) fn crowd(&mut self, node: &HostName, requests: &Amounts, times: i128) {
        let Some(leaf) = self.leaf_of_node.get(node).copied() else { return };
        let row = self.row(requests);
        let start = leaf * self.width();
        for (column, amount) in row.amounts {
            if let Some(room) = self.room.get_mut(start + column) {
                *room -= i128::from(amount) * times;
            }
        }
    }

    /// Whether it has this node.
    pub(super) fn has(&self, node: &HostName) -> bool {
        self.leaf_of_node.contains_key(node)
    }

    /// The leaf that a placement means.
    pub(super) fn leaf(&self, values: &[Arc<str>]) -> Option<usize> {
        self.leaf_of_values.get(values).copied()
    }

    /// The domain that a leaf is.
    pub(super) fn domain_of(&self, leaf: usize) -> DomainId {
        DomainId(self.by_level.last().map_or(0, |level| level.start).saturating_add(leaf))
    }

    /// The value of a leaf at each level.
    pub(super) fn path(&self, leaf: usize) -> &[Arc<str>] {
        self.domains.get(self.domain_of(leaf).0).map(|domain| domain.values.as_slice()).unwrap_or_default()
    }

    /// Whether placements name its domains by these levels.
    pub(super) fn is_named_by(&self, levels: &[Arc<str>]) -> bool {
        self.naming() == levels
    }

    fn naming(&self) -> &[Arc<str>] {
        let first = if self.on_hosts { self.lowest() } else { 0 };
        self.levels.get(first..).unwrap_or_default()
    }

    /// The placement of so many pods in each of these leaves.
    pub(super) fn placement(&self, mut leaves: Vec<(DomainId, i64)>) -> Placement {
        leaves.sort_unstable();
        let first = if self.on_hosts { self.lowest() } else { 0 };
        let spots = leaves.into_iter().filter_map(|(leaf, count)| {
            let values = self.domains.get(leaf.0)?.values.get(first..)?.to_vec();
            let count = u32::try_from(count).ok().filter(|count| *count > 0)?;
            Some(Spot { values, count })
        });
        Placement { spots: spots.collect(), levels: self.naming().to_vec() }
    }

    /// Why each leaf does not take pods with this demand, leaf by leaf, where it does not.
    pub(super) fn unfit<'a>(&'a self, demand: &'a NodeDemand) -> impl Iterator<Item = Option<Unfit>> + 'a {
        let undemanding = demand.selector.is_empty() && demand.affinity.is_empty();
        let leaves = self.by_level.last().map_or(0, ExactSizeIterator::len);
        (0..leaves).map(move |leaf| {
            let host = self.hosts.get(leaf)?;
            if undemanding && host.taints.is_empty() {
                return None;
            }
            self.unfit_host(host, demand)
        })
    }

    fn unfit_host(&self, host: &Host, demand: &NodeDemand) -> Option<Unfit> {
        let tolerations = || demand.tolerations.iter().chain(&self.tolerations);
        let keeps_off = |taint: &&Taint| {
            taint.effect != TaintEffect::PreferNoSchedule
                && !tolerations().any(|toleration| toleration.tolerates(taint))
        };
        if let Some(taint) = host.taints.iter().find(keeps_off) {
            return Some(Unfit::Taint(taint.clone()));
        }
        if !demand.selector.iter().all(|(key, value)| host.labels.get(key) == Some(value)) {
            return Some(Unfit::Selector);
        }
        let holds = demand.affinity.is_empty()
            || demand
                .affinity
                .iter()
                .any(|term| !term.is_empty() && term.iter().all(|r| r.matches(&host.labels)));
        (!holds).then_some(Unfit::Affinity)
    }
}

/// Every resource that any node has, and the count of pods.
fn columns<'a>(leaves: impl Iterator<Item = &'a Leaf<'a>>) -> Vec<ResourceName> {
    let of_nodes = leaves.flat_map(|leaf| &leaf.nodes).flat_map(|node| node.allocatable.keys().cloned());
    let all: BTreeSet<_> = of_nodes.chain([ResourceName::from(ResourceName::PODS)]).collect();
    all.into_iter().collect()
}
