//! Builders: an object is a JSON text that grows by what a test is about.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use whalezen_dialects::kueue::jobs::{AnyJob, Whole, kinds};

/// An object under construction.
#[derive(Clone, Debug)]
pub struct Object(pub Value);

impl Object {
    /// Puts `value` at a JSON pointer, and makes the objects on the way.
    pub fn put(mut self, pointer: &str, value: Value) -> Self {
        put(&mut self.0, pointer, value);
        self
    }

    /// The same where there may be lists on the way.
    pub fn put_in(mut self, pointer: &str, value: Value) -> Self {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        if self.0.pointer(parent).is_none() {
            self = self.put_in(parent, json!({}));
        }
        self.0.pointer_mut(parent).unwrap()[key] = value;
        self
    }

    /// Reads it as its type.
    pub fn read<T: DeserializeOwned>(&self) -> T {
        serde_json::from_value(self.0.clone()).unwrap_or_else(|problem| panic!("{problem}: {:#}", self.0))
    }

    /// Another `resourceVersion`.
    pub fn version(self, version: u64) -> Self {
        self.put("/metadata/resourceVersion", json!(version.to_string()))
    }

    pub fn uid(self, uid: &str) -> Self {
        self.put("/metadata/uid", json!(uid))
    }

    pub fn label(self, key: &str, value: &str) -> Self {
        self.put(&format!("/metadata/labels/{}", escaped(key)), json!(value))
    }

    pub fn finalizers<const N: usize>(self, names: [&str; N]) -> Self {
        self.put("/metadata/finalizers", json!(names.as_slice()))
    }

    pub fn deleting(self) -> Self {
        self.put("/metadata/deletionTimestamp", json!("2026-01-01T00:00:09Z"))
    }
}

/// Puts `value` at a JSON pointer of `object`, and makes the objects on the way.
pub fn put(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for key in pointer.split('/').skip(1) {
        let key = key.replace("~1", "/").replace("~0", "~");
        if !place.is_object() {
            *place = json!({});
        }
        place = place.as_object_mut().unwrap().entry(key).or_insert(Value::Null);
    }
    *place = value;
}

/// A key as it stands in a JSON pointer.
pub fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn object(kind: &str, api_version: &str, name: &str) -> Object {
    Object(json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "uid": format!("uid-{name}"),
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
    }))
}

pub const QUEUE_NAME: &str = "kueue.x-k8s.io/queue-name";
pub const IN_USE: &str = "kueue.x-k8s.io/resource-in-use";
pub const MARK: &str = "kueue.x-k8s.io/podset";
pub const WORKLOAD: &str = "kueue.x-k8s.io/workload";

/// The Workload that Kueue and we give to Job `train`.
pub fn train() -> String {
    whalezen_dialects::kueue::jobs::build::name("Job", "batch", "train", "uid-train")
}

/// A suspended Job of two pods with one GPU each, sent to LocalQueue `lq`, of which the job controller has taken notice.
pub fn job(name: &str) -> Object {
    object("Job", "batch/v1", name)
        .put("/metadata/namespace", json!("ns"))
        .label(QUEUE_NAME, "lq")
        .put(
            "/spec",
            json!({
                "suspend": true,
                "parallelism": 2,
                "completions": 2,
                "template": {
                    "metadata": { "labels": { "app": "x", "batch.kubernetes.io/job-name": name, "controller-uid": format!("uid-{name}") } },
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{ "name": "main", "image": "i", "resources": { "requests": { "nvidia.com/gpu": "1" } } }],
                    },
                },
            }),
        )
        .put("/status/conditions", json!([{ "type": "Suspended", "status": "True" }]))
}

impl Object {
    /// The job runs with so many pods.
    pub fn running(self, active: i32) -> Self {
        self.put("/spec/suspend", json!(false))
            .put("/status/active", json!(active))
            .put("/status/startTime", json!("2026-01-01T00:00:01Z"))
            .put("/status/conditions", json!([{ "type": "Suspended", "status": "False" }]))
    }

    /// The job has this condition and no pods.
    pub fn ended(self, condition: &str, message: &str) -> Self {
        self.put("/status/active", json!(0))
            .put("/status/conditions", json!([{ "type": condition, "status": "True", "message": message }]))
    }

    /// The template carries the marks of an admission by this Workload and a node selector.
    pub fn injected(self, workload: &str, gpu: &str) -> Self {
        self.put(&format!("/spec/template/metadata/labels/{}", escaped(MARK)), json!("main"))
            .put(&format!("/spec/template/metadata/annotations/{}", escaped(WORKLOAD)), json!(workload))
            .put("/spec/template/spec/nodeSelector/gpu", json!(gpu))
    }

    /// The Workload has this condition, `True` if `holds`.
    pub fn condition(mut self, type_: &str, holds: bool, reason: &str, message: &str) -> Self {
        let condition = json!({
            "type": type_,
            "status": if holds { "True" } else { "False" },
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:02Z",
            "observedGeneration": 1,
        });
        let mut conditions = self.0.pointer("/status/conditions").cloned().unwrap_or(json!([]));
        conditions.as_array_mut().unwrap().push(condition);
        put(&mut self.0, "/status/conditions", conditions);
        self
    }

    /// The Workload holds two GPUs of this flavor in ClusterQueue `cq`.
    pub fn reserved(self, flavor: &str) -> Self {
        self.put(
            "/status/admission",
            json!({
                "clusterQueue": "cq",
                "podSetAssignments": [{
                    "name": "main",
                    "count": 2,
                    "flavors": { "nvidia.com/gpu": flavor },
                    "resourceUsage": { "nvidia.com/gpu": "2" },
                }],
            }),
        )
        .condition("QuotaReserved", true, "QuotaReserved", "Quota reserved in ClusterQueue cq")
    }

