//! Preemptions that were sent and of which the Workload does not say so yet.
//!
//! The watch may show that a victim stops before the API server has answered, and then the state has forgotten for
//! whom. So what there will be to tell is kept from the moment at which it is sent.

use std::collections::BTreeMap;

use whalezen_core::{
    name::WorkloadKey,
    plan::{Evict, Policy},
    state::State,
};
use whalezen_decisions::line::{Decision, InForce, amounts, calendar};

/// One of them.
pub(super) struct Preemption {
    /// As it was planned.
    pub(super) evict: Evict,
    /// What is put on record once it happened.
    pub(super) decision: Decision,
}

/// All of them.
#[derive(Default)]
pub(super) struct Preempting(BTreeMap<WorkloadKey, Preemption>);

impl Preempting {
    /// One is sent.
    pub(super) fn sent(&mut self, evict: &Evict, state: &State, policy: &Policy) {
        let preemption = Preemption { evict: evict.clone(), decision: decision(evict, state, policy) };
        self.0.insert(evict.workload.clone(), preemption);
    }

    /// The Workload says that it was preempted, or never will.
    pub(super) fn take(&mut self, key: &WorkloadKey) -> Option<Preemption> {
        self.0.remove(key)
    }

    /// What comes now is another leader's.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

fn decision(evict: &Evict, state: &State, policy: &Policy) -> Decision {
    let key = &evict.workload;
    let preemption = state.queue(&evict.preemptor_queue).map(|queue| queue.preemption).unwrap_or_default();
    let lost = state.workload(key).zip(state.admission(key)).map(|(workload, given)| workload.usage(given));
    Decision::Preempted {
        workload: Some(key.clone()),
        cluster_queue: Some(evict.cluster_queue.clone()),
        lost: amounts(&lost.unwrap_or_default()),
        preemptor: Some(evict.preemptor.clone()),
        preemptor_cluster_queue: Some(evict.preemptor_queue.clone()),
        ground: evict.ground,
        policy: InForce::new(&preemption, policy),
        planned_at: calendar(evict.at),
    }
}
