//! Pods that are lost with their nodes: their jobs do not wait for them.

use std::time::Duration;

use serde_json::{Value, json};
use whalezen_core::{name::PodKey, workload::Timestamp};
use whalezen_dialects::kueue::{
    jobs::{JobKey, Step, kinds},
    objects::Objects,
    settings::{Frameworks, LostAfter, Settings},
};

use crate::{
    families::part,
    kinds::admitted_workload,
    object::{Object, job, train, workload},
    pods_groups::{admitted_group, runs, two},
    pods_plain,
    samples::of,
    seen::{NOW, admitted, job_key, see, seen, seen_with, word},
};

/// How long a node may be not ready.
const PATIENCE: Duration = Duration::from_secs(5);

fn at(second: i64) -> Timestamp {
    Timestamp(NOW.0 - 10_000 + second * 1000)
}

fn time(second: u32) -> Value {
    json!(format!("2026-01-01T00:00:{second:02}Z"))
}

fn node(ready: &str, since: u32, taints: &Value) -> Object {
    Object(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" }, "spec": { "taints": taints },
        "status": { "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": time(since) }] },
    }))
}

/// A pod of Job `train` on this node.
pub fn pod(name: &str, node: &str) -> Object {
    let owner = json!([{
        "apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train", "controller": true,
    }]);
    Object(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "ownerReferences": owner },
        "spec": { "nodeName": node, "containers": [] },
        "status": { "phase": "Running" },
    }))
}

/// It is being deleted, and had two seconds to end until then.
pub fn deleted(pod: Object, until: u32) -> Object {
    pod.put("/metadata/deletionTimestamp", time(until)).put("/metadata/deletionGracePeriodSeconds", json!(2))
}

/// Job `train`, which was stopped, and of which a pod is not over.
fn stopped() -> Object {
    job("train").put("/status/terminating", json!(1))
}

fn evicted() -> Object {
    workload("train").admitted("a100").condition("Evicted", true, "Preempted", "Make room")
}

fn operator(objects: &[Object], pods: &[Object]) -> Objects {
    let frameworks = [&kinds::JOB, &kinds::POD].into_iter().chain(kinds::find("JobSet"));
    let settings = Settings {
        lost_after: LostAfter(PATIENCE),
        frameworks: Frameworks(frameworks.collect()),
        ..Settings::default()
    };
    let mut operator = seen_with(settings, []);
    for object in objects {
        see(&mut operator, object);
    }
    for pod in pods {
        operator.apply_pod(&pod.read());
    }
    operator
}

fn step(operator: &Objects) -> String {
    word(&operator.next_step(&job_key("train"), NOW))
}

#[test]
fn a_pod_is_lost_when_its_node_was_not_ready_for_long_and_at_once_when_that_is_out_of_service() {
    let gone = json!([{ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" }]);
    let none = json!([]);
    for (node, until, next, wakes) in [
        (Some(node("True", 0, &none)), 1, "rest", None),
        (Some(node("False", 4, &none)), 6, "release", None),
        (Some(node("Unknown", 5, &none)), 6, "release", None),
        (Some(node("Unknown", 7, &none)), 6, "rest", Some(at(12))),
        (Some(node("False", 0, &none)), 11, "rest", Some(at(11))),
        (Some(node("True", 0, &gone)), 12, "release", None),
        (None, 6, "rest", Some(at(11))),
        (None, 5, "release", None),
    ] {
        let objects: Vec<Object> = node.clone().into_iter().chain([stopped(), evicted()]).collect();
        let operator = operator(&objects, &[deleted(pod("p", "n"), until)]);
        assert_eq!(step(&operator), next, "{node:?} {until}");
        assert_eq!(operator.job_wakes(&job_key("train"), NOW), wakes, "{node:?} {until}");
    }
    let running = operator(&[node("False", 0, &none), stopped(), evicted()], &[pod("p", "n")]);
    assert_eq!(step(&running), "rest", "nobody deletes it");
}

#[test]
fn a_pod_that_can_still_end_holds_the_quota_whatever_its_job_says() {
    let objects = [node("False", 0, &json!([])), stopped(), evicted()];
    let pods = [deleted(pod("p", "n"), 6), deleted(pod("q", "other"), 6)];
    let mut operator = operator(&objects, &pods);
    see(
        &mut operator,
        &Object(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "other" },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        })),
    );
    assert_eq!(step(&operator), "rest");
    operator.take_due();
    operator.delete_pod(&PodKey::new("ns", "q"));
    assert!(operator.take_due().jobs.contains(&job_key("train")), "its turn comes when that one is gone");
    assert_eq!(step(&operator), "release");
}

#[test]
fn it_is_a_jobs_turn_when_something_befalls_a_node_on_which_a_pod_of_it_is_being_deleted() {
    let none = json!([]);
    let mut operator = operator(&[node("True", 0, &none), stopped()], &[pod("p", "n")]);
    let due = |operator: &mut Objects| operator.take_due().jobs.contains(&job_key("train"));
    assert!(due(&mut operator));
    see(&mut operator, &node("False", 9, &none));
    assert!(!due(&mut operator), "nothing is being deleted");
    operator.apply_pod(&deleted(pod("p", "n"), 6).read());
    assert!(due(&mut operator));
    see(&mut operator, &node("False", 9, &none));
    assert!(!due(&mut operator), "nothing new");
    see(&mut operator, &node("True", 9, &none));
    assert!(due(&mut operator));
    operator.delete_node(&"n".into());
    assert!(due(&mut operator));
}

