//! Pods that select nodes by what an agent says of them, on the real API server and schedulers: the pod of the source
//! document, as it is written there.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "clippy.toml allows them in tests; these are their helpers"
)]

use std::{fs, process::Command, time::Duration};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};
use tokio::time::timeout;
use whalezen_e2e::{Cluster, GpuModel, NodePool, manifests};
use whalezen_mock_nvml::control::library;

/// How long anything may take on a machine that is busy with other tests.
const DEADLINE: Duration = Duration::from_mins(2);

/// The document's, with the quotes that YAML needs. Its scheduler is one of its own, which we play with kube-scheduler,
/// and its second resource is one that the administrator has to define on the nodes before.
const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: ai-training-job
  namespace: default
spec:
  containers:
  - name: trainer
    image: pytorch/pytorch:latest
    command: ["python", "train.py"]
    resources:
      limits:
        nvidia.com/gpu: 2
        acme.com/gpu-memory-gb: 80
    env:
    - name: NVIDIA_VISIBLE_DEVICES
      value: "all"
  nodeSelector:
    gpu.memory.free.percent: "70"
    gpu.features.nvlink: "true"
  schedulerName: custom-scheduler
"#;

async fn cluster() -> Cluster {
    let nodes = NodePool::gpu("gpu", 3, GpuModel::H200, 8);
    let cluster = Cluster::builder().nodes(nodes).start().await.unwrap();
    let policy = manifests("kustomize/agent/free-memory.yaml");
    cluster.kubectl(&["apply", "--filename", policy.to_str().unwrap()]).await.unwrap();
    cluster
}

async fn label(cluster: &Cluster, node: &str, percent: &str, nvlink: &str) {
    let patch = json!({ "metadata": { "labels": { "gpu.memory.free.percent": percent, "gpu.features.nvlink": nvlink } } });
    let nodes = Api::<Node>::all(cluster.client());
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    let capacity = json!({ "status": { "capacity": { "acme.com/gpu-memory-gb": "640" }, "allocatable": { "acme.com/gpu-memory-gb": "640" } } });
    nodes.patch_status(node, &PatchParams::default(), &Patch::Merge(&capacity)).await.unwrap();
}

/// The pod as the API server would take it, with changes.
async fn taken(cluster: &Cluster, change: impl Fn(&mut Value)) -> Pod {
    let mut pod: Value = serde_saphyr::from_str(POD).unwrap();
    pod["metadata"]["name"] = "another".into();
    change(&mut pod);
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    pods.create(&dry, &pod).await.unwrap()
}

