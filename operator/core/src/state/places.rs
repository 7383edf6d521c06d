//! Where a workload stands, and what follows from it.

use super::{State, tally::Count};
use crate::{
    name::{ClusterQueueName, LocalQueueKey, WorkloadKey},
    pending::{ClassKey, Order, Pending},
    quantity::Usage,
    queue::Stop,
    topology::Stays,
    verdict::{Reason, Verdict},
    workload::{Eviction, Phase, Workload},
};

/// Where a workload is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In its queue.
    Queued { queue: ClusterQueueName, class: ClassKey, order: Order },
    /// It waits for something other than quota.
    Blocked { counted: Counted, verdict: Verdict },
    /// It holds quota.
    Holding {
        queue: ClusterQueueName,
        usage: Usage,
        stays: Stays,
        admitted: bool,
        ready: bool,
        priority: i32,
        /// Whether it stops so that another fits.
        leaving: bool,
    },
    /// It neither waits nor holds anything.
    Out,
}

/// Whose pending workloads a blocked one is counted among.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Counted {
    /// Nobody's: a person took it out, or stopped its LocalQueue.
    Nowhere,
    /// Its LocalQueue's.
    Locally,
    /// Its LocalQueue's and this ClusterQueue's.
    In(ClusterQueueName),
}

/// A place, and the LocalQueue through which it was reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Standing {
    pub(super) local: LocalQueueKey,
    pub(super) place: Place,
}

/// The place of a workload that cannot be queued.
fn blocked(counted: Counted, reason: Reason, message: String) -> Place {
    Place::Blocked { counted, verdict: Verdict::new(reason, message) }
}

impl State {
    /// Where a workload belongs.
    fn standing(&self, workload: &Workload) -> Standing {
        let place = self.place(workload);
        Standing { local: workload.queue.clone(), place }
    }

    fn place(&self, workload: &Workload) -> Place {
        let held = match (self.facts.assumed.get(&workload.key), &workload.phase) {
            (Some(admission), _) => {
                let queue = self.facts.queues.get(&admission.cluster_queue);
                let checked = queue.is_some_and(|queue| !queue.checks_of(admission).is_empty());
                Some((admission, !checked, false, None))
            }
            (None, Phase::Reserved { admission, admitted, evicted, .. }) => {
                let admission = self.facts.moved.get(&workload.key).unwrap_or(admission);
                Some((admission, *admitted, workload.pods_ready, *evicted))
            }
            (None, Phase::Pending | Phase::Finished) => None,
        };
        if let Some((admission, admitted, ready, evicted)) = held {
            return Place::Holding {
                queue: admission.cluster_queue.clone(),
                usage: self.charged(workload, admission),
                stays: workload.stays(admission),
                admitted,
                ready,
                priority: workload.priority,
                leaving: evicted == Some(Eviction::Preempted)
                    || (evicted.is_none() && self.facts.evicting.contains_key(&workload.key)),
            };
        }
        if workload.phase == Phase::Finished {
            return Place::Out;
        }
        self.line(workload).unwrap_or_else(|place| place)
    }

