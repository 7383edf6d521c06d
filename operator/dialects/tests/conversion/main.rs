//! Objects of v1beta1 and of v1beta2 are the same objects.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in tests; these are their helpers"
)]

mod any;

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};
use whalezen_dialects::kueue::conversion::{Version, convert};

use crate::any::Dice;

/// Every kind, with its schema in both versions.
static KINDS: LazyLock<Vec<(String, Value, Value)>> = LazyLock::new(|| {
    let schema = |crd: &Value, name: &str| {
        let versions = crd["spec"]["versions"].as_array().unwrap();
        let version = versions.iter().find(|version| version["name"] == name).unwrap();
        version["schema"]["openAPIV3Schema"].clone()
    };
    let crds = whalezen_crds::kueue::crds().into_iter();
    crds.map(|crd| {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        (kind, schema(&crd, "v1beta1"), schema(&crd, "v1beta2"))
    })
    .collect()
});

/// Any object of a kind.
fn any_object(kind: &str, version: &str, schema: &Value, seed: u64) -> Value {
    let mut object = any::value(schema, "", &mut Dice::new(seed));
    object["apiVersion"] = json!(format!("kueue.x-k8s.io/{version}"));
    object["kind"] = json!(kind);
    object["metadata"] = json!({ "name": "it", "uid": "1", "labels": { "a": "b" } });
    consistent(&mut object);
    object
}

