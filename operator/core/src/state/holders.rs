//! Who holds quota, who of them is on the way out, and what is kept for whom.

use std::collections::BTreeMap;

use super::{Reservation, State, places::Place};
use crate::{
    brakes::Past,
    forest::NodeId,
    name::{ClusterQueueName, WorkloadKey},
    plan::Evict,
    quantity::Usage,
    topology::Stays,
    verdict::Until,
    workload::{Eviction, Phase, Timestamp, Workload},
};

/// A workload that holds quota.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    /// It.
    pub workload: &'a Workload,
    /// Whose quota.
    pub queue: &'a ClusterQueueName,
    /// What it holds.
    pub usage: &'a Usage,
    /// What it takes of the nodes.
    pub stays: &'a Stays,
    /// Whether it was told to stop.
    pub evicted: Option<Eviction>,
    /// Since when it holds it; none if that is being written now.
    pub since: Option<Timestamp>,
}

impl State {
    /// Those who hold quota of a ClusterQueue, the lowest priority first.
    pub fn holders(&self, queue: &ClusterQueueName) -> impl Iterator<Item = Holder<'_>> {
        self.holders.get(queue).into_iter().flatten().filter_map(|(_, key)| self.holder(key))
    }

    /// The lowest priority of those who hold quota of a ClusterQueue.
    pub fn lowest_priority(&self, queue: &ClusterQueueName) -> Option<i32> {
        self.holders.get(queue)?.first().map(|(priority, _)| *priority)
    }

    /// A workload that holds quota.
    pub fn holder(&self, key: &WorkloadKey) -> Option<Holder<'_>> {
        let workload = self.workload(key)?;
        let Place::Holding { queue, usage, stays, leaving, .. } = &self.standings.get(key)?.place else {
            return None;
        };
        let (evicted, since) = match &workload.phase {
            Phase::Reserved { evicted, since, .. } => (*evicted, Some(*since)),
            Phase::Pending | Phase::Finished => (None, None),
        };
        let evicted = if *leaving { Some(Eviction::Preempted) } else { evicted };
        Some(Holder { workload, queue, usage, stays, evicted, since })
    }

    /// For whom quota is kept in a ClusterQueue, as if it held that already.
    pub fn owner(&self, queue: &ClusterQueueName) -> Option<Holder<'_>> {
        let (queue, kept) = self.facts.reserved.get_key_value(queue)?;
        let workload = self.workload(&kept.workload)?;
        let Reservation { usage, stays, .. } = kept;
        Some(Holder { workload, queue, usage, stays, evicted: None, since: None })
    }

    /// Those who stop so that another fits. What they hold is spoken for.
    pub fn leaving(&self) -> impl Iterator<Item = Holder<'_>> {
        self.leaving.iter().filter_map(|key| self.holder(key))
    }

    /// What is kept in each ClusterQueue for who waits there for others to stop on its account.
    pub fn reservations(&self) -> impl Iterator<Item = (&ClusterQueueName, NodeId, &Reservation)> {
        let all = self.facts.reserved.iter();
        all.filter_map(|(queue, kept)| Some((queue, self.forest.leaf(queue)?, kept)))
    }

    /// What is kept in a ClusterQueue, if anything is.
    pub fn reservation(&self, queue: &ClusterQueueName) -> Option<&Reservation> {
        self.facts.reserved.get(queue)
    }

    /// The evictions that were planned and are not written yet.
    pub fn evictions(&self) -> impl Iterator<Item = &Evict> {
        self.facts.evicting.values()
    }

    /// The eviction that was planned for a workload and is not written yet.
    pub fn eviction(&self, key: &WorkloadKey) -> Option<&Evict> {
        self.facts.evicting.get(key)
    }

    /// The evictions of the last hour, the oldest first: those that were planned here and those that were
    /// [recalled](Self::recall_evictions).
    pub fn past_evictions(&self) -> impl Iterator<Item = &Past> + Clone {
        self.facts.past_evictions.iter()
    }

    pub(super) fn see_evictions(&mut self, others: Vec<Past>) {
        let own = std::mem::take(&mut self.facts.past_evictions);
        let mut lead: BTreeMap<ClusterQueueName, i64> = BTreeMap::new();
        for (past, count) in own.iter().map(|past| (past, 1)).chain(others.iter().map(|past| (past, -1))) {
            *lead.entry(past.queue.clone()).or_default() += count;
        }
        let own_is_longer = |past: &Past| lead.get(&past.queue).is_none_or(|lead| *lead >= 0);
        let (own, others) = (own.into_iter().filter(own_is_longer), others.into_iter());
        let mut all: Vec<Past> = own.chain(others.filter(|past| !own_is_longer(past))).collect();
        all.sort_by_key(|past| past.at);
        self.facts.past_evictions = all.into();
    }

    pub(super) fn wake_braked(&mut self) {
        for queue in std::mem::take(&mut self.braked) {
            if let Some(pending) = self.pending.get_mut(&queue) {
                pending.wake(|until| until.includes(&Until::Released));
            }
            self.note_awake(&queue);
        }
    }

    /// Keeps this in a ClusterQueue, instead of what was kept there.
    pub(super) fn keep(&mut self, queue: &ClusterQueueName, kept: Reservation) -> Option<Reservation> {
        let before = self.keep_nothing(queue);
        if let Some(leaf) = self.forest.leaf(queue) {
            self.forest.charge_all(&mut self.later, leaf, &kept.usage);
        }
        self.ground.charge(&mut self.taken_later, &kept.stays);
        self.facts.reserved.insert(queue.clone(), kept);
        before
    }

    /// Keeps nothing any more in a ClusterQueue.
    pub(super) fn keep_nothing(&mut self, queue: &ClusterQueueName) -> Option<Reservation> {
        let before = self.facts.reserved.remove(queue)?;
        if let Some(leaf) = self.forest.leaf(queue) {
            self.forest.release_all(&mut self.later, leaf, &before.usage);
        }
        self.ground.release(&mut self.taken_later, &before.stays);
        Some(before)
    }

    /// Keeps nothing any more in this ClusterQueue, if it was for this workload.
    pub(super) fn give_up(&mut self, queue: &ClusterQueueName, key: &WorkloadKey) {
        if self.facts.reserved.get(queue).is_some_and(|kept| kept.workload == *key) {
            if let Some(before) = self.keep_nothing(queue) {
                self.note_room(&before.stays);
            }
            self.favour(queue);
            self.note_freed_in(queue);
            // Those who were not told yet need not stop.
            let unwritten = self.facts.evicting.values().filter(|evict| evict.preemptor == *key);
            let unwritten: Vec<_> = unwritten.map(|evict| evict.workload.clone()).collect();
            for victim in unwritten {
                self.let_go_on(&victim);
            }
        }
    }

    /// Has those looked at again, in the tree of a ClusterQueue, who wait for others to stop on their account: one of
    /// those others goes on after all.
    pub(super) fn wake_holders(&mut self, queue: &ClusterQueueName) {
        let tree = self.forest.leaf(queue).and_then(|leaf| self.trees.get(&self.forest.root(leaf)));
        for queue in tree.into_iter().flatten() {
            if let Some(pending) = self.pending.get_mut(queue) {
                pending.wake_holder();
                if pending.is_awake() {
                    self.awake.insert(queue.clone());
                }
            }
        }
    }

    /// Keeps nothing any more in a ClusterQueue. Whoever it was for is looked at again.
    pub(super) fn yield_kept(&mut self, queue: &ClusterQueueName) {
        let Some(owner) = self.facts.reserved.get(queue).map(|kept| kept.workload.clone()) else { return };
        self.give_up(queue, &owner);
        if let Some(pending) = self.pending.get_mut(queue) {
            pending.wake_holder();
        }
        self.note_awake(queue);
    }

    /// Notes that something was given back in the tree of a ClusterQueue.
    pub(super) fn note_freed_in(&mut self, queue: &ClusterQueueName) {
        if let Some(leaf) = self.forest.leaf(queue) {
            self.freed.insert(self.forest.root(leaf));
        }
    }

    /// Gives up what is kept for workloads that do not stand in that line any more.
    pub(super) fn drop_void_reservations(&mut self) {
        let stands_in = |queue: &ClusterQueueName, key: &WorkloadKey| {
            let place = self.standings.get(key).map(|standing| &standing.place);
            matches!(place, Some(Place::Queued { queue: stands_in, .. }) if stands_in == queue)
        };
        let void = self.facts.reserved.iter().filter(|(queue, kept)| !stands_in(queue, &kept.workload));
        let void: Vec<_> = void.map(|(queue, kept)| (queue.clone(), kept.workload.clone())).collect();
        for (queue, workload) in void {
            self.give_up(&queue, &workload);
        }
        let queues: Vec<_> = self.facts.reserved.keys().cloned().collect();
        for queue in queues {
            self.favour(&queue);
        }
    }

    /// Tells a ClusterQueue's line for whom quota is kept in it.
    pub(super) fn favour(&mut self, queue: &ClusterQueueName) {
        let kept = self.facts.reserved.get(queue).and_then(|kept| self.standings.get(&kept.workload));
        let favoured = match kept.map(|standing| &standing.place) {
            Some(Place::Queued { class, order, .. }) => Some((order.clone(), class.clone())),
            _ => None,
        };
        if let Some(pending) = self.pending.get_mut(queue) {
            pending.favour(favoured);
        }
    }
}
