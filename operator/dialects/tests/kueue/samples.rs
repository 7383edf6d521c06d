//! A job of each kind, as people write it.

use serde_json::{Value, json};
use whalezen_dialects::kueue::jobs::{JobView, kinds};

use crate::object::{Object, QUEUE_NAME, put};

/// A template of pods with one GPU each.
pub fn template() -> Value {
    let container =
        json!({ "name": "main", "image": "i", "resources": { "requests": { "nvidia.com/gpu": "1" } } });
    json!({ "spec": { "containers": [container] } })
}

/// The spec of a small job of each kind, suspended.
fn spec(kind: &str) -> Value {
    let role = |replicas: u32| json!({ "replicas": replicas, "template": template() });
    let roles = |field: &str, roles: Value| json!({ "runPolicy": { "suspend": true }, field: roles });
    let ray = json!({
        "headGroupSpec": { "template": template() },
        "workerGroupSpecs": [{ "groupName": "Small", "replicas": 2, "numOfHosts": 2, "template": template() }],
    });
    match kind {
        "JobSet" => json!({ "suspend": true, "replicatedJobs": [
            { "name": "driver", "replicas": 1, "template": { "spec": { "template": template() } } },
            { "name": "workers", "replicas": 2, "template": {
                "spec": { "parallelism": 4, "completions": 3, "template": template() },
            } },
        ] }),
        "PyTorchJob" => {
            roles("pytorchReplicaSpecs", json!({ "Worker": role(3), "Master": { "template": template() } }))
        }
        "TFJob" => roles(
            "tfReplicaSpecs",
            json!({
                "Worker": role(2), "PS": role(1), "Chief": role(1), "Evaluator": role(1),
            }),
        ),
        "XGBoostJob" => roles("xgbReplicaSpecs", json!({ "Master": role(1), "Worker": role(2) })),
        "PaddleJob" => roles("paddleReplicaSpecs", json!({ "Worker": role(2) })),
        "JAXJob" => roles("jaxReplicaSpecs", json!({ "Worker": role(2) })),
        "MPIJob" => roles("mpiReplicaSpecs", json!({ "Worker": role(2), "Launcher": role(1) })),
        "TrainJob" => json!({ "suspend": true, "runtimeRef": { "name": "torch" } }),
        "RayJob" => json!({ "suspend": true, "rayClusterSpec": ray }),
        "RayCluster" => {
            let mut spec = ray;
            put(&mut spec, "/suspend", json!(true));
            spec
        }
        "AppWrapper" => json!({ "suspend": true, "components": [
            { "template": { "apiVersion": "v1", "kind": "Pod", "spec": template()["spec"] } },
            { "template": { "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": spec("JobSet") } },
            {
                "podSets": [{ "replicas": 5, "path": "template.spec.parts[1].template" }],
                "template": { "apiVersion": "x/v1", "kind": "X", "spec": { "parts": [{}, { "template": template() }] } },
            },
        ] }),
        other => panic!("{other}"),
    }
}

/// Job `train` of this kind.
pub fn of(kind: &str) -> Object {
    let known = kinds::find(kind).unwrap();
    Object(json!({
        "apiVersion": known.api_version(),
        "kind": kind,
        "metadata": {
            "name": "train", "namespace": "ns", "uid": "uid-train", "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": { QUEUE_NAME: "lq" },
        },
        "spec": spec(kind),
    }))
}

/// The kinds that are read by their description, and describe their pods themselves.
pub fn described() -> impl Iterator<Item = &'static str> {
    let described = |kind: &&kinds::JobKind| kind.status.is_some() && kind.makes().is_none();
    kinds::ALL.into_iter().filter(described).map(|kind| kind.kind)
}

/// What is kept of a job.
pub fn view(object: &Object) -> JobView {
    object.job().view()
}
