//! What a plan believes about usage while it is made.
//!
//! There are two pictures. *Now*: everybody is charged who holds quota, those who were told to stop included.
//! *Later*: those who stop so that another fits are gone, and what is kept for those others is charged. What fits
//! must fit in both: there is room for it, and it is not spoken for. So it is with the nodes that pods are placed on.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    consumption::{Consumed, Rank},
    forest::{Forest, NodeId, Used},
    name::{ClusterQueueName, FlavorResource, LocalQueueKey, WorkloadKey},
    preempt::Victim,
    quantity::{Amount, Usage},
    state::{Holder, State},
    topology::{Ask, Misfit, Placement, Profile, Stays, Taken, Trees},
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
    trees: &'a Trees,
    /// What is taken of the nodes now.
    taken: Taken,
    /// What will be.
    taken_later: Taken,
    /// Where something else is kept than in the state, and what.
    kept_anew: BTreeMap<ClusterQueueName, Option<Kept>>,
    /// Those who were chosen to stop in this plan.
    chosen: BTreeSet<WorkloadKey>,
    state: &'a State,
    /// The penalties of those who were admitted in this plan.
    penalties: BTreeMap<LocalQueueKey, Consumed>,
}

/// What is kept in a ClusterQueue.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The leaf of that.
    pub leaf: NodeId,
    /// Of its quota.
    pub usage: Usage,
    /// Of the nodes.
    pub stays: Stays,
}

impl<'a> Overlay<'a> {
    /// Both pictures of a settled state.
    pub fn new(state: &'a State) -> Self {
        Self {
            forest: state.forest(),
            now: state.used().clone(),
            later: state.later().clone(),
            trees: state.trees(),
            taken: state.taken().clone(),
            taken_later: state.taken_later().clone(),
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

    /// Whether there is room for this on the nodes now, and it is not spoken for.
    pub fn has_room(&self, stays: &Stays) -> bool {
        stays.is_empty() || self.trees.have_room(&self.taken.highest(&self.taken_later), stays)
    }

    /// Whether there will be room for it.
    pub fn will_have_room(&self, stays: &Stays) -> bool {
        stays.is_empty() || self.trees.have_room(&self.taken_later, stays)
    }

    /// Places for these, where there is room now that is not spoken for.
    pub fn place(&self, asks: &[Ask], profile: Profile) -> Result<Vec<Placement>, Misfit> {
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        self.trees.place(asks, &self.taken.highest(&self.taken_later), profile)
    }

    /// Places for these, where there will be room.
    pub fn place_later(&self, asks: &[Ask], profile: Profile) -> Result<Vec<Placement>, Misfit> {
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        self.trees.place(asks, &self.taken_later, profile)
    }

    /// Somebody gets quota, and a place.
    pub fn admit(&mut self, leaf: NodeId, usage: &Usage, stays: &Stays) {
        self.forest.charge_all(&mut self.now, leaf, usage);
        self.forest.charge_all(&mut self.later, leaf, usage);
        self.trees.charge(&mut self.taken, stays);
        self.trees.charge(&mut self.taken_later, stays);
    }

    /// What is kept in each ClusterQueue.
    pub fn kept(&self) -> impl Iterator<Item = (&ClusterQueueName, NodeId, &Usage)> {
        let before = self.state.reservations().filter(|(queue, ..)| !self.kept_anew.contains_key(*queue));
        let anew = self.kept_anew.iter().filter_map(|(queue, kept)| {
            let kept = kept.as_ref()?;
            Some((queue, kept.leaf, &kept.usage))
        });
        before.map(|(queue, leaf, kept)| (queue, leaf, &kept.usage)).chain(anew)
    }

    /// Whether anything is not kept any more that is kept in the state.
    pub fn gave_up(&self) -> bool {
        self.kept_anew.iter().any(|(queue, anew)| {
            self.state.reservation(queue).is_some_and(|before| {
                let same = |kept: &Kept| kept.usage == before.usage && kept.stays == before.stays;
                !anew.as_ref().is_some_and(same)
            })
        })
    }

    /// What is kept in this ClusterQueue is nobody's for a moment, until it is [put back](Self::put_back).
    pub fn take_out(&mut self, queue: &ClusterQueueName) -> Option<Kept> {
        let kept = match self.kept_anew.get(queue) {
            Some(anew) => anew.clone(),
            None => self.state.reservation(queue).and_then(|kept| {
                let (usage, stays) = (kept.usage.clone(), kept.stays.clone());
                Some(Kept { leaf: self.forest.leaf(queue)?, usage, stays })
            }),
        }?;
        self.release(kept.leaf, &kept.usage);
        self.vacate(&kept.stays);
        self.kept_anew.insert(queue.clone(), None);
        Some(kept)
    }

    /// Keeps this in a ClusterQueue, instead of what was kept there.
    pub fn keep(&mut self, queue: &ClusterQueueName, kept: Kept) {
        self.take_out(queue);
        self.charge(kept.leaf, &kept.usage);
        self.occupy(&kept.stays);
        self.kept_anew.insert(queue.clone(), Some(kept));
    }

    /// Keeps again what was [taken out](Self::take_out).
    pub fn put_back(&mut self, queue: &ClusterQueueName, kept: Option<Kept>) {
        if let Some(kept) = kept {
            self.keep(queue, kept);
        }
    }

    /// Whether it stops so that another fits: what it holds is not charged later.
    pub fn is_leaving(&self, holder: &Holder<'_>) -> bool {
        holder.evicted == Some(Eviction::Preempted) || self.chosen.contains(&holder.workload.key)
    }

    /// These stop.
    pub fn evict(&mut self, victims: &[Victim<'_>]) {
        self.remove(victims);
        self.chosen.extend(victims.iter().map(|victim| victim.holder.workload.key.clone()));
    }

    /// These hold nothing later, until they are [restored](Self::restore).
    pub fn remove(&mut self, victims: &[Victim<'_>]) {
        for victim in victims {
            self.release(victim.leaf, victim.holder.usage);
            self.vacate(victim.holder.stays);
        }
    }

    /// They hold it again.
    pub fn restore(&mut self, victims: &[Victim<'_>]) {
        for victim in victims {
            self.charge(victim.leaf, victim.holder.usage);
            self.occupy(victim.holder.stays);
        }
    }

    /// This is taken of the nodes later, until it is [given back](Self::vacate).
    pub fn occupy(&mut self, stays: &Stays) {
        self.trees.charge(&mut self.taken_later, stays);
    }

    /// It is not, any more.
    pub fn vacate(&mut self, stays: &Stays) {
        self.trees.release(&mut self.taken_later, stays);
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
