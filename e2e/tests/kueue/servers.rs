//! What is there to serve: `Deployment`, `StatefulSet` and `LeaderWorkerSet`. The first two have their real controllers.

use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use crate::{
    doubles,
    ground::{Ground, QUEUE, condition, is, text},
    kinds::define,
    objects::{A100, GPU, PRODUCT, local_queue, workload_priority_class},
};

const PARENT: &str = "kueue.x-k8s.io/pod-suspending-parent";

/// A template of pods of this app with one GPU each.
fn template(app: &str) -> Value {
    let container = json!({ "name": "serve", "image": "serve", "resources": { "limits": { GPU: 1 } } });
    json!({ "metadata": { "labels": { "app": app } }, "spec": { "containers": [container] } })
}

fn server(kind: &str, name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": { "name": name, "labels": { "kueue.x-k8s.io/queue-name": QUEUE } },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } }, "template": template(name) },
    })
}

/// A pod of a class that others stop for, with so many GPUs.
async fn high(ground: &Ground, gpus: u32) {
    let class = format!("{}-high", ground.name);
    ground.apply(&workload_priority_class(&class, 100)).await;
    let policy = json!({ "spec": { "preemption": { "withinClusterQueue": "LowerPriority" } } });
    ground.patch("ClusterQueue", &ground.name, policy).await;
    let container = json!({ "name": "train", "image": "train", "resources": { "limits": { GPU: gpus } } });
    let labels = json!({ "kueue.x-k8s.io/queue-name": QUEUE, "kueue.x-k8s.io/priority-class": class });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "high", "labels": labels },
        "spec": { "restartPolicy": "Never", "containers": [container] },
    });
    ground.create(pod).await;
    ground.sees("Pod", "high", "runs", runs).await;
}

fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
}

fn is_gated(pod: &Value) -> bool {
    let gates = pod["spec"]["schedulingGates"].as_array();
    gates.is_some_and(|gates| gates.iter().any(|gate| gate["name"] == "kueue.x-k8s.io/admission"))
}

/// The pods of an app that are not on their way out.
async fn pods(ground: &Ground, app: &str) -> Vec<Value> {
    let of_app = ListParams::default().labels(&format!("app={app}"));
    let pods = ground.api("Pod").list(&of_app).await.unwrap();
    let pods = pods.items.iter().map(|pod| serde_json::to_value(pod).unwrap());
    pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect()
}

#[tokio::test]
async fn the_pods_of_a_deployment_are_queued_one_by_one_and_made_again_behind_their_gates() {
    let ground = Ground::new("deployments", 2).await;
    let made = ground.create(server("Deployment", "web", 3)).await;
    let stamped = &made["spec"]["template"]["metadata"];
    assert_eq!(stamped["labels"]["kueue.x-k8s.io/queue-name"], QUEUE);
    assert_eq!(stamped["annotations"][PARENT], "deployment");
    ground.counts("deployments", 1, 2, 2).await;
    let all = pods(&ground, "web").await;
    assert!(all.iter().all(|pod| pod["metadata"]["finalizers"].is_null()), "{all:#?}");
    let running = async || pods(&ground, "web").await.iter().filter(|pod| runs(pod)).count();
    ground.until("two pods", async || running().await == 2).await;

    high(&ground, 1).await;
    ground.counts("deployments", 2, 2, 2).await;
    ground
        .until("a pod in place of the one that stopped", async || {
            let all = pods(&ground, "web").await;
            all.len() == 3 && all.iter().filter(|pod| is_gated(pod)).count() == 2
        })
        .await;
    let refused = json!({ "metadata": { "labels": { "kueue.x-k8s.io/queue-name": null } } });
    let refused = ground.try_patch("Deployment", "web", refused).await.unwrap_err();
    assert!(refused.contains("may be changed, but not removed"), "{refused}");
    let refused = json!({ "metadata": { "labels": { "kueue.x-k8s.io/queue-name": "other" } } });
    let refused = ground.try_patch("Deployment", "web", refused).await.unwrap_err();
    assert!(refused.contains("may change only while no pod is ready"), "{refused}");

    ground.delete("Pod", "high").await;
    ground.until("two pods again", async || running().await == 2).await;
    ground.patch("Deployment", "web", json!({ "spec": { "replicas": 0 } })).await;
    ground.counts("deployments", 0, 0, 0).await;
}