    /// … and may run.
    pub fn admitted(self, flavor: &str) -> Self {
        self.reserved(flavor).condition("Admitted", true, "Admitted", "The workload is admitted")
    }
}

/// The Workload of [`job`] `name`, waiting.
pub fn workload(name: &str) -> Object {
    let name_of_job = name;
    let uid = format!("uid-{name_of_job}");
    let name = whalezen_dialects::kueue::jobs::build::name("Job", "batch", name_of_job, &uid);
    object("Workload", "kueue.x-k8s.io/v1beta2", &name)
        .uid("uid-w")
        .put("/metadata/namespace", json!("ns"))
        .label("kueue.x-k8s.io/job-uid", &uid)
        .finalizers([IN_USE])
        .put("/metadata/ownerReferences", json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": name_of_job, "uid": uid, "controller": true, "blockOwnerDeletion": true,
        }]))
        .put("/spec", json!({
            "queueName": "lq",
            "priority": 0,
            "active": true,
            "podSets": [{
                "name": "main",
                "count": 2,
                "template": {
                    "metadata": { "labels": { "app": "x", "batch.kubernetes.io/job-name": name_of_job } },
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{ "name": "main", "image": "i", "resources": { "requests": { "nvidia.com/gpu": "1" } } }],
                    },
                },
            }],
        }))
}

impl Object {
    /// Reads it as a job, of whatever kind.
    pub fn job(&self) -> AnyJob {
        let kind = kinds::find(self.0["kind"].as_str().unwrap()).unwrap();
        match kind.kind {
            "Job" => AnyJob::Batch(Box::new(self.read())),
            "Pod" => AnyJob::Pod(Box::new(self.read())),
            _ => AnyJob::Described(kind, Box::new(self.read())),
        }
    }

    /// What its Workload is made from.
    pub fn whole(&self) -> Whole {
        self.job().whole().unwrap()
    }
}

/// A flavor whose nodes have the label `gpu=<name>`.
pub fn flavor(name: &str) -> Object {
    object("ResourceFlavor", "kueue.x-k8s.io/v1beta2", name).put("/spec/nodeLabels/gpu", json!(name))
}

/// A ClusterQueue with so many GPUs of flavor `a100`, for all namespaces.
pub fn cluster_queue(name: &str, gpus: i64) -> Object {
    object("ClusterQueue", "kueue.x-k8s.io/v1beta2", name).put("/spec/namespaceSelector", json!({})).put(
        "/spec/resourceGroups",
        json!([group(&["nvidia.com/gpu"], "a100", &[("nvidia.com/gpu", &gpus.to_string())])]),
    )
}

/// ClusterQueue `cq` as ever, which demands the check `dws`.
pub fn checked_queue() -> Object {
    let checks = json!([{ "name": "dws" }]);
    cluster_queue("cq", 8).version(2).put("/spec/admissionChecksStrategy/admissionChecks", checks)
}

/// The state of a check, as a Workload has it.
pub fn check(name: &str, state: &str, message: &str) -> Value {
    json!({ "name": name, "state": state, "message": message, "lastTransitionTime": "2026-01-01T00:00:03Z" })
}

/// An `AdmissionCheck`.
pub fn admission_check(name: &str, active: bool) -> Object {
    let status = if active { "True" } else { "False" };
    object("AdmissionCheck", "kueue.x-k8s.io/v1beta2", name)
        .put("/spec/controllerName", json!("example.com/checks"))
        .put(
            "/status/conditions",
            json!([{
                "type": "Active", "status": status, "reason": "r", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:03Z",
            }]),
        )
}

/// A resource group with one flavor.
pub fn group(covered: &[&str], flavor: &str, quotas: &[(&str, &str)]) -> Value {
    let quotas: Vec<Value> =
        quotas.iter().map(|(name, quota)| json!({ "name": name, "nominalQuota": quota })).collect();
    json!({ "coveredResources": covered, "flavors": [{ "name": flavor, "resources": quotas }] })
}

/// A LocalQueue in `ns` that leads to this ClusterQueue.
pub fn local_queue(name: &str, to: &str) -> Object {
    object("LocalQueue", "kueue.x-k8s.io/v1beta2", name)
        .put("/metadata/namespace", json!("ns"))
        .put("/spec/clusterQueue", json!(to))
}

/// A cohort.
pub fn cohort(name: &str) -> Object {
    object("Cohort", "kueue.x-k8s.io/v1beta2", name)
}

/// A `WorkloadPriorityClass`.
pub fn workload_priority(name: &str, value: i32) -> Object {
    object("WorkloadPriorityClass", "kueue.x-k8s.io/v1beta2", name).put("/value", json!(value))
}

/// A `PriorityClass`.
pub fn pod_priority(name: &str, value: i32) -> Object {
    object("PriorityClass", "scheduling.k8s.io/v1", name).put("/value", json!(value))
}

/// A namespace.
pub fn namespace(name: &str) -> Object {
    object("Namespace", "v1", name)
}

/// A `LimitRange` in `ns`.
pub fn limit_range<const N: usize>(name: &str, limits: &[Value; N]) -> Object {
    object("LimitRange", "v1", name)
        .put("/metadata/namespace", json!("ns"))
        .put("/spec/limits", json!(limits.as_slice()))
}

/// A `RuntimeClass` whose pods take this much beside their containers.
pub fn runtime_class(name: &str, overhead: &Value) -> Object {
    object("RuntimeClass", "node.k8s.io/v1", name)
        .put("/handler", json!("h"))
        .put("/overhead/podFixed", overhead.clone())
}
