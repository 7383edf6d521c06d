//! What the scheduler writes to the status of `ClusterQueues`, `LocalQueues` and cohorts.
//!
//! A status is written whole, as a merge patch of the fields that are ours, and only if it differs from what the
//! object shows.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde_json::{Map, Value, json};
use whalezen_core::{
    consumption::Memory,
    forest::NodeId,
    name::{ClusterQueueName, CohortName, FlavorName, FlavorResource, LocalQueueKey},
    quantity::{Amount, Usage, format},
    queue::{ClusterQueue, Stop},
    state::{State, Tally},
    workload::Timestamp,
};

use super::{
    conditions::{self, Saying},
    kueue_target,
};
use crate::write::{Verb, Write};

/// What is kept of a queue beside what the core knows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct QueueView {
    /// The generation of its spec.
    pub generation: Option<i64>,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// The status that was last written or seen. Its conditions do not count.
    pub status: Value,
}

impl QueueView {
    /// The view of a queue with this status.
    pub fn new<S: Serialize>(generation: Option<i64>, conditions: &[Condition], status: &S) -> Self {
        let status = serde_json::to_value(status).unwrap_or_default();
        Self { generation, conditions: conditions.to_vec(), status }
    }

    /// The patch that brings the object's status to `status` and its `Active` condition to `activity`, if it is
    /// not there already.
    fn patch(&self, mut status: Status, activity: &Activity, now: Timestamp) -> Option<Value> {
        let mut conditions = self.conditions.clone();
        let saying = Saying {
            type_: "Active",
            status: activity.active,
            reason: activity.reason,
            message: &activity.message,
            generation: self.generation,
        };
        let changed = conditions::set(&mut conditions, saying, now);
        let shown = |(field, value): (&String, &Value)| {
            let shows = self.status.get(field).unwrap_or(&Value::Null);
            shows == value || (is_nothing(shows) && is_nothing(value))
        };
        // Fields that are not ours may be there too: a Kueue that was here before left them.
        if !changed && status.iter().all(shown) {
            return None;
        }
        status.insert("conditions".to_owned(), json!(conditions));
        Some(json!({ "status": status }))
    }

    /// Takes the status of a write as the one that is there now.
    pub fn written(&mut self, body: &Value) {
        let Some(mut status) = body.get("status").cloned() else { return };
        if let Some(conditions) = status.as_object_mut().and_then(|fields| fields.remove("conditions")) {
            self.conditions = serde_json::from_value(conditions).unwrap_or_default();
        }
        self.status = status;
    }
}

const FAIR_SHARING: &str = "fairSharing";

/// The fields of a status that are ours, but for the conditions.
type Status = Map<String, Value>;

/// Whether a field says nothing: an empty list and an absent one mean the same.
fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

struct Activity {
    active: bool,
    reason: &'static str,
    message: String,
}

/// The status of a ClusterQueue, if it is due. `fair`: whether quota is shared fairly, and so the share is told.
pub fn cluster_queue(
    name: &ClusterQueueName,
    view: &QueueView,
    state: &State,
    fair: bool,
    now: Timestamp,
) -> Option<Write> {
    let queue = state.queue(name)?;
    let tally = state.tally(name);
    let activity = match state.activity(queue) {
        Ok(()) => Activity { active: true, reason: "Ready", message: "Can admit new workloads".to_owned() },
        Err(inactive) => Activity { active: false, reason: inactive.reason, message: inactive.message },
    };
    let mut status = status(
        &tally,
        tally.pending,
        flavors(queue, &tally.reserved, true),
        flavors(queue, &tally.used, true),
    );
    let share = share(state, state.forest().leaf(name), fair);
    if !share.is_null() || view.status.get(FAIR_SHARING).is_some() {
        status.insert(FAIR_SHARING.to_owned(), share);
    }
    let body = view.patch(status, &activity, now)?;
    let target = kueue_target("ClusterQueue", "clusterqueues", None, name.as_str());
    Some(Write { target, status: true, verb: Verb::Merge, body })
}

/// The status of a LocalQueue, if it is due.
pub fn local_queue(key: &LocalQueueKey, view: &QueueView, state: &State, now: Timestamp) -> Option<Write> {
    let local = state.local_queue(key)?;
    let queue = state.queue(&local.cluster_queue);
    let tally = state.local_tally(key);
    let inactive = |reason, message: &str| Activity { active: false, reason, message: message.to_owned() };
    let activity = match queue {
        _ if local.stop != Stop::No => inactive("Stopped", "LocalQueue is stopped"),
        None => inactive("ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"),
        Some(queue) if state.activity(queue).is_err() => {
            inactive("ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue")
        }
        Some(_) => Activity {
            active: true,
            reason: "Ready",
            message: "Can submit new workloads to localQueue".to_owned(),
        },
    };
    let by_flavor = |usage| queue.map_or(json!([]), |queue| flavors(queue, usage, false));
    // Kueue counts nobody as waiting in a queue that is stopped.
    let pending = if local.stop == Stop::No { tally.pending } else { 0 };
    let mut status = status(&tally, pending, by_flavor(&tally.reserved), by_flavor(&tally.used));
    if let Some(memory) = state.memory(key) {
        status.extend(consumed(memory, view).map(|sharing| (FAIR_SHARING.to_owned(), sharing)));
    }
    let body = view.patch(status, &activity, now)?;
    let target = kueue_target("LocalQueue", "localqueues", Some(&key.namespace), &key.name);
    Some(Write { target, status: true, verb: Verb::Merge, body })
}

