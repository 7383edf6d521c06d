//! Whether what is derived is what the facts say.

use std::collections::BTreeMap;

use super::State;
use crate::{
    consumption::Rank,
    name::{ClusterQueueName, LocalQueueKey},
    pending::{ClassKey, Order, Pending},
};

type Line<'a> = Vec<(&'a ClassKey, &'a Order)>;

impl State {
    /// Compares everything derived in this settled state with a recomputation from its facts, and names what
    /// differs. What depends on history is left out: who was tried already, what was reported, what changed.
    pub fn audit(&self) -> Result<(), &'static str> {
        let fresh = Self::from_snapshot(self.facts.clone());
        let sound = |queue: &ClusterQueueName, pending: &Pending| {
            pending.is_sound() && pending.is_awake() == self.awake.contains(queue)
        };
        for (what, holds) in [
            ("unsettled", self.is_settled()),
            ("the forest", self.forest == fresh.forest),
            ("the trees", self.trees == fresh.trees),
            ("what is used", self.used == fresh.used),
            ("what will be used", self.later == fresh.later),
            ("the trees of nodes", self.ground == fresh.ground),
            ("the places on empty nodes", self.ground.remember_rightly()),
            ("what is taken of the nodes", self.taken == fresh.taken),
            ("what will be taken of the nodes", self.taken_later == fresh.taken_later),
            ("who can admit", self.active == fresh.active),
            ("who holds quota", self.holders == fresh.holders),
            ("who takes whose place", self.successors == fresh.successors),
            ("who is on the way out", self.leaving == fresh.leaving),
            ("where workloads stand", self.standings == fresh.standings),
            ("who is queued", self.lines() == fresh.lines()),
            ("for whom quota is kept", self.favoured() == fresh.favoured()),
            ("the ranks of LocalQueues", self.ranks() == fresh.ranks()),
            ("who is awake", self.pending.iter().all(|(queue, pending)| sound(queue, pending))),
            ("the counts of ClusterQueues", self.counts == fresh.counts),
            ("how many are not ready", self.unready == fresh.unready),
            ("the counts of LocalQueues", self.local_counts == fresh.local_counts),
        ] {
            if !holds {
                return Err(what);
            }
        }
        Ok(())
    }

    fn favoured(&self) -> Vec<&Order> {
        self.pending.values().filter_map(Pending::favoured).collect()
    }

    fn ranks(&self) -> BTreeMap<&LocalQueueKey, Rank> {
        self.pending.values().flat_map(Pending::ranks).collect()
    }

    fn lines(&self) -> BTreeMap<&ClusterQueueName, Line<'_>> {
        let lines =
            self.pending.iter().map(|(queue, pending)| (queue, pending.everybody().collect::<Line<'_>>()));
        lines.filter(|(_, line)| !line.is_empty()).collect()
    }
}
