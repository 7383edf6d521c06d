//! When a manager has done all there is to do.
//!
//! No sleep tells that: Kueue, for one, looks again at those who did not fit only a second after quota came free.
//! So a queue apart is handed from one workload to the next all the time: one holds all of its quota, another was
//! tried and waits; the first ends, the second gets the quota. A manager that has done this has seen every workload
//! that was written before the hand-over began and has had its cycles since: before the second is tried come
//! [others](CROWD) that will never fit, and Kueue tries one of a queue in a cycle. A problem [is quiet](settled)
//! when nothing in it has changed during two whole hand-overs.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use kube::Client;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::time::{sleep, timeout};
use whalezen_crds::kueue::constants::condition;
use whalezen_crds::kueue::v1beta2::Workload;

use super::board::{Board, holds, standing};
use super::objects::{create, workloads};
use super::owner;
use super::patience::Patience;

/// The name of the probe's namespace, queues and flavor.
const PROBE: &str = "probe";
/// The whole hand-overs without a change after which nothing is expected any more, and the one that was under way.
const ROUNDS: u64 = 3;
/// Timestamps in the API are whole seconds: what happens after this is later for everybody.
const SECOND: Duration = Duration::from_millis(1100);
/// The least time of a hand-over, so that probing is not the main work.
const PAUSE: Duration = Duration::from_millis(700);
/// How long it may take until a waiting workload says that it was tried.
const TRIED: Duration = Duration::from_millis(500);
/// A manager that takes longer for anything has stopped.
const STOPPED: Duration = Duration::from_mins(5);
/// How many are tried in vain in every hand-over: as many as wait in a queue of any problem.
const CROWD: u64 = 18;

/// Waits until nothing more will change in a namespace unless somebody acts.
pub async fn settled(board: &Board, namespace: &str) -> Result<()> {
    let mut patience = Patience::new(board);
    loop {
        let Some((moved, since)) = board.look(namespace, |place| (place.moved, place.round)) else {
            bail!("nothing is known of {namespace}");
        };
        if patience.round() >= since + ROUNDS && moved.elapsed() >= SECOND {
            return Ok(());
        }
        patience.next(|| format!("{namespace} to come to rest")).await?;
    }
}

/// Hands the probe's quota over for ever.
pub async fn hand_over(client: Client, board: &Board) -> Result<()> {
    for object in stage() {
        create(&client, &object).await?;
    }
    for extra in 1..=CROWD {
        // Of different sizes: Kueue tries one of those that are alike for all of them.
        submit(&client, &format!("never-{extra}"), 1 + extra, 1).await?;
    }
    let mut number = 0_u64;
    submit(&client, &name(number), 1, 0).await?;
    seen(board, number, |workload| !standing(workload).is_empty()).await?;
    loop {
        let pause = sleep(PAUSE);
        submit(&client, &name(number + 1), 1, 0).await?;
        // Who is not tried until then need not be: our operator tells only some of those who wait, and takes no
        // time over the others.
        let _ = timeout(TRIED, seen(board, number + 1, was_tried)).await;
        owner::finish(&client, PROBE, &name(number)).await?;
        seen(board, number + 1, |workload| !standing(workload).is_empty()).await?;
        workloads(&client, PROBE).delete(&name(number), &DeleteParams::default()).await?;
        board.round_done();
        number += 1;
        pause.await;
    }
}

fn name(number: u64) -> String {
    format!("{PROBE}-{number}")
}

/// The queue has said why it waits.
fn was_tried(workload: &Workload) -> bool {
    let conditions = workload.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|is| is.type_ == condition::QUOTA_RESERVED && is.status == "False")
        && holds(workload, condition::QUOTA_RESERVED).is_none()
}

async fn seen(board: &Board, number: u64, is: impl Fn(&Workload) -> bool) -> Result<()> {
    let name = name(number);
    let started = Instant::now();
    while !board.workload(PROBE, &name).is_some_and(|workload| is(&workload)) {
        if started.elapsed() > STOPPED {
            bail!("the manager does nothing about {name}: {:?}", board.workload(PROBE, &name));
        }
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn submit(client: &Client, name: &str, cpu: u64, priority: i32) -> Result<()> {
    let container = json!({"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}});
    let workload = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"name": name, "namespace": PROBE},
        "spec": {
            "queueName": PROBE,
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
    });
    create(client, &workload).await
}

fn stage() -> [serde_json::Value; 4] {
    let kueue = |kind: &str, spec: serde_json::Value| {
        json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": PROBE}, "spec": spec,
        })
    };
    let quota = json!({"name": PROBE, "resources": [{"name": "cpu", "nominalQuota": 1}]});
    let mut local = kueue("LocalQueue", json!({"clusterQueue": PROBE}));
    if let Some(metadata) = local.get_mut("metadata") {
        *metadata = json!({"name": PROBE, "namespace": PROBE});
    }
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PROBE}}),
        kueue("ResourceFlavor", json!({})),
        kueue(
            "ClusterQueue",
            json!({
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
            }),
        ),
        local,
    ]
}
