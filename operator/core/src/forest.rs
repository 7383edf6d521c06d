//! The quota forest: every ClusterQueue a leaf, cohorts above them, and how much of each is used.
//!
//! Every node has a *subtree quota*: what it owns and what its children put into the common pot. What a node
//! keeps from its parent (because of a lending limit) is its *local quota*; usage fills that first, and only what
//! exceeds it is charged to the parent. So the root knows what is used of what is common, and `available` is a
//! walk from the root down to the leaf. The algebra is Kueue's (KEP-79, hierarchical cohorts). Quotas saturate;
//! what is used is counted exactly.
//!
//! Usage is the only thing that changes with time. A plan works on a clone of it, which costs little: nodes are
//! copied when they are written to.

mod share;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use self::share::Share;
use crate::{
    name::{ClusterQueueName, CohortName, FlavorResource, ResourceName},
    quantity::{Amount, Sums, Usage},
    queue::{ClusterQueue, Cohort, Quota, Quotas, Weight},
};

/// A node's place in the forest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeId(usize);

/// What a node stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeName {
    /// A leaf.
    Queue(ClusterQueueName),
    /// Everything above.
    Cohort(CohortName),
}

/// What a ClusterQueue or a cohort owns and where it hangs; fixed until a declaration changes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Node {
    name: NodeName,
    parent: Option<NodeId>,
    children: Vec<NodeId>,
    weight: Weight,
    /// The distance to its furthest leaf.
    height: u32,
    quotas: Quotas,
    subtree: Usage,
    /// What its children could have of each resource, of all flavors together, with nothing used anywhere.
    lendable: BTreeMap<ResourceName, i128>,
}

/// The shape of the forest and the quota in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Forest {
    nodes: Vec<Node>,
    leaves: BTreeMap<ClusterQueueName, NodeId>,
    /// The cohorts that have no place in it.
    outside: BTreeMap<CohortName, Obstacle>,
}

/// Why a cohort, and everything below it, has no place in the forest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// It is its own ancestor, or below one that is.
    Cycle,
    /// This cohort, which it is or is below of, has a declaration that cannot be honoured.
    Invalid(CohortName, String),
}

/// What is used at every node of a forest.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Used(Vec<Arc<Sums>>);

/// Where an amount fits.
struct Reach {
    /// The height of the lowest node that has room for it, or of the root if none has.
    height: u32,
    /// Whether that node has a parent.
    below_root: bool,
}

