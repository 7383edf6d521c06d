//! `scenarios/kueue` shows all that Kueue's API can say: each field of each kind, each value of an enumeration, each label
//! and annotation that people set.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in tests; these are their helpers"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use whalezen_crds::kueue::constants::{PROVISIONING_REQUEST_PREFIX, annotation, label};

/// What no scenario shows, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("MultiKueueCluster", "nothing acts on it"),
    ("MultiKueueConfig", "nothing acts on it"),
    ("ClusterQueue.spec.concurrentAdmissionPolicy", "nothing acts on it"),
    ("Workload.spec.podSets[].template", "a pod template is Kubernetes' own"),
];

/// What the API server and the operator say, and no manifest does.
const NOT_SAID: &[&str] = &["apiVersion", "kind", "metadata", "status"];

/// The labels and annotations that people set and that count.
const KEYS: &[&str] = &[
    label::QUEUE_NAME,
    label::PRIORITY_CLASS,
    label::MAX_EXEC_TIME_SECONDS,
    label::POD_GROUP_NAME,
    annotation::ADMISSION_GATED_BY,
    annotation::ELASTIC_JOB,
    annotation::JOB_MIN_PARALLELISM,
    annotation::JOB_COMPLETIONS_EQUAL_PARALLELISM,
    annotation::PRIORITY_BOOST,
    annotation::REQUIRED_TOPOLOGY,
    annotation::PREFERRED_TOPOLOGY,
    annotation::UNCONSTRAINED_TOPOLOGY,
    annotation::SLICE_REQUIRED_TOPOLOGY,
    annotation::SLICE_SIZE,
    annotation::SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
    annotation::POD_SET_GROUP_NAME,
    annotation::POD_INDEX_OFFSET,
    annotation::POD_GROUP_NAME,
    annotation::POD_GROUP_TOTAL_COUNT,
    annotation::POD_GROUP_FAST_ADMISSION,
    annotation::POD_GROUP_SERVING,
    annotation::ROLE_HASH,
    annotation::RETRIABLE_IN_GROUP,
    PROVISIONING_REQUEST_PREFIX,
];

/// The kinds of jobs that are queued.
const JOBS: &[&str] = &[
    "AppWrapper",
    "Deployment",
    "JAXJob",
    "Job",
    "JobSet",
    "LeaderWorkerSet",
    "MPIJob",
    "PaddleJob",
    "Pod",
    "PyTorchJob",
    "RayCluster",
    "RayJob",
    "StatefulSet",
    "TFJob",
    "TrainJob",
    "XGBoostJob",
];

/// The objects of all scenarios.
fn objects() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/kueue");
    let files = fs::read_dir(folder).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    files.flat_map(|yaml| serde_saphyr::from_multiple::<Value>(&yaml).unwrap()).collect()
}

/// The fields that a schema has, and the values of those that have a few; or, of an object, those that it sets. They are
/// written as `spec.levels[].nodeLabel` and `spec.stopPolicy: Hold`.
fn fields(path: &str, schema: &Value, object: Option<&Value>, found: &mut BTreeSet<String>) {
    if LEFT_OUT.iter().any(|(left_out, _)| *left_out == path) {
        return;
    }
    found.insert(path.to_owned());
    for value in schema["enum"].as_array().into_iter().flatten() {
        if object.is_none_or(|object| object == value) {
            found.insert(format!("{path}: {}", value.as_str().unwrap()));
        }
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let set = object.map(|object| object.get(name));
        if set != Some(None) {
            fields(&format!("{path}.{name}"), field, set.flatten(), found);
        }
    }
    let Some(items) = schema.get("items") else { return };
    let below = format!("{path}[]");
    match object {
        None => fields(&below, items, None, found),
        Some(object) => {
            for item in object.as_array().into_iter().flatten() {
                fields(&below, items, Some(item), found);
            }
        }
    }
}

/// A version of a kind, by its definition.
struct Version {
    kind: String,
    name: String,
    schema: Value,
}

/// The versions of Kueue's kinds.
fn versions() -> Vec<Version> {
    let crds = whalezen_crds::kueue::crds();
    let of = |crd: &Value| -> Vec<Version> {
        let version = |version: &Value| Version {
            kind: crd["spec"]["names"]["kind"].as_str().unwrap().to_owned(),
            name: version["name"].as_str().unwrap().to_owned(),
            schema: version["schema"]["openAPIV3Schema"].clone(),
        };
        crd["spec"]["versions"].as_array().unwrap().iter().map(version).collect()
    };
    crds.iter().flat_map(of).collect()
}

