//! Nodes that die: what becomes of the pods on them, of their jobs and of the quota that these hold.

use std::sync::Arc;

use serde_json::{Value, json};
use whalezen_e2e::DEAD_ANNOTATION;

use crate::ground::{Ground, Site, condition, is, text};
use crate::objects::{GPU, job};
use crate::topology::{in_a_rack, nodes, placed};

/// The site of these tests, in which nothing is waited for long.
async fn impatient(nodes: u32) -> Arc<Site> {
    let flags = ["--lost-node-seconds=2", "--stuck-pod-seconds=2"];
    Site::start_with_flags(nodes, true, "configuration.yaml", &flags).await
}

/// A Job of pods that need a whole node each, and a second to end.
fn gang(name: &str, pods: u32) -> Value {
    let mut job = job(name, pods, 8, None);
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(1);
    job
}

/// The pod of a Job that is on this node.
async fn pod_on(ground: &Ground, job: &str, node: &str) -> String {
    let pods = ground.pods(job).await;
    let there = pods.iter().find(|pod| text(pod, "/spec/nodeName") == node).unwrap();
    text(there, "/metadata/name").to_owned()
}

/// The machine stops: nobody hears of it or of this pod on it any more.
async fn dies(ground: &Ground, node: &str, pod: &str) {
    let dead = json!({ "metadata": { "annotations": { DEAD_ANNOTATION: "true" } } });
    ground.patch("Pod", pod, dead.clone()).await;
    ground.patch("Node", node, dead).await;
    let now = ground.get("Node", node).await.unwrap();
    let mut conditions = now["status"]["conditions"].clone();
    let ready = conditions.as_array_mut().unwrap().iter_mut().find(|of| of["type"] == "Ready").unwrap();
    ready["status"] = json!("Unknown");
    ready["lastTransitionTime"] = json!(jiff::Timestamp::now().to_string());
    ground.patch_status("Node", node, json!({ "conditions": conditions })).await;
}

#[tokio::test]
async fn a_stopped_job_does_not_hold_its_quota_for_a_pod_on_a_node_that_died() {
    let ground = Ground::bare(&impatient(2).await, "dead").await;
    ground.queues(16).await;
    ground.create(gang("first", 2)).await;
    ground.runs("first").await;
    ground.create(gang("second", 1)).await;
    ground.waits("second", "WaitingForQuota").await;

    let lost = pod_on(&ground, "first", "a100-1").await;
    dies(&ground, "a100-1", &lost).await;
    let workload = ground.workload_of("first").await;
    ground.patch("Workload", &workload, json!({ "spec": { "active": false } })).await;
    let released =
        ground.workload("first", "gave its quota back", |workload| !is(workload, "QuotaReserved")).await;
    let told = condition(&released, "PodsLost").unwrap();
    assert_eq!((&told["status"], &told["reason"]), (&json!("True"), &json!("NodeFailures")));
    assert!(text(told, "/message").contains("a100-1"), "{told}");
    ground.told("Workload", &workload, "PodsLost", "a100-1").await;
    let left = ground.get("Pod", &lost).await.expect("nobody ends it");
    assert!(!left["metadata"]["deletionTimestamp"].is_null());
    ground.runs("second").await;

    ground.delete("Job", "second").await;
    ground.patch("Workload", &workload, json!({ "spec": { "active": true } })).await;
    let again = ground.admitted("first").await;
    assert_eq!(condition(&again, "PodsLost").unwrap()["status"], "False");
    ground
        .sees("Job", "first", "has a pod on the node that is left", |job| job["status"]["ready"] == 1)
        .await;
    assert_eq!(ground.get("Pod", &lost).await.unwrap()["metadata"]["uid"], left["metadata"]["uid"]);
}

