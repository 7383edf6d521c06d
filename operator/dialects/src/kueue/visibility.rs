//! Who waits in a queue, as `visibility.kueue.x-k8s.io` tells it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use whalezen_core::{
    name::{ClusterQueueName, LocalQueueKey},
    workload::Workload,
};
use whalezen_crds::visibility::PendingWorkload;

use super::{jobs::serving, objects::Objects, workload::WorkloadView};

/// The queue that is asked about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InQueue {
    /// A ClusterQueue.
    Cluster(ClusterQueueName),
    /// A LocalQueue.
    Local(LocalQueueKey),
}

/// Which of those who wait are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// How many are passed over.
    pub offset: usize,
    /// How many are shown.
    pub limit: usize,
}

impl Page {
    /// How many are shown to who does not say.
    const USUAL: i64 = 1000;
    const MOST: i64 = 100_000;

    /// What was asked for, within bounds.
    pub fn new(offset: Option<i64>, limit: Option<i64>) -> Self {
        let limit = limit.filter(|limit| *limit != 0).unwrap_or(Self::USUAL).clamp(0, Self::MOST);
        let number = |number: i64| usize::try_from(number).unwrap_or_default();
        Self { offset: number(offset.unwrap_or_default()), limit: number(limit) }
    }
}

impl Objects {
    /// Those who wait in a queue, if it is known.
    pub fn pending(&self, queue: &InQueue, page: Page) -> Option<Vec<PendingWorkload>> {
        let (cluster_queue, local) = match queue {
            InQueue::Cluster(name) => (name, None),
            InQueue::Local(key) => (&self.state.local_queue(key)?.cluster_queue, Some(key)),
        };
        let waiting = match self.state.waiting(cluster_queue) {
            Some(waiting) => waiting,
            // A LocalQueue may be there before its ClusterQueue.
            None => local.map(|_| Vec::new())?,
        };
        let mut ahead: BTreeMap<&LocalQueueKey, usize> = BTreeMap::new();
        let placed = waiting.into_iter().enumerate().map(|(position, workload)| {
            let ahead = ahead.entry(&workload.queue).or_default();
            let in_local_queue = *ahead;
            *ahead += 1;
            (workload, position, in_local_queue)
        });
        let asked = placed.filter(|(workload, ..)| local.is_none_or(|local| workload.queue == *local));
        let shown = asked.skip(page.offset).take(page.limit);
        Some(shown.map(|(workload, position, in_local)| self.shown(workload, position, in_local)).collect())
    }

    fn shown(&self, workload: &Workload, in_cluster_queue: usize, in_local_queue: usize) -> PendingWorkload {
        let number = |number| i32::try_from(number).unwrap_or(i32::MAX);
        let view = self.view_of(&workload.key);
        PendingWorkload {
            metadata: ObjectMeta {
                name: Some(workload.key.name.to_string()),
                namespace: Some(workload.key.namespace.to_string()),
                creation_timestamp: view.and_then(|view| time(view.created.0)),
                owner_references: view.and_then(owner).map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            priority: workload.priority,
            local_queue_name: workload.queue.name.to_string(),
            position_in_cluster_queue: number(in_cluster_queue),
            position_in_local_queue: number(in_local_queue),
        }
    }
}

fn time(milliseconds: i64) -> Option<Time> {
    jiff::Timestamp::from_millisecond(milliseconds).ok().map(Time)
}

/// The job that it stands for.
fn owner(view: &WorkloadView) -> Option<OwnerReference> {
    let kind = view.kind?;
    Some(OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        name: view.owner.clone()?,
        uid: serving::object_uid(view.job.as_deref()?).to_owned(),
        ..OwnerReference::default()
    })
}
