//! How much of what is common a node of the forest takes: the dominant resource share (KEP-1714).
//!
//! A node's share is what it uses beyond the quota of its subtree, of the resource of which it takes most, as a
//! part of all that its parent could have, in thousandths, divided by its weight. The arithmetic is Kueue's, in the
//! same floating-point operations, so that shares that tie there tie here.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use super::{Forest, Node, NodeId, Used};
use crate::{
    name::{FlavorResource, ResourceName},
    quantity::{Amount, Usage},
    queue::Weight,
};

/// A dominant resource share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    weight: Weight,
    /// What is borrowed of the dominant resource in thousandths of what there is; not weighted.
    ratio: f64,
    /// The dominant resource, if any is borrowed.
    pub resource: Option<ResourceName>,
    /// What is borrowed.
    borrowed: BTreeSet<FlavorResource>,
}

impl Share {
    /// Less than any share that a node can have.
    pub fn less_than_any() -> Self {
        Self { ratio: -1.0, ..Self::default() }
    }

    /// Whether anything is borrowed.
    pub fn is_borrowing(&self) -> bool {
        !self.borrowed.is_empty()
    }

    /// Whether any of what `usage` asks for is borrowed.
    pub fn is_borrowing_any_of(&self, usage: &Usage) -> bool {
        self.borrowed.iter().any(|key| usage.get(key).is_some_and(|amount| *amount > Amount::ZERO))
    }

    /// Whether it is infinite: something is borrowed at a weight of nothing.
    pub fn is_infinite(&self) -> bool {
        self.weight.0 == 0 && self.ratio != 0.0
    }

    fn weighted(&self) -> f64 {
        if self.ratio == 0.0 {
            return 0.0;
        }
        self.ratio / self.weight.as_f64()
    }

    /// The share as the API shows it: rounded up, the largest number there is if it is infinite.
    pub fn rounded(&self) -> i64 {
        if self.is_infinite() {
            return i64::MAX;
        }
        // Saturates, as a conversion of floats does.
        #[allow(clippy::cast_possible_truncation)]
        let share = self.weighted().ceil() as i64;
        share
    }

    /// The share, not rounded; none if it is infinite.
    pub fn exact(&self) -> Option<f64> {
        (!self.is_infinite()).then(|| self.weighted())
    }

    /// Which of two shares is the larger. Infinite ones are compared by what is borrowed.
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self.is_infinite(), other.is_infinite()) {
            (true, true) => self.ratio.total_cmp(&other.ratio),
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.weighted().total_cmp(&other.weighted()),
        }
    }
}

impl Weight {
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn as_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Forest {
    /// The dominant resource share of a node. A root shares with nobody: its share is nothing.
    pub fn share(&self, used: &Used, node: NodeId) -> Share {
        self.share_with(used, node, &Usage::new())
    }

    /// The share that a node would have if it used this much more itself.
    pub fn share_with(&self, used: &Used, node: NodeId, more: &Usage) -> Share {
        let Some(here) = self.get(node) else { return Share::default() };
        let mut share = Share { weight: here.weight, ..Share::default() };
        let Some(parent) = here.parent.and_then(|parent| self.get(parent)) else { return share };
        let mut borrowing: BTreeMap<&ResourceName, i128> = BTreeMap::new();
        for (key, quota) in &here.subtree {
            let more = more.get(key).copied().unwrap_or_default();
            let amount = used.exact(node, key) + i128::from(more.0) - i128::from(quota.0);
            if amount > 0 {
                *borrowing.entry(&key.resource).or_default() += amount;
                share.borrowed.insert(key.clone());
            }
        }
        for (resource, borrowed) in borrowing {
            let lendable = parent.lendable.get(resource).copied().unwrap_or_default();
            if lendable <= 0 {
                continue;
            }
            #[allow(clippy::cast_precision_loss)]
            let ratio = borrowed as f64 * 1000.0 / lendable as f64;
            // Of equals the first by name; they come in that order.
            if ratio > share.ratio {
                share.ratio = ratio;
                share.resource = Some(resource.clone());
            }
        }
        share
    }

    /// Fills in what each node could lend to its children.
    pub(super) fn note_lendable(&mut self) {
        let lendable: Vec<_> = (0..self.nodes.len()).map(|index| self.lendable(NodeId(index))).collect();
        for (node, lendable) in self.nodes.iter_mut().zip(lendable) {
            node.lendable = lendable;
        }
    }

    fn lendable(&self, node: NodeId) -> BTreeMap<ResourceName, i128> {
        let mut lendable = BTreeMap::new();
        if self.is_leaf(node) {
            return lendable;
        }
        let of_root = self.get(self.root(node)).map(|root: &Node| &root.subtree);
        for key in of_root.into_iter().flat_map(Usage::keys) {
            *lendable.entry(key.resource.clone()).or_default() += i128::from(self.capacity(node, key).0);
        }
        lendable
    }
}
