//! Pods that are queued by themselves: gated, let go, stopped and seen to their end.

use serde_json::{Value, json};
use whalezen_dialects::{
    kueue::{
        jobs::{Step, build, kinds},
        objects::Objects,
        settings::{Frameworks, Settings},
    },
    write::Verb,
};

use crate::{
    kinds::{admitted_workload, next, operator, patched, workload_of, write},
    object::{Object, QUEUE_NAME},
    samples::template,
    seen::{NOW, put_by, see, word},
};

const MANAGED: &str = "kueue.x-k8s.io/managed";
const GATE: &str = "kueue.x-k8s.io/admission";

/// Pod `train` with one GPU, as the admission policy leaves it.
pub fn pod() -> Object {
    let mut spec = template()["spec"].clone();
    spec["schedulingGates"] = json!([{ "name": GATE }]);
    Object(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "train", "namespace": "ns", "uid": "uid-train", "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": { QUEUE_NAME: "lq", MANAGED: "true" },
            "finalizers": [MANAGED],
        },
        "spec": spec, "status": { "phase": "Pending" },
    }))
}

/// The pod once it runs by its Workload.
pub fn running() -> Object {
    let start = write(step([pod(), admitted_workload("Pod", &pod())]));
    patched(&pod(), &start).version(5).put("/status/phase", json!("Running"))
}

fn step<const N: usize>(objects: [Object; N]) -> Step {
    next("Pod", &operator(objects))
}

fn evicted() -> Object {
    admitted_workload("Pod", &pod()).version(3).condition("Evicted", true, "Preempted", "Make room")
}

#[test]
fn a_gated_pod_gets_a_workload_of_one_pod_by_kueues_name() {
    assert_eq!(word(&step([pod()])), "create");
    let workload = build::workload(&pod().whole(), (None, 0));
    let name = build::name("Pod", "", "train", "uid-train");
    assert!(name.starts_with("pod-train-"), "{name}");
    assert_eq!(workload.metadata.name, Some(name));
    let owner = &workload.metadata.owner_references.unwrap()[0];
    assert_eq!((&*owner.api_version, &*owner.kind, owner.controller), ("v1", "Pod", Some(true)));
    let [set] = workload.spec.pod_sets.try_into().unwrap();
    assert_eq!((&*set.name, set.count, set.template.metadata), ("main", 1, None));
    assert_eq!(word(&step([pod(), workload_of(&pod())])), "rest");
}

#[test]
fn only_pods_that_were_gated_at_their_creation_are_queued_and_only_where_that_is_asked_for() {
    let unmarked = pod().put("/metadata/labels", json!({ QUEUE_NAME: "lq" }));
    let nowhere = pod().put("/metadata/labels", json!({ MANAGED: "true" }));
    for other in [unmarked, nowhere] {
        assert_eq!(word(&step([other])), "rest");
    }
    for (frameworks, want) in [(Frameworks::default(), "rest"), (Frameworks([&kinds::POD].into()), "create")]
    {
        let mut objects = Objects::new(Settings { frameworks, ..Settings::default() });
        for object in [crate::object::namespace("ns"), pod()] {
            see(&mut objects, &object);
        }
        assert_eq!(word(&next("Pod", &objects)), want);
    }
}

#[test]
fn an_admitted_pod_is_let_past_our_gate_alone_onto_its_flavors_nodes() {
    let other = json!([{ "name": "example.com/other" }, { "name": GATE }]);
    let gated = pod().put("/spec/schedulingGates", other).put("/spec/nodeSelector", json!({ "zone": "a" }));
    let start = write(step([gated.clone(), admitted_workload("Pod", &gated)]));
    assert_eq!((start.target.kind, start.verb), ("Pod", Verb::Json));
    assert_eq!(start.body[0]["path"], "/metadata/resourceVersion");
    assert_eq!(put_by(&start, "/spec/nodeSelector"), json!({ "zone": "a", "gpu": "a100" }));
    assert_eq!(put_by(&start, "/spec/schedulingGates"), json!([{ "name": "example.com/other" }]));
    let labels = put_by(&start, "/metadata/labels");
    assert_eq!((&labels[QUEUE_NAME], &labels["kueue.x-k8s.io/podset"]), (&json!("lq"), &json!("main")));
    assert_eq!(word(&step([running(), admitted_workload("Pod", &pod())])), "rest");
}

