//! Elastic jobs: what is done when a job grows or shrinks while it runs.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use whalezen_dialects::kueue::jobs::{Step, build, slices};

use crate::{
    golden::assert_write,
    object::{Object, escaped, job},
    seen::{NOW, job_key, key, next, put_by, see, seen, word, written},
};

const ELASTIC: &str = "kueue.x-k8s.io/elastic-job";
const CHAIN: &str = "kueue.x-k8s.io/workload-slice-name";
const REPLACES: &str = "kueue.x-k8s.io/workload-slice-replacement-for";

fn annotate(of: Object, key: &str, value: &str) -> Object {
    of.put(&format!("/metadata/annotations/{}", escaped(key)), json!(value))
}

/// The elastic job with so many pods.
fn elastic(pods: i32) -> Object {
    let job = annotate(job("train"), ELASTIC, "true");
    job.put("/spec/parallelism", json!(pods)).put("/spec/completions", Value::Null)
}

/// It runs by the chain that begins with `first`, with so many pods ready.
fn running(pods: i32, ready: i32) -> Object {
    let job = elastic(pods).injected("first", "a100").running(pods).put("/status/ready", json!(ready));
    job.put(&format!("/spec/template/metadata/annotations/{}", escaped(CHAIN)), json!("first"))
}

/// Its Workload of this name for so many pods, made at this second.
fn slice(name: &str, pods: i32, second: i32) -> Object {
    let of = annotate(crate::object::workload("train"), ELASTIC, "true");
    let mut of = annotate(of, CHAIN, "first")
        .put("/metadata/name", json!(name))
        .put("/metadata/creationTimestamp", json!(format!("2026-01-01T00:00:0{second}Z")))
        .uid(&format!("uid-{name}"));
    of.0["spec"]["podSets"][0]["count"] = json!(pods);
    of
}

fn held(of: Object) -> Object {
    let pods = of.0["spec"]["podSets"][0]["count"].clone();
    let mut of = of.admitted("a100");
    let given = &mut of.0["status"]["admission"]["podSetAssignments"][0];
    given["count"] = pods.clone();
    given["resourceUsage"] = json!({ "nvidia.com/gpu": pods.to_string() });
    of
}

fn first(pods: i32) -> Object {
    slice("first", pods, 1)
}

fn second(pods: i32) -> Object {
    annotate(slice("second", pods, 2), REPLACES, "ns/first")
}

fn target(step: &Step) -> String {
    match step {
        Step::Write(write, _) => write.target.name.clone(),
        _ => String::new(),
    }
}

#[test]
fn the_first_workload_of_a_chain_says_so_and_is_named_after_the_jobs_generation() {
    let made = |job: &Object| build::workload(&job.whole(), (None, 0));
    let workload = made(&elastic(2));
    let annotations = workload.metadata.annotations.unwrap();
    assert_eq!(annotations[ELASTIC], "true");
    assert_eq!(Some(&annotations[CHAIN]), workload.metadata.name.as_ref());
    let grown = made(&elastic(3).put("/metadata/generation", json!(2)));
    assert_ne!(grown.metadata.name, workload.metadata.name);
    assert_eq!(made(&job("train")).metadata.annotations, None);
}

#[test]
fn its_successor_takes_its_place_with_the_same_pods_and_more_of_them() {
    let next = build::successor(&running(5, 5).whole(), &held(first(2)).read(), (None, 0));
    let annotations = next.metadata.annotations.unwrap();
    assert_eq!((annotations[REPLACES].as_str(), annotations[CHAIN].as_str()), ("ns/first", "first"));
    assert_eq!(next.spec.pod_sets[0].count, 5);
    let name = next.metadata.name.unwrap();
    let again = build::successor(&running(5, 5).whole(), &slice(&name, 2, 1).read(), (None, 0));
    assert_ne!(again.metadata.name, Some(name), "not even if it is of the same generation");
    let template = serde_json::to_value(&next.spec.pod_sets[0].template).unwrap();
    assert_eq!(template, first(2).0["spec"]["podSets"][0]["template"], "without what admission put there");
}

#[test]
fn it_starts_with_gated_pods_that_carry_the_chains_name() {
    let (write, _) = written([held(second(2)), elastic(2)]);
    assert_eq!(put_by(&write, "/spec/template/spec/schedulingGates"), json!([{ "name": ELASTIC }]));
    let annotations = put_by(&write, "/spec/template/metadata/annotations");
    assert_eq!(
        (&annotations["kueue.x-k8s.io/workload"], &annotations[CHAIN]),
        (&json!("second"), &json!("first"))
    );
    let both = json!([{ "name": "mine" }, { "name": ELASTIC }]);
    let gated = elastic(2).put("/spec/template/spec/schedulingGates", both);
    let (write, _) = written([held(second(2)), gated]);
    assert_eq!(put_by(&write, "/spec/template/spec/schedulingGates"), Value::Null);
}

