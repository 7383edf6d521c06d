//! An object that the API server stores comes through the Rust types unchanged.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may panic, and so may what only tests call"
)]

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use whalezen_crds::kueue::v1beta2::{
    AdmissionCheck, ClusterQueue, ClusterQueueSpec, Cohort, LocalQueue, MultiKueueCluster, MultiKueueConfig,
    PodSet, ProvisioningRequestConfig, ResourceFlavor, ResourceFlavorSpec, Topology, Workload,
    WorkloadPriorityClass, WorkloadSpec,
};
use whalezen_crds::scheduling::v1alpha1::{GPUNode, MIGPolicy};

#[test]
fn an_object_with_every_field_is_unchanged() {
    unchanged::<AdmissionCheck>("admission-check");
    unchanged::<ClusterQueue>("cluster-queue");
    unchanged::<Cohort>("cohort");
    unchanged::<GPUNode>("gpu-node");
    unchanged::<LocalQueue>("local-queue");
    unchanged::<MIGPolicy>("mig-policy");
    unchanged::<MIGPolicy>("mig-policy-named");
    unchanged::<MultiKueueCluster>("multikueue-cluster");
    unchanged::<MultiKueueConfig>("multikueue-config");
    unchanged::<ProvisioningRequestConfig>("provisioning-request-config");
    unchanged::<ResourceFlavor>("resource-flavor");
    unchanged::<Topology>("topology");
    unchanged::<Workload>("workload");
    unchanged::<WorkloadPriorityClass>("workload-priority-class");
}

/// The quick start's flavor is nothing but a name, and the API server stores it so.
#[test]
fn an_object_without_a_spec_has_the_default_spec() {
    let bare = json!({ "metadata": { "name": "default-flavor" } });

    let flavor: ResourceFlavor = serde_json::from_value(bare.clone()).unwrap();
    let queue: ClusterQueue = serde_json::from_value(bare).unwrap();

    assert_eq!(flavor.spec, ResourceFlavorSpec::default());
    assert_eq!(queue.spec, ClusterQueueSpec::default());
}

/// What the schema fills in, the types fill in too: an object read from a file means what it will mean when
/// the API server has stored it.
#[test]
fn the_rust_defaults_are_those_of_the_schema() {
    for crd in whalezen_crds::kueue::v1beta2::crds() {
        let bare = json!({});
        let written = match crd["spec"]["names"]["kind"].as_str().unwrap() {
            "ClusterQueue" => through::<ClusterQueue>(&bare),
            "LocalQueue" => through::<LocalQueue>(&bare),
            "Cohort" => through::<Cohort>(&bare),
            "ResourceFlavor" => through::<ResourceFlavor>(&bare),
            // The others have required fields, or none with a default.
            _ => continue,
        };
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert_eq!(written["spec"], defaulted(schema, json!({})));
    }
    let pod_set = through::<PodSet>(&json!({ "template": {} }));
    assert_eq!(pod_set, json!({ "name": "main", "count": 1, "template": {} }));
    let workload = through::<WorkloadSpec>(&json!({ "podSets": [] }));
    assert_eq!(workload, json!({ "active": true, "podSets": [] }));
}

/// Reads an object as `T` and writes it again.
fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    serde_json::to_value(typed).unwrap()
}

fn unchanged<T: DeserializeOwned + Serialize>(example: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/examples/{example}.yaml"));
    let object: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(through::<T>(&object), object, "{example}");
}

/// What the API server makes of an object: defaults, and defaults inside them.
fn defaulted(schema: &Value, mut object: Value) -> Value {
    let (Some(fields), Some(properties)) = (object.as_object_mut(), schema["properties"].as_object()) else {
        return object;
    };
    for (name, field) in properties {
        if let Some(default) = field.get("default") {
            let value = fields.remove(name).unwrap_or_else(|| default.clone());
            fields.insert(name.clone(), defaulted(field, value));
        }
    }
    object
}