/// Policies take a moment to be in force.
async fn in_force(cluster: &Cluster) {
    let until = async {
        while taken(cluster, |_| {}).await.spec.unwrap().affinity.is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(DEADLINE, until).await.expect("the policy is in force");
}

#[tokio::test]
async fn the_documents_pod_goes_where_at_least_so_much_memory_is_free_and_gpus_are_linked() {
    let cluster = cluster().await;
    let names = NodePool::gpu("gpu", 3, GpuModel::H200, 8).node_names().collect::<Vec<_>>();
    label(&cluster, &names[1], "69", "true").await;
    label(&cluster, &names[2], "95", "false").await;
    in_force(&cluster).await;
    custom_scheduler(&cluster);

    // The first node is labelled by its agent.
    let capacity = json!({ "status": { "capacity": { "acme.com/gpu-memory-gb": "640" }, "allocatable": { "acme.com/gpu-memory-gb": "640" } } });
    let nodes = Api::<Node>::all(cluster.client());
    nodes.patch_status(&names[0], &PatchParams::default(), &Patch::Merge(&capacity)).await.unwrap();
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    let pod: Pod = serde_saphyr::from_str(POD).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    agent(&cluster, &names[0]);

    let bound = |pod: Option<&Pod>| pod.and_then(|pod| pod.spec.as_ref()?.node_name.clone()).is_some();
    let pod =
        timeout(DEADLINE, await_condition(pods, "ai-training-job", bound)).await.unwrap().unwrap().unwrap();
    assert_eq!(pod.spec.unwrap().node_name.as_ref(), Some(&names[0]));
    let labels = nodes.get(&names[0]).await.unwrap().metadata.labels.unwrap();
    let free = labels["gpu.memory.free.percent"].parse::<u8>().unwrap();
    assert!((70..=80).contains(&free), "{free}");
    for (name, value) in [
        ("gpu.features.nvlink", "true"),
        ("nvidia.com/gpu.product", "NVIDIA-H200"),
        ("nvidia.com/gpu.count", "8"),
        ("nvidia.com/mig.capable", "true"),
    ] {
        assert_eq!(labels[name], value, "{name}");
    }
    mutations(&cluster).await;
    cluster.stop().await.unwrap();
}

/// What becomes of pods of all shapes.
async fn mutations(cluster: &Cluster) {
    let is_gt =
        |percent: &str| json!({ "key": "gpu.memory.free.percent", "operator": "Gt", "values": [percent] });
    let zone = json!({ "key": "zone", "operator": "In", "values": ["a"] });
    let field = json!({ "key": "metadata.name", "operator": "In", "values": ["n"] });
    let terms = |terms: Value| json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } });
    let preferred = json!([{ "weight": 1, "preference": { "matchExpressions": [zone] } }]);
    let spread = json!({ "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [] } });
    let cases = [
        ("70", Value::Null, terms(json!([{ "matchExpressions": [is_gt("69")] }]))),
        (
            "0",
            Value::Null,
            terms(
                json!([{ "matchExpressions": [{ "key": "gpu.memory.free.percent", "operator": "Exists" }] }]),
            ),
        ),
        ("100", Value::Null, terms(json!([{ "matchExpressions": [is_gt("99")] }]))),
        (
            "70",
            terms(json!([{ "matchExpressions": [zone] }, { "matchFields": [field] }])),
            terms(json!([
                { "matchExpressions": [zone, is_gt("69")] },
                { "matchExpressions": [is_gt("69")], "matchFields": [field] },
            ])),
        ),
        (
            "70",
            json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": preferred } }),
            json!({ "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
                "requiredDuringSchedulingIgnoredDuringExecution":
                    { "nodeSelectorTerms": [{ "matchExpressions": [is_gt("69")] }] },
            } }),
        ),
        ("70", spread, terms(json!([{ "matchExpressions": [is_gt("69")] }]))),
    ];
    for (percent, affinity, expected) in cases {
        let pod = taken(cluster, |pod| {
            pod["spec"]["nodeSelector"]["gpu.memory.free.percent"] = percent.into();
            pod["spec"]["affinity"] = affinity.clone();
        });
        let spec = serde_json::to_value(pod.await.spec.unwrap()).unwrap();
        assert_eq!(spec["affinity"]["nodeAffinity"], expected["nodeAffinity"], "{percent} {affinity}");
        assert_eq!(spec["nodeSelector"], json!({ "gpu.features.nvlink": "true" }), "the rest of it stays");
    }
    let other =
        taken(cluster, |pod| pod["spec"]["nodeSelector"]["gpu.memory.free.percent"] = "plenty".into());
    let other = other.await.spec.unwrap();
    assert_eq!(
        (other.node_selector.unwrap()["gpu.memory.free.percent"].as_str(), other.affinity),
        ("plenty", None)
    );
}

/// The document's scheduler: kube-scheduler under its name.
fn custom_scheduler(cluster: &Cluster) {
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": { "kubeconfig": cluster.kubeconfig() },
        "leaderElection": { "leaderElect": false },
        "profiles": [{ "schedulerName": "custom-scheduler" }],
    });
    let file = cluster.state_dir().join("custom-scheduler.json");
    fs::write(&file, config.to_string()).unwrap();
    let mut command = Command::new(cluster.binaries().control_plane("kube-scheduler"));
    command.arg("--config").arg(&file).args(["--secure-port", "0"]);
    cluster.spawn("custom-scheduler", &command).unwrap();
}

/// The agent of a node with eight GPUs, of which a quarter of the memory is in use.
fn agent(cluster: &Cluster, node: &str) {
    let folder = cluster.state_dir().join("agent");
    fs::create_dir_all(&folder).unwrap();
    let machine = folder.join("machine.toml");
    let gpus = "gpus = [{ model = \"H200\", count = 8, load = { memory_mib = 36000 } }]";
    fs::write(&machine, format!("require_root = false\n{gpus}\n")).unwrap();
    let own = std::env::current_exe().unwrap();
    let built = own.ancestors().skip(1).take(2).map(|folder| folder.join("whalezen-agent"));
    let built = built.into_iter().find(|file| file.is_file());
    let mut command = Command::new(
        built.expect("whalezen-agent is not built: `make test` builds it, and so does `make build`"),
    );
    command
        .args(["--node-name", node, "--no-kubelet", "--no-metrics"])
        .arg("--nvml-library")
        .arg(library().unwrap())
        .arg("--lock-file")
        .arg(folder.join("lock"))
        .env("WHALEZEN_MOCK_NVML", &machine)
        .env("KUBECONFIG", cluster.kubeconfig());
    cluster.spawn("whalezen-agent", &command).unwrap();
}
