//! The metrics that are as they are now: counted from the state when somebody asks.

use std::collections::BTreeMap;

use whalezen_core::{
    consumption::Memory,
    forest::{Forest, NodeId, NodeName},
    name::{ClusterQueueName, FlavorResource, LocalQueueKey, ResourceName},
    quantity::{Amount, Usage},
    queue::{ClusterQueue, Stop},
    state::State,
};
use whalezen_dialects::kueue::{configuration::Exposed, objects::Objects};

use super::definitions::{self as metric, Definition};

/// The values of the gauges, each with its labels' values.
pub type Gauges = BTreeMap<&'static str, Vec<(Vec<String>, f64)>>;

struct Sheet<'a> {
    state: &'a State,
    fair_sharing: bool,
    gauges: Gauges,
}

/// Counts everything that is exposed.
pub fn count(objects: &Objects, exposed: &Exposed, fair_sharing: bool) -> Gauges {
    let state = &objects.state;
    let mut sheet = Sheet { state, fair_sharing, gauges: Gauges::new() };
    for queue in state.queues() {
        sheet.queue(queue);
        if exposed.cluster_queue_resources {
            sheet.resources(queue);
        }
    }
    if fair_sharing {
        sheet.cohort_shares();
    }
    if exposed.cohorts {
        sheet.cohorts(exposed.cluster_queue_resources);
    }
    if let Some(selector) = &exposed.local_queues {
        let awake = state.awake_by_local_queue();
        for (key, _) in objects.labels_of_local_queues().filter(|(_, labels)| selector.matches(labels)) {
            sheet.local_queue(key, awake.get(key).copied().unwrap_or_default());
        }
    }
    sheet.gauges
}

