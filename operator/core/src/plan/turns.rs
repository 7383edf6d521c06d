//! In what order the heads of one cycle are dealt with.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, VecDeque},
};

use super::{Policy, entry::Entry};
use crate::{
    forest::{Forest, NodeId, Share},
    overlay::Overlay,
    state::State,
};

/// The heads that have not had their turn.
pub(super) enum Turns<'a> {
    /// Least borrowing first, then highest priority, then longest wait.
    Sorted(VecDeque<Entry<'a>>),
    /// The smallest share first, after what those before took.
    Fair(Tournament<'a>),
}

impl<'a> Turns<'a> {
    pub(super) fn new(mut entries: Vec<Entry<'a>>, state: &'a State, policy: &Policy) -> Self {
        if policy.fair_sharing.is_some() {
            return Self::Fair(Tournament::new(entries, state.forest()));
        }
        let borrowing = |entry: &Entry<'_>| entry.assignment.borrowing;
        entries.sort_by(|a, b| borrowing(a).cmp(&borrowing(b)).then_with(|| a.order.cmp(b.order)));
        Self::Sorted(entries.into())
    }

    /// Who has its turn now.
    pub(super) fn next(&mut self, overlay: &mut Overlay<'_>) -> Option<Entry<'a>> {
        match self {
            Self::Sorted(entries) => entries.pop_front(),
            Self::Fair(tournament) => tournament.next(overlay),
        }
    }

    /// Who had its turn last changed what is used, in other leaves too if somebody was evicted.
    pub(super) fn changed(&mut self, evicted: bool) {
        if let Self::Fair(tournament) = self {
            tournament.changed(evicted);
        }
    }
}

/// Heads that compete from the leaves of each tree up to its root: of the children of a cohort the one goes on
/// whose share, with what its head asks for, is the smallest (KEP-1714). A child that does not borrow what is asked
/// for goes before one that does.
pub(super) struct Tournament<'a> {
    forest: &'a Forest,
    entries: BTreeMap<NodeId, Entry<'a>>,
    fields: BTreeMap<NodeId, Field>,
    /// The share of each leaf with its head's usage. No other head changes it.
    own: BTreeMap<NodeId, Share>,
    /// The shares of the cohorts above a leaf but for the root, the nearest first, with its head's usage.
    above: BTreeMap<NodeId, Vec<Share>>,
}

/// Those who compete in one cohort.
#[derive(Clone, Default)]
struct Field {
    /// Its leaves with a head, the best last.
    leaves: Vec<NodeId>,
    cohorts: Vec<NodeId>,
}

impl<'a> Tournament<'a> {
    fn new(entries: Vec<Entry<'a>>, forest: &'a Forest) -> Self {
        let entries = entries.into_iter().map(|entry| (entry.leaf, entry)).collect();
        let (fields, own, above) = Default::default();
        Self { forest, entries, fields, own, above }
    }

    fn next(&mut self, overlay: &mut Overlay<'_>) -> Option<Entry<'a>> {
        let root = self.forest.root(*self.entries.first_key_value()?.0);
        let winner = self.winner(root, overlay)?.0;
        self.entries.remove(&winner)
    }

    /// The leaf whose head wins below a node, and how many steps below the node it is.
    fn winner(&mut self, node: NodeId, overlay: &mut Overlay<'_>) -> Option<(NodeId, usize)> {
        if self.forest.is_leaf(node) {
            return self.entries.contains_key(&node).then_some((node, 0));
        }
        if !self.fields.contains_key(&node) {
            let field = self.field(node, overlay);
            self.fields.insert(node, field);
        }
        let field = self.fields.get_mut(&node)?;
        while field.leaves.last().is_some_and(|leaf| !self.entries.contains_key(leaf)) {
            field.leaves.pop();
        }
        let mut best = field.leaves.last().map(|leaf| (*leaf, 0));
        for cohort in field.cohorts.clone() {
            let Some(challenger) = self.winner(cohort, overlay) else { continue };
            self.note_above(challenger.0, overlay);
            if let Some((leaf, _)) = best {
                self.note_above(leaf, overlay);
            }
            if best.is_none_or(|best| self.compare(challenger, best) == Ordering::Less) {
                best = Some(challenger);
            }
        }
        best.map(|(leaf, depth)| (leaf, depth + 1))
    }

    fn field(&mut self, cohort: NodeId, overlay: &Overlay<'_>) -> Field {
        let (mut leaves, cohorts): (Vec<NodeId>, Vec<NodeId>) =
            self.forest.children(cohort).iter().partition(|child| self.forest.is_leaf(**child));
        leaves.retain(|leaf| self.entries.contains_key(leaf));
        for leaf in &leaves {
            if let Some(entry) = self.entries.get(leaf) {
                let share = self.forest.share_with(&overlay.later, *leaf, &entry.assignment.usage);
                self.own.insert(*leaf, share);
            }
        }
        leaves.sort_by(|a, b| self.compare((*b, 0), (*a, 0)));
        Field { leaves, cohorts }
    }

    /// Computes the shares above a leaf, if they are not known.
    fn note_above(&mut self, leaf: NodeId, overlay: &mut Overlay<'_>) {
        if self.above.contains_key(&leaf) {
            return;
        }
        let Some(entry) = self.entries.get(&leaf) else { return };
        overlay.charge(leaf, &entry.assignment.usage);
        let shares =
            self.forest.ancestors(leaf).map(|node| self.forest.share(&overlay.later, node)).collect();
        overlay.release(leaf, &entry.assignment.usage);
        self.above.insert(leaf, shares);
    }

    fn compare(&self, a: (NodeId, usize), b: (NodeId, usize)) -> Ordering {
        let share = |(leaf, depth): (NodeId, usize)| match depth.checked_sub(1) {
            None => self.own.get(&leaf),
            Some(index) => self.above.get(&leaf).and_then(|shares| shares.get(index)),
        };
        let entry = |(leaf, _): (NodeId, usize)| self.entries.get(&leaf);
        let (Some(of_a), Some(of_b), Some(entry_a), Some(entry_b)) = (share(a), share(b), entry(a), entry(b))
        else {
            return Ordering::Equal;
        };
        let borrowing_a = of_a.is_borrowing_any_of(&entry_a.assignment.usage);
        let borrowing_b = of_b.is_borrowing_any_of(&entry_b.assignment.usage);
        borrowing_a
            .cmp(&borrowing_b)
            .then_with(|| of_a.compare(of_b))
            .then_with(|| entry_a.order.cmp(entry_b.order))
    }

    /// What a leaf used changed: so did the shares of the cohorts above it, but not that of the other leaves, unless
    /// somebody was evicted.
    fn changed(&mut self, evicted: bool) {
        self.above.clear();
        if evicted {
            self.fields.clear();
        }
    }
}
