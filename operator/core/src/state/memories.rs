//! What is remembered of what `LocalQueues` consumed, and where they stand by it.
//!
//! Who is admitted is the business of one replica only, and so is this: another takes for true what the `LocalQueues`'
//! status says ([`State::recall`]) until it begins to [work it out](State::account) itself.

use std::sync::Arc;

use super::State;
use crate::{
    consumption::{Consumed, Fine, Memory, Rank, Rules},
    name::{ClusterQueueName, LocalQueueKey, WorkloadKey},
    pending::Lane,
    queue::{ClusterQueue, LocalQueue, Stop},
    workload::{Phase, Timestamp, Workload, total},
};

/// The memory.
impl State {
    pub(super) fn set_rules(&mut self, rules: Option<Rules>) {
        self.stale |= self.facts.consumption != rules;
        self.facts.consumption = rules;
    }

    /// By which rules it is remembered, if it is.
    pub fn consumption(&self) -> Option<&Rules> {
        self.facts.consumption.as_ref()
    }

    /// What is remembered of a LocalQueue.
    pub fn memory(&self, queue: &LocalQueueKey) -> Option<&Memory> {
        self.facts.memories.get(queue)
    }

    pub(super) fn see_consumed(&mut self, queue: &LocalQueueKey, consumed: Consumed) {
        if self.facts.consumption.is_some() {
            self.facts.memories.entry(queue.clone()).or_default().recall(consumed);
            self.rank_again(queue);
        }
    }

    pub(super) fn start_memories_over(&mut self) {
        for memory in self.facts.memories.values_mut() {
            memory.start_over();
        }
        let queues: Vec<_> = self.facts.memories.keys().cloned().collect();
        for queue in queues {
            self.rank_again(&queue);
        }
    }

    /// Of which `LocalQueues` it is to be worked out now what they consumed.
    pub(super) fn due(&self, now: Timestamp) -> Vec<LocalQueueKey> {
        let Some(rules) = &self.facts.consumption else { return Vec::new() };
        let due = |local: &&LocalQueue| match self.facts.memories.get(&local.key) {
            Some(memory) if !memory.is_due(rules, now) => false,
            Some(memory) if memory.has_settled() => true,
            _ => local.stop == Stop::No && self.active.contains(&local.cluster_queue),
        };
        self.facts.local_queues.values().filter(due).map(|local| local.key.clone()).collect()
    }

    pub(super) fn work_out(&mut self, now: Timestamp) {
        debug_assert!(self.is_settled(), "what is used is to be known");
        let Some(rules) = self.facts.consumption.clone() else { return };
        for key in self.due(now) {
            let used = self.in_use(&key);
            self.facts.memories.entry(key.clone()).or_default().work_out(&rules, &used, now);
            self.changed.local_queues.insert(key.clone());
            self.rank_again(&key);
        }
    }

    /// What the admitted workloads of a LocalQueue hold; every resource that its ClusterQueue has quota for is there.
    fn in_use(&self, key: &LocalQueueKey) -> Consumed {
        let queue = self.local_queue(key).and_then(|local| self.queue(&local.cluster_queue));
        let covered = queue.into_iter().flat_map(|queue| &queue.groups).flat_map(|group| &group.resources);
        let nothing = covered.map(|resource| (resource.clone(), Fine::default()));
        let used = self.local_tally(key).used.into_iter();
        nothing
            .chain(used.map(|(of, amount)| (of.resource.clone(), Fine::of(&of.resource, amount))))
            .collect()
    }
}

/// The order.
impl State {
    /// Whether in a ClusterQueue those go first whose LocalQueue consumed less.
    pub fn is_by_consumption(&self, queue: &ClusterQueueName) -> bool {
        self.facts.consumption.is_some() && self.queue(queue).is_some_and(|queue| queue.by_consumption)
    }

    /// Where a LocalQueue stands among those of its ClusterQueue.
    pub fn rank(&self, queue: &LocalQueueKey) -> Rank {
        self.rank_with(queue, None)
    }

