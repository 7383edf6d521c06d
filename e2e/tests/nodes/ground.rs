//! The cluster of two real nodes that the tests share, and how they look at what runs there.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::timeout;
use whalezen_e2e::real::{BUSYBOX_IMAGE, passed_over};
use whalezen_e2e::{Cluster, RealNode};

/// How long anything may take on a machine that is busy with other things.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// `None` where this machine cannot have real nodes.
async fn cluster() -> Option<&'static RwLock<Cluster>> {
    static CLUSTER: OnceCell<Option<RwLock<Cluster>>> = OnceCell::const_new();
    let start = || async {
        if passed_over("the tests of real nodes") {
            return None;
        }
        let began = std::time::Instant::now();
        let cluster = Cluster::builder().real_nodes(2).start().await.unwrap();
        println!("two real nodes were ready in {:?}", began.elapsed());
        Some(RwLock::new(cluster))
    };
    CLUSTER.get_or_init(start).await.as_ref()
}

/// The cluster, while nobody disturbs its nodes.
pub async fn quiet() -> Option<RwLockReadGuard<'static, Cluster>> {
    Some(cluster().await?.read().await)
}

/// The cluster, for one test alone that disturbs its nodes.
pub async fn alone() -> Option<RwLockWriteGuard<'static, Cluster>> {
    Some(cluster().await?.write().await)
}

/// A pod on a node of which the container runs a script of the shell.
pub fn pod(name: &str, node: &RealNode, script: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "nodeName": node.name(),
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main",
                "image": BUSYBOX_IMAGE,
                "imagePullPolicy": "Never",
                "command": ["sh", "-c", script],
            }],
        },
    })
}

/// Makes a pod and waits until it is as wanted.
pub async fn run(cluster: &Cluster, pod: Value, wanted: impl Fn(&Pod) -> bool) -> Pod {
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let name = pod.metadata.name.clone().unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    seen(cluster, &name, wanted).await
}

/// Waits until a pod is as wanted.
pub async fn seen(cluster: &Cluster, name: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let condition = |pod: Option<&Pod>| pod.is_some_and(&wanted);
    if let Ok(pod) = timeout(DEADLINE, await_condition(pods.clone(), name, condition)).await {
        return pod.unwrap().unwrap();
    }
    let kubelets = cluster.real_nodes().iter().filter_map(|node| node.kubelet().ok());
    let logs: Vec<String> = kubelets
        .map(|kubelet| format!("The log of {} ends with:\n{}", kubelet.name(), kubelet.log_tail(15)))
        .collect();
    panic!("waited in vain for {name}: {:#?}\n{}", pods.get(name).await, logs.join("\n"))
}

/// Takes a pod away without asking it.
pub async fn delete(cluster: &Cluster, name: &str) {
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    pods.delete(name, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
        .await
        .unwrap();
}

/// Whether all containers of a pod are ready.
pub fn ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The phase, `Succeeded` for example.
pub fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

/// How often its container was started again, and which it is now.
pub fn container(pod: &Pod) -> (i32, String) {
    let status = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    (status.restart_count, status.container_id.clone().unwrap_or_default())
}
