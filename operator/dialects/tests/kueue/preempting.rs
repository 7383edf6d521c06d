//! What is written and said when somebody has to stop so that another fits.

use serde_json::{Value, json};
use whalezen_core::plan::{Policy, plan};
use whalezen_dialects::kueue::objects::Objects;

use crate::{
    object::{cluster_queue, flavor, local_queue, namespace, workload},
    seen::{NOW, key, see},
};

/// A queue of two GPUs all of which the victim holds, and one of a higher priority who wants them. Gives what is seen
/// after the plan for it.
fn planned() -> Objects {
    let mut objects = Objects::default();
    for object in [
        flavor("a100"),
        cluster_queue("cq", 2).put("/spec/preemption", json!({ "withinClusterQueue": "LowerPriority" })),
        local_queue("lq", "cq"),
        namespace("ns"),
        workload("victim").version(11).uid("v-uid").admitted("a100"),
        workload("preemptor").version(12).uid("p-uid").put("/spec/priority", json!(9)),
    ] {
        see(&mut objects, &object);
    }
    objects.state.settle();
    let plan = plan(&objects.state, NOW, &Policy::default());
    objects.state.follow(&plan, NOW, &Policy::default());
    objects
}

const MESSAGE: &str = "Preempted to accommodate a workload (UID: p-uid, JobUID: uid-preemptor) due to prioritization in \
                       the ClusterQueue; preemptor path: /cq; preemptee path: /cq";

fn condition_of<'a>(write: &'a Value, type_: &str) -> &'a Value {
    let all = write.pointer("/status/conditions").and_then(Value::as_array).expect("conditions");
    all.iter().find(|condition| condition["type"] == type_).expect("the condition")
}

#[test]
fn a_victim_is_told_why_in_one_write_that_leaves_it_its_quota() {
    let objects = planned();
    let victim = key(&workload("victim"));
    let (write, notes) = objects.eviction(&victim, NOW).expect("it is planned");
    for (type_, reason) in [("Evicted", "Preempted"), ("Preempted", "InClusterQueue")] {
        let condition = condition_of(&write.body, type_);
        assert_eq!(condition["status"], "True", "{type_}");
        assert_eq!(condition["reason"], reason, "{type_}");
        assert_eq!(condition["message"], MESSAGE, "{type_}");
    }
    for kept in ["QuotaReserved", "Admitted"] {
        assert_eq!(condition_of(&write.body, kept)["status"], "True", "{kept}");
    }
    assert_eq!(write.body.pointer("/status/admission/clusterQueue"), Some(&json!("cq")));
    assert_eq!(write.body.pointer("/metadata/resourceVersion"), Some(&json!("11")));
    let told: Vec<_> = notes.iter().map(|note| (note.uid.as_str(), &*note.reason)).collect();
    assert_eq!(
        told,
        [("v-uid", "EvictedDueToPreempted"), ("v-uid", "Preempted"), ("p-uid", "PreemptedWorkload")]
    );
}

#[test]
fn a_preemptor_that_is_gone_before_anybody_was_told_evicts_nobody() {
    let mut objects = planned();
    objects.delete_workload(&key(&workload("preemptor")));
    assert_eq!(objects.eviction(&key(&workload("victim")), NOW), None);
    objects.state.settle();
    assert_eq!(objects.state.audit(), Ok(()));
}

#[test]
fn whose_object_says_already_that_it_stops_is_not_told_again() {
    let mut objects = planned();
    let told = workload("victim").version(13).uid("v-uid").admitted("a100").condition(
        "Evicted",
        true,
        "Preempted",
        MESSAGE,
    );
    see(&mut objects, &told);
    assert_eq!(objects.eviction(&key(&told), NOW), None);
    assert_eq!(objects.state.leaving().count(), 1);
}