    /// The same, if it were charged this much more.
    pub fn rank_with(&self, queue: &LocalQueueKey, more: Option<&Consumed>) -> Rank {
        let Some(rules) = &self.facts.consumption else { return Rank::default() };
        let mut consumed = self.memory(queue).map(Memory::total).unwrap_or_default();
        if let Some(more) = more {
            consumed.add(more);
        }
        rules.rank(&consumed, self.local_queue(queue).map(|local| local.weight).unwrap_or_default())
    }

    /// The lane in which a workload stands.
    pub(super) fn lane(&self, queue: &ClusterQueue, workload: &Workload) -> Lane {
        (self.facts.consumption.is_some() && queue.by_consumption).then(|| Arc::new(workload.queue.clone()))
    }

    /// Puts a LocalQueue where it belongs.
    pub(super) fn rank_again(&mut self, queue: &LocalQueueKey) {
        let rank = self.rank(queue);
        let Some(name) = self.local_queue(queue).map(|local| local.cluster_queue.clone()) else { return };
        if let Some(pending) = self.pending.get_mut(&name) {
            pending.set_rank(queue, rank);
            self.note_awake(&name);
        }
    }
}

/// The penalties.
impl State {
    /// What a workload is charged when it gets quota of a ClusterQueue, if it is charged anything: by what it requests
    /// of the resources that there is quota for.
    pub fn penalty(&self, workload: &Workload, queue: &ClusterQueue) -> Option<Consumed> {
        let rules = self.facts.consumption.as_ref().filter(|_| queue.by_consumption)?;
        let pod_sets = workload.pod_sets.as_deref().unwrap_or_default();
        let requests = pod_sets.iter().filter_map(|pods| total(&pods.per_pod, pods.count)).flatten();
        let counted = requests.filter(|(resource, _)| queue.group_of(resource).is_some());
        let requests: Consumed =
            counted.map(|(resource, amount)| (resource.clone(), Fine::of(&resource, amount))).collect();
        Some(rules.penalty(&requests))
    }

    /// Charges a workload that is about to get quota.
    pub(super) fn charge_penalty(&mut self, key: &WorkloadKey, queue: &ClusterQueueName) {
        let Some((workload, queue)) = self.workload(key).zip(self.queue(queue)) else { return };
        let Some(penalty) = self.penalty(workload, queue) else { return };
        let local = workload.queue.clone();
        self.facts.memories.entry(local.clone()).or_default().charge(key, penalty);
        self.rank_again(&local);
    }

    /// A workload does not get quota after all.
    pub(super) fn take_penalty_back(&mut self, key: &WorkloadKey) {
        if let Some(queue) = self.workload(key).map(|workload| workload.queue.clone()) {
            self.drop_penalty(&queue, key);
        }
    }

    /// A workload of a LocalQueue is charged nothing any more.
    pub(super) fn drop_penalty(&mut self, queue: &LocalQueueKey, key: &WorkloadKey) {
        if self.facts.memories.get_mut(queue).is_some_and(|memory| memory.discharge(key).is_some()) {
            self.rank_again(queue);
        }
    }

    /// Does with a workload's penalty what follows from a change of its object. Whoever was evicted and is queued again
    /// goes on being charged, as in Kueue.
    pub(super) fn follow_penalty(&mut self, key: &WorkloadKey, before: Option<&Workload>) {
        let Some(workload) = self.workload(key) else { return };
        let queue = workload.queue.clone();
        let settles = matches!(workload.phase, Phase::Reserved { admitted: true, .. }) && workload.active;
        let gives_up = match workload.phase {
            Phase::Pending => !workload.active,
            Phase::Reserved { .. } => false,
            Phase::Finished => true,
        };
        let uid = workload.uid.clone();
        if let Some(before) = before.filter(|before| before.queue != queue || before.uid != uid) {
            self.drop_penalty(&before.queue, key);
        }
        if settles {
            // It counts as much as before.
            if let Some(memory) = self.facts.memories.get_mut(&queue) {
                memory.settle(key);
            }
        } else if gives_up {
            self.drop_penalty(&queue, key);
        }
    }
}
