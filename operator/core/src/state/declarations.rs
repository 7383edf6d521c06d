//! Declarations: noted when they are seen, in force after the next [`State::settle`].

use std::{collections::BTreeMap, mem, sync::Arc};

use super::{Counts, Facts, State};
use crate::{
    flavor::Flavor,
    forest::Forest,
    labels::Labels,
    name::{CheckName, ClusterQueueName, CohortName, FlavorName, FlavorResource, LocalQueueKey, WorkloadKey},
    quantity::Amount,
    queue::{Check, ClusterQueue, Cohort, LocalQueue},
    verdict::{Reclaims, Until},
};

/// What the whole forest depends on.
impl State {
    pub(super) fn see_flavor(&mut self, flavor: Flavor) {
        self.declare(|facts| put(&mut facts.flavors, flavor.name.clone(), flavor));
    }

    pub(super) fn lose_flavor(&mut self, name: &FlavorName) {
        self.declare(|facts| facts.flavors.remove(name).is_some());
    }

    pub(super) fn see_cohort(&mut self, cohort: Cohort) {
        self.changed.cohorts.insert(cohort.name.clone());
        self.declare(|facts| put(&mut facts.cohorts, cohort.name.clone(), cohort));
    }

    pub(super) fn lose_cohort(&mut self, name: &CohortName) {
        self.declare(|facts| facts.cohorts.remove(name).is_some());
    }

    pub(super) fn see_queue(&mut self, mut queue: ClusterQueue) {
        self.changed.queues.insert(queue.name.clone());
        if queue.invalid.is_some()
            && let Some(known) = self.facts.queues.get(&queue.name)
        {
            queue.groups.clone_from(&known.groups);
        }
        self.declare(|facts| put(&mut facts.queues, queue.name.clone(), queue));
    }

    pub(super) fn lose_queue(&mut self, name: &ClusterQueueName) {
        self.declare(|facts| facts.queues.remove(name).is_some());
    }

    pub(super) fn see_check(&mut self, check: Check) {
        self.declare(|facts| put(&mut facts.checks, check.name.clone(), check));
    }

    pub(super) fn lose_check(&mut self, name: &CheckName) {
        self.declare(|facts| facts.checks.remove(name).is_some());
    }

    pub(super) fn declare(&mut self, change: impl FnOnce(&mut Facts) -> bool) {
        let changed = change(&mut self.facts);
        self.stale |= changed;
    }
}

/// What only the workloads of one namespace depend on.
impl State {
    pub(super) fn see_local_queue(&mut self, queue: LocalQueue) {
        let key = queue.key.clone();
        self.changed.local_queues.insert(key.clone());
        self.declare_in(&key.namespace, |facts| put(&mut facts.local_queues, key.clone(), queue));
    }

    pub(super) fn lose_local_queue(&mut self, key: &LocalQueueKey) {
        self.facts.memories.remove(key);
        self.declare_in(&key.namespace, |facts| facts.local_queues.remove(key).is_some());
        self.rank_again(key);
    }

    pub(super) fn see_namespace(&mut self, name: &Arc<str>, labels: Labels) {
        self.declare_in(name, |facts| put(&mut facts.namespaces, Arc::clone(name), labels));
    }

    pub(super) fn lose_namespace(&mut self, name: &Arc<str>) {
        self.declare_in(name, |facts| facts.namespaces.remove(name).is_some());
    }

    fn declare_in(&mut self, namespace: &Arc<str>, change: impl FnOnce(&mut Facts) -> bool) {
        if change(&mut self.facts) {
            self.stale_namespaces.insert(Arc::clone(namespace));
        }
    }
}