impl Version {
    /// What it can say, or what these objects say of that.
    fn says(&self, objects: Option<&[Value]>) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut schema = self.schema.clone();
        schema["properties"].as_object_mut().unwrap().retain(|name, _| !NOT_SAID.contains(&&**name));
        let Some(objects) = objects else {
            fields(&self.kind, &schema, None, &mut found);
            return found;
        };
        let version = format!("kueue.x-k8s.io/{}", self.name);
        for object in objects {
            if object["kind"] == *self.kind && object["apiVersion"] == version {
                fields(&self.kind, &schema, Some(object), &mut found);
            }
        }
        found
    }
}

#[test]
fn every_field_and_every_value_of_an_enumeration_is_set_somewhere() {
    let (objects, versions) = (objects(), versions());
    for version in &versions {
        let mut asked = version.says(None);
        if version.name != "v1beta2" {
            // The rest is the same in both.
            for newer in versions.iter().filter(|newer| newer.kind == version.kind && newer.name == "v1beta2")
            {
                let said = newer.says(None);
                asked.retain(|field| !said.contains(field));
            }
        }
        let set = version.says(Some(&objects));
        let missing: Vec<&String> = asked.difference(&set).collect();
        assert!(missing.is_empty(), "no scenario sets, in {}: {missing:#?}", version.name);
    }
}

#[test]
fn what_is_left_out_exists() {
    let everything: Vec<String> = versions().iter().flat_map(paths).collect();
    for (path, reason) in LEFT_OUT {
        assert!(everything.iter().any(|known| known == path), "{path}: {reason}");
    }
}

/// Every field that a version has, with those that are left out, down to what is not Kueue's own.
fn paths(version: &Version) -> Vec<String> {
    described(&version.kind, &version.schema).into_iter().map(|(path, _)| path).collect()
}

/// The fields below this one, and whether each is described.
fn described(path: &str, schema: &Value) -> Vec<(String, bool)> {
    let mut all = vec![(path.to_owned(), schema["description"].is_string())];
    if path.ends_with(".podSets[].template") {
        return all;
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        all.extend(described(&format!("{path}.{name}"), field));
    }
    if let Some(items) = schema.get("items") {
        // What is said of a list is said of what is in it.
        all.extend(described(&format!("{path}[]"), items).into_iter().skip(1));
    }
    all
}

#[test]
fn every_field_is_explained() {
    for version in versions() {
        let all = described(&version.kind, &version.schema);
        let silent: Vec<&String> = all
            .iter()
            .filter(|(path, is_described)| !is_described && !path.ends_with(".metadata"))
            .map(|(path, _)| path)
            .collect();
        assert!(silent.is_empty(), "{} has no words on {silent:#?}", version.name);
    }
}

/// The labels and annotations of an object and of all templates in it.
fn keys(object: &Value, found: &mut BTreeSet<String>) {
    for list in ["labels", "annotations"] {
        found.extend(object["metadata"][list].as_object().into_iter().flat_map(|set| set.keys().cloned()));
    }
    match object {
        Value::Object(fields) => {
            for field in fields.values() {
                keys(field, found);
            }
        }
        Value::Array(items) => {
            for item in items {
                keys(item, found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_label_and_annotation_that_counts_is_set_somewhere_and_documented() {
    let mut set = BTreeSet::new();
    for object in objects() {
        keys(&object, &mut set);
    }
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/compatibility.md")).unwrap();
    for key in KEYS {
        assert!(set.iter().any(|known| known.starts_with(key)), "no scenario sets {key}");
        let short = key.trim_start_matches("kueue.x-k8s.io/");
        assert!(page.contains(&format!("`{short}")), "{short} is not in docs/compatibility.md");
    }
    let unknown = set
        .iter()
        .find(|key| key.contains("kueue.x-k8s.io/") && !KEYS.iter().any(|known| key.starts_with(known)));
    assert_eq!(unknown, None, "a scenario sets a key that is not known to count");
}

#[test]
fn every_kind_of_job_is_queued_somewhere() {
    let objects = objects();
    for kind in JOBS {
        let queued = |object: &Value| {
            object["kind"] == *kind && !object["metadata"]["labels"][label::QUEUE_NAME].is_null()
        };
        assert!(objects.iter().any(queued), "no scenario queues a {kind}");
    }
}
