//! Who was admitted by the cycles of a plan before the one in hand.
//!
//! They hold their quota as far as that cycle is concerned, so they are candidates like those whom the state knows. But
//! nobody can be told to stop who was not told to begin: a plan that finds one of them in somebody's way ends before
//! that cycle, and the next one knows them as holders.

use std::collections::BTreeMap;

use super::Victim;
use crate::{
    forest::NodeId,
    name::{ClusterQueueName, WorkloadKey},
    quantity::Usage,
    state::{Holder, State},
    topology::Stays,
    workload::Timestamp,
};

/// Those admitted, by the leaf of their ClusterQueue.
#[derive(Clone, Debug, Default)]
pub struct Earlier(BTreeMap<NodeId, Vec<Admitted>>);

/// One of them.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// Who.
    pub workload: WorkloadKey,
    /// Whose quota it gets.
    pub queue: ClusterQueueName,
    /// How much.
    pub usage: Usage,
    /// What it takes of the nodes.
    pub stays: Stays,
    /// When that was decided.
    pub at: Timestamp,
}

impl Earlier {
    /// Nobody.
    pub const NOBODY: &'static Self = &Self(BTreeMap::new());

    /// These as well, each of the ClusterQueue of its leaf.
    pub fn extend(&mut self, admitted: impl IntoIterator<Item = (NodeId, Admitted)>) {
        for (leaf, admitted) in admitted {
            self.0.entry(leaf).or_default().push(admitted);
        }
    }

    /// Those of a leaf, as holders.
    pub(super) fn holders<'a>(&'a self, leaf: NodeId, state: &'a State) -> impl Iterator<Item = Holder<'a>> {
        self.0.get(&leaf).into_iter().flatten().filter_map(
            |Admitted { workload, queue, usage, stays, at }| {
                let workload = state.workload(workload)?;
                Some(Holder { workload, queue, usage, stays, evicted: None, since: Some(*at) })
            },
        )
    }

    /// Whether any of these victims is one of them.
    pub fn has_any_of(&self, victims: &[Victim<'_>]) -> bool {
        let is_one = |victim: &Victim<'_>| {
            let admitted = self.0.get(&victim.leaf).into_iter().flatten();
            admitted.into_iter().any(|admitted| admitted.workload == victim.holder.workload.key)
        };
        victims.iter().any(is_one)
    }
}
