//! What shows that a manager has seen an object as it is now: it says so on the object.
//!
//! Workloads come by one watch and queues, flavors and cohorts by others, and a manager may hear of the later change
//! first. So the next act waits until the object of the last one has an answer on it.

use std::fmt::Debug;

use anyhow::{Context as _, Result};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use whalezen_crds::kueue::constants::{RESOURCE_IN_USE_FINALIZER, condition};
use whalezen_crds::kueue::v1beta2::{ClusterQueue, LocalQueue, ResourceFlavor};

use super::board::Board;
use super::patience::Patience;

/// After so many hand-overs without an answer the object is written to again.
///
/// Kueue writes a queue's status over the version that it has cached. When that is old the write is refused, and
/// Kueue tries again at a rate that all queues share (10 a second, and more slowly for each that is refused again).
/// With hundreds of new queues that may take minutes. An event about a queue is looked at whatever waits there.
const NUDGE: u64 = 8;
/// What is written then.
const NUDGED: &str = "whalezen.dev/nudged";

/// A queue that says whether it is active.
pub trait Queue: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug {
    /// What it says.
    fn conditions(&self) -> &[Condition];
}

impl Queue for ClusterQueue {
    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

impl Queue for LocalQueue {
    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

/// Waits until the manager knows these flavors. A queue that it meets before its flavors is told to be inactive, and
/// told otherwise by a status write that may be refused and come late: see [`NUDGE`].
pub async fn flavors(client: &Client, board: &Board, names: impl Iterator<Item = &str>) -> Result<()> {
    let api: Api<ResourceFlavor> = Api::all(client.clone());
    for name in names {
        let known = |flavor: &ResourceFlavor| {
            flavor.finalizers().iter().any(|finalizer| finalizer == RESOURCE_IN_USE_FINALIZER)
        };
        until(&api, board, name, known, |flavor| format!("{:?}", flavor.finalizers())).await?;
    }
    Ok(())
}

/// Waits until the manager has called a queue active.
pub async fn active<K: Queue>(api: &Api<K>, board: &Board, name: &str) -> Result<()> {
    let is_active = |queue: &K| answer(queue).is_some_and(|answer| answer.status == "True");
    until(api, board, name, is_active, |queue| format!("{:?}", queue.conditions())).await
}

/// Waits until the manager has looked at a queue as it is now.
pub async fn looked_at<K: Queue>(api: &Api<K>, board: &Board, name: &str) -> Result<()> {
    let is_answered = |queue: &K| answer(queue).is_some();
    until(api, board, name, is_answered, |queue| format!("{:?}", queue.conditions())).await
}

/// What the manager has said about a queue as it is now.
fn answer<K: Queue>(queue: &K) -> Option<&Condition> {
    let now =
        |of: &&Condition| of.type_ == condition::ACTIVE && of.observed_generation == queue.meta().generation;
    queue.conditions().iter().find(now)
}

async fn until<K>(
    api: &Api<K>,
    board: &Board,
    name: &str,
    holds: impl Fn(&K) -> bool,
    words: impl Fn(&K) -> String,
) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mut patience = Patience::new(board);
    loop {
        let object = api.get(name).await.with_context(|| format!("looking at {name}"))?;
        if holds(&object) {
            return Ok(());
        }
        let kind = K::kind(&());
        let passed = patience.next(|| format!("an answer on {kind} {name}: {}", words(&object))).await?;
        if passed.is_multiple_of(NUDGE) {
            let patch = json!({"metadata": {"annotations": {NUDGED: passed.to_string()}}});
            api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.context("nudging")?;
        }
    }
}