#[test]
fn quota_is_given_back_with_a_word_about_the_lost_and_the_next_admission_takes_it_back() {
    let objects = [node("False", 0, &json!([])), stopped(), evicted()];
    let operator = operator(&objects, &[deleted(pod("p", "n"), 6)]);
    let Step::Write(write, note) = operator.next_step(&job_key("train"), NOW) else { panic!("it rests") };
    let conditions = write.body["status"]["conditions"].as_array().unwrap();
    let told = conditions.iter().find(|condition| condition["type"] == "PodsLost").unwrap();
    assert_eq!((&told["status"], &told["reason"]), (&json!("True"), &json!("NodeFailures")));
    assert!(told["message"].as_str().unwrap().ends_with("node(s): n"), "{told}");
    let note = note.unwrap();
    assert_eq!((note.reason.as_ref(), note.warning), ("PodsLost", true));
    assert_eq!(json!(note.message), told["message"]);

    let waits = workload("train").condition("PodsLost", true, "NodeFailures", "The end");
    let (write, _) = admitted(&mut seen([waits]));
    let conditions = write.body["status"]["conditions"].as_array().unwrap();
    let told = conditions.iter().find(|condition| condition["type"] == "PodsLost").unwrap();
    assert_eq!((&told["status"], &told["message"]), (&json!("False"), &json!("Previously: The end")));
}

#[test]
fn a_template_is_put_back_while_a_pod_is_lost() {
    let stopped = stopped().injected(&train(), "a100");
    let objects = [node("False", 0, &json!([])), stopped.clone(), evicted()];
    let operator = operator(&objects, &[deleted(pod("p", "n"), 6)]);
    assert_eq!(step(&operator), "restore");
    let lost = operator.lost(&job_key("train"), NOW).pods.len();
    let of = evicted().read();
    assert!(stopped.job().restore(&of, lost).is_some());
    assert!(stopped.job().restore(&of, 0).is_none(), "it is not over for the job controller");
    assert!(stopped.put("/status/terminating", json!(2)).job().restore(&of, lost).is_none());
}

#[test]
fn a_job_whose_end_is_settled_is_over_when_only_lost_pods_are_left() {
    let mut ends = job("train").injected(&train(), "a100").running(0).put("/status/terminating", json!(1));
    ends.0["status"]["conditions"] =
        json!([{ "type": "FailureTarget", "status": "True", "message": "Too many" }]);
    let admitted = workload("train").admitted("a100");
    let objects = |ready| [node(ready, 0, &json!([])), ends.clone(), admitted.clone()];
    let pods = [deleted(pod("p", "n"), 6)];
    assert_eq!(step(&operator(&objects("True"), &pods)), "rest");
    assert_eq!(step(&operator(&objects("False"), &pods)), "finish");
}

#[test]
fn pods_of_what_a_job_made_are_its() {
    let set = of("JobSet");
    let suspended = set.clone().put("/spec/suspend", json!(true));
    let evicted = admitted_workload("JobSet", &set).version(8).condition("Evicted", true, "Preempted", "");
    let part = part("uid-train").uid("uid-part").put("/status/terminating", json!(1));
    let mut pod = deleted(pod("p", "n"), 6);
    pod.0["metadata"]["ownerReferences"][0]["uid"] = json!("uid-part");
    let step = |ready| {
        let objects = [node(ready, 0, &json!([])), suspended.clone(), part.clone(), evicted.clone()];
        let operator = operator(&objects, std::slice::from_ref(&pod));
        word(&operator.next_step(&JobKey { kind: "JobSet", ..job_key("train") }, NOW))
    };
    assert_eq!((step("True"), step("False")), ("rest".to_owned(), "release".to_owned()));
}

#[test]
fn a_pod_that_is_queued_by_itself_has_failed_when_it_is_lost() {
    let running = pods_plain::running().put("/spec/nodeName", json!("n"));
    let pod = deleted(running, 6);
    let admitted = admitted_workload("Pod", &pods_plain::pod()).version(3);
    let objects = [pod.clone().finalizers([]), admitted];
    let mut operator = operator(&objects, &[pod]);
    let step = |operator: &Objects| operator.next_step(&JobKey { kind: "Pod", ..job_key("train") }, NOW);
    see(&mut operator, &node("True", 0, &json!([])));
    assert_eq!(word(&step(&operator)), "rest");
    see(&mut operator, &node("False", 0, &json!([])));
    let Step::Write(write, _) = step(&operator) else { panic!("it rests") };
    let finished = &write.body["status"]["conditions"][0];
    assert_eq!((&finished["type"], &finished["reason"]), (&json!("Finished"), &json!("Failed")));
}

#[test]
fn a_group_asks_for_pods_in_place_of_those_that_are_lost() {
    let [a, b] = two().map(|pod| runs(&pod));
    let b = deleted(b.put("/spec/nodeName", json!("n")), 6);
    let objects = [a.clone(), b.clone(), admitted_group()];
    let mut operator = operator(&objects, &[a, b]);
    let step = |operator: &Objects| {
        let key = JobKey { kind: "PodGroup", namespace: "ns".into(), name: "g".into() };
        word(&operator.next_step(&key, NOW))
    };
    see(&mut operator, &node("True", 0, &json!([])));
    assert_eq!(step(&operator), "rest");
    see(&mut operator, &node("False", 0, &json!([])));
    assert_eq!(step(&operator), "ask for pods");
}