#[test]
fn marks_that_its_author_put_on_a_pod_keep_it_from_nothing() {
    let marked = pod().put("/metadata/annotations", json!({ "kueue.x-k8s.io/workload": "another" }));
    assert_eq!(word(&step([marked.clone(), admitted_workload("Pod", &marked)])), "start");
}

#[test]
fn a_pod_that_has_to_stop_says_why_is_deleted_and_holds_its_quota_until_it_is_gone() {
    let told = write(step([running(), evicted()]));
    assert_eq!((told.status, told.verb), (true, Verb::Apply { manager: "kueue" }));
    assert_eq!(told.body["metadata"]["uid"], "uid-train");
    let condition = &told.body["status"]["conditions"][0];
    let said = ["type", "status", "reason", "message"].map(|field| condition[field].as_str().unwrap());
    assert_eq!(said, ["TerminationTarget", "True", "WorkloadEvicted", "Make room"]);

    let stopping = running().put("/status/conditions", told.body["status"]["conditions"].clone());
    let deleted = write(step([stopping.clone(), evicted()]));
    assert_eq!((deleted.verb, &deleted.body), (Verb::Delete, &json!({ "uid": "uid-train" })));

    let going = stopping.deleting();
    assert_eq!(word(&step([going.clone(), evicted()])), "free");
    assert_eq!(word(&step([going.put("/metadata/finalizers", Value::Null), evicted()])), "rest");
}

#[test]
fn a_gated_pod_whose_workload_was_evicted_only_waits_again() {
    assert_eq!(word(&step([pod(), evicted()])), "release");
}

#[test]
fn a_pod_that_runs_without_quota_is_stopped() {
    for (objects, reason) in [
        (operator([running()]), "NoMatchingWorkload"),
        (operator([running(), workload_of(&pod())]), "NotAdmitted"),
        (operator([running(), admitted_workload("Pod", &pod()).deleting()]), "WorkloadDeleted"),
    ] {
        let told = write(next("Pod", &objects));
        assert_eq!(told.body["status"]["conditions"][0]["reason"], reason);
    }
}

#[test]
fn a_workload_finishes_as_its_pod_ends_and_then_lets_the_pod_go() {
    for (phase, reason) in [("Succeeded", "Succeeded"), ("Failed", "Failed")] {
        let ended = running().put("/status/phase", json!(phase)).put("/status/message", json!("the end"));
        let finish = write(step([ended.clone(), admitted_workload("Pod", &pod())]));
        let condition = &finish.body["status"]["conditions"][0];
        assert_eq!((&condition["reason"], &condition["message"]), (&json!(reason), &json!("the end")));
        let finished =
            admitted_workload("Pod", &pod()).version(4).condition("Finished", true, reason, "the end");
        let free = write(step([ended.clone(), finished.clone()]));
        assert_eq!((free.target.kind, free.verb), ("Pod", Verb::Merge));
        assert_eq!(free.body, json!({ "metadata": { "resourceVersion": "5", "finalizers": null } }));
        let freed = ended.put("/metadata/finalizers", Value::Null);
        assert_eq!(word(&step([freed, finished])), "let go");
    }
}

#[test]
fn a_pod_that_is_deleted_is_let_go_and_other_finalizers_stay() {
    let gone = pod().deleting().finalizers(["example.com/other", MANAGED]);
    for objects in [operator([gone.clone()]), operator([gone.clone(), workload_of(&pod())])] {
        let free = write(objects.next_step(&crate::kinds::key("Pod", "train"), NOW));
        assert_eq!(free.body["metadata"]["finalizers"], json!(["example.com/other"]));
    }
}