#[tokio::test]
async fn a_stateful_set_serves_as_a_whole_rolls_on_stops_for_another_and_gives_its_quota_back_at_zero() {
    let ground = Ground::new("stateful", 2).await;
    let made = ground.create(server("StatefulSet", "db", 2)).await;
    assert_eq!(made["spec"]["template"]["metadata"]["annotations"][PARENT], "statefulset");
    let name = ground.workload_of_kind("StatefulSet", "db").await;
    assert!(name.starts_with("statefulset-db-"), "{name}");
    let last = ground.sees("Pod", "db-1", "runs", runs).await;
    assert_eq!(last["spec"]["nodeSelector"][PRODUCT], A100);
    assert!(last["metadata"]["finalizers"].is_null());
    ground.counts("stateful", 0, 1, 2).await;

    let image = json!([{ "name": "serve", "image": "other", "resources": { "limits": { GPU: 1 } } }]);
    ground
        .patch("StatefulSet", "db", json!({ "spec": { "template": { "spec": { "containers": image } } } }))
        .await;
    let rolled = |pod: &Value| runs(pod) && pod["spec"]["containers"][0]["image"] == "other";
    for pod in ["db-1", "db-0"] {
        ground.sees("Pod", pod, "was made anew", rolled).await;
    }
    let workload = ground.get("Workload", &name).await.unwrap();
    assert!(is(&workload, "Admitted") && condition(&workload, "Evicted").is_none(), "{workload:#}");
    for (refused, rule) in [
        (json!({ "replicas": 1 }), "may change only to zero and from zero"),
        (json!({ "template": { "spec": { "nodeSelector": { "zone": "a" } } } }), "may not change"),
    ] {
        let refused = ground.try_patch("StatefulSet", "db", json!({ "spec": refused })).await.unwrap_err();
        assert!(refused.contains(rule), "{refused}");
    }

    high(&ground, 1).await;
    ground.counts("stateful", 1, 1, 1).await;
    ground.sees("Pod", "db-0", "is gated", is_gated).await;
    ground.delete("Pod", "high").await;
    ground.sees("Pod", "db-1", "runs again", runs).await;
    ground.counts("stateful", 0, 1, 2).await;

    ground.patch("StatefulSet", "db", json!({ "spec": { "replicas": 0 } })).await;
    let on_hold = |workload: &Value| {
        condition(workload, "QuotaReserved")
            .is_some_and(|said| said["reason"] == "OnHold" && said["status"] == "False")
    };
    ground.sees("Workload", &name, "is on hold", on_hold).await;
    ground.counts("stateful", 0, 0, 0).await;
    let gone = |set: &Value| set["status"]["replicas"] == 0;
    ground.sees("StatefulSet", "db", "has no pods", gone).await;
    ground.patch("StatefulSet", "db", json!({ "spec": { "replicas": 1 } })).await;
    ground.sees("Pod", "db-0", "runs", runs).await;
    ground.counts("stateful", 0, 1, 1).await;
    ground.kubectl(&["scale", "statefulset", "db", "--replicas=2"]).await;
    ground.told("StatefulSet", "db", "NotResized", "Has quota for 1 of 2 pods").await;
    ground.sees("Pod", "db-1", "is gated", is_gated).await;

    ground.delete("StatefulSet", "db").await;
    ground.gone("Workload", &name).await;
    ground.counts("stateful", 0, 0, 0).await;
}

