//! Pods that are queued themselves are placed on hosts and bound to them: one alone, a group of them, a `StatefulSet`.

use serde_json::{Value, json};
use whalezen_e2e::RACK_LABEL;

use crate::{
    ground::{Ground, QUEUE, Site, is, text},
    objects::GPU,
    topology::{REQUIRED, placed},
};

/// A pod that needs a whole node.
fn pod(name: &str) -> Value {
    let container = json!({ "name": "train", "image": "train", "resources": { "limits": { GPU: 8 } } });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "kueue.x-k8s.io/queue-name": QUEUE }, "annotations": {} },
        "spec": { "restartPolicy": "Never", "containers": [container] },
    })
}

/// A pod of a group of two in one rack, which says by a label which of them it is.
fn ranked(name: &str, rank: &str) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["labels"]["rank"] = json!(rank);
    pod["metadata"]["annotations"] = json!({
        REQUIRED: RACK_LABEL, "kueue.x-k8s.io/pod-group-name": "team", "kueue.x-k8s.io/pod-group-total-count": "2",
        "kueue.x-k8s.io/pod-group-pod-index-label": "rank",
    });
    pod
}

/// The node of a pod, once it runs there and nothing is left of its gates.
async fn node(ground: &Ground, name: &str) -> String {
    let runs = |pod: &Value| pod["status"]["phase"] == "Running";
    let pod = ground.sees("Pod", name, "runs", runs).await;
    assert!(pod["spec"]["schedulingGates"].is_null(), "{pod:#}");
    text(&pod, "/spec/nodeName").to_owned()
}

#[tokio::test]
async fn pods_alone_in_groups_and_of_a_stateful_set_run_on_the_hosts_that_were_chosen_for_them() {
    let ground = placed(&Site::start(8, true).await, "placed-pods").await;
    let mut template = pod("");
    template["metadata"] = json!({ "labels": { "app": "db" }, "annotations": { REQUIRED: RACK_LABEL } });
    template["spec"]["restartPolicy"] = json!("Always");
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": "db", "labels": { "kueue.x-k8s.io/queue-name": QUEUE } },
        "spec": {
            "replicas": 4, "podManagementPolicy": "Parallel", "selector": { "matchLabels": { "app": "db" } },
            "template": { "metadata": template["metadata"], "spec": template["spec"] },
        },
    });
    ground.create(set).await;
    let mut hosts = vec![];
    for index in 0..4 {
        hosts.push(node(&ground, &format!("db-{index}")).await);
    }
    let racks = [["a100-0", "a100-1", "a100-2", "a100-3"], ["a100-4", "a100-5", "a100-6", "a100-7"]];
    let rack = racks.iter().position(|rack| hosts == rack);
    let other = racks[1 - rack.unwrap_or_else(|| panic!("{hosts:?} is no rack in order"))];

    // The last comes first.
    ground.create(ranked("b", "1")).await;
    ground.create(ranked("a", "0")).await;
    let workload = ground.sees("Workload", "team", "is admitted", |w| is(w, "Admitted")).await;
    let request = &workload["spec"]["podSets"][0]["topologyRequest"];
    assert_eq!(
        *request,
        json!({ "required": RACK_LABEL, "podIndexLabel": "kueue.x-k8s.io/pod-group-pod-index" })
    );
    assert_eq!([node(&ground, "a").await, node(&ground, "b").await], [other[0], other[1]]);

    ground.create(pod("alone")).await;
    let host = node(&ground, "alone").await;
    assert!(other[2..].contains(&&*host), "{host}");
    let alone = ground.get("Pod", "alone").await.unwrap();
    assert_eq!(alone["metadata"]["annotations"]["kueue.x-k8s.io/podset-unconstrained-topology"], "true");
}