#[test]
fn a_job_that_wants_more_gets_a_second_workload_and_runs_on() {
    assert_eq!(word(&next([held(first(2)), running(5, 2)])), "grow after first");
    assert_eq!(word(&next([held(first(2)), second(5), running(5, 2)])), "ungate 2 of first");
    assert_eq!(next([held(first(2)), second(5), running(5, 5)]), Step::Rest);
    // It changes its mind before the second was admitted.
    let step = next([held(first(2)), second(5), running(7, 2)]);
    assert_eq!((word(&step).as_str(), target(&step).as_str()), ("resize", "second"));
    let Step::Write(write, None) = step else { panic!() };
    let body = json!([
        { "op": "replace", "path": "/metadata/resourceVersion", "value": "1" },
        { "op": "replace", "path": "/spec/podSets/0/count", "value": 7 },
    ]);
    assert_write(&write, "Workload/second", whalezen_dialects::write::Verb::Json, &body);
}

#[test]
fn when_the_second_is_admitted_the_first_is_over_and_more_pods_may_go() {
    let step = next([held(first(2)), held(second(5)), running(5, 2)]);
    assert_eq!((word(&step).as_str(), target(&step).as_str()), ("finish", "first"));
    let Step::Write(write, Some(note)) = step else { panic!() };
    let condition = &write.body["status"]["conditions"][0];
    assert_eq!(condition["reason"], "WorkloadSliceReplaced");
    let message = "Replaced to accommodate a workload (UID: uid-second, JobUID: uid-train) due to workload slice aggregation";
    assert_eq!((condition["message"].as_str(), note.message.as_str()), (Some(message), message));
    let over = || first(2).condition("Finished", true, "WorkloadSliceReplaced", "");
    let step = next([over(), held(second(5)), running(5, 2)]);
    assert_eq!((word(&step).as_str(), target(&step).as_str()), ("let go", "first"));
    let over = || over().finalizers([]);
    assert_eq!(word(&next([over(), held(second(5)), running(5, 2)])), "ungate 5 of first");
    assert_eq!(next([over(), held(second(5)), running(5, 5)]), Step::Rest);
}

#[test]
fn a_job_that_shrinks_gives_back_what_its_pods_no_longer_hold() {
    let shrinking = running(1, 2).put("/status/active", json!(2));
    assert_eq!(next([held(first(2)), shrinking]), Step::Rest, "its pods are still there");
    let step = next([held(first(2)), running(1, 1)]);
    assert_eq!((word(&step).as_str(), target(&step).as_str()), ("resize", "first"));
    let mut shrunk = held(first(2));
    shrunk.0["spec"]["podSets"][0]["count"] = json!(1);
    assert_eq!(next([shrunk.clone(), running(1, 1)]), Step::Rest);
    let objects = seen([shrunk]);
    let workload = objects.state.workload(&key(&first(2))).unwrap();
    let usage = workload.usage(workload.admission().unwrap());
    assert_eq!(usage.into_values().map(|amount| amount.0).collect::<Vec<_>>(), [1]);
}

#[test]
fn one_that_waits_follows_the_job_whichever_way_it_goes() {
    assert_eq!(word(&next([first(2), elastic(5)])), "update");
    assert_eq!(word(&next([first(2), elastic(1)])), "update");
    assert_eq!(next([first(2), elastic(2)]), Step::Rest);
    assert_eq!(word(&next([first(2), elastic(2).running(2)])), "suspend", "it does not run without quota");
}

