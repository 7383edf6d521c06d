//! Processes that run on a node beside its pods, as agents do: with its files, its network, and tokens of their own.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use whalezen_e2e::Bound;
use whalezen_e2e::real::BUSYBOX_IMAGE;

use crate::ground::{pod, quiet, ready, run};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[tokio::test]
async fn what_a_process_writes_on_its_node_is_not_seen_on_another_nor_on_the_machine() {
    let Some(cluster) = quiet().await else { return };
    let [first, second] = cluster.real_nodes() else { panic!("two nodes") };
    let places = [
        "/etc/cdi",
        "/run/cdi",
        "/var/run/agent",
        "/var/lib/agent",
        "/var/log/agent",
        "/var/lib/kubelet/agent",
    ];
    for place in places {
        let write = format!("mkdir -p {place} && echo $(hostname) > {place}/file && cat {place}/file");
        assert_eq!(first.run(&shell(&write)).await.unwrap(), "node-1\n");
        assert!(fs::metadata(format!("{place}/file")).is_err(), "{place} of the node is seen outside");
        let look = second.run(&shell(&format!("cat {place}/file"))).await.unwrap_err().to_string();
        assert!(look.contains("node-2") && look.contains("No such file"), "{place}: {look}");
    }
    assert_eq!(fs::read_to_string(first.path("/etc/cdi/file").unwrap()).unwrap(), "node-1\n");
    let processes = first.run(&shell("ls -d /proc/[0-9]* | wc -l")).await.unwrap();
    assert!(processes.trim().parse::<u32>().unwrap() < 100, "it sees its node's processes alone");
    let addresses = first.run(&shell("ip -4 -o addr show dev eth0")).await.unwrap();
    assert!(addresses.contains(&first.address().to_string()), "{addresses}");
}

#[tokio::test]
async fn a_process_on_a_node_ends_when_it_is_told_and_says_how() {
    let Some(cluster) = quiet().await else { return };
    let node = &cluster.real_nodes()[1];
    let agent =
        node.spawn("agent", &shell("trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.1; done"));
    let agent = agent.unwrap();
    while !agent.log_contains("up") {
        tokio::task::yield_now().await;
    }
    agent.terminate().unwrap();
    assert_eq!(agent.wait().await.unwrap().code, 4);
    assert_eq!(agent.log_tail(1), "bye");
    let error = node.run(&shell("echo no; exit 5")).await.unwrap_err().to_string();
    assert!(error.contains("ended with 5") && error.contains("no"), "{error}");
}

#[tokio::test]
async fn a_token_that_is_bound_to_a_pod_or_a_node_names_the_node() {
    let Some(cluster) = quiet().await else { return };
    let node = &cluster.real_nodes()[1];
    run(&cluster, pod("agent", node, "sleep 600"), ready).await;
    for (name, bound) in [("by-node", Bound::Node("node-2")), ("by-pod", Bound::Pod("agent"))] {
        let token = cluster.bound_token("default", "default", bound).await.unwrap();
        let kubeconfig = cluster.kubeconfig_with(name, &token).unwrap();
        let mut whoami = Command::new(cluster.binaries().control_plane("kubectl"));
        whoami.args(["auth", "whoami", "-o", "json"]).env("KUBECONFIG", kubeconfig).env("HOME", "/run");
        let said: Value = serde_json::from_str(&node.run(&whoami).await.unwrap()).unwrap();
        let user = &said["status"]["userInfo"];
        assert_eq!(user["username"], "system:serviceaccount:default:default", "{name}");
        assert_eq!(user["extra"]["authentication.kubernetes.io/node-name"], json!(["node-2"]), "{name}");
    }
    let error = cluster.bound_token("default", "default", Bound::Node("node-9")).await.unwrap_err();
    assert!(format!("{error:#}").contains("node-9"), "{error:#}");
}

#[tokio::test]
async fn a_device_is_described_on_each_node_for_itself() {
    let Some(cluster) = quiet().await else { return };
    for node in cluster.real_nodes() {
        let device = json!({ "name": "0", "containerEdits": { "env": [format!("GPU_OF={}", node.name())] } });
        let description = json!({ "cdiVersion": "0.6.0", "kind": "whalezen.dev/gpu", "devices": [device] });
        fs::create_dir_all(node.cdi_dir().unwrap()).unwrap();
        fs::write(node.cdi_dir().unwrap().join("gpus.json"), description.to_string()).unwrap();
        let mut command = node.ctr();
        command.arg("run").arg(format!("--cgroup=/{}/with-device", node.cgroup()));
        command.args(["--rm", "--device", "whalezen.dev/gpu=0", BUSYBOX_IMAGE, "with-device"]);
        command.args(["sh", "-c", "echo $GPU_OF"]);
        let said = node.run(&command).await.unwrap();
        // The runtime may have its own remarks before it.
        assert_eq!(said.lines().last(), Some(node.name()));
    }
}

#[tokio::test]
async fn a_kubelet_may_not_change_another_node() {
    let Some(cluster) = quiet().await else { return };
    let kubeconfig = cluster.state_dir().join("nodes/node-1/kubeconfig");
    let mut label = Command::new(cluster.binaries().control_plane("kubectl"));
    label.args(["label", "node", "node-2", "stolen=yes"]).env("KUBECONFIG", kubeconfig).env("HOME", "/run");
    let error = cluster.real_nodes()[0].run(&label).await.unwrap_err().to_string();
    assert!(error.contains("Forbidden") || error.contains("forbidden"), "{error}");
}
