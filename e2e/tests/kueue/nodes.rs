//! Nodes that die: what becomes of the pods on them, of their jobs and of the quota that these hold.

use serde_json::{Value, json};
use whalezen_e2e::DEAD_ANNOTATION;

use crate::ground::{Ground, Site, condition, is, text};
use crate::objects::job;

/// The site of these tests, in which nothing is waited for long.
async fn impatient(nodes: u32) -> std::sync::Arc<Site> {
    Site::start_with_flags(nodes, true, "configuration.yaml", &["--lost-node-seconds=2"]).await
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