#[test]
fn other_pods_make_it_another_job_as_anywhere() {
    let other = |job: Object| {
        let mut job = job;
        job.0["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
        job
    };
    assert_eq!(word(&next([held(first(2)), other(elastic(2))])), "delete");
    assert_eq!(word(&next([first(2), other(elastic(2))])), "update");
}

#[test]
fn an_evicted_job_stops_before_anything_of_it_is_given_back() {
    let evicted = || held(first(2)).condition("Evicted", true, "Preempted", "make room");
    assert_eq!(word(&next([evicted(), running(2, 2)])), "suspend");
    assert_eq!(
        word(&next([evicted(), second(5), running(5, 2)])),
        "suspend",
        "and so it does while it would grow"
    );
    let rest = || elastic(5);
    let step = next([evicted(), second(5), rest()]);
    assert_eq!((word(&step).as_str(), target(&step).as_str()), ("finish", "first"));
    let over = first(2).condition("Finished", true, "WorkloadSliceReplaced", "").finalizers([]);
    assert_eq!(next([over, second(5), rest()]), Step::Rest, "the second waits for all of its pods");
    assert_eq!(word(&next([evicted(), elastic(2)])), "release", "alone it comes back");
}

#[test]
fn when_the_job_ends_all_of_its_workloads_do() {
    let ended = || running(5, 0).ended("Complete", "done");
    let step = next([held(first(2)), second(5), ended()]);
    assert_eq!((word(&step).as_str(), target(&step).as_str()), ("finish", "second"));
    let over = second(5).condition("Finished", true, "Succeeded", "").finalizers([]);
    let step = next([held(first(2)), over, ended()]);
    assert_eq!((word(&step).as_str(), target(&step).as_str()), ("finish", "first"));
}

#[test]
fn whoever_waits_for_its_place_is_looked_at_when_it_changes() {
    let mut objects = seen([]);
    for object in [running(5, 2), held(first(2))] {
        see(&mut objects, &object);
    }
    objects.take_due();
    see(&mut objects, &second(5));
    assert!(objects.take_due().jobs.contains(&job_key("train")));
    objects.state.settle();
    let (write, _) = crate::seen::admitted(&mut objects);
    let given = &write.body["status"]["admission"]["podSetAssignments"][0];
    assert_eq!((&given["count"], &given["resourceUsage"]), (&json!(5), &json!({ "nvidia.com/gpu": "5" })));
    assert_eq!(word(&objects.next_step(&job_key("train"), NOW)), "ungate 2 of first", "until it is written");
}

fn pod(name: &str, chain: &str, gated: bool, phase: &str) -> Pod {
    let names =
        if gated { json!([{ "name": "mine" }, { "name": ELASTIC }]) } else { json!([{ "name": "mine" }]) };
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "7",
            "annotations": { CHAIN: chain },
        },
        "spec": { "containers": [], "schedulingGates": names },
        "status": { "phase": phase },
    }))
    .unwrap()
}

#[test]
fn as_many_pods_pass_their_gate_as_there_is_quota_for() {
    let pods = [
        pod("d", "first", true, "Pending"),
        pod("b", "first", true, "Pending"),
        pod("c", "first", true, "Pending"),
        pod("a", "first", false, "Running"),
        pod("e", "first", false, "Succeeded"),
        pod("f", "another", true, "Pending"),
    ];
    let names = |room| {
        let writes = slices::open_gates(&pods, "first", room);
        writes.into_iter().map(|write| write.target.name).collect::<Vec<_>>()
    };
    assert_eq!(names(0), [""; 0]);
    assert_eq!(names(1), [""; 0], "one runs");
    assert_eq!(names(3), ["b", "c"]);
    assert_eq!(names(9), ["b", "c", "d"]);
    let write = slices::open_gates(&pods, "first", 2).remove(0);
    let body = json!({
        "metadata": { "uid": "uid-b", "resourceVersion": "7" },
        "spec": { "schedulingGates": [{ "name": "mine" }] },
    });
    assert_write(&write, "Pod/b", whalezen_dialects::write::Verb::Merge, &body);
}

#[test]
fn a_successor_that_still_has_to_be_checked_takes_over_only_when_it_may_run() {
    let mut reserved = held(second(5));
    let conditions = reserved.0["status"]["conditions"].as_array_mut().unwrap();
    conditions.retain(|condition| condition["type"] != "Admitted");
    let waiting = || reserved.clone().condition("Admitted", false, "NoReservation", "");
    let step = next([held(first(2)), waiting(), running(5, 2)]);
    assert_ne!(target(&step), "first", "{step:?}");
    let evicted = waiting().condition("Evicted", true, "AdmissionCheck", "");
    let step = next([held(first(2)), evicted, running(5, 2)]);
    assert_eq!((word(&step).as_str(), target(&step).as_str()), ("release", "second"), "and the job runs on");
}

#[test]
fn a_workload_that_is_over_gives_its_name_up_to_the_next_one() {
    let name = build::workload(&elastic(2).whole(), (None, 0)).metadata.name.unwrap();
    let over = |of: Object| of.condition("Finished", true, "OutOfSync", "").finalizers([]);
    let step = next([over(slice(&name, 2, 1)), elastic(2)]);
    assert_eq!((word(&step).as_str(), target(&step)), ("delete", name.clone()));
    assert_eq!(word(&next([over(slice("another", 2, 1)), elastic(2)])), "create");
    let step = next([over(slice(&name, 2, 1)), held(first(1)), running(2, 1)]);
    assert_eq!((word(&step).as_str(), target(&step)), ("delete", name));
}