    /// The line that a waiting workload stands in, or where it is as long as it cannot.
    pub(super) fn line(&self, workload: &Workload) -> Result<Place, Place> {
        if !workload.active {
            let message = "The workload is deactivated".to_owned();
            return Err(blocked(Counted::Nowhere, Reason::Deactivated, message));
        }
        let pod_sets = workload
            .pod_sets
            .as_ref()
            .map_err(|problem| blocked(Counted::Locally, Reason::Misconfigured, problem.clone()))?;
        let name = &workload.queue.name;
        let local = self.facts.local_queues.get(&workload.queue).ok_or_else(|| {
            blocked(Counted::Locally, Reason::Misconfigured, format!("LocalQueue {name} doesn't exist"))
        })?;
        if local.stop != Stop::No {
            let message = format!("LocalQueue {name} is stopped");
            return Err(blocked(Counted::Nowhere, Reason::Suspended, message));
        }
        let name = &local.cluster_queue;
        let queue = self.facts.queues.get(name).ok_or_else(|| {
            blocked(Counted::Locally, Reason::Misconfigured, format!("ClusterQueue {name} doesn't exist"))
        })?;
        let counted = || Counted::In(name.clone());
        if let Err(inactive) = self.activity(queue) {
            let message = format!("ClusterQueue {name} is inactive: {}", inactive.message);
            return Err(blocked(counted(), Reason::Suspended, message));
        }
        let labels = self.facts.namespaces.get(&workload.key.namespace);
        if !labels.is_some_and(|labels| queue.namespaces.matches(labels)) {
            let message = "The workload namespace doesn't match ClusterQueue selector".to_owned();
            return Err(blocked(counted(), Reason::Misconfigured, message));
        }
        if let Some(held) = &workload.held_back {
            let counted = if held.counts { counted() } else { Counted::Nowhere };
            return Err(Place::Blocked { counted, verdict: held.verdict.clone() });
        }
        if let Some(problem) = &workload.inadmissible {
            return Err(blocked(counted(), Reason::Misconfigured, problem.clone()));
        }
        if let Some(problem) = self.facts.refused.get(&workload.key) {
            let message = format!("The admission was refused and will be tried again: {problem}");
            return Err(blocked(counted(), Reason::PendingEvaluation, message));
        }
        let replaced = self.replaced(workload, name).map(|replaced| &replaced.workload.key);
        let lane = self.lane(queue, workload);
        let class = Pending::class_of(queue.strategy, workload.priority, pod_sets, replaced, lane);
        let order = Order::new(workload.priority, workload.since, workload.key.clone());
        Ok(Place::Queued { queue: name.clone(), class, order })
    }

    /// Moves a workload from where it is to where it belongs, and with it those that are to take its place.
    pub(super) fn move_on(&mut self, key: &WorkloadKey) {
        self.move_one(key);
        for successor in self.successors.get(key).cloned().unwrap_or_default() {
            self.move_one(&successor);
        }
    }

    /// Moves a workload from where it is to where it belongs. Nothing happens if that is the same place.
    fn move_one(&mut self, key: &WorkloadKey) {
        let belongs = self.facts.workloads.get(key).map(|workload| self.standing(workload));
        if self.standings.get(key) == belongs.as_ref() {
            if matches!(belongs, Some(Standing { place: Place::Queued { .. } | Place::Blocked { .. }, .. })) {
                self.unreported.insert(key.clone());
            }
            return;
        }
        let before = self.leave(key);
        if let Some(standing) = belongs {
            self.enter_at(key, standing);
        }
        self.note_freed(key, before);
    }

    /// Puts a known workload where it belongs.
    pub(super) fn enter(&mut self, key: &WorkloadKey) {
        if let Some(standing) = self.facts.workloads.get(key).map(|workload| self.standing(workload)) {
            self.enter_at(key, standing);
        }
    }

    fn enter_at(&mut self, key: &WorkloadKey, standing: Standing) {
        match &standing.place {
            Place::Queued { queue, class, order } => {
                let rank = class.lane().as_ref().map(|queue| self.rank(queue)).unwrap_or_default();
                self.pending.entry(queue.clone()).or_default().insert(class.clone(), order.clone(), rank);
                self.note_awake(queue);
                self.unreported.insert(key.clone());
            }
            Place::Blocked { .. } => {
                self.unreported.insert(key.clone());
            }
            Place::Holding { queue, usage, stays, ready, priority, leaving, .. } => {
                self.settle_in(stays, *leaving);
                self.unready += usize::from(!ready);
                if let Some(leaf) = self.forest.leaf(queue) {
                    self.forest.charge_all(&mut self.used, leaf, usage);
                    if !leaving {
                        self.forest.charge_all(&mut self.later, leaf, usage);
                    }
                }
                self.holders.entry(queue.clone()).or_default().insert((*priority, key.clone()));
                if *leaving {
                    self.leaving.insert(key.clone());
                }
            }
            Place::Out => {}
        }
        self.count(&standing, Count::Up);
        self.standings.insert(key.clone(), standing);
    }