/// What a schema cannot say, or says only in rules.
fn consistent(object: &mut Value) {
    // The list of checks and the other form are not used together.
    if let Some(Value::Object(spec)) = object.get_mut("spec")
        && spec.contains_key("admissionChecks")
    {
        spec.remove("admissionChecksStrategy");
    }
    // A slice or a domain has a value for each level, and in the form that is the shortest.
    for pod_set in object
        .pointer_mut("/status/admission/podSetAssignments")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let Some(assignment) = pod_set.get_mut("topologyAssignment") else { continue };
        assignment["levels"] = json!(["rack", "host"]);
        if assignment.get("domains").is_some() {
            assignment["domains"] = json!([
                { "count": 1, "values": ["r1", "r1-n1-x"] },
                { "count": 2, "values": ["r1", "r1-n2-x"] },
            ]);
        } else {
            assignment["slices"] = json!([{
                "domainCount": 3,
                "valuesPerLevel": [
                    { "universal": "r1" },
                    { "individual": { "prefix": "r1-n", "roots": ["1", "2", "11"] } },
                ],
                "podCounts": { "universal": 2 },
            }]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_round_trip_from_v1beta2_loses_nothing_and_nothing_is_pruned_on_the_way(seed: u64) {
        for (kind, v1beta1, v1beta2) in KINDS.iter() {
            let object = any_object(kind, "v1beta2", v1beta2, seed);
            let there = convert(object.clone(), Version::V1Beta1).unwrap();
            prop_assert_eq!(&there["apiVersion"], "kueue.x-k8s.io/v1beta1");
            prop_assert_eq!(any::unknown(v1beta1, &there, kind), Vec::<String>::new());
            prop_assert_eq!(convert(there, Version::V1Beta2).unwrap(), object);
        }
    }

    #[test]
    fn a_round_trip_from_v1beta1_loses_nothing_and_nothing_is_pruned_on_the_way(seed: u64) {
        for (kind, v1beta1, v1beta2) in KINDS.iter() {
            let object = any_object(kind, "v1beta1", v1beta1, seed);
            let there = convert(object.clone(), Version::V1Beta2).unwrap();
            prop_assert_eq!(&there["apiVersion"], "kueue.x-k8s.io/v1beta2");
            prop_assert_eq!(any::unknown(v1beta2, &there, kind), Vec::<String>::new());
            prop_assert_eq!(convert(there, Version::V1Beta1).unwrap(), object);
        }
    }
}

fn of(version: &str, kind: &str, rest: Value) -> Value {
    let mut object = json!({
        "apiVersion": format!("kueue.x-k8s.io/{version}"), "kind": kind, "metadata": { "name": "it" },
    });
    let Value::Object(rest) = rest else { panic!("{rest} has no fields") };
    object.as_object_mut().unwrap().extend(rest);
    object
}

#[test]
fn a_cluster_queue_of_old_means_what_it_meant() {
    let old = of(
        "v1beta1",
        "ClusterQueue",
        json!({ "spec": {
            "cohort": "team",
            "admissionChecks": ["a", "b"],
            "flavorFungibility": { "whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor" },
        }}),
    );
    let new = convert(old.clone(), Version::V1Beta2).unwrap();
    assert_eq!(
        new["spec"],
        json!({
            "cohortName": "team",
            "admissionChecksStrategy": { "admissionChecks": [{ "name": "a" }, { "name": "b" }] },
            "flavorFungibility": { "whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor" },
        })
    );
    assert_eq!(convert(new.clone(), Version::V1Beta1).unwrap(), old);

    let mut changed = new;
    changed["spec"]["admissionChecksStrategy"]["admissionChecks"][0]["onFlavors"] = json!(["x"]);
    changed["spec"]["flavorFungibility"]["whenCanBorrow"] = json!("TryNextFlavor");
    let back = convert(changed.clone(), Version::V1Beta1).unwrap();
    assert_eq!(back["spec"]["admissionChecksStrategy"], changed["spec"]["admissionChecksStrategy"]);
    assert_eq!(back["spec"].get("admissionChecks"), None, "what was written since goes before what was kept");
    assert_eq!(back["spec"]["flavorFungibility"], changed["spec"]["flavorFungibility"]);
}

#[test]
fn a_workload_of_old_means_what_it_meant() {
    let old = of(
        "v1beta1",
        "Workload",
        json!({
            "spec": {
                "podSets": [{ "name": "main", "count": 3, "template": {} }],
                "priority": 5,
                "priorityClassName": "high",
                "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
            },
            "status": {
                "accumulatedPastExexcutionTimeSeconds": 7,
                "admission": { "clusterQueue": "cq", "podSetAssignments": [{
                    "name": "main",
                    "topologyAssignment": { "levels": ["host"], "domains": [
                        { "count": 2, "values": ["n1-a"] }, { "count": 1, "values": ["n2-a"] },
                    ]},
                }]},
            },
        }),
    );
    let new = convert(old.clone(), Version::V1Beta2).unwrap();
    assert_eq!(
        new["spec"]["priorityClassRef"],
        json!({ "group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high" })
    );
    assert_eq!(new["status"]["accumulatedPastExecutionTimeSeconds"], 7);
    assert_eq!(
        new["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"],
        json!({ "levels": ["host"], "slices": [{
            "domainCount": 2,
            "valuesPerLevel": [{ "individual": { "prefix": "n", "suffix": "-a", "roots": ["1", "2"] } }],
            "podCounts": { "individual": [2, 1] },
        }]})
    );
    assert_eq!(convert(new, Version::V1Beta1).unwrap(), old);
}

#[test]
fn what_belonged_to_something_that_is_gone_is_not_put_back() {
    let constraints = json!([{ "topology": "rack", "size": 2 }]);
    let request = json!({ "required": "rack", "podsetSliceRequiredTopologyConstraints": constraints });
    let pod_set =
        |name: &str| json!({ "name": name, "count": 1, "template": {}, "topologyRequest": request });
    let new = of("v1beta2", "Workload", json!({ "spec": { "podSets": [pod_set("a"), pod_set("b")] } }));
    let mut old = convert(new, Version::V1Beta1).unwrap();
    old["spec"]["podSets"].as_array_mut().unwrap().remove(0);
    let back = convert(old, Version::V1Beta2).unwrap();
    assert_eq!(back["spec"]["podSets"], json!([pod_set("b")]));
    assert_eq!(back["metadata"], json!({ "name": "it" }));
}

#[test]
fn what_people_write_into_the_annotation_does_no_harm() {
    let annotated = |text: &str| {
        let mut object = of("v1beta1", "Workload", json!({ "spec": { "podSets": [] } }));
        object["metadata"]["annotations"] = json!({ "conversion.scheduling.gen.io/v1beta2": text });
        convert(object, Version::V1Beta2)
    };
    let plain = annotated("{}").unwrap();
    for nonsense in ["", "[]", "nonsense", "{\"spec.active\": false, \"metadata.name\": \"other\"}"] {
        assert_eq!(annotated(nonsense).unwrap(), plain, "{nonsense}");
    }
    let refused = annotated("{\"spec.preemptionGates\": \"nonsense\"}").unwrap_err().to_string();
    assert!(refused.contains("no Workload of v1beta2"), "{refused}");
}

#[test]
fn what_cannot_be_converted_is_refused_in_words() {
    let refused = |object: Value, to| convert(object, to).unwrap_err().to_string();
    assert!(refused(json!(null), Version::V1Beta2).contains("no version"));
    assert!(refused(json!({ "apiVersion": "kueue.x-k8s.io/v1" }), Version::V1Beta2).contains("no version"));
    assert!(refused(of("v1beta1", "Pod", json!({})), Version::V1Beta2).contains("no kind"));
    assert!(
        refused(of("v1beta1", "Workload", json!({ "spec": 1 })), Version::V1Beta2).contains("no Workload")
    );
    let assigned = |assignment: Value| {
        json!({ "status": { "admission": { "clusterQueue": "c", "podSetAssignments": [
            { "name": "main", "topologyAssignment": assignment },
        ]}}})
    };
    let lame = json!({ "levels": ["rack", "host"], "domains": [{ "count": 1, "values": ["r1"] }] });
    let problem = refused(of("v1beta1", "Workload", assigned(lame)), Version::V1Beta2);
    assert!(problem.contains("1 values, and there are 2 levels"), "{problem}");
    let many = json!({ "levels": ["host"], "slices": [{
        "domainCount": 100_001,
        "valuesPerLevel": [{ "individual": { "roots": vec!["n"; 100_001] } }],
        "podCounts": { "universal": 1 },
    }]});
    let problem = refused(of("v1beta2", "Workload", assigned(many)), Version::V1Beta1);
    assert!(problem.contains("100000 domains"), "{problem}");
}

#[test]
fn a_domain_that_is_said_often_is_written_once_with_the_pods_of_all() {
    let slice = json!({
        "domainCount": 50_000_000, "valuesPerLevel": [{ "universal": "n1" }], "podCounts": { "universal": 2 },
    });
    let workload = of(
        "v1beta2",
        "Workload",
        json!({ "status": { "admission": { "clusterQueue": "c", "podSetAssignments": [
            { "name": "main", "topologyAssignment": { "levels": ["host"], "slices": [slice] } },
        ]}}}),
    );
    let old = convert(workload, Version::V1Beta1).unwrap();
    let domains = &old["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"]["domains"];
    assert_eq!(domains, &json!([{ "count": 100_000_000, "values": ["n1"] }]));
}
