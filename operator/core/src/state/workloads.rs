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
    /// A workload was seen. What is older than what is known of that name, or not newer than what is known of the
    /// same object, is ignored.
    pub fn apply_workload(&mut self, mut workload: Workload) {
        let key = workload.key.clone();
        if let Some(known) = self.facts.workloads.get(&key) {
            let same = known.uid == workload.uid;
            if workload.version < known.version || (same && workload.version == known.version) {
                return;
            }
            if !same {
                self.facts.assumed.remove(&key);
                self.facts.evicting.remove(&key);
            }
        }
        if workload.phase != Phase::Pending {
            self.facts.assumed.remove(&key);
        }
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

    /// A workload's pods are counted anew, because what they are counted by has changed and not their object.
    pub fn recount(
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

    /// A workload is gone.
    pub fn delete_workload(&mut self, key: &WorkloadKey) {
        self.facts.assumed.remove(key);
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

    /// Believes that a planned admission happens, until [`confirm`](Self::confirm) or [`forget`](Self::forget).
    /// Says whether it does: not if the workload has left its queue or is another version than was planned for.
    pub fn assume(&mut self, admit: &Admit) -> bool {
        let key = &admit.workload;
        let current = self.workload(key).is_some_and(|workload| workload.version == admit.version);
        let waits = matches!(self.standings.get(key).map(|s| &s.place), Some(Place::Queued { .. }));
        if current && waits {
            self.facts.assumed.insert(key.clone(), admit.admission.clone());
            let queue = &admit.admission.cluster_queue;
            if let Some(kept) = self.facts.reserved.get(queue).filter(|kept| kept.workload == *key) {
                let all_of_it = kept.usage == admit.admission.usage();
                self.facts.reserved.remove(queue);
                self.favour(queue);
                if !all_of_it {
                    self.note_freed_in(queue);
                }
            }
            self.move_on(key);
            self.charge_penalty(key, &admit.admission.cluster_queue);
        }
        current && waits
    }

    /// Believes that an eviction happens, until the workload's object says so or [`spare`](Self::spare) is called.
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

    /// Takes an eviction back that was not written yet. Whoever it was for is looked at again.
    pub fn spare(&mut self, key: &WorkloadKey) {
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
        };
        let before = self.facts.reserved.insert(hold.queue.clone(), reservation);
        self.favour(&hold.queue);
        if before.is_some_and(|before| before.usage != hold.usage) {
            self.note_freed_in(&hold.queue);
        }
        self.note_awake(&hold.queue);
    }

    /// The API server accepted a write to this workload and answered with it as it is now.
    pub fn confirm(&mut self, workload: Workload) {
        let key = workload.key.clone();
        if self.facts.workloads.get(&key).is_some_and(|known| known.uid == workload.uid) {
            self.apply_workload(workload);
            self.forget(&key);
        }
    }

    /// Takes an assumption back.
    pub fn forget(&mut self, key: &WorkloadKey) {
        if self.facts.assumed.remove(key).is_some() {
            if self.facts.workloads.get(key).is_none_or(|workload| workload.admission().is_none()) {
                self.facts.evicting.remove(key);
            }
            self.take_penalty_back(key);
            self.move_on(key);
        }
    }

    /// Takes an assumption back because the API server refused the write. The workload waits, and holds nobody
    /// up, until its object changes or [`try_again`](Self::try_again) is called.
    pub fn refuse(&mut self, key: &WorkloadKey, problem: String) {
        self.facts.assumed.remove(key);
        self.facts.evicting.remove(key);
        if self.facts.workloads.contains_key(key) {
            self.facts.refused.insert(key.clone(), problem);
        }
        self.take_penalty_back(key);
        self.move_on(key);
    }

    /// Lets a refused workload queue again.
    pub fn try_again(&mut self, key: &WorkloadKey) {
        if self.facts.refused.remove(key).is_some() {
            self.move_on(key);
        }
    }

    /// Believes everything in a plan but its admissions, which are [assumed](Self::assume) as they are written. To
    /// be called before any other change, or what happened since the plan would go unnoticed by those it could help.
    pub fn follow(&mut self, plan: &Plan) {
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
                self.facts.reserved.remove(queue);
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
        if park.refusal.until == Until::Released {
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