    /// Takes a workload from where it is, for good: what is kept for it is given up. What it gave back may have to be
    /// [noted](Self::note_freed).
    fn leave(&mut self, key: &WorkloadKey) -> Option<Standing> {
        let standing = self.step_out(key)?;
        if let Place::Queued { queue, .. } = &standing.place {
            self.give_up(queue, key);
        }
        Some(standing)
    }

    /// Undoes [`enter`](Self::enter).
    pub(super) fn step_out(&mut self, key: &WorkloadKey) -> Option<Standing> {
        let standing = self.standings.remove(key)?;
        match &standing.place {
            Place::Queued { queue, class, order } => {
                if let Some(pending) = self.pending.get_mut(queue) {
                    pending.remove(class, order);
                }
                self.note_awake(queue);
            }
            Place::Holding { queue, usage, stays, ready, priority, leaving, .. } => {
                self.move_out(stays, *leaving);
                self.unready = self.unready.saturating_sub(usize::from(!ready));
                self.got_ready |= !ready;
                if let Some(leaf) = self.forest.leaf(queue) {
                    self.forest.release_all(&mut self.used, leaf, usage);
                    if !leaving {
                        self.forest.release_all(&mut self.later, leaf, usage);
                    }
                }
                if let Some(holders) = self.holders.get_mut(queue) {
                    holders.remove(&(*priority, key.clone()));
                    if holders.is_empty() {
                        self.holders.remove(queue);
                    }
                }
                self.leaving.remove(key);
            }
            Place::Blocked { .. } | Place::Out => {}
        }
        self.count(&standing, Count::Down);
        Some(standing)
    }

    /// Notes the tree in which a workload gave something back, if it held more before than it does now, or is easier to
    /// preempt.
    fn note_freed(&mut self, key: &WorkloadKey, before: Option<Standing>) {
        let Some(Place::Holding { queue, usage, stays, priority, leaving, .. }) =
            before.map(|standing| standing.place)
        else {
            return;
        };
        let now = self.standings.get(key).map(|standing| &standing.place);
        let goes_on = leaving && matches!(now, Some(Place::Holding { leaving: false, .. }));
        let keeps = match now {
            Some(Place::Holding { queue: now_in, usage: now, stays: still, priority: ranks, .. })
                if *now_in == queue =>
            {
                *ranks >= priority
                    && *still == stays
                    && usage
                        .iter()
                        .all(|(resource, amount)| now.get(resource).is_some_and(|now| now >= amount))
            }
            _ => false,
        };
        if !keeps {
            self.note_room(&stays);
        }
        if !keeps && let Some(leaf) = self.forest.leaf(&queue) {
            self.freed.insert(self.forest.root(leaf));
        }
        if goes_on {
            self.wake_holders(&queue);
        }
    }

    /// Keeps the counts of the queues that a workload passes through.
    fn count(&mut self, Standing { local, place }: &Standing, by: Count) {
        let queue = match place {
            Place::Queued { queue, .. }
            | Place::Holding { queue, .. }
            | Place::Blocked { counted: Counted::In(queue), .. } => Some(queue),
            Place::Blocked { counted: Counted::Locally, .. } => None,
            Place::Blocked { counted: Counted::Nowhere, .. } | Place::Out => return,
        };
        if let Some(queue) = queue
            && let Some(counts) = self.counts.get_mut(queue)
        {
            counts.count(place, by);
            self.changed.queues.insert(queue.clone());
        }
        if let Some(counts) = self.local_counts.get_mut(local) {
            counts.count(place, by);
            self.changed.local_queues.insert(local.clone());
        }
    }

    pub(super) fn note_awake(&mut self, queue: &ClusterQueueName) {
        if self.pending.get(queue).is_some_and(Pending::is_awake) {
            self.awake.insert(queue.clone());
        } else {
            self.awake.remove(queue);
        }
    }
}