/// Settling.
impl State {
    pub(super) fn bring_up_to_date(&mut self) {
        let namespaces = mem::take(&mut self.stale_namespaces);
        let nodes_changed = mem::take(&mut self.nodes_changed);
        if mem::take(&mut self.stale) {
            self.rebuild();
        } else {
            if nodes_changed {
                self.replant();
            }
            for namespace in namespaces {
                self.rebuild_namespace(&namespace);
            }
        }
        if mem::take(&mut self.got_ready) && self.unready == 0 {
            for (queue, pending) in &mut self.pending {
                if pending.wake(|until| until.includes(&Until::AllReady)) {
                    self.awake.insert(queue.clone());
                }
            }
        }
        self.wake_for_room();
        for root in mem::take(&mut self.freed) {
            for queue in self.trees.get(&root).into_iter().flatten() {
                let (Some(pending), Some(leaf)) = (self.pending.get_mut(queue), self.forest.leaf(queue))
                else {
                    continue;
                };
                let (forest, used) = (&self.forest, &self.used);
                let any = |amounts: &[(FlavorResource, Amount)]| {
                    amounts.iter().any(|(key, amount)| forest.available(used, leaf, key) >= *amount)
                };
                let lowest = self.holders.get(queue).and_then(|holders| holders.first());
                let has_come = |until: &Until| match until {
                    Until::Redeclared
                    | Until::AllReady
                    | Until::Nodes(_)
                    | Until::Room(_)
                    | Until::Any(_) => false,
                    Until::Available(amounts) => any(amounts),
                    Until::Fits(usage) => forest.fits(used, leaf, usage),
                    Until::Chance { missing, below, reclaims } => {
                        let own = below.zip(lowest).is_some_and(|(below, (low, _))| i64::from(*low) < below);
                        let others = match reclaims {
                            Reclaims::Never => false,
                            Reclaims::BelowNominal => missing
                                .iter()
                                .any(|(key, _)| used.get(leaf, key) < forest.quota(leaf, key).nominal),
                            Reclaims::Always => true,
                        };
                        own || others || any(missing)
                    }
                    Until::Freed | Until::Released => true,
                };
                let woken = pending.wake(|until| until.alternatives().iter().any(has_come));
                if woken && pending.is_awake() {
                    self.awake.insert(queue.clone());
                }
            }
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        let redeclared = self.stale || !self.stale_namespaces.is_empty() || self.nodes_changed;
        let roomier = !self.roomier.is_empty() || !self.roomier_nodes.is_empty();
        !redeclared && !roomier && self.freed.is_empty() && !self.got_ready
    }

    fn rebuild(&mut self) {
        // An invalid queue of which no quota was ever known has no place in the forest.
        let queues = self.facts.queues.values().filter(|q| q.invalid.is_none() || !q.groups.is_empty());
        self.forest = Forest::new(queues, &self.facts.cohorts);
        self.used = self.forest.unused();
        self.later = self.forest.unused();
        for (queue, kept) in &self.facts.reserved {
            if let Some(leaf) = self.forest.leaf(queue) {
                self.forest.charge_all(&mut self.later, leaf, &kept.usage);
            }
        }
        self.plant();
        self.roomier.clear();
        self.roomier_nodes.clear();
        self.freed.clear();
        self.pending.clear();
        self.awake.clear();
        self.trees.clear();
        self.holders.clear();
        self.braked.clear();
        self.leaving.clear();
        self.standings.clear();
        self.unready = 0;
        self.got_ready = false;
        for name in self.facts.queues.keys() {
            if let Some(leaf) = self.forest.leaf(name) {
                self.trees.entry(self.forest.root(leaf)).or_default().push(name.clone());
            }
        }
        let active = self.facts.queues.values().filter(|queue| self.activity(queue).is_ok());
        self.active = active.map(|queue| queue.name.clone()).collect();
        // Whoever had counts gets new ones; the queue of a name that is gone is dropped.
        self.counts = self.facts.queues.keys().map(|name| (name.clone(), Counts::default())).collect();
        self.local_counts =
            self.facts.local_queues.keys().map(|key| (key.clone(), Counts::default())).collect();
        let keys: Vec<_> = self.facts.workloads.keys().cloned().collect();
        self.successors.clear();
        for key in &keys {
            self.note_successor(key, None);
            self.enter(key);
        }
        self.drop_void_reservations();
        self.changed.queues.extend(self.facts.queues.keys().cloned());
        self.changed.cohorts.extend(self.facts.cohorts.keys().cloned());
        self.changed.local_queues.extend(self.facts.local_queues.keys().cloned());
    }

    fn rebuild_namespace(&mut self, namespace: &Arc<str>) {
        let first = WorkloadKey::new(Arc::clone(namespace), "");
        let here = self.facts.workloads.range(first..).map(|(key, _)| key);
        let keys: Vec<_> = here.take_while(|key| key.namespace == *namespace).cloned().collect();
        for key in &keys {
            self.step_out(key);
        }
        // Nobody is counted in the namespace's LocalQueues now.
        self.local_counts.retain(|key, _| key.namespace != *namespace);
        let first = LocalQueueKey::new(Arc::clone(namespace), "");
        let here = self.facts.local_queues.range(first..).map(|(key, _)| key);
        for key in here.take_while(|key| key.namespace == *namespace) {
            self.local_counts.insert(key.clone(), Counts::default());
            self.changed.local_queues.insert(key.clone());
        }
        // What somebody holds depends on no declaration, so nothing was given back.
        for key in &keys {
            self.enter(key);
        }
        self.drop_void_reservations();
    }
}

/// Puts `value` under `key`; says whether it is another one than before.
pub(super) fn put<K: Ord, V: PartialEq>(map: &mut BTreeMap<K, V>, key: K, value: V) -> bool {
    if map.get(&key) == Some(&value) {
        return false;
    }
    map.insert(key, value);
    true
}
