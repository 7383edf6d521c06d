//! What a plan believes about usage while it is made.
//!
//! There are two pictures. *Now*: everybody is charged who holds quota, those who were told to stop included.
//! *Later*: those who stop so that another fits are gone, and what is kept for those others is charged. What fits
//! must fit in both: there is room for it, and it is not spoken for.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    consumption::{Consumed, Rank},
    forest::{Forest, NodeId, Used},
    name::{ClusterQueueName, FlavorResource, LocalQueueKey, WorkloadKey},
    preempt::Victim,
    quantity::{Amount, Usage},
    state::{Holder, State},
    workload::Eviction,
};

/// See the module.
#[derive(Clone, Debug)]
pub struct Overlay<'a> {
    forest: &'a Forest,
    /// What is used now.
    pub now: Used,
    /// What will be used.
    pub later: Used,
    /// Where something else is kept than in the state, and what.
    kept_anew: BTreeMap<ClusterQueueName, Option<(NodeId, Usage)>>,
    /// Those who were chosen to stop in this plan.
    chosen: BTreeSet<WorkloadKey>,
    state: &'a State,
    /// The penalties of those who were admitted in this plan.
    penalties: BTreeMap<LocalQueueKey, Consumed>,
}

/// What was [released](Overlay::without) for a moment.
#[must_use]
#[derive(Debug)]
pub struct Released(Vec<(NodeId, Usage)>);

impl<'a> Overlay<'a> {
    /// Both pictures of a settled state.
    pub fn new(state: &'a State) -> Self {
        Self {
            forest: state.forest(),
            now: state.used().clone(),
            later: state.later().clone(),
            kept_anew: BTreeMap::new(),
            chosen: BTreeSet::new(),
            state,
            penalties: BTreeMap::new(),
        }
    }

    /// Where a LocalQueue stands among those of its ClusterQueue.
    pub fn rank(&self, queue: &LocalQueueKey) -> Rank {
        self.state.rank_with(queue, self.penalties.get(queue))
    }

    /// A LocalQueue is charged a penalty. Gives where it stands then.
    pub fn penalize(&mut self, queue: &LocalQueueKey, penalty: &Consumed) -> Rank {
        self.penalties.entry(queue.clone()).or_default().add(penalty);
        self.rank(queue)
    }

    /// What a ClusterQueue may take now.
    pub fn available(&self, leaf: NodeId, resource: &FlavorResource) -> Amount {
        let now = self.forest.available(&self.now, leaf, resource);
        now.min(self.forest.available(&self.later, leaf, resource))
    }

    /// Whether a ClusterQueue may take all of it now.
    pub fn fits(&self, leaf: NodeId, usage: &Usage) -> bool {
        self.forest.fits(&self.now, leaf, usage) && self.forest.fits(&self.later, leaf, usage)
    }

    /// Somebody gets quota.
    pub fn admit(&mut self, leaf: NodeId, usage: &Usage) {
        self.forest.charge_all(&mut self.now, leaf, usage);
        self.forest.charge_all(&mut self.later, leaf, usage);
    }

    /// What is kept in each ClusterQueue.
    pub fn kept(&self) -> impl Iterator<Item = (&ClusterQueueName, NodeId, &Usage)> {
        let before = self.state.reservations().filter(|(queue, ..)| !self.kept_anew.contains_key(*queue));
        let anew = self.kept_anew.iter().filter_map(|(queue, kept)| {
            let (leaf, usage) = kept.as_ref()?;
            Some((queue, *leaf, usage))
        });
        before.map(|(queue, leaf, kept)| (queue, leaf, &kept.usage)).chain(anew)
    }

    /// What is kept in this ClusterQueue is nobody's for a moment, until it is [put back](Self::put_back).
    pub fn take_out(&mut self, queue: &ClusterQueueName) -> Option<(NodeId, Usage)> {
        let kept = match self.kept_anew.get(queue) {
            Some(anew) => anew.clone(),
            None => self.state.reservation(queue).and_then(|kept| {
                let leaf = self.forest.leaf(queue)?;
                Some((leaf, kept.usage.clone()))
            }),
        }?;
        self.forest.release_all(&mut self.later, kept.0, &kept.1);
        self.kept_anew.insert(queue.clone(), None);
        Some(kept)
    }

    /// Keeps this much in a ClusterQueue, instead of what was kept there.
    pub fn keep(&mut self, queue: &ClusterQueueName, leaf: NodeId, usage: Usage) {
        self.take_out(queue);
        self.forest.charge_all(&mut self.later, leaf, &usage);
        self.kept_anew.insert(queue.clone(), Some((leaf, usage)));
    }

    /// Keeps again what was [taken out](Self::take_out).
    pub fn put_back(&mut self, queue: &ClusterQueueName, kept: Option<(NodeId, Usage)>) {
        if let Some((leaf, usage)) = kept {
            self.keep(queue, leaf, usage);
        }
    }

    /// Whether it stops so that another fits: what it holds is not charged later.
    pub fn is_leaving(&self, holder: &Holder<'_>) -> bool {
        holder.evicted == Some(Eviction::Preempted) || self.chosen.contains(&holder.workload.key)
    }

    /// These stop.
    pub fn evict(&mut self, victims: &[Victim<'_>]) {
        let _ = self.without(victims);
        self.chosen.extend(victims.iter().map(|victim| victim.holder.workload.key.clone()));
    }

    /// For a moment these hold nothing later.
    pub fn without(&mut self, victims: &[Victim<'_>]) -> Released {
        for victim in victims {
            self.forest.release_all(&mut self.later, victim.leaf, victim.holder.usage);
        }
        Released(victims.iter().map(|victim| (victim.leaf, victim.holder.usage.clone())).collect())
    }

    /// They hold it again.
    pub fn restore(&mut self, Released(released): Released) {
        for (leaf, usage) in released {
            self.forest.charge_all(&mut self.later, leaf, &usage);
        }
    }

    /// Charges something later, until it is [released](Self::release).
    pub fn charge(&mut self, leaf: NodeId, usage: &Usage) {
        self.forest.charge_all(&mut self.later, leaf, usage);
    }

    /// Takes back what was [charged](Self::charge).
    pub fn release(&mut self, leaf: NodeId, usage: &Usage) {
        self.forest.release_all(&mut self.later, leaf, usage);
    }
}
