//! A state as one document, complete enough that a plan made from it is the plan that was made.
//!
//! The facts alone are not: whom a plan looks at depends on who was tried before and sleeps. That is history, so a
//! snapshot has it beside the facts.

use serde::{Deserialize, Serialize};

use super::{Facts, State};
use crate::{
    name::ClusterQueueName,
    pending::Asleep,
    plan::{Plan, Policy, plan},
    verdict::Until,
    workload::Timestamp,
};

/// All that a plan depends on. [`VERSION`](Self::VERSION) counts its changes: a program reads its own version only,
/// because another one decides by other rules.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// The version of this document's form.
    pub version: u32,
    /// The moment of the plan.
    pub now: Timestamp,
    /// Its policy.
    pub policy: Policy,
    /// What the objects say.
    pub facts: Facts,
    /// The classes that were tried and sleep, by the queue they wait in.
    pub asleep: Vec<(ClusterQueueName, Asleep)>,
}

impl Snapshot {
    /// The version that is written and read.
    pub const VERSION: u32 = 4;

    /// Of a settled state, at a moment, under a policy.
    pub fn of(state: &State, now: Timestamp, policy: &Policy) -> Self {
        let asleep = state
            .pending
            .iter()
            .flat_map(|(queue, pending)| pending.asleep().map(|asleep| (queue.clone(), asleep)));
        Self {
            version: Self::VERSION,
            now,
            policy: policy.clone(),
            facts: state.facts.clone(),
            asleep: asleep.collect(),
        }
    }

    /// The state that it was taken of, as far as plans depend on it.
    pub fn state(&self) -> State {
        let mut state = State::from_snapshot(self.facts.clone());
        for (queue, asleep) in &self.asleep {
            if let Some(pending) = state.pending.get_mut(queue) {
                pending.put_to_sleep(asleep);
                if asleep.refusal.until.includes(&Until::Released) {
                    state.braked.insert(queue.clone());
                }
            }
            state.note_awake(queue);
        }
        state
    }

    /// The plan that was made from it.
    pub fn plan(&self) -> Plan {
        plan(&self.state(), self.now, &self.policy)
    }
}