impl Sheet<'_> {
    fn put<const N: usize>(&mut self, metric: &Definition, labels: [&str; N], value: f64) {
        let labels = labels.map(ToOwned::to_owned).to_vec();
        self.gauges.entry(metric.name).or_default().push((labels, value));
    }

    fn queue(&mut self, queue: &ClusterQueue) {
        let name = queue.name.as_str();
        let tally = self.state.tally(&queue.name);
        let status = match self.state.activity(queue) {
            Ok(()) => "active",
            Err(_) if queue.terminating => "terminating",
            Err(_) => "pending",
        };
        let active = if status == "active" { self.state.awake(&queue.name) } else { 0 };
        self.put(&metric::PENDING, [name, "active"], number(active));
        self.put(&metric::PENDING, [name, "inadmissible"], number(tally.pending.saturating_sub(active)));
        self.put(&metric::RESERVING, [name], number(tally.reserving));
        self.put(&metric::ADMITTED_ACTIVE, [name], number(tally.admitted));
        for one in ["pending", "active", "terminating"] {
            self.put(&metric::STATUS, [name, one], flag(one == status));
        }
    }

    fn resources(&mut self, queue: &ClusterQueue) {
        let tally = self.state.tally(&queue.name);
        let cohort = queue.cohort.as_ref().map_or("", |cohort| cohort.as_str());
        for (key, quota) in queue.quotas() {
            let labels = [cohort, queue.name.as_str(), key.flavor.as_str(), key.resource.as_str()];
            let used = |usage: &Usage| usage.get(&key).copied().unwrap_or_default();
            let limit =
                |limit: Option<Amount>| limit.map_or(f64::INFINITY, |limit| amount(&key.resource, limit));
            self.put(&metric::RESERVATION, labels, amount(&key.resource, used(&tally.reserved)));
            self.put(&metric::USAGE, labels, amount(&key.resource, used(&tally.used)));
            self.put(&metric::NOMINAL, labels, amount(&key.resource, quota.nominal));
            self.put(&metric::BORROWING, labels, limit(quota.borrowing_limit));
            self.put(&metric::LENDING, labels, limit(quota.lending_limit));
        }
        if self.fair_sharing {
            let share = self.state.forest().leaf(&queue.name).map(|leaf| self.share(leaf));
            self.put(&metric::SHARE, [queue.name.as_str(), cohort], share.unwrap_or_default());
        }
    }

    fn share(&self, node: NodeId) -> f64 {
        self.state.forest().share(self.state.used(), node).exact().unwrap_or(f64::NAN)
    }

    /// Where everybody stands, and what is below each cohort.
    fn cohorts(&mut self, resources: bool) {
        let state = self.state;
        let forest = state.forest();
        for node in forest.nodes() {
            let parent = forest.parent(node).map_or("", |parent| cohort_name(forest, parent));
            let root = forest.root(node);
            match forest.name(node) {
                Some(NodeName::Queue(name)) => {
                    let root = if parent.is_empty() { "" } else { cohort_name(forest, root) };
                    self.put(&metric::INFO, [name.as_str(), parent, root], 1.0);
                }
                Some(NodeName::Cohort(name)) => {
                    let name = name.as_str();
                    self.put(&metric::COHORT_INFO, [name, parent, cohort_name(forest, root)], 1.0);
                    let admitted =
                        forest.leaves_below(node).into_iter().filter_map(|leaf| queue_name(forest, leaf));
                    let admitted = admitted.map(|queue| state.tally(queue).admitted).sum();
                    self.put(&metric::COHORT_ADMITTED_ACTIVE, [name], number(admitted));
                    if resources {
                        self.cohort_resources(node, name);
                    }
                }
                None => {}
            }
        }
    }

    fn cohort_resources(&mut self, node: NodeId, name: &str) {
        let state = self.state;
        for (key, quota) in state.forest().subtree_quotas(node) {
            let FlavorResource { flavor, resource } = key;
            let labels = [name, flavor.as_str(), resource.as_str()];
            self.put(&metric::COHORT_QUOTA, labels, amount(resource, *quota));
            let used = state.used().get(node, key);
            self.put(&metric::COHORT_RESERVATIONS, labels, amount(resource, used));
        }
    }

    fn cohort_shares(&mut self) {
        let forest = self.state.forest();
        for node in forest.nodes() {
            if let Some(NodeName::Cohort(name)) = forest.name(node) {
                self.put(&metric::COHORT_SHARE, [name.as_str()], self.share(node));
            }
        }
    }

    fn local_queue(&mut self, key: &LocalQueueKey, awake: usize) {
        let state = self.state;
        let Some(local) = state.local_queue(key) else { return };
        let labels = [&*key.name, &*key.namespace];
        let [name, namespace] = labels;
        let tally = state.local_tally(key);
        let queue = state.queue(&local.cluster_queue);
        let open = queue.is_some_and(|queue| state.activity(queue).is_ok());
        let active = if open && local.stop == Stop::No { awake } else { 0 };
        self.put(&metric::LOCAL_PENDING, [name, namespace, "active"], number(active));
        let inadmissible = tally.pending.saturating_sub(active);
        self.put(&metric::LOCAL_PENDING, [name, namespace, "inadmissible"], number(inadmissible));
        self.put(&metric::LOCAL_RESERVING, labels, number(tally.reserving));
        self.put(&metric::LOCAL_ADMITTED_ACTIVE, labels, number(tally.admitted));
        for one in ["True", "False", "Unknown"] {
            let is = if open && local.stop == Stop::No { "True" } else { "False" };
            self.put(&metric::LOCAL_STATUS, [name, namespace, one], flag(one == is));
        }
        if state.memory(key).and_then(Memory::consumed).is_some() {
            let labels = [name, namespace, local.cluster_queue.as_str()];
            self.put(&metric::LOCAL_CONSUMPTION, labels, state.rank(key).as_f64());
        }
        for flavor_resource in queue.map(ClusterQueue::quotas).into_iter().flatten().map(|(key, _)| key) {
            let FlavorResource { flavor, resource } = &flavor_resource;
            let labels = [name, namespace, flavor.as_str(), resource.as_str()];
            let used = |usage: &Usage| usage.get(&flavor_resource).copied().unwrap_or_default();
            self.put(&metric::LOCAL_RESERVATION, labels, amount(resource, used(&tally.reserved)));
            self.put(&metric::LOCAL_USAGE, labels, amount(resource, used(&tally.used)));
        }
    }
}

/// The name of a cohort in the forest.
pub fn cohort_name(forest: &Forest, node: NodeId) -> &str {
    match forest.name(node) {
        Some(NodeName::Cohort(name)) => name.as_str(),
        Some(NodeName::Queue(_)) | None => "",
    }
}

fn queue_name(forest: &Forest, node: NodeId) -> Option<&ClusterQueueName> {
    match forest.name(node)? {
        NodeName::Queue(name) => Some(name),
        NodeName::Cohort(_) => None,
    }
}

/// An amount in whole units, as Kueue's metrics have it.
#[allow(clippy::cast_precision_loss, reason = "a metric is a float")]
fn amount(resource: &ResourceName, of: Amount) -> f64 {
    if resource.as_str() == ResourceName::CPU { of.0 as f64 / 1000.0 } else { of.0 as f64 }
}

#[allow(clippy::cast_precision_loss, reason = "a metric is a float")]
fn number(of: usize) -> f64 {
    of as f64
}

fn flag(of: bool) -> f64 {
    f64::from(u8::from(of))
}
