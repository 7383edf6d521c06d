//! Jobs that other jobs make.

use serde_json::json;
use whalezen_core::name::WorkloadKey;
use whalezen_dialects::kueue::{
    jobs::kinds,
    objects::Objects,
    settings::{Frameworks, Settings},
};

use crate::{
    kinds::{admitted_workload, at_rest, key, next, operator, patched, workload_of, write},
    object::{Object, QUEUE_NAME, job, namespace},
    samples::of,
    seen::{NOW, see, word},
};

/// A Job that a `JobSet` made for one of its parts.
fn part(of: &str) -> Object {
    let owner = json!([{
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "train", "uid": of, "controller": true,
    }]);
    job("part").put("/metadata/ownerReferences", owner)
}

#[test]
fn what_a_queued_job_made_is_not_queued_again_and_runs_when_the_whole_may() {
    let set = of("JobSet");
    let step = |objects: &Objects| objects.next_step(&key("Job", "part"), NOW);
    assert_eq!(word(&step(&operator([set.clone(), part("uid-train")]))), "rest");
    assert_eq!(
        word(&step(&operator([part("uid-train"), set.clone()]))),
        "rest",
        "in whatever order they are seen"
    );
    let running = part("uid-train").running(1);
    assert_eq!(word(&step(&operator([set.clone(), running.clone()]))), "suspend");
    let workload = admitted_workload("JobSet", &set);
    assert_eq!(word(&step(&operator([set.clone(), running.clone(), workload]))), "rest");

    assert_eq!(
        word(&step(&operator([set.clone(), part("uid-of-another")]))),
        "create",
        "by an owner that is not there"
    );
    let unqueued = set.clone().label(QUEUE_NAME, "");
    assert_eq!(word(&step(&operator([unqueued, part("uid-train")]))), "create", "by one that is in no queue");
    let elsewhere = set.clone().put("/metadata/namespace", json!("other"));
    assert_eq!(
        word(&step(&operator([elsewhere, part("uid-train")]))),
        "create",
        "by one in another namespace"
    );

    let own = workload_of(&part("uid-train"));
    assert_eq!(
        word(&step(&operator([set, part("uid-train"), own]))),
        "delete",
        "a Workload that it has already"
    );
}

#[test]
fn a_job_holds_its_quota_as_long_as_anything_that_it_made_runs() {
    let job = of("JobSet");
    let workload = admitted_workload("JobSet", &job);
    let started =
        patched(&job, &write(next("JobSet", &operator([job.clone(), workload.clone()])))).version(2);
    let evicted = workload.condition("Evicted", true, "Preempted", "").version(3);
    let stopped = at_rest("JobSet", started.put("/spec/suspend", json!(true))).version(3);
    let pods = |pods: i32| part("uid-train").put("/status/terminating", json!(pods));
    assert_eq!(word(&next("JobSet", &operator([stopped.clone(), evicted.clone(), pods(1)]))), "rest");
    assert_eq!(word(&next("JobSet", &operator([stopped, evicted, pods(0)]))), "restore");
}

#[test]
fn workloads_of_kinds_that_are_not_managed_are_left_to_whoever_made_them() {
    let workload = workload_of(&of("JobSet"));
    let key = WorkloadKey::new("ns", workload.0["metadata"]["name"].as_str().unwrap());
    let orphan = |frameworks| {
        let mut objects = Objects::new(Settings { frameworks, ..Settings::default() });
        see(&mut objects, &namespace("ns"));
        see(&mut objects, &workload);
        word(&objects.next_orphan_step(&key, NOW))
    };
    assert_eq!(orphan(Frameworks::default()), "rest");
    assert_eq!(orphan(Frameworks(kinds::ALL.into_iter().collect())), "if gone: finish");
}
