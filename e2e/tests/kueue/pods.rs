//! Pods that are queued by themselves.

use serde_json::{Value, json};
use whalezen_e2e::{DURATION_ANNOTATION, EXIT_CODE_ANNOTATION};

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
    let gates = json!([{ "name": "kueue.x-k8s.io/admission" }, { "name": "kueue.x-k8s.io/topology" }]);
    assert_eq!(made["spec"]["schedulingGates"], gates);
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
    let mut alone = pod("alone", 1, None);
    alone["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = json!("team");
    let refused = ground.try_create(alone).await.unwrap_err();
    assert!(refused.contains("a group has both a name and a number of pods"), "{refused}");
    ground.create(pod("gated", 1, None)).await;
    let workload = ground.workload_of_kind("Pod", "gated").await;
    ground.patch("Pod", "gated", moved).await;
    let in_other = |workload: &Value| workload["spec"]["queueName"] == "other";
    ground.sees("Workload", &workload, "follows its pod to the other queue", in_other).await;
    ground.delete("Pod", "gated").await;
    ground.gone("Pod", "gated").await;
    ground.gone("Workload", &workload).await;
}

/// A pod of a group of so many.
fn member(group: &str, name: &str, total: u32, gpus: u32, runs: Option<&str>) -> Value {
    let mut pod = pod(name, gpus, runs);
    pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = json!(group);
    pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = json!(total.to_string());
    pod
}

#[tokio::test]
async fn a_group_of_pods_runs_as_a_whole_replaces_one_that_failed_and_finishes() {
    let ground = Ground::new("pod-groups", 3).await;
    ground.create(member("team", "driver", 2, 1, Some("20s"))).await;
    ground.told("Pod", "driver", "ErrWorkloadCompose", "fewer runnable pods").await;
    let mut worker = member("team", "worker", 2, 2, Some("1s"));
    worker["metadata"]["annotations"][EXIT_CODE_ANNOTATION] = json!("3");
    ground.create(worker).await;
    let workload = ground.sees("Workload", "team", "is admitted", |w| is(w, "Admitted")).await;
    assert_eq!(workload["spec"]["podSets"].as_array().unwrap().len(), 2, "{workload:#}");
    assert_eq!(workload["metadata"]["ownerReferences"].as_array().unwrap().len(), 2);
    let driver = ground.sees("Pod", "driver", "runs", has_phase("Running")).await;
    assert_eq!(driver["spec"]["nodeSelector"][PRODUCT], A100);
    let kept = |pod: &Value| pod["status"]["phase"] == "Failed" && !pod["metadata"]["finalizers"].is_null();
    ground.sees("Pod", "worker", "failed and is kept", kept).await;

    ground.create(member("team", "another", 2, 2, Some("1s"))).await;
    ground.sees("Pod", "another", "runs in its place", |pod| pod["status"]["phase"] != "Pending").await;
    ground.sees("Pod", "worker", "is let go", |pod| pod["metadata"]["finalizers"].is_null()).await;
    let finished = ground.sees("Workload", "team", "is finished", |w| is(w, "Finished")).await;
    assert_eq!(condition(&finished, "Finished").unwrap()["message"], "Pods succeeded: 2/2.");
    ground.counts("pod-groups", 0, 0, 0).await;
    ground.sees("Pod", "another", "is let go", |pod| pod["metadata"]["finalizers"].is_null()).await;
}

#[tokio::test]
async fn a_group_that_stops_for_another_waits_for_new_pods_and_runs_again_with_them() {
    let ground = Ground::new("pod-groups-stop", 2).await;
    let class = format!("{}-high", ground.name);
    ground.apply(&workload_priority_class(&class, 100)).await;
    let policy = json!({ "spec": { "preemption": { "withinClusterQueue": "LowerPriority" } } });
    ground.patch("ClusterQueue", &ground.name, policy).await;
    for name in ["a", "b"] {
        ground.create(member("team", name, 2, 1, None)).await;
    }
    ground.sees("Pod", "b", "runs", has_phase("Running")).await;
    ground.counts("pod-groups-stop", 0, 1, 2).await;

    let mut high = pod("high", 1, None);
    high["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(class);
    ground.create(high).await;
    ground.sees("Pod", "high", "runs", has_phase("Running")).await;
    let stopped = |pod: &Value| {
        condition(pod, "TerminationTarget").is_some_and(|said| said["reason"] == "WorkloadEvicted")
            && pod["status"]["phase"] == "Failed"
    };
    for name in ["a", "b"] {
        ground.sees("Pod", name, "says why it was stopped, and is kept", stopped).await;
    }
    let asks = |workload: &Value| {
        condition(workload, "WaitingForReplacementPods").is_some_and(|said| said["reason"] == "Preempted")
    };
    ground.sees("Workload", "team", "asks for other pods", asks).await;
    ground.counts("pod-groups-stop", 1, 1, 1).await;

    for name in ["c", "d"] {
        ground.create(member("team", name, 2, 1, None)).await;
    }
    for name in ["a", "b"] {
        ground.gone("Pod", name).await;
    }
    ground.delete("Pod", "high").await;
    for name in ["c", "d"] {
        ground.sees("Pod", name, "runs", has_phase("Running")).await;
    }
    ground.counts("pod-groups-stop", 0, 1, 2).await;
    ground.delete("Workload", "team").await;
    for (kind, name) in [("Pod", "c"), ("Pod", "d"), ("Workload", "team")] {
        ground.gone(kind, name).await;
    }
}

#[tokio::test]
async fn a_group_whose_pods_are_all_deleted_is_gone_with_its_quota_whether_it_runs_or_waits() {
    let ground = Ground::new("pod-groups-gone", 2).await;
    for (group, names) in [("runs", ["a", "b"]), ("waits", ["c", "d"])] {
        for name in names {
            ground.create(member(group, name, 2, 1, None)).await;
        }
        ground.sees("Workload", group, "is there", |_| true).await;
    }
    ground.sees("Pod", "b", "runs", has_phase("Running")).await;
    ground.counts("pod-groups-gone", 1, 1, 2).await;
    for name in ["c", "d", "a", "b"] {
        ground.delete("Pod", name).await;
    }
    for (kind, name) in
        [("Pod", "a"), ("Pod", "b"), ("Pod", "c"), ("Pod", "d"), ("Workload", "runs"), ("Workload", "waits")]
    {
        ground.gone(kind, name).await;
    }
    ground.counts("pod-groups-gone", 0, 0, 0).await;
}

#[tokio::test]
async fn pods_that_say_that_they_are_alike_and_request_more_do_not_run() {
    let ground = Ground::new("pod-groups-forged", 4).await;
    let alike = |name: &str, gpus: u32| {
        let mut pod = member("team", name, 2, gpus, None);
        pod["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"] = json!("x");
        pod
    };
    ground.create(alike("a", 0)).await;
    ground.create(alike("b", 8)).await;
    ground.told("Pod", "a", "ErrWorkloadCompose", "its pods of role x do not request the same").await;
    ground.delete("Pod", "b").await;
    ground.gone("Pod", "b").await;
    ground.create(alike("c", 0)).await;
    ground.sees("Pod", "c", "runs", has_phase("Running")).await;
}
