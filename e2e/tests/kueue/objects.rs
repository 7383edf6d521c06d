//! The objects that tests submit, as JSON: a test changes what it is about.

use serde_json::{Value, json};
use whalezen_e2e::{DURATION_ANNOTATION, EXIT_CODE_ANNOTATION};

pub const GPU: &str = "nvidia.com/gpu";
/// The label by which the flavors of these tests choose their nodes.
pub const PRODUCT: &str = "nvidia.com/gpu.product";
pub const A100: &str = "NVIDIA-A100-SXM4-80GB";

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A flavor of the nodes that there are, which also tolerates a taint.
pub fn flavor(name: &str) -> Value {
    kueue(
        "ResourceFlavor",
        name,
        json!({"spec": {
            "nodeLabels": {PRODUCT: A100},
            "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
        }}),
    )
}

/// A ClusterQueue with GPUs of one flavor.
pub fn cluster_queue(name: &str, flavor: &str, gpus: u32) -> Value {
    kueue(
        "ClusterQueue",
        name,
        json!({"spec": {
            "namespaceSelector": {},
            "resourceGroups": [{
                "coveredResources": [GPU],
                "flavors": [{"name": flavor, "resources": [{"name": GPU, "nominalQuota": gpus}]}],
            }],
        }}),
    )
}

pub fn local_queue(namespace: &str, name: &str, cluster_queue: &str) -> Value {
    let mut queue = kueue("LocalQueue", name, json!({"spec": {"clusterQueue": cluster_queue}}));
    queue["metadata"]["namespace"] = json!(namespace);
    queue
}

pub fn workload_priority_class(name: &str, value: i32) -> Value {
    kueue("WorkloadPriorityClass", name, json!({"value": value}))
}

/// An object of Kueue's group.
pub fn kueue(kind: &str, name: &str, rest: Value) -> Value {
    let mut object =
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}});
    if let (Value::Object(object), Value::Object(rest)) = (&mut object, rest) {
        object.extend(rest);
    }
    object
}

/// A Job of so many pods with so many GPUs each. Its pods run so long, or until they are deleted.
pub fn job(name: &str, pods: u32, gpus: u32, runs: Option<&str>) -> Value {
    let annotations = runs.map_or(json!({}), |time| json!({DURATION_ANNOTATION: time}));
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": crate::ground::QUEUE}},
        "spec": {
            "parallelism": pods, "completions": pods, "backoffLimit": 0,
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{
                        "name": "train", "image": "train", "resources": {"limits": {GPU: gpus}},
                    }],
                },
            },
        },
    })
}

/// A Job whose pods end badly.
pub fn failing_job(name: &str, gpus: u32) -> Value {
    let mut job = job(name, 1, gpus, Some("100ms"));
    job["spec"]["template"]["metadata"]["annotations"][EXIT_CODE_ANNOTATION] = json!("3");
    job
}

/// The same Job under another queue.
pub fn in_queue(mut job: Value, queue: &str) -> Value {
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = json!(queue);
    job
}