impl Forest {
    /// The forest of these declarations. Cohorts that are only named, never declared, are made here. A cohort
    /// whose ancestors lead back to it, or whose declaration is invalid, is left out, and so is everything below
    /// it: see [`obstacle`](Self::obstacle).
    pub fn new<'a>(
        queues: impl Iterator<Item = &'a ClusterQueue>,
        cohorts: &BTreeMap<CohortName, Cohort>,
    ) -> Self {
        let mut forest = Self::default();
        let mut placed = BTreeMap::new();
        let mut leaves = Vec::new();
        for queue in queues {
            let parent = queue.cohort.as_ref().map(|name| forest.place(name, cohorts, &mut placed));
            leaves.push((queue, parent));
        }
        for name in cohorts.keys() {
            forest.place(name, cohorts, &mut placed);
        }
        for (queue, parent) in leaves {
            if parent == Some(None) {
                continue;
            }
            let name = NodeName::Queue(queue.name.clone());
            let id = forest.push(name, parent.flatten(), queue.quotas(), queue.weight);
            forest.leaves.insert(queue.name.clone(), id);
        }
        forest.sum_up();
        forest.note_lendable();
        forest
    }

    /// Puts a cohort and its ancestors into the forest; `None` if it has no place there.
    fn place(
        &mut self,
        name: &CohortName,
        cohorts: &BTreeMap<CohortName, Cohort>,
        placed: &mut BTreeMap<CohortName, Option<NodeId>>,
    ) -> Option<NodeId> {
        if let Some(known) = placed.get(name) {
            return *known;
        }
        let id = if let Some(obstacle) = obstacle(name, cohorts) {
            self.outside.insert(name.clone(), obstacle);
            None
        } else {
            let declared = cohorts.get(name);
            let parent = declared
                .and_then(|cohort| cohort.parent.as_ref())
                .and_then(|parent| self.place(parent, cohorts, placed));
            let quotas = declared.map(|cohort| cohort.quotas.clone()).unwrap_or_default();
            let weight = declared.map(|cohort| cohort.weight).unwrap_or_default();
            Some(self.push(NodeName::Cohort(name.clone()), parent, quotas, weight))
        };
        placed.insert(name.clone(), id);
        id
    }

    fn push(&mut self, name: NodeName, parent: Option<NodeId>, quotas: Quotas, weight: Weight) -> NodeId {
        let id = NodeId(self.nodes.len());
        self.nodes.push(Node {
            name,
            parent,
            children: Vec::new(),
            weight,
            height: 0,
            quotas,
            subtree: Usage::new(),
            lendable: BTreeMap::new(),
        });
        if let Some(NodeId(parent)) = parent
            && let Some(parent) = self.nodes.get_mut(parent)
        {
            parent.children.push(id);
        }
        id
    }

    /// Fills subtree quotas and heights. Parents stand before their children, so one pass from the end does it.
    fn sum_up(&mut self) {
        for index in (0..self.nodes.len()).rev() {
            let Some((above, [node, ..])) = self.nodes.split_at_mut_checked(index) else { continue };
            for (resource, quota) in &node.quotas {
                *node.subtree.entry(resource.clone()).or_default() += quota.nominal;
            }
            let Some(parent) = node.parent.and_then(|NodeId(parent)| above.get_mut(parent)) else { continue };
            parent.height = parent.height.max(node.height + 1);
            for (resource, amount) in &node.subtree {
                let lent = *amount - node.local_quota(resource);
                *parent.subtree.entry(resource.clone()).or_default() += lent;
            }
        }
    }

    /// The leaf of a ClusterQueue; `None` if there is no such queue or its cohort has no place.
    pub fn leaf(&self, queue: &ClusterQueueName) -> Option<NodeId> {
        self.leaves.get(queue).copied()
    }

    /// The node of a cohort; `None` if there is no such cohort or it has no place.
    pub fn cohort(&self, cohort: &CohortName) -> Option<NodeId> {
        let is_it = |node: &Node| matches!(&node.name, NodeName::Cohort(name) if name == cohort);
        self.nodes.iter().position(is_it).map(NodeId)
    }

    /// Why a cohort has no place in the forest, if it has none.
    pub fn obstacle(&self, cohort: &CohortName) -> Option<&Obstacle> {
        self.outside.get(cohort)
    }

    /// Nothing used anywhere.
    pub fn unused(&self) -> Used {
        Used(vec![Arc::default(); self.nodes.len()])
    }

    /// What a node stands for.
    pub fn name(&self, node: NodeId) -> Option<&NodeName> {
        self.get(node).map(|here| &here.name)
    }

    /// The cohort that a node hangs below.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.get(node)?.parent
    }

    /// The cohorts above a node, the nearest first.
    pub fn ancestors(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.path(node).skip(1).map(|(id, _)| id)
    }

    /// What hangs below a cohort.
    pub fn children(&self, node: NodeId) -> &[NodeId] {
        self.get(node).map(|here| here.children.as_slice()).unwrap_or_default()
    }

    /// Whether a node is a ClusterQueue.
    pub fn is_leaf(&self, node: NodeId) -> bool {
        matches!(self.name(node), Some(NodeName::Queue(_)))
    }

    /// The ClusterQueues below a node, or itself.
    pub fn leaves_below(&self, node: NodeId) -> Vec<NodeId> {
        let mut leaves = Vec::new();
        let mut open = vec![node];
        while let Some(id) = open.pop() {
            if self.is_leaf(id) {
                leaves.push(id);
            }
            open.extend(self.children(id).iter().rev());
        }
        leaves
    }

    /// Every node.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        (0..self.nodes.len()).map(NodeId)
    }

    /// What a node has, with what those below it lend.
    pub fn subtree_quotas(&self, node: NodeId) -> impl Iterator<Item = (&FlavorResource, &Amount)> {
        self.get(node).into_iter().flat_map(|here| &here.subtree)
    }

    /// Where a node is, as `/root/cohort/queue`.
    pub fn path_text(&self, node: NodeId) -> String {
        let names = self.path(node).map(|(_, here)| match &here.name {
            NodeName::Queue(name) => name.as_str(),
            NodeName::Cohort(name) => name.as_str(),
        });
        let mut names: Vec<_> = names.collect();
        names.reverse();
        format!("/{}", names.join("/"))
    }

    /// Whether more is used of a resource than the subtree of a node has: it borrows.
    pub fn borrows(&self, used: &Used, node: NodeId, resource: &FlavorResource) -> bool {
        self.borrows_with(used, node, resource, Amount::ZERO)
    }

    /// Whether a node would borrow if it used `amount` more.
    pub fn borrows_with(&self, used: &Used, node: NodeId, resource: &FlavorResource, amount: Amount) -> bool {
        let subtree = self.get(node).map(|here| here.subtree(resource)).unwrap_or_default();
        used.get(node, resource) + amount > subtree
    }

    /// Whether all of `wanted` is within what the subtree of a node has left. What of it is not kept by the node
    /// for itself is left in `wanted`: that is asked of its parent.
    pub fn fits_in_subtree(&self, used: &Used, node: NodeId, wanted: &mut Usage) -> bool {
        let Some(here) = self.get(node) else { return false };
        let mut fits = true;
        for (resource, amount) in wanted {
            let in_use = used.get(node, resource);
            fits &= in_use + *amount <= here.subtree(resource);
            let local_available = (here.local_quota(resource) - in_use).max(Amount::ZERO);
            *amount = (*amount - local_available).max(Amount::ZERO);
        }
        fits
    }

    /// Whether all of `usage` is available to a node.
    pub fn fits(&self, used: &Used, node: NodeId, usage: &Usage) -> bool {
        let available = |resource| self.available(used, node, resource).max(Amount::ZERO);
        usage.iter().all(|(resource, amount)| *amount <= available(resource))
    }

    /// The root of the tree that `node` stands in.
    pub fn root(&self, node: NodeId) -> NodeId {
        self.path(node).last().map_or(node, |(id, _)| id)
    }

    /// What a ClusterQueue may still take; below zero if more is used than it may have.
    pub fn available(&self, used: &Used, node: NodeId, resource: &FlavorResource) -> Amount {
        let Some(here) = self.get(node) else { return Amount::ZERO };
        let subtree = here.subtree(resource);
        let in_use = used.get(node, resource);
        let Some(parent) = here.parent else { return subtree - in_use };
        let local = here.local_quota(resource);
        let mut from_parent = self.available(used, parent, resource);
        if let Some(limit) = here.quota(resource).borrowing_limit {
            let stored_in_parent = subtree - local;
            let used_in_parent = (in_use - local).max(Amount::ZERO);
            from_parent = from_parent.min(stored_in_parent - used_in_parent + limit);
        }
        (local - in_use).max(Amount::ZERO) + from_parent
    }

    /// The most that a ClusterQueue could ever take, with nothing used anywhere.
    pub fn capacity(&self, node: NodeId, resource: &FlavorResource) -> Amount {
        let Some(here) = self.get(node) else { return Amount::ZERO };
        let subtree = here.subtree(resource);
        let Some(parent) = here.parent else { return subtree };
        let most = here.local_quota(resource) + self.capacity(parent, resource);
        match here.quota(resource).borrowing_limit {
            Some(limit) => most.min(subtree + limit),
            None => most,
        }
    }

    /// How far up `amount` more has to be borrowed from: 0 if it is within the ClusterQueue's own quota,
    /// otherwise the height of the lowest cohort that has room for it (or of the root, if none has).
    pub fn borrowing_level(
        &self,
        used: &Used,
        node: NodeId,
        resource: &FlavorResource,
        amount: Amount,
    ) -> u32 {
        self.reach(used, node, resource, amount).height
    }

    /// Whether `amount` would be within the quota of the ClusterQueue or of a cohort below the root, so that
    /// others may have to give back what they borrowed of it.
    pub fn within_subtree(
        &self,
        used: &Used,
        node: NodeId,
        resource: &FlavorResource,
        amount: Amount,
    ) -> bool {
        self.reach(used, node, resource, amount).below_root
    }

    /// The quota of a ClusterQueue or a cohort.
    pub fn quota(&self, node: NodeId, resource: &FlavorResource) -> Quota {
        self.get(node).map(|here| here.quota(resource)).unwrap_or_default()
    }

    fn reach(&self, used: &Used, node: NodeId, resource: &FlavorResource, amount: Amount) -> Reach {
        let mut remaining = amount;
        let mut height = 0;
        for (id, here) in self.path(node) {
            height = here.height;
            let in_use = used.get(id, resource);
            if in_use + remaining <= here.subtree(resource) {
                return Reach { height, below_root: here.parent.is_some() };
            }
            remaining -= (here.local_quota(resource) - in_use).max(Amount::ZERO);
        }
        Reach { height, below_root: false }
    }

    /// Charges `amount` to a ClusterQueue.
    pub fn charge(&self, used: &mut Used, node: NodeId, resource: &FlavorResource, amount: Amount) {
        let mut amount = i128::from(amount.0);
        for (id, here) in self.path(node) {
            let Some(sums) = used.at(id) else { return };
            let local = i128::from(here.local_quota(resource).0);
            let local_available = (local - sums.exact(resource)).max(0);
            sums.add(resource, amount);
            if amount <= local_available {
                return;
            }
            amount -= local_available;
        }
    }

    /// Charges all of `usage` to a ClusterQueue.
    pub fn charge_all(&self, used: &mut Used, node: NodeId, usage: &Usage) {
        for (resource, amount) in usage {
            self.charge(used, node, resource, *amount);
        }
    }

    /// Takes back what [`charge_all`](Self::charge_all) charged.
    pub fn release_all(&self, used: &mut Used, node: NodeId, usage: &Usage) {
        for (resource, amount) in usage {
            self.release(used, node, resource, *amount);
        }
    }

    /// Takes back what [`charge`](Self::charge) charged.
    pub fn release(&self, used: &mut Used, node: NodeId, resource: &FlavorResource, amount: Amount) {
        let mut amount = i128::from(amount.0);
        for (id, here) in self.path(node) {
            let Some(sums) = used.at(id) else { return };
            let local = i128::from(here.local_quota(resource).0);
            let stored_in_parent = sums.exact(resource) - local;
            sums.add(resource, -amount);
            if stored_in_parent <= 0 {
                return;
            }
            amount = amount.min(stored_in_parent);
        }
    }

    fn get(&self, NodeId(index): NodeId) -> Option<&Node> {
        self.nodes.get(index)
    }

    /// From a node to its root.
    fn path(&self, from: NodeId) -> impl Iterator<Item = (NodeId, &Node)> {
        let mut next = Some(from);
        std::iter::from_fn(move || {
            let id = next?;
            let node = self.get(id)?;
            next = node.parent;
            Some((id, node))
        })
    }
}

