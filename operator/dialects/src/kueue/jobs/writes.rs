//! The patches of jobs: suspended, started, and put back as they were.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Map, Value, json};
use whalezen_crds::kueue::v1beta2::Workload;

use super::{
    JobView,
    batch::clean,
    placement::{Added, Placement},
    whole::{At, Set, Whole},
};
use crate::write::{Verb, Write};

/// Labels that the job controller puts on a template itself.
pub const MANAGED_LABELS: [&str; 4] =
    ["job-name", "controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"];

/// The patch that says of a job whether it is suspended, and nothing else.
pub fn suspend(job: &JobView, suspended: bool) -> Write {
    let keys = job.kind.suspend.rsplit('/').filter(|key| !key.is_empty());
    let mut body = keys.fold(json!(suspended), |inner, key| json!({ key: inner }));
    let metadata = json!({ "resourceVersion": job.version.to_string() });
    if let Some(fields) = body.as_object_mut() {
        fields.insert("metadata".to_owned(), metadata);
    }
    Write { target: job.target.clone(), status: false, verb: Verb::Merge, body }
}

/// The patch that starts an admitted job, each of its pod sets with what its placement and the marks add, and with these
/// other fields.
pub fn start(job: &JobView, placements: &[Placement], marks: &[Added], size: Map<String, Value>) -> Write {
    let mut operations = vec![seen_as(&job.version.to_string()), put(job.kind.suspend, false)];
    operations.extend(size.into_iter().map(|(field, value)| put(&format!("/spec/{field}"), value)));
    let mut lists = BTreeSet::new();
    for (index, (slot, placement)) in job.slots.iter().zip(placements).enumerate() {
        let none = Added::default();
        let mark = marks.get(index).unwrap_or(&none);
        match &slot.at {
            At::Template(path) => operations.extend(placement.operations(path, slot, mark)),
            At::New(path, template) => {
                operations.push(put(path, (**template).clone()));
                operations.extend(placement.operations(path, slot, mark));
            }
            At::Beside { list, anew: (path, value) } => {
                if lists.insert(list) {
                    operations.push(put(path, value.clone()));
                }
                let name =
                    job.pods.as_ref().ok().and_then(|pods| pods.get(index)).map_or("", |pods| &*pods.name);
                let added = placement.added(mark);
                let entry = match job.kind.wraps {
                    Some(wraps) => wraps(name, &added),
                    None => added,
                };
                operations.push(put(&format!("{list}/-"), entry));
            }
        }
    }
    Write { target: job.target.clone(), status: false, verb: Verb::Json, body: Value::Array(operations) }
}

/// The patch that puts a job's templates back as its Workload remembers them, and these other fields.
pub fn restore(job: &Whole, workload: &Workload, more: Vec<Value>) -> Write {
    let metadata = &job.metadata;
    let mut operations = vec![seen_as(metadata.resource_version.as_deref().unwrap_or_default())];
    let mut lists = BTreeSet::new();
    for set in &job.sets {
        let asked = workload.spec.pod_sets.iter().find(|asked| asked.name == set.name);
        let was = clean(asked.map_or(&set.template, |asked| &asked.template));
        match &set.at {
            At::Template(path) => operations.extend(put_back(path, set, was)),
            At::New(..) => {}
            At::Beside { list, anew: (path, value) } => {
                if lists.insert(list) {
                    operations.push(put(path, value.clone()));
                }
            }
        }
    }
    operations.extend(more);
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
    let target = job.kind.target(namespace.unwrap_or_default(), name.unwrap_or_default());
    Write { target, status: false, verb: Verb::Json, body: Value::Array(operations) }
}

/// What of a template differs from how it was, as far as an admission may change it.
fn put_back(path: &str, set: &Set, was: PodTemplateSpec) -> Vec<Value> {
    let now = set.template.metadata.clone().unwrap_or_default();
    let was_metadata = was.metadata.unwrap_or_default();
    let managed = |key: &String| MANAGED_LABELS.contains(&key.as_str());
    let mut labels = was_metadata.labels.unwrap_or_default();
    labels.extend(
        now.labels.iter().flatten().filter(|(key, _)| managed(key)).map(|(k, v)| (k.clone(), v.clone())),
    );
    let labels = (!labels.is_empty()).then_some(labels);
    let (pod, was_pod) = (set.template.spec.clone().unwrap_or_default(), was.spec.unwrap_or_default());
    let fields = [
        ("metadata/labels", json!(now.labels), json!(labels)),
        ("metadata/annotations", json!(now.annotations), json!(was_metadata.annotations)),
        ("spec/nodeSelector", json!(pod.node_selector), json!(was_pod.node_selector)),
        ("spec/tolerations", json!(pod.tolerations), json!(was_pod.tolerations)),
        ("spec/schedulingGates", json!(pod.scheduling_gates), json!(was_pod.scheduling_gates)),
    ];
    let operation = |(field, now, was): (&str, Value, Value)| {
        let at = format!("{path}/{field}");
        match (now, was) {
            (now, was) if now == was => None,
            (_, Value::Null) => Some(json!({ "op": "remove", "path": at })),
            (_, was) => Some(put(&at, was)),
        }
    };
    fields.into_iter().filter_map(operation).collect()
}

/// The operation that puts a value in the place of what is there, if anything is.
pub fn put(path: &str, value: impl Into<Value>) -> Value {
    json!({ "op": "add", "path": path, "value": value.into() })
}

/// The operation by which a patch is refused as outdated if the object is not as it was seen any more.
pub fn seen_as(version: &str) -> Value {
    json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": version })
}
