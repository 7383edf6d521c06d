//! What metrics and records need to know beside the state.

use whalezen_core::{
    brakes::{Brakes, Past},
    labels::Labels,
    name::{ClusterQueueName, LocalQueueKey, WorkloadKey},
    preempt::Ground,
    workload::{Timestamp, Workload},
};
use whalezen_crds::kueue::constants::condition as types;

use super::{
    super::{
        conditions,
        milestones::{Milestone, milestones},
        workload::WorkloadView,
    },
    Objects,
};

impl Objects {
    /// What happened to workloads since the last call.
    pub fn take_milestones(&mut self) -> Vec<Milestone> {
        std::mem::take(&mut self.milestones)
    }

    /// The labels of all `LocalQueues`.
    pub fn labels_of_local_queues(&self) -> impl Iterator<Item = (&LocalQueueKey, &Labels)> {
        self.local_queue_labels.iter()
    }

    /// The labels of a LocalQueue, if it is known.
    pub fn labels_of_local_queue(&self, key: &LocalQueueKey) -> Option<&Labels> {
        self.local_queue_labels.get(key)
    }

    /// The preemptions of the last hour, as the Workloads' own conditions tell them: what a new leader knows of those
    /// before it. Of a Workload that was admitted again since, the condition has only that moment, which is later;
    /// of one that is over or gone it has nothing.
    pub fn preemptions_before(&self, now: Timestamp) -> Vec<Past> {
        let of = |(key, view): (&WorkloadKey, &WorkloadView)| {
            let told = conditions::find(&view.conditions, types::PREEMPTED)?;
            let at = conditions::timestamp(&told.last_transition_time);
            let recent = now.0.saturating_sub(at.0) < Brakes::MEMORY;
            let queue = recent.then(|| self.queue_of_victim(key, &told.message)).flatten()?;
            Some(Past { at, queue })
        };
        let mut past: Vec<Past> = self.workloads.iter().filter_map(of).collect();
        past.sort_by_key(|past| past.at);
        past
    }

    /// The message names the ClusterQueue, the last of its path. Otherwise it is taken to be where the Workload waits.
    fn queue_of_victim(&self, key: &WorkloadKey, message: &str) -> Option<ClusterQueueName> {
        let path = message.split_once("preemptee path: ").map(|(_, path)| path);
        let named = path.and_then(|path| path.split(|end: char| end.is_whitespace() || end == ';').next());
        let named = named.and_then(|path| path.rsplit_once('/')).map(|(_, queue)| queue.into());
        let waits = || self.state.local_queue(&self.state.workload(key)?.queue);
        named.or_else(|| waits().map(|local| local.cluster_queue.clone()))
    }

    /// On what ground a Workload was preempted last, if its conditions say that it was.
    pub fn ground_of_preemption(&self, key: &WorkloadKey) -> Option<Ground> {
        let told = conditions::find(&self.workloads.get(key)?.conditions, types::PREEMPTED)?;
        Ground::ALL.into_iter().find(|ground| told.status == "True" && told.reason == ground.as_str())
    }

    /// Notes what happened to a Workload since it was looked at last. To be called before anything of it is taken in.
    pub(super) fn measure(&mut self, workload: &Workload, now: &WorkloadView) {
        let Some(before) = self.workloads.get(&workload.key).filter(|before| before.uid == now.uid) else {
            return;
        };
        if now.version <= before.version || now.unreadable || before.unreadable {
            return;
        }
        let holder = self.state.admission(&workload.key).map(|given| &given.cluster_queue);
        let happened = milestones(before, now, workload, holder);
        self.milestones.extend(happened);
    }
}
