//! Events about workloads, and what is believed about those whose write is under way: applied at once.

use std::sync::Arc;

use super::{Reservation, State, places::Place};
use crate::{
    brakes::{Brakes, Past},
    name::WorkloadKey,
    plan::{Admit, Evict, Hold, Park, Plan},
    verdict::Until,
    workload::{Phase, PodSet, Workload},
};

impl State {
    /// Whether more is known than what this says.
    pub(super) fn is_old(&self, workload: &Workload) -> bool {
        self.facts.workloads.get(&workload.key).is_some_and(|known| {
            let same = known.uid == workload.uid;
            workload.version < known.version || (same && workload.version == known.version)
        })
    }

    pub(super) fn see_workload(&mut self, mut workload: Workload) {
        if self.is_old(&workload) {
            return;
        }
        let key = workload.key.clone();
        if self.facts.workloads.get(&key).is_some_and(|known| known.uid != workload.uid) {
            self.facts.assumed.remove(&key);
            self.facts.evicting.remove(&key);
        }
        if workload.phase != Phase::Pending {
            self.facts.assumed.remove(&key);
        }
        self.facts.moved.remove(&key);
        let goes_on = match &workload.phase {
            Phase::Pending => self.facts.assumed.contains_key(&key),
            Phase::Reserved { evicted, .. } => evicted.is_none(),
            Phase::Finished => false,
        };
        if !goes_on {
            self.facts.evicting.remove(&key);
        }
        self.facts.refused.remove(&key);
        workload.pod_sets = workload.pod_sets.map(|pod_sets| self.shared(pod_sets));
        let known = self.facts.workloads.insert(key.clone(), workload);
        self.follow_penalty(&key, known.as_ref());
        self.note_successor(&key, known.and_then(|known| known.replaces).as_ref());
        self.move_on(&key);
    }

    pub(super) fn see_count(
        &mut self,
        key: &WorkloadKey,
        pod_sets: Result<Arc<[PodSet]>, String>,
        inadmissible: Option<String>,
    ) {
        let pod_sets = pod_sets.map(|pod_sets| self.shared(pod_sets));
        let Some(workload) = self.facts.workloads.get_mut(key) else { return };
        if workload.pod_sets == pod_sets && workload.inadmissible == inadmissible {
            return;
        }
        (workload.pod_sets, workload.inadmissible) = (pod_sets, inadmissible);
        self.move_on(key);
    }

    pub(super) fn lose_workload(&mut self, key: &WorkloadKey) {
        self.facts.assumed.remove(key);
        self.facts.moved.remove(key);
        self.facts.refused.remove(key);
        self.facts.evicting.remove(key);
        let known = self.facts.workloads.remove(key);
        if let Some(known) = &known {
            self.drop_penalty(&known.queue, key);
        }
        self.note_successor(key, known.and_then(|known| known.replaces).as_ref());
        self.move_on(key);
        self.unreported.remove(key);
    }

    /// Whether a planned admission may still happen.
    pub(super) fn may_happen(&self, admit: &Admit) -> bool {
        let key = &admit.workload;
        let current = self.workload(key).is_some_and(|workload| workload.version == admit.version);
        let waits = matches!(self.standings.get(key).map(|s| &s.place), Some(Place::Queued { .. }));
        current && waits
    }

    pub(super) fn believe(&mut self, admit: Admit) {
        if !self.may_happen(&admit) {
            return;
        }
        let Admit { workload: key, admission, .. } = admit;
        let queue = admission.cluster_queue.clone();
        let kept = self.facts.reserved.get(&queue).filter(|kept| kept.workload == key);
        if let Some(all_of_it) = kept.map(|kept| kept.usage == admission.usage()) {
            if let Some(before) = self.keep_nothing(&queue) {
                self.note_room(&before.stays);
            }
            self.favour(&queue);
            if !all_of_it {
                self.note_freed_in(&queue);
            }
        }
        self.facts.assumed.insert(key.clone(), admission);
        self.move_on(&key);
        self.charge_penalty(&key, &queue);
    }

    /// Believes that an eviction happens, until the workload's object says so or it is [spared](Self::spare).
    fn evict(&mut self, evict: &Evict) {
        let key = &evict.workload;
        if matches!(self.standings.get(key).map(|s| &s.place), Some(Place::Holding { .. })) {
            self.facts.evicting.insert(key.clone(), evict.clone());
            let past = &mut self.facts.past_evictions;
            while past.front().is_some_and(|past| evict.at.0.saturating_sub(past.at.0) >= Brakes::MEMORY) {
                past.pop_front();
            }
            past.push_back(Past { at: evict.at, queue: evict.cluster_queue.clone() });
            self.move_on(key);
        }
    }