#[tokio::test]
async fn a_job_that_has_failed_is_over_for_its_queue_although_a_pod_of_it_is_lost() {
    let ground = Ground::bare(&impatient(2).await, "failed").await;
    ground.queues(16).await;
    let mut failing = gang("first", 2);
    failing["spec"]["backoffLimit"] = json!(0);
    ground.create(failing).await;
    ground.runs("first").await;
    let lost = pod_on(&ground, "first", "a100-1").await;
    let other = pod_on(&ground, "first", "a100-0").await;
    dies(&ground, "a100-1", &lost).await;
    ground.patch_status("Pod", &other, json!({ "phase": "Failed" })).await;
    ground.finished("first", "Failed").await;
    ground.counts("failed", 0, 0, 0).await;
    assert!(ground.get("Pod", &lost).await.is_some());
}

/// A Job of which pods may fail, in one rack.
fn steadfast(name: &str, pods: u32) -> Value {
    let mut gang = in_a_rack(name, pods);
    gang["spec"]["backoffLimit"] = json!(6);
    gang["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(1);
    gang
}

/// Waits until the pods of a Job are on these nodes, by index.
async fn are_on(ground: &Ground, job: &str, wanted: &[&str]) {
    let what = format!("{job} on {wanted:?}");
    ground.until(&what, async || nodes(ground, job).await == wanted).await;
}

#[tokio::test]
async fn the_pod_of_a_gang_whose_host_turns_it_away_or_dies_gets_another_host_and_the_others_stay() {
    let ground = placed(&impatient(8).await, "repaired").await;
    ground.create(steadfast("gang", 2)).await;
    ground.runs("gang").await;
    are_on(&ground, "gang", &["a100-0", "a100-1"]).await;
    let first = pod_on(&ground, "gang", "a100-0").await;

    let refused = pod_on(&ground, "gang", "a100-1").await;
    ground.patch_status("Pod", &refused, json!({ "phase": "Failed", "reason": "OutOfcpu" })).await;
    are_on(&ground, "gang", &["a100-0", "a100-2"]).await;
    ground.workload("gang", "has no host that fails", |w| w["status"]["unhealthyNodes"].is_null()).await;
    assert_eq!(pod_on(&ground, "gang", "a100-0").await, first);

    dies(&ground, "a100-0", &first).await;
    // As Kubernetes does after five minutes.
    ground.delete("Pod", &first).await;
    // Not the one that turned its pod away.
    are_on(&ground, "gang", &["a100-3", "a100-2"]).await;
    ground.runs("gang").await;
    let workload = ground.workload("gang", "is as it was", |w| w["status"]["unhealthyNodes"].is_null()).await;
    assert!(condition(&workload, "Evicted").is_none());
    ground.told("Workload", text(&workload, "/metadata/name"), "NodeReplaced", "a100-0").await;
}

#[tokio::test]
async fn a_gang_whose_host_somebody_took_is_stopped_and_runs_elsewhere_as_a_whole() {
    let ground = placed(&impatient(8).await, "hostile").await;
    ground.create(steadfast("gang", 4)).await;
    ground.runs("gang").await;
    are_on(&ground, "gang", &["a100-0", "a100-1", "a100-2", "a100-3"]).await;
    let hostile = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "hostile" },
        "spec": {
            "nodeName": "a100-1",
            "containers": [{ "name": "c", "image": "i", "resources": { "limits": { GPU: 8 } } }],
        },
    });
    ground.create(hostile).await;
    let failing = pod_on(&ground, "gang", "a100-1").await;
    ground.patch_status("Pod", &failing, json!({ "phase": "Failed" })).await;
    let evicted = |w: &Value| {
        condition(w, "Evicted").is_some_and(|said| {
            said["reason"] == "NodeFailures"
                && text(said, "/message").contains("cannot be scheduled on a100-1")
        })
    };
    ground.workload("gang", "was told to stop", evicted).await;
    are_on(&ground, "gang", &["a100-4", "a100-5", "a100-6", "a100-7"]).await;
    let job = ground.runs("gang").await;
    assert_eq!(job["status"]["failed"], 1, "the one that failed, and none for the stop");
}
