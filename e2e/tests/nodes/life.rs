//! Kubelets that are restarted and nodes that lose their power.

use std::fs;
use std::process::Command;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::runtime::wait::await_condition;
use serde_json::json;
use tokio::time::timeout;

use crate::ground::{DEADLINE, alone, container, delete, phase, pod, ready, run, seen};

/// The node's boot id as the API server has it.
fn boot_id(node: &Node) -> String {
    node.status.as_ref().unwrap().node_info.as_ref().unwrap().boot_id.clone()
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[tokio::test]
async fn a_kubelet_that_is_restarted_finds_its_pods_running_and_starts_others() {
    let Some(cluster) = alone().await else { return };
    let node = &cluster.real_nodes()[0];
    let before = run(&cluster, pod("steady", node, "exec sleep 600"), ready).await;
    let old = node.kubelet().unwrap();
    node.kill_kubelet().await.unwrap();
    assert!(!old.is_running() && node.kubelet().is_err());
    cluster.check().unwrap();
    node.start_kubelet().unwrap();
    assert!(node.start_kubelet().is_err(), "one kubelet a node");
    let mut short = pod("after-restart", node, "true");
    short["spec"]["restartPolicy"] = json!("Never");
    run(&cluster, short, |pod| phase(pod) == Some("Succeeded")).await;
    let after = seen(&cluster, "steady", ready).await;
    assert_eq!(container(&after), container(&before), "the same container, never started again");
    delete(&cluster, "steady").await;
}

#[tokio::test]
async fn a_node_that_is_rebooted_has_its_disk_but_nothing_that_was_in_memory() {
    let Some(cluster) = alone().await else { return };
    let node = cluster.real_node("node-2").unwrap();
    let nodes: Api<Node> = Api::all(cluster.client());
    let mut writer = pod("writer", node, "date >> /disk/starts; date >> /memory/starts; exec sleep 600");
    let volume = |name: &str, path: &str| json!({ "name": name, "hostPath": { "path": path, "type": "DirectoryOrCreate" } });
    writer["spec"]["volumes"] =
        json!([volume("disk", "/var/lib/checkpoints"), volume("memory", "/run/scratch")]);
    writer["spec"]["containers"][0]["volumeMounts"] =
        json!([{ "name": "disk", "mountPath": "/disk" }, { "name": "memory", "mountPath": "/memory" }]);
    // A container runs before its first command has: ready is who has written what is written last.
    writer["spec"]["containers"][0]["readinessProbe"] =
        json!({ "exec": { "command": ["test", "-s", "/memory/starts"] }, "periodSeconds": 1 });
    let before = run(&cluster, writer, ready).await;
    let agent = node.spawn("agent", Command::new("sleep").arg("600")).unwrap();
    let first_boot = boot_id(&nodes.get("node-2").await.unwrap());

    node.power_off().await.unwrap();
    assert!(!agent.is_running() && node.pid().is_err() && node.kubelet().is_err());
    assert!(
        node.spawn("late", Command::new("sleep").arg("1")).is_err(),
        "nothing starts on a node that is off"
    );
    cluster.check().unwrap();
    node.power_on().await.unwrap();

    let rebooted =
        |node: Option<&Node>| node.is_some_and(|node| boot_id(node) != first_boot && is_ready(node));
    timeout(DEADLINE, await_condition(nodes.clone(), "node-2", rebooted)).await.unwrap().unwrap();
    let restarted = seen(&cluster, "writer", |pod| ready(pod) && container(pod) != container(&before)).await;
    assert_eq!(container(&restarted).0, 1);
    let starts = |place: &str| {
        let file = node.path(place).unwrap().join("starts");
        fs::read_to_string(file).unwrap().lines().count()
    };
    assert_eq!((starts("/var/lib/checkpoints"), starts("/run/scratch")), (2, 1));
    // The node is reached at its address as before.
    cluster.kubectl(&["exec", "writer", "--", "true"]).await.unwrap();
    delete(&cluster, "writer").await;
}