    pub(super) fn let_go_on(&mut self, key: &WorkloadKey) {
        if let Some(evict) = self.facts.evicting.remove(key) {
            self.move_on(key);
            self.note_freed_in(&evict.cluster_queue);
        }
    }

    /// Keeps quota for a workload that waits for others to stop on its account. Who comes after it in its queue
    /// waits as well.
    fn hold(&mut self, hold: &Hold) {
        let Some(pending) = self.pending.get_mut(&hold.queue) else { return };
        self.unreported.extend(pending.hold(&hold.class, &hold.order, hold.refusal.clone()));
        let reservation = Reservation {
            workload: hold.order.key.clone(),
            usage: hold.usage.clone(),
            pod_sets: hold.pod_sets.clone(),
            stays: hold.stays.clone(),
        };
        let before = self.keep(&hold.queue, reservation);
        self.favour(&hold.queue);
        if let Some(before) = before {
            if before.usage != hold.usage {
                self.note_freed_in(&hold.queue);
            }
            if before.stays != hold.stays {
                self.note_room(&before.stays);
            }
        }
        self.note_awake(&hold.queue);
    }

    pub(super) fn see_written(&mut self, workload: Workload) {
        let key = workload.key.clone();
        if self.facts.workloads.get(&key).is_some_and(|known| known.uid == workload.uid) {
            self.see_workload(workload);
            self.take_back(&key);
        }
    }

    pub(super) fn take_back(&mut self, key: &WorkloadKey) {
        if self.facts.assumed.remove(key).is_some() {
            if self.facts.workloads.get(key).is_none_or(|workload| workload.admission().is_none()) {
                self.facts.evicting.remove(key);
            }
            self.take_penalty_back(key);
            self.move_on(key);
        }
    }

    pub(super) fn take_back_for_good(&mut self, key: &WorkloadKey, problem: String) {
        self.facts.assumed.remove(key);
        self.facts.evicting.remove(key);
        if self.facts.workloads.contains_key(key) {
            self.facts.refused.insert(key.clone(), problem);
        }
        self.take_penalty_back(key);
        self.move_on(key);
    }

    pub(super) fn let_in_again(&mut self, key: &WorkloadKey) {
        if self.facts.refused.remove(key).is_some() {
            self.move_on(key);
        }
    }

    pub(super) fn believe_plan(&mut self, plan: &Plan) {
        for queue in &plan.yielded {
            self.yield_kept(queue);
        }
        for park in &plan.park {
            self.park(park);
        }
        // Whoever is admitted ahead of who holds its queue may have taken what was kept for that one.
        for queue in plan.admit.iter().map(|admit| &admit.admission.cluster_queue) {
            let taken = self.facts.reserved.get(queue).is_some_and(|kept| {
                plan.admit.iter().all(|admit| admit.workload != kept.workload)
                    && plan.hold.iter().all(|hold| hold.queue != *queue)
            });
            if taken {
                if let Some(before) = self.keep_nothing(queue) {
                    self.note_room(&before.stays);
                }
                self.favour(queue);
                self.note_freed_in(queue);
            }
        }
        for hold in &plan.hold {
            self.hold(hold);
        }
        for evict in &plan.evict {
            self.evict(evict);
        }
    }

    /// Puts a class to sleep.
    fn park(&mut self, park: &Park) {
        let Some(pending) = self.pending.get_mut(&park.queue) else { return };
        self.unreported.extend(pending.park(&park.class, &park.order, park.refusal.clone()));
        self.note_awake(&park.queue);
        if park.refusal.until.includes(&Until::Released) {
            self.braked.insert(park.queue.clone());
        }
        self.give_up(&park.queue, &park.order.key);
    }

    /// The shared copy of these pod sets.
    fn shared(&mut self, pod_sets: Arc<[PodSet]>) -> Arc<[PodSet]> {
        const SHAPES_BEFORE_A_SWEEP: usize = 4096;
        if let Some(known) = self.shapes.get(&pod_sets) {
            return Arc::clone(known);
        }
        if self.shapes.len() >= SHAPES_BEFORE_A_SWEEP.max(2 * self.facts.workloads.len()) {
            self.shapes.retain(|shape| Arc::strong_count(shape) > 1);
        }
        self.shapes.insert(Arc::clone(&pod_sets));
        pod_sets
    }
}
