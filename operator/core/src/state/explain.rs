//! Why a workload waits, with numbers: which quota, how much is missing, who holds it, what would have to happen.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{State, places::Place};
use crate::{
    forest::NodeName,
    name::{ClusterQueueName, FlavorName, FlavorResource, ResourceName, WorkloadKey},
    overlay::Overlay,
    quantity::{Amount, Amounts, format},
    verdict::{Reason, Verdict},
    workload::total,
};

/// Where a workload stands and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The workload.
    pub workload: WorkloadKey,
    /// `Waiting`, `HoldsQuota` or `Over`.
    pub standing: &'static str,
    /// Whose quota it waits for or holds.
    pub cluster_queue: Option<ClusterQueueName>,
    /// Why it waits, if it does and somebody has looked at it.
    pub verdict: Option<Verdict>,
    /// What would have to happen, where it is not for quota that it waits. What people have to put right is in the verdict.
    pub remedy: Option<&'static str>,
    /// How many who wait in the same ClusterQueue go before it.
    pub ahead: usize,
    /// What it asks for, flavor by flavor, if it waits.
    pub quotas: Vec<Quota>,
}

/// What a waiting workload asks for of one resource in one flavor, and what there is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// The flavor.
    pub flavor: FlavorName,
    /// The resource.
    pub resource: ResourceName,
    /// What all its pods together ask for.
    pub requested: String,
    /// What the ClusterQueue could take now.
    pub available: String,
    /// What it could take if nobody held anything.
    pub capacity: String,
    /// What is missing; nothing if it fits.
    pub missing: String,
    /// What would have to happen for it to fit here.
    pub remedy: Option<String>,
    /// The ClusterQueues that share this quota and hold any of it.
    pub holders: Vec<Holder>,
    /// The ClusterQueues in which any of it is kept for a workload for which others stop.
    pub kept: Vec<Kept>,
}

/// What is kept in a ClusterQueue, of one resource in one flavor, for a workload for which others stop.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// The ClusterQueue.
    pub cluster_queue: ClusterQueueName,
    /// How much.
    pub amount: String,
}

/// What a ClusterQueue holds of one resource in one flavor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The ClusterQueue.
    pub cluster_queue: ClusterQueueName,
    /// What it holds.
    pub holds: String,
    /// What of that is beyond its own quota.
    pub borrows: String,
}

fn remedy(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::TopologyPlacementFailed => Some(
            "nodes that it may be on have to become ready, or pods on them that no placement accounts for have to go: whatever other workloads give back would not do",
        ),
        Reason::WaitingForPreemptedWorkloads => Some("those have to stop who were told to on its account"),
        Reason::WaitingForPodsReady => {
            Some("the pods of those that were admitted before have to become ready")
        }
        _ => None,
    }
}

impl State {
    /// Explains a workload, if it is known.
    pub fn explain(&self, key: &WorkloadKey) -> Option<Explanation> {
        let workload = self.workload(key)?;
        let place = &self.standings.get(key)?.place;
        let local = self.local_queue(&workload.queue);
        let (standing, cluster_queue) = match place {
            Place::Holding { queue, .. } => ("HoldsQuota", Some(queue.clone())),
            Place::Queued { .. } | Place::Blocked { .. } => {
                ("Waiting", local.map(|local| local.cluster_queue.clone()))
            }
            Place::Out => ("Over", None),
        };
        let ahead = match place {
            Place::Queued { queue, class, order } => {
                self.pending.get(queue).map(|line| line.ahead(class, order)).unwrap_or_default()
            }
            _ => 0,
        };
        let waits = cluster_queue.as_ref().filter(|_| standing == "Waiting");
        let mut quotas = waits.map(|queue| self.quotas(key, queue)).unwrap_or_default();
        let verdict = self.verdict(key);
        if verdict.as_ref().is_some_and(|verdict| !verdict.reason.is_of_quota()) {
            // It would not help.
            for quota in &mut quotas {
                quota.remedy = None;
            }
        }
        Some(Explanation {
            workload: key.clone(),
            standing,
            remedy: verdict.as_ref().and_then(|verdict| remedy(verdict.reason)),
            verdict,
            ahead,
            quotas,
            cluster_queue,
        })
    }

    fn quotas(&self, key: &WorkloadKey, queue: &ClusterQueueName) -> Vec<Quota> {
        let mut requested: BTreeMap<ResourceName, Amount> = BTreeMap::new();
        for pod_set in self.pod_sets(key).into_iter().flat_map(|pod_sets| pod_sets.iter()) {
            let all: Amounts = total(&pod_set.per_pod, pod_set.count).unwrap_or_default();
            for (resource, amount) in all {
                *requested.entry(resource).or_default() += amount;
            }
        }
        let Some(queue) = self.queue(queue) else { return Vec::new() };
        let mut overlay = Overlay::new(self);
        if self.reservation(&queue.name).is_some_and(|kept| kept.workload == *key) {
            overlay.take_out(&queue.name);
        }
        let wanted = requested.into_iter().filter(|(_, amount)| *amount > Amount::ZERO);
        let each = wanted.flat_map(|(resource, amount)| {
            let flavors = queue.group_of(&resource).into_iter().flat_map(|group| &group.flavors);
            let keys = flavors.map(|flavor| FlavorResource::new(flavor.flavor.clone(), resource.clone()));
            keys.map(|key| (key, amount)).collect::<Vec<_>>()
        });
        each.filter_map(|(key, amount)| self.quota(&overlay, &queue.name, &key, amount)).collect()
    }

    fn quota(
        &self,
        overlay: &Overlay<'_>,
        queue: &ClusterQueueName,
        key: &FlavorResource,
        requested: Amount,
    ) -> Option<Quota> {
        let leaf = self.forest.leaf(queue)?;
        let available = overlay.available(leaf, key).max(Amount::ZERO);
        let capacity = self.forest.capacity(leaf, key).max(Amount::ZERO);
        let missing = (requested - available).max(Amount::ZERO);
        let text = |amount| format(key.resource.as_str(), amount);
        let remedy = if requested > capacity {
            let more = text(requested - capacity);
            Some(format!(
                "{queue} could never have this much: it needs {more} more quota, its own or borrowed"
            ))
        } else if missing > Amount::ZERO {
            Some(format!(
                "{} has to be given back by those who hold it or for whom it is kept",
                text(missing)
            ))
        } else {
            None
        };
        let leaves = self.forest.leaves_below(self.forest.root(leaf)).into_iter();
        let holders = leaves.filter_map(|leaf| {
            let Some(NodeName::Queue(name)) = self.forest.name(leaf) else { return None };
            let holds = self.used.get(leaf, key);
            let own = self.forest.quota(leaf, key).nominal;
            (holds > Amount::ZERO).then(|| Holder {
                cluster_queue: name.clone(),
                holds: text(holds),
                borrows: text((holds - own).max(Amount::ZERO)),
            })
        });
        let root = self.forest.root(leaf);
        let kept = overlay.kept().filter(|(_, leaf, _)| self.forest.root(*leaf) == root);
        let kept = kept.filter_map(|(queue, _, usage)| {
            let amount = *usage.get(key)?;
            Some(Kept { cluster_queue: queue.clone(), amount: text(amount) })
        });
        Some(Quota {
            kept: kept.collect(),
            requested: text(requested),
            available: text(available),
            capacity: text(capacity),
            missing: text(missing),
            remedy,
            holders: holders.collect(),
            flavor: key.flavor.clone(),
            resource: key.resource.clone(),
        })
    }
}
