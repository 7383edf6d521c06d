//! What a tenant sees of the log: the decisions on its own namespace, and of the other side of a preemption no more
//! than that there was one.

use whalezen_core::name::WorkloadKey;

use crate::{
    line::{Decision, Line},
    observe::Act,
};

impl Line {
    /// The line as those see it who may read the Workloads of this namespace and no others; nothing if it is not about
    /// them.
    pub fn seen_from(mut self, namespace: &str) -> Option<Self> {
        match &mut self.decision {
            Decision::Preempted {
                workload,
                cluster_queue,
                preemptor,
                preemptor_cluster_queue,
                policy,
                ..
            } => {
                let own = |key: &Option<_>| is_in(key.as_ref(), namespace);
                match (own(workload), own(preemptor)) {
                    (false, false) => return None,
                    (true, false) => {
                        *preemptor = None;
                        *preemptor_cluster_queue = None;
                        policy.scheduling_policies.clear();
                    }
                    (false, true) => {
                        *workload = None;
                        *cluster_queue = None;
                    }
                    (true, true) => {}
                }
                Some(self)
            }
            Decision::Admitted { workload, .. }
            | Decision::Held { workload, .. }
            | Decision::Refused { object: workload, .. }
            | Decision::Evicted { workload, .. }
            | Decision::Deactivated { workload, .. }
            | Decision::Requeued { workload, .. } => (*workload.namespace == *namespace).then_some(self),
            Decision::Compared { workload, planned, seen, .. } => {
                for act in [planned, seen].into_iter().flatten() {
                    if let Act::Preemption { preemptor, .. } = act
                        && !is_in(preemptor.as_ref(), namespace)
                    {
                        *preemptor = None;
                    }
                }
                (*workload.namespace == *namespace).then_some(self)
            }
            // Whose they were is not known any more.
            Decision::Dropped { .. } => Some(self),
        }
    }

    /// Whether it is about this namespace, for those who may see all of them.
    pub fn concerns(&self, namespace: &str) -> bool {
        self.clone().seen_from(namespace).is_some()
    }
}

fn is_in(key: Option<&WorkloadKey>, namespace: &str) -> bool {
    key.is_some_and(|key| *key.namespace == *namespace)
}