/// The status of a cohort that shows this one, if it is due.
pub fn cohort(name: &CohortName, shown: &Value, state: &State, fair: bool) -> Option<Write> {
    let share = share(state, state.forest().cohort(name), fair);
    let shown = shown.get(FAIR_SHARING).unwrap_or(&Value::Null);
    (*shown != share).then(|| Write {
        target: kueue_target("Cohort", "cohorts", None, name.as_str()),
        status: true,
        verb: Verb::Merge,
        body: json!({ "status": { FAIR_SHARING: share } }),
    })
}

/// What is told of the share of a node, or that nothing is.
fn share(state: &State, node: Option<NodeId>, fair: bool) -> Value {
    if !fair {
        return Value::Null;
    }
    let share = node.map(|node| state.forest().share(state.used(), node).rounded());
    json!({ "weightedShare": share.unwrap_or_default() })
}

/// What is told of what a LocalQueue consumed, if that was worked out. The time moves only with the amounts.
fn consumed(memory: &Memory, view: &QueueView) -> Option<Value> {
    const STATUS: &str = "admissionFairSharingStatus";
    const AMOUNTS: &str = "consumedResources";
    let (consumed, at) = memory.consumed()?;
    let amounts = consumed.iter().map(|(resource, amount)| (resource.to_string(), json!(amount.to_string())));
    let mut amounts: Map<String, Value> = amounts.collect();
    let shown = view.status.get(FAIR_SHARING);
    let shown_amounts = shown.and_then(|sharing| sharing.get(STATUS)?.get(AMOUNTS)?.as_object());
    let said = |of: &Map<String, Value>| of.values().filter(|amount| !amount.is_null()).count();
    if let Some(shown_amounts) = shown_amounts {
        let same = amounts.iter().all(|(resource, amount)| shown_amounts.get(resource) == Some(amount));
        if same && said(shown_amounts) == amounts.len() {
            return shown.cloned();
        }
        for resource in shown_amounts.keys() {
            amounts.entry(resource.clone()).or_insert(Value::Null);
        }
    }
    let status = json!({ AMOUNTS: amounts, "lastUpdate": conditions::time(at) });
    // Kueue shows no share of a LocalQueue either.
    Some(json!({ "weightedShare": 0, STATUS: status }))
}

fn status(tally: &Tally, pending: usize, reservation: Value, usage: Value) -> Status {
    Map::from_iter([
        ("pendingWorkloads".to_owned(), json!(pending)),
        ("reservingWorkloads".to_owned(), json!(tally.reserving)),
        ("admittedWorkloads".to_owned(), json!(tally.admitted)),
        ("flavorsReservation".to_owned(), reservation),
        ("flavorsUsage".to_owned(), usage),
    ])
}

/// Usage by flavor, in the queue's order; every resource that it has quota for is listed, used or not.
fn flavors(queue: &ClusterQueue, usage: &Usage, with_borrowed: bool) -> Value {
    let mut seen: BTreeMap<&FlavorName, usize> = BTreeMap::new();
    let mut list: Vec<Value> = Vec::new();
    for group in &queue.groups {
        for flavor in &group.flavors {
            let resources = flavor.quotas.iter().map(|(resource, quota)| {
                let key = FlavorResource { flavor: flavor.flavor.clone(), resource: resource.clone() };
                let total = usage.get(&key).copied().unwrap_or_default();
                let text = |amount| format(resource.as_str(), amount);
                if !with_borrowed {
                    return json!({ "name": resource, "total": text(total) });
                }
                let over = (total - quota.nominal).max(Amount::ZERO);
                let borrowed = if queue.cohort.is_some() { over } else { Amount::ZERO };
                json!({ "name": resource, "total": text(total), "borrowed": text(borrowed) })
            });
            let index = *seen.entry(&flavor.flavor).or_insert_with(|| {
                list.push(json!({ "name": flavor.flavor, "resources": [] }));
                list.len() - 1
            });
            if let Some(Value::Array(entries)) = list.get_mut(index).and_then(|f| f.get_mut("resources")) {
                entries.extend(resources);
            }
        }
    }
    Value::Array(list)
}

/// Adds or removes the finalizer that keeps a queue or a flavor while it is in use. `version` is the
/// `resourceVersion` that the list of finalizers was seen at.
pub fn finalizers(
    kind: &'static str,
    plural: &'static str,
    name: &str,
    version: u64,
    finalizers: &[String],
) -> Write {
    let body = json!({ "metadata": { "resourceVersion": version.to_string(), "finalizers": finalizers } });
    Write { target: kueue_target(kind, plural, None, name), status: false, verb: Verb::Merge, body }
}
