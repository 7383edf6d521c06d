//! From whom fair sharing takes next: from the root down to the child with the largest share, again and again.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, VecDeque},
};

use super::Search;
use crate::{
    forest::{NodeId, Share},
    overlay::Overlay,
    state::Holder,
};

/// The candidates by ClusterQueue, and the nodes of which nothing more can come.
pub(super) struct Targets<'a> {
    search: Search<'a>,
    ancestors: BTreeSet<NodeId>,
    candidates: BTreeMap<NodeId, VecDeque<Holder<'a>>>,
    exhausted: BTreeSet<NodeId>,
}

impl<'a> Targets<'a> {
    /// These candidates, of each ClusterQueue in this order.
    pub(super) fn new(search: &Search<'a>, candidates: Vec<(NodeId, Holder<'a>)>) -> Self {
        let mut by_leaf: BTreeMap<NodeId, VecDeque<Holder<'a>>> = BTreeMap::new();
        for (leaf, holder) in candidates {
            by_leaf.entry(leaf).or_default().push_back(holder);
        }
        let ancestors = search.state.forest().ancestors(search.leaf).collect();
        Self { search: *search, ancestors, candidates: by_leaf, exhausted: BTreeSet::new() }
    }

    /// The ClusterQueue whose turn it is. One candidate of it has to be [popped](Self::pop), or the whole queue
    /// [dropped](Self::drop_queue), before the next.
    pub(super) fn next(&mut self, overlay: &Overlay<'_>) -> Option<NodeId> {
        let root = self.search.state.forest().root(self.search.leaf);
        if root == self.search.leaf {
            return (self.has(root) && !self.exhausted.contains(&root)).then_some(root);
        }
        while !self.exhausted.contains(&root) {
            if let Some(leaf) = self.descend(root, overlay) {
                return Some(leaf);
            }
        }
        None
    }

    /// The next candidate of a ClusterQueue.
    pub(super) fn pop(&mut self, leaf: NodeId) -> Option<Holder<'a>> {
        self.candidates.get_mut(&leaf)?.pop_front()
    }

    /// Nothing more is taken from this ClusterQueue.
    pub(super) fn drop_queue(&mut self, leaf: NodeId) {
        self.exhausted.insert(leaf);
    }

    fn has(&self, leaf: NodeId) -> bool {
        self.candidates.get(&leaf).is_some_and(|candidates| !candidates.is_empty())
    }

    /// The ClusterQueue with the largest share below this cohort; none if that only showed that nothing comes from
    /// some node.
    fn descend(&mut self, cohort: NodeId, overlay: &Overlay<'_>) -> Option<NodeId> {
        let forest = self.search.state.forest();
        let mut best_leaf: Option<NodeId> = None;
        let mut best_leaf_share = Share::less_than_any();
        let mut best_cohort: Option<NodeId> = None;
        let mut best_cohort_share = Share::less_than_any();
        for child in forest.children(cohort) {
            if self.exhausted.contains(child) {
                continue;
            }
            let share = forest.share(&overlay.later, *child);
            if forest.is_leaf(*child) {
                let own = *child == self.search.leaf;
                if (!share.is_borrowing() && !own) || !self.has(*child) {
                    self.exhausted.insert(*child);
                    continue;
                }
                let better = match share.compare(&best_leaf_share) {
                    Ordering::Greater => true,
                    Ordering::Equal => best_leaf.is_some_and(|best| self.goes_first(*child, best)),
                    Ordering::Less => false,
                };
                if better {
                    best_leaf = Some(*child);
                    best_leaf_share = share;
                }
            } else if !share.is_borrowing() && !self.ancestors.contains(child) {
                self.exhausted.insert(*child);
            } else if share.compare(&best_cohort_share) != Ordering::Less {
                best_cohort = Some(*child);
                best_cohort_share = share;
            }
        }
        match (best_cohort, best_leaf) {
            (None, None) => {
                self.exhausted.insert(cohort);
                None
            }
            // Of equals the cohort: within it the largest share can be chosen.
            (Some(next), _) if best_cohort_share.compare(&best_leaf_share) != Ordering::Less => {
                self.descend(next, overlay)
            }
            (_, leaf) => leaf,
        }
    }

    fn goes_first(&self, leaf: NodeId, other: NodeId) -> bool {
        let first = |leaf| self.candidates.get(&leaf).and_then(VecDeque::front);
        match (first(leaf), first(other)) {
            (Some(a), Some(b)) => self.search.order(a) < self.search.order(b),
            _ => false,
        }
    }
}