impl Node {
    fn quota(&self, resource: &FlavorResource) -> Quota {
        self.quotas.get(resource).copied().unwrap_or_default()
    }

    fn subtree(&self, resource: &FlavorResource) -> Amount {
        self.subtree.get(resource).copied().unwrap_or_default()
    }

    /// What is never lent to the parent.
    fn local_quota(&self, resource: &FlavorResource) -> Amount {
        match self.quota(resource).lending_limit {
            Some(limit) => (self.subtree(resource) - limit).max(Amount::ZERO),
            None => Amount::ZERO,
        }
    }
}

impl Used {
    /// What is used at a node.
    pub fn get(&self, NodeId(index): NodeId, resource: &FlavorResource) -> Amount {
        self.0.get(index).map(|sums| sums.get(resource)).unwrap_or_default()
    }

    fn exact(&self, NodeId(index): NodeId, resource: &FlavorResource) -> i128 {
        self.0.get(index).map(|sums| sums.exact(resource)).unwrap_or_default()
    }

    fn at(&mut self, NodeId(index): NodeId) -> Option<&mut Sums> {
        self.0.get_mut(index).map(Arc::make_mut)
    }
}

/// What keeps a cohort out of the forest: itself or one of its ancestors.
fn obstacle(name: &CohortName, cohorts: &BTreeMap<CohortName, Cohort>) -> Option<Obstacle> {
    let mut seen = BTreeSet::new();
    let mut next = Some(name);
    while let Some(name) = next {
        if !seen.insert(name) {
            return Some(Obstacle::Cycle);
        }
        let cohort = cohorts.get(name)?;
        if let Some(problem) = &cohort.invalid {
            return Some(Obstacle::Invalid(name.clone(), problem.clone()));
        }
        next = cohort.parent.as_ref();
    }
    None
}
