//! The agent's device plugin with a real kubelet and a real container runtime: only the GPUs are made up.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use whalezen_agent::claims::ClaimSource as _;
use whalezen_agent::device::{Compute, Gpu, Mig, MigInstance, Uuid};
use whalezen_agent::plugin::given::Given;
use whalezen_agent::plugin::set::{self, Config};
use whalezen_agent::view::{SeenGpu, View};
use whalezen_e2e::{Cluster, RealNode};
use whalezen_mig::{Instance, Model};

use crate::ground::{DEADLINE, alone, container, delete, pod, ready, run, seen};

const WHOLE: &str = "nvidia.com/gpu";
const PART: &str = "nvidia.com/mig-3g.40gb";

/// An H100 with this number, not in MIG mode, or in it with one instance of 3g.40gb.
fn gpu(index: u32, part: Option<&str>) -> SeenGpu {
    let instance = |uuid: &str| {
        let instance = Instance::new("3g.40gb".parse().unwrap(), 0);
        let compute = Compute { id: 0, slices: 3, uuid: Some(Uuid::from(uuid.to_owned())) };
        MigInstance { id: 1, instance, size: 4, computes: vec![compute] }
    };
    let gpu = Gpu {
        uuid: Uuid::from(format!("GPU-{index:08}")),
        index,
        minor: Some(index),
        model: Model::H100_80.product().to_owned(),
        pci: None,
        numa: None,
        memory: 80 << 30,
        mig: Some(Mig {
            enabled: part.is_some(),
            pending: part.is_some(),
            geometry: Model::H100_80.geometry().unwrap(),
            instances: part.map(instance).into_iter().collect(),
        }),
        processes: Vec::new(),
    };
    SeenGpu { gpu, trouble: None }
}

/// The plugins of a node.
struct Plugins {
    view: watch::Sender<View>,
    given: Arc<Given>,
    task: JoinHandle<()>,
}

impl Plugins {
    /// They run in this process: the sockets are found from outside the node.
    fn start(node: &RealNode, gpus: Vec<SeenGpu>) -> Self {
        let (view, looks) = watch::channel(View { gpus, ..View::default() });
        let given = Arc::new(Given::new(node.pod_resources_socket(), looks.clone()));
        let config = Config {
            folder: node.device_plugin_dir(),
            cdi: Some(node.cdi_dir().unwrap()),
            files: false,
            dev: PathBuf::from("/nowhere"),
            minors: PathBuf::from("/nowhere"),
            patience: Duration::from_secs(5),
        };
        let task = tokio::spawn(set::run(config, looks, Arc::clone(&given) as _));
        Self { view, given, task }
    }

    /// Who has a device, as the kubelet says: namespace, pod and container.
    async fn holder(&self, device: &str) -> Option<[String; 3]> {
        let claims = self.given.claims().await.unwrap();
        let holder = claims.of(&Uuid::from(device.to_owned())).first()?.clone();
        Some([holder.namespace, holder.pod, holder.container])
    }
}

/// Waits until a node has so many of a resource to give.
async fn allocatable(cluster: &Cluster, node: &RealNode, resource: &str, wanted: &str) {
    let nodes: Api<Node> = Api::all(cluster.client());
    let holds = |node: Option<&Node>| {
        let status = node.and_then(|node| node.status.as_ref());
        let amounts = status.and_then(|status| status.allocatable.as_ref());
        amounts.and_then(|amounts| amounts.get(resource)).is_some_and(|amount| amount.0 == wanted)
    };
    let seen = timeout(DEADLINE, await_condition(nodes.clone(), node.name(), holds)).await;
    let Ok(seen) = seen else {
        panic!("{resource} does not become {wanted}: {:#?}", nodes.get(node.name()).await)
    };
    seen.unwrap();
}

fn with_device(mut pod: Value, resource: &str) -> Value {
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    pod["spec"]["containers"][0]["resources"] = json!({ "limits": { resource: "1" } });
    pod
}

#[tokio::test]
async fn a_pod_that_asks_for_a_mig_profile_gets_the_instance_and_the_kubelet_says_so() {
    let Some(cluster) = alone().await else { return };
    let node = cluster.real_node("node-2").unwrap();
    let plugins = Plugins::start(node, vec![gpu(0, None), gpu(1, Some("MIG-a"))]);
    allocatable(&cluster, node, WHOLE, "1").await;
    allocatable(&cluster, node, PART, "1").await;

    let script = "env | grep -E '^(NVIDIA|WHALEZEN)_' | sort; exec sleep 600";
    let asks = with_device(pod("asks", node, script), PART);
    let before = run(&cluster, asks, ready).await;
    assert_eq!(before.spec.as_ref().unwrap().node_name.as_deref(), Some("node-2"), "the one that offers it");
    // The first is of the kubelet's answer, the second of the CDI file that the runtime read.
    let said = cluster.kubectl(&["logs", "asks"]).await.unwrap();
    assert_eq!(said, "NVIDIA_VISIBLE_DEVICES=MIG-a\nWHALEZEN_DEVICE_1_0=MIG-a\n");
    let held = ["default", "asks", "main"].map(str::to_owned);
    assert_eq!(plugins.holder("MIG-a").await, Some(held.clone()));
    assert_eq!(plugins.holder("GPU-00000000").await, None);

    // A kubelet that starts again takes no device away, and is offered the others again.
    node.restart_kubelet().await.unwrap();
    // One that comes before they are is turned away, for which a Job makes another.
    let mut whole = with_device(pod("whole", node, "echo $NVIDIA_VISIBLE_DEVICES"), WHOLE);
    whole["spec"]["restartPolicy"] = json!("Never");
    let job = json!({ "metadata": { "name": "whole" }, "spec": { "template": { "spec": whole["spec"] } } });
    let jobs: Api<Job> = Api::default_namespaced(cluster.client());
    jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
    let complete = await_condition(jobs, "whole", conditions::is_job_completed());
    timeout(DEADLINE, complete).await.expect("the Job completes").unwrap();
    let of_job = ["get", "pods", "--selector=job-name=whole", "--field-selector=status.phase=Succeeded"];
    let done = cluster.kubectl(&[&of_job[..], &["-o", "name"]].concat()).await.unwrap();
    assert_eq!(cluster.kubectl(&["logs", done.trim()]).await.unwrap(), "GPU-00000000\n");
    assert_eq!(container(&seen(&cluster, "asks", ready).await), container(&before));
    assert_eq!(plugins.holder("MIG-a").await, Some(held));

    // What is free when its pod is gone is offered until the layout changes.
    delete(&cluster, "asks").await;
    let deadline = Instant::now() + DEADLINE;
    while plugins.holder("MIG-a").await.is_some() {
        assert!(Instant::now() < deadline, "the kubelet still says that the instance is held");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    plugins.view.send_replace(View { gpus: vec![gpu(0, None), gpu(1, None)], ..View::default() });
    allocatable(&cluster, node, WHOLE, "2").await;
    allocatable(&cluster, node, PART, "0").await;
    drop(plugins.view);
    plugins.task.await.unwrap();
    allocatable(&cluster, node, WHOLE, "0").await;
}
