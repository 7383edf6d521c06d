//! Pods that are queued by themselves.

use serde_json::{Value, json};
use whalezen_e2e::DURATION_ANNOTATION;

use crate::{
    ground::{Ground, QUEUE, condition, is, text},
    objects::{A100, GPU, PRODUCT, workload_priority_class},
};

/// A pod with so many GPUs, which runs so long, or until it is deleted.
fn pod(name: &str, gpus: u32, runs: Option<&str>) -> Value {
    let annotations = runs.map_or(json!({}), |time| json!({ DURATION_ANNOTATION: time }));
    let container = json!({ "name": "train", "image": "train", "resources": { "limits": { GPU: gpus } } });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "kueue.x-k8s.io/queue-name": QUEUE }, "annotations": annotations },
        "spec": { "restartPolicy": "Never", "containers": [container] },
    })
}

fn has_phase(phase: &'static str) -> impl Fn(&Value) -> bool {
    move |pod| pod["status"]["phase"] == phase
}

#[tokio::test]
async fn a_pod_is_gated_runs_when_it_has_quota_stops_for_another_and_frees_it_when_it_is_gone() {
    let ground = Ground::new("pods", 2).await;
    let class = format!("{}-high", ground.name);
    ground.apply(&workload_priority_class(&class, 100)).await;
    let policy = json!({ "spec": { "preemption": { "withinClusterQueue": "LowerPriority" } } });
    ground.patch("ClusterQueue", &ground.name, policy).await;

    let made = ground.create(pod("low", 2, None)).await;
    assert_eq!(made["spec"]["schedulingGates"], json!([{ "name": "kueue.x-k8s.io/admission" }]));
    assert_eq!(made["metadata"]["labels"]["kueue.x-k8s.io/managed"], "true");
    assert_eq!(made["metadata"]["finalizers"], json!(["kueue.x-k8s.io/managed"]));
    let name = ground.workload_of_kind("Pod", "low").await;
    assert!(name.starts_with("pod-low-"), "{name}");
    let running = ground.sees("Pod", "low", "runs", has_phase("Running")).await;
    assert_eq!(running["spec"]["nodeSelector"][PRODUCT], A100);
    ground.counts("pods", 0, 1, 2).await;
    ground.create(pod("waits", 1, None)).await;
    ground.counts("pods", 1, 1, 2).await;
    assert_eq!(text(&ground.get("Pod", "waits").await.unwrap(), "/spec/nodeName"), "");

    let mut high = pod("high", 2, Some("1s"));
    high["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(class);
    ground.create(high).await;
    ground.gone("Pod", "low").await;
    ground.gone("Workload", &name).await;
    let high = ground.workload_of_kind("Pod", "high").await;
    let finished = ground.sees("Workload", &high, "is finished", |w| is(w, "Finished")).await;
    assert_eq!(condition(&finished, "Finished").unwrap()["reason"], "Succeeded");
    let freed = |pod: &Value| pod["metadata"]["finalizers"].is_null();
    ground.sees("Pod", "high", "is let go", freed).await;

    ground.sees("Pod", "waits", "runs", has_phase("Running")).await;
    ground.counts("pods", 0, 1, 1).await;
    ground.delete("Pod", "waits").await;
    ground.gone("Pod", "waits").await;
    ground.counts("pods", 0, 0, 0).await;
}

#[tokio::test]
async fn a_gated_pod_can_be_deleted_and_what_may_not_change_while_a_pod_runs_is_refused() {
    let ground = Ground::new("pods-gated", 1).await;
    ground.create(pod("runs", 1, None)).await;
    ground.sees("Pod", "runs", "runs", has_phase("Running")).await;
    let moved = json!({ "metadata": { "labels": { "kueue.x-k8s.io/queue-name": "other" } } });
    let refused = ground.try_patch("Pod", "runs", moved.clone()).await.unwrap_err();
    assert!(refused.contains("may change only while the pod is gated"), "{refused}");
    ground.create(pod("gated", 1, None)).await;
    let workload = ground.workload_of_kind("Pod", "gated").await;
    ground.patch("Pod", "gated", moved).await;
    let in_other = |workload: &Value| workload["spec"]["queueName"] == "other";
    ground.sees("Workload", &workload, "follows its pod to the other queue", in_other).await;
    ground.delete("Pod", "gated").await;
    ground.gone("Pod", "gated").await;
    ground.gone("Workload", &workload).await;
}
