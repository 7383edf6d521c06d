//! The builder of workloads.

use std::{collections::BTreeMap, sync::Arc};

use super::build::{amount, is, key};
use crate::{
    flavor::{NodeDemand, Toleration},
    name::{FlavorName, LocalQueueKey},
    quantity::Amounts,
    topology::{Layer, Nearness, TopologyRequest},
    verdict::{Reason, Verdict},
    workload::{Admission, HeldBack, Phase, PodSet, PodSetAssignment, Timestamp, Workload, total},
};

/// A workload in the making.
#[derive(Clone, Debug)]
pub struct WorkloadBuilder {
    workload: Workload,
    pod_sets: Vec<PodSet>,
    holds: Option<(String, FlavorName)>,
    holds_since: Timestamp,
}

/// The pending workload `namespace/name` in the LocalQueue `lq`, without pods. Its uid is its name. A [`World`]
/// gives it its version, and so a place in time among what it is told, unless one is set.
///
/// [`World`]: super::World
pub fn workload(text: &str) -> WorkloadBuilder {
    let key = key(text);
    let queue = LocalQueueKey::new(Arc::clone(&key.namespace), "lq");
    let workload = Workload {
        uid: Arc::clone(&key.name),
        key,
        version: 0,
        queue,
        priority: 0,
        since: Timestamp(0),
        active: true,
        held_back: None,
        pods_ready: true,
        pod_sets: Ok(Arc::default()),
        inadmissible: None,
        left: BTreeMap::new(),
        job: None,
        replaces: None,
        phase: Phase::Pending,
        reported: None,
    };
    WorkloadBuilder { workload, pod_sets: Vec::new(), holds: None, holds_since: Timestamp(0) }
}

impl WorkloadBuilder {
    /// It was submitted to this LocalQueue of its namespace.
    pub fn queue(mut self, name: &str) -> Self {
        self.workload.queue.name = name.into();
        self
    }

    /// Its priority.
    pub fn priority(mut self, priority: i32) -> Self {
        self.workload.priority = priority;
        self
    }

    /// It waits since this moment.
    pub fn since(mut self, moment: i64) -> Self {
        self.workload.since = Timestamp(moment);
        self
    }

    /// Its object's uid.
    pub fn uid(mut self, uid: &str) -> Self {
        self.workload.uid = uid.into();
        self
    }

    /// Its object's `resourceVersion`.
    pub fn version(mut self, version: u64) -> Self {
        self.workload.version = version;
        self
    }

    /// A person took it out.
    pub fn inactive(mut self) -> Self {
        self.workload.active = false;
        self
    }

    /// This keeps it from queueing; whether it counts as waiting all the same.
    pub fn held_back(mut self, reason: Reason, message: &str, counts: bool) -> Self {
        self.workload.held_back = Some(HeldBack { verdict: Verdict::new(reason, message), counts });
        self
    }

    /// Its pods are not ready.
    pub fn unready(mut self) -> Self {
        self.workload.pods_ready = false;
        self
    }

    /// Another pod set: `count` pods that request this much each.
    pub fn pods<const N: usize>(mut self, name: &str, count: u32, per_pod: [(&str, i64); N]) -> Self {
        let (per_pod, demand) = (amounts(per_pod), NodeDemand::default());
        let (name, min_count, of_node, topology) = (name.into(), None, None, None);
        self.pod_sets.push(PodSet { name, count, min_count, per_pod, demand, of_node, topology });
        self
    }

    /// So many pods of the last pod set are enough.
    pub fn at_least(mut self, min_count: u32) -> Self {
        if let Some(pod_set) = self.pod_sets.last_mut() {
            pod_set.min_count = Some(min_count);
        }
        self
    }

    /// The pods of the last pod set select nodes by this label.
    pub fn select(self, label: &str, value: &str) -> Self {
        self.demand(|demand| {
            demand.selector.insert(label.into(), value.into());
        })
    }

    /// The pods of the last pod set have one more alternative in their required node affinity: this label.
    pub fn affinity(self, label: &str, value: &str) -> Self {
        self.demand(|demand| demand.affinity.push(vec![is(label, value)]))
    }

