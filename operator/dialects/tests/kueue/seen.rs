//! What the operator has seen, and what it would do next.

use serde_json::Value;
use whalezen_core::{
    name::WorkloadKey,
    plan::{Policy, plan},
    workload::Timestamp,
};
use whalezen_dialects::{
    kueue::{
        jobs::{JobKey, Step, kinds},
        objects::Objects,
        settings::Settings,
    },
    write::{Note, Verb, Write},
};

use crate::object::{Object, cluster_queue, flavor, local_queue, namespace};

/// Ten seconds into 2026.
pub const NOW: Timestamp = Timestamp(1_767_225_610_000);

/// The key of a job in `ns`.
pub fn job_key(name: &str) -> JobKey {
    JobKey { kind: "Job", namespace: "ns".into(), name: name.into() }
}

/// The key of an object in `ns`.
pub fn key(object: &Object) -> WorkloadKey {
    WorkloadKey::new("ns", object.0["metadata"]["name"].as_str().unwrap())
}

/// Has these objects seen, in this order.
pub fn see(objects: &mut Objects, object: &Object) {
    match object.0["kind"].as_str().unwrap() {
        "Namespace" => objects.apply_namespace(&object.read()),
        "ResourceFlavor" => objects.apply_flavor(&object.read()),
        "Cohort" => objects.apply_cohort(&object.read()),
        "ClusterQueue" => objects.apply_queue(&object.read()),
        "AdmissionCheck" => objects.apply_check(&object.read()),
        "LocalQueue" => objects.apply_local_queue(&object.read()),
        "WorkloadPriorityClass" => objects.apply_workload_priority_class(&object.read()),
        "PriorityClass" => objects.apply_priority_class(&object.read()),
        "LimitRange" => objects.apply_limit_range(&object.read()),
        "Topology" => objects.apply_topology(&object.read()),
        "Node" => objects.apply_node(&object.read()),
        "RuntimeClass" => objects.apply_runtime_class(&object.read()),
        "Workload" => objects.apply_workload(&object.read()),
        kind if kinds::find(kind).is_some() => objects.apply_job(&object.job()),
        other => panic!("{other}"),
    }
}

/// Flavor `a100`, ClusterQueue `cq` with 8 of it, LocalQueue `lq`, and these.
pub fn seen<const N: usize>(more: [Object; N]) -> Objects {
    seen_with(Settings::default(), more)
}

/// The same, under these settings.
pub fn seen_with<const N: usize>(settings: Settings, more: [Object; N]) -> Objects {
    let mut objects = Objects::new(settings);
    let basis = [namespace("ns"), flavor("a100"), cluster_queue("cq", 8), local_queue("lq", "cq")];
    for object in basis.into_iter().chain(more) {
        see(&mut objects, &object);
    }
    objects.state.settle();
    objects
}

/// The next step of Job `train`.
pub fn next<const N: usize>(more: [Object; N]) -> Step {
    seen(more).next_step(&job_key("train"), NOW)
}

/// The next step of Job `train`, which must be a write.
pub fn written<const N: usize>(more: [Object; N]) -> (Write, Option<Note>) {
    match next(more) {
        Step::Write(write, note) => (*write, note),
        other => panic!("{other:?}"),
    }
}

/// A step in a word.
pub fn word(step: &Step) -> String {
    match step {
        Step::Rest => "rest".to_owned(),
        Step::Create(_) => "create".to_owned(),
        Step::Grow(_, before) => format!("grow after {}", before.name),
        Step::Bind { mark } => format!("bind {mark}"),
        Step::Ungate { mark, room } => format!("ungate {room} of {mark}"),
        Step::Update(_) => "update".to_owned(),
        Step::Restore => "restore".to_owned(),
        Step::Move(..) => "move".to_owned(),
        Step::Stuck(_) => "stuck".to_owned(),
        Step::IfGone { write, .. } => format!("if gone: {}", word(&Step::Write(write.clone(), None))),
        Step::Write(write, _) => word_of(write).to_owned(),
    }
}

fn word_of(write: &Write) -> &'static str {
    let body = &write.body;
    let says = |type_: &str, status: &str| {
        let conditions = body["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|c| c["type"] == type_ && c["status"] == status)
    };
    let holds = !body["status"]["admission"].is_null();
    match (write.target.kind, write.verb) {
        ("Workload", Verb::Delete) => "delete",
        ("Workload", Verb::Apply { manager: "kueue-reclaimable-pods" }) => "reclaim",
        ("Workload", Verb::Apply { .. }) if says("Finished", "True") => "finish",
        ("Workload", Verb::Apply { .. }) if says("DeactivationTarget", "True") => "mark",
        ("Workload", Verb::Apply { .. }) if says("WaitingForReplacementPods", "True") => "ask for pods",
        ("Workload", Verb::Apply { .. }) if says("WaitingForReplacementPods", "False") => "has its pods",
        ("Workload", Verb::Apply { .. }) if says("QuotaReserved", "False") => "release",
        ("Workload", Verb::Apply { .. }) if says("Evicted", "True") && holds => "evict",
        ("Workload", Verb::Apply { .. }) if says("PodsReady", "True") => "ready",
        ("Workload", Verb::Apply { .. }) if says("Admitted", "True") => "let run",
        ("Workload", Verb::Apply { .. }) if says("Requeued", "True") => "let queue",
        ("Workload", Verb::Apply { .. }) if says("Admitted", "False") => "take back",
        ("Workload", Verb::Merge) if body["spec"]["active"] == false => "take out",
        ("Workload", Verb::Merge) if body["status"].get("requeueState").is_some() => "forget",
        ("Workload", Verb::Merge) if body["status"].get("admissionChecks").is_some() => "sync checks",
        ("Workload", Verb::Json) => "resize",
        ("Workload", Verb::Merge) if body["metadata"].get("finalizers").is_some() => "let go",
        ("Workload", Verb::Merge) if !body["spec"]["queueName"].is_null() => "move",
        ("Workload", Verb::Merge) => "reprioritise",
        ("Pod", Verb::Apply { .. }) => "tell",
        ("Pod", Verb::Delete) => "delete pod",
        ("Pod", Verb::Merge) => "free",
        (_, Verb::Merge) if suspends(body) == Some(true) => "suspend",
        (_, Verb::Merge) if suspends(body) == Some(false) => "resume",
        (_, Verb::Json) => "start",
        other => panic!("{other:?} {body}"),
    }
}

/// What a JSON patch puts at this path.
pub fn put_by(write: &Write, path: &str) -> Value {
    let operations = write.body.as_array().into_iter().flatten();
    let there = operations.filter(|operation| operation["path"] == path);
    there.map(|operation| operation["value"].clone()).next_back().unwrap_or_default()
}

/// Whether a patch suspends a job, if it says so.
fn suspends(body: &Value) -> Option<bool> {
    ["/spec/suspend", "/spec/runPolicy/suspend"].into_iter().find_map(|at| body.pointer(at)?.as_bool())
}

/// The admission of a Workload that waits, as planned.
pub fn admitted(objects: &mut Objects) -> (Write, Vec<Note>) {
    objects.state.settle();
    let plan = plan(&objects.state, NOW, &Policy::default());
    assert_eq!(plan.admit.len(), 1, "{plan:?}");
    objects.admission(&plan.admit[0]).unwrap()
}

/// A condition as it is written.
pub fn condition(type_: &str, status: &str, reason: &str, message: &str, at: &str) -> Value {
    serde_json::json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": at, "observedGeneration": 1,
    })
}