#[tokio::test]
async fn the_groups_of_a_leader_worker_set_are_queued_one_by_one_each_with_its_leader() {
    let ground = Ground::new("leader-worker", 5).await;
    define(&ground, "leaderworkerset").await;
    let _controller = doubles::leader_worker_sets(&ground);
    let made = json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": { "name": "llm", "labels": { "kueue.x-k8s.io/queue-name": QUEUE } },
        "spec": { "replicas": 1, "leaderWorkerTemplate": {
            "size": 3, "leaderTemplate": { "spec": template("llm")["spec"] }, "workerTemplate": template("llm"),
        } },
    });
    let made = ground.create(made).await;
    for role in ["leaderTemplate", "workerTemplate"] {
        let stamped = &made["spec"]["leaderWorkerTemplate"][role]["metadata"];
        assert_eq!(stamped["labels"]["kueue.x-k8s.io/queue-name"], QUEUE, "{made:#}");
        assert_eq!(stamped["annotations"][PARENT], "leaderworkerset.x-k8s.io/leaderworkerset");
    }
    for pod in ["llm-0", "llm-0-1", "llm-0-2"] {
        ground.sees("Pod", pod, "runs", runs).await;
    }
    ground.patch("LeaderWorkerSet", "llm", json!({ "spec": { "replicas": 2 } })).await;
    ground.counts("leader-worker", 1, 1, 3).await;
    ground.sees("Pod", "llm-1", "is gated", is_gated).await;
    let workloads = ground.api("Workload").list(&ListParams::default()).await.unwrap();
    let sets = |workload: &Value| {
        let sets = workload["spec"]["podSets"].as_array().unwrap().iter();
        sets.map(|set| (text(set, "/name").to_owned(), set["count"].as_u64().unwrap())).collect::<Vec<_>>()
    };
    let workloads: Vec<Value> = workloads.items.iter().map(|w| serde_json::to_value(w).unwrap()).collect();
    assert_eq!(workloads.len(), 2, "what makes the pods is not queued again");
    for workload in &workloads {
        assert_eq!(sets(workload), [("leader".to_owned(), 1), ("worker".to_owned(), 2)]);
    }

    let selector = json!({ "spec": { "nodeSelector": { "zone": "a" } } });
    for (refused, rule) in [
        (json!({ "size": 4 }), "size: may not change"),
        (json!({ "workerTemplate": selector }), "workerTemplate.spec: what its pods ask for"),
        (json!({ "leaderTemplate": null }), "may not come or go"),
    ] {
        let refused = json!({ "spec": { "leaderWorkerTemplate": refused } });
        let refused = ground.try_patch("LeaderWorkerSet", "llm", refused).await.unwrap_err();
        assert!(refused.contains(rule), "{refused}");
    }

    high(&ground, 3).await;
    ground.sees("Pod", "llm-0", "is gated", is_gated).await;
    ground.counts("leader-worker", 2, 1, 3).await;
    ground.delete("Pod", "high").await;
    ground.counts("leader-worker", 1, 1, 3).await;
    ground.patch("LeaderWorkerSet", "llm", json!({ "spec": { "replicas": 1 } })).await;
    ground.counts("leader-worker", 0, 1, 3).await;
    ground.sees("Pod", "llm-0-2", "runs", runs).await;
    ground.patch("LeaderWorkerSet", "llm", json!({ "spec": { "replicas": 0 } })).await;
    ground.counts("leader-worker", 0, 0, 0).await;
    ground.delete("LeaderWorkerSet", "llm").await;
}

#[tokio::test]
async fn in_a_namespace_with_a_default_queue_pods_and_what_serves_are_queued_without_a_name() {
    let ground = Ground::new("default-servers", 3).await;
    ground.apply(&local_queue("default-servers", "default", "default-servers")).await;
    let unnamed = |mut object: Value| {
        object["metadata"]["labels"] = Value::Null;
        object
    };
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "alone" }, "spec": template("")["spec"] });
    ground
        .until("the default queue's effect", async || {
            let params = PostParams { dry_run: true, ..PostParams::default() };
            let probe = serde_json::from_value(pod.clone()).unwrap();
            let made = ground.api("Pod").create(&params, &probe).await.unwrap();
            made.metadata.labels.is_some_and(|labels| labels.contains_key("kueue.x-k8s.io/queue-name"))
        })
        .await;
    let made = ground.create(pod).await;
    assert!(is_gated(&made) && !made["metadata"]["finalizers"].is_null(), "{made:#}");
    for (kind, name, parent) in [("Deployment", "web", "deployment"), ("StatefulSet", "db", "statefulset")] {
        let made = ground.create(unnamed(server(kind, name, 1))).await;
        assert_eq!(made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "default");
        assert_eq!(made["spec"]["template"]["metadata"]["annotations"][PARENT], parent);
    }
    ground.counts("default-servers", 0, 3, 3).await;
    ground.workload_of_kind("StatefulSet", "db").await;
    let replaced = unnamed(server("Deployment", "web", 1));
    let params = PostParams::default();
    let replaced = serde_json::from_value(replaced).unwrap();
    let replaced = ground.api("Deployment").replace("web", &params, &replaced).await.unwrap();
    assert_eq!(replaced.metadata.labels.unwrap()["kueue.x-k8s.io/queue-name"], "default");
    assert_eq!(replaced.data["spec"]["template"]["metadata"]["annotations"][PARENT], "deployment");
}