    /// The pods of the last pod set tolerate taints of this key.
    pub fn tolerate(self, taint: &str) -> Self {
        let toleration = Toleration { key: taint.into(), exists: true, value: String::new(), effect: None };
        self.demand(|demand| demand.tolerations.push(toleration))
    }

    /// The pods of the last pod set are to be in one domain of this level.
    pub fn required(self, level: &str) -> Self {
        self.topology(|topology| topology.nearness = Some(Nearness::Required(level.into())))
    }

    /// The pods of the last pod set should be in one domain of this level.
    pub fn preferred(self, level: &str) -> Self {
        self.topology(|topology| topology.nearness = Some(Nearness::Preferred(level.into())))
    }

    /// The pods of the last pod set may be anywhere.
    pub fn unconstrained(self) -> Self {
        self.topology(|topology| topology.nearness = Some(Nearness::Unconstrained))
    }

    /// So many pods of the last pod set, and of each such slice that it has so far, are to be in one domain of this level.
    pub fn slices(self, size: u32, level: &str) -> Self {
        self.topology(|topology| topology.layers.push(Layer { level: level.into(), size }))
    }

    /// The last pod set is placed together with the others of this group.
    pub fn placed_with(self, group: &str) -> Self {
        self.topology(|topology| topology.group = Some(group.into()))
    }

    fn topology(mut self, change: impl FnOnce(&mut TopologyRequest)) -> Self {
        if let Some(pod_set) = self.pod_sets.last_mut() {
            change(pod_set.topology.get_or_insert_default());
        }
        self
    }

    fn demand(mut self, change: impl FnOnce(&mut NodeDemand)) -> Self {
        if let Some(pod_set) = self.pod_sets.last_mut() {
            change(&mut pod_set.demand);
        }
        self
    }

    /// Its pods cannot be counted.
    pub fn invalid(mut self, problem: &str) -> Self {
        self.workload.pod_sets = Err(problem.into());
        self
    }

    /// So many pods of this pod set have not done their work yet.
    pub fn left(mut self, pod_set: &str, pods: u32) -> Self {
        self.workload.left.insert(pod_set.into(), pods);
        self
    }

    /// It stands for this job.
    pub fn job(mut self, uid: &str) -> Self {
        self.workload.job = Some(uid.into());
        self
    }

    /// It takes the place of this workload.
    pub fn replaces(mut self, workload: &str) -> Self {
        self.workload.replaces = Some(key(workload));
        self
    }

    /// The API server would refuse its pods.
    pub fn inadmissible(mut self, problem: &str) -> Self {
        self.workload.inadmissible = Some(problem.into());
        self
    }

    /// It holds what its pods request, all from one flavor, in this ClusterQueue, and may run.
    pub fn holding(mut self, cluster_queue: &str, flavor: &str) -> Self {
        self.holds = Some((cluster_queue.into(), flavor.into()));
        self
    }

    /// It holds it since this moment.
    pub fn holding_since(mut self, moment: i64) -> Self {
        self.holds_since = Timestamp(moment);
        self
    }

    /// It is over.
    pub fn finished(mut self) -> Self {
        self.workload.phase = Phase::Finished;
        self
    }
}

impl From<WorkloadBuilder> for Workload {
    fn from(WorkloadBuilder { mut workload, pod_sets, holds, holds_since: since }: WorkloadBuilder) -> Self {
        if let Some((cluster_queue, flavor)) = holds {
            let assignment = |of: &PodSet| PodSetAssignment {
                name: Arc::clone(&of.name),
                count: of.count,
                flavors: of.per_pod.keys().map(|r| (r.clone(), flavor.clone())).collect::<BTreeMap<_, _>>(),
                usage: total(&of.per_pod, of.count).unwrap_or_default(),
                placement: None,
            };
            let pod_sets = pod_sets.iter().map(assignment).collect();
            let admission = Admission { cluster_queue: cluster_queue.into(), pod_sets };
            workload.phase = Phase::Reserved { admission, admitted: true, evicted: None, since };
        }
        workload.pod_sets = workload.pod_sets.map(|_| pod_sets.into());
        workload
    }
}

fn amounts<const N: usize>(of: [(&str, i64); N]) -> Amounts {
    of.into_iter().map(|(resource, units)| (resource.into(), amount(resource, units))).collect()
}
