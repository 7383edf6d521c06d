//! Jobs that other jobs make.

use serde_json::json;
use whalezen_core::name::WorkloadKey;
use whalezen_dialects::kueue::{
    jobs::{Step, build, kinds},
    objects::Objects,
    settings::{Frameworks, Settings},
};

use crate::{
    kinds::{admitted_workload, at_rest, key, next, operator, patched, workload_of, write},
    object::{Object, QUEUE_NAME, job, namespace},
    samples::of,
    seen::{NOW, admitted, see, word},
};

/// A Job that a `JobSet` made for one of its parts.
pub fn part(of: &str) -> Object {
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
fn jobs_that_own_each_other_or_themselves_are_told_so_and_do_not_run() {
    let owned = |name: &str, by: &str| {
        let owner = json!([{ "apiVersion": "batch/v1", "kind": "Job", "name": by, "uid": format!("uid-{by}"), "controller": true }]);
        job(name).uid(&format!("uid-{name}")).put("/metadata/ownerReferences", owner)
    };
    for (jobs, ring) in [
        ([owned("part", "b"), owned("b", "part")], "Job b, Job part"),
        ([owned("part", "part"), owned("b", "a")], "Job part"),
        ([owned("part", "b"), owned("b", "b")], "Job b"),
    ] {
        let [part, other] = jobs;
        let Step::Stuck(note) = operator([part.clone(), other.clone()]).next_step(&key("Job", "part"), NOW)
        else {
            panic!("{ring}");
        };
        assert!(note.message.ends_with(&format!("own each other: {ring}")), "{}", note.message);
        let runs = operator([part.running(1), other]);
        assert_eq!(word(&runs.next_step(&key("Job", "part"), NOW)), "suspend");
    }
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

/// A `TrainJob` and the `JobSet` that its controller made of it and of a runtime.
fn train_job() -> (Object, Object) {
    let owner = json!([{
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "train", "uid": "uid-train",
        "controller": true,
    }]);
    let made = of("JobSet").uid("uid-made").label(QUEUE_NAME, "").put("/metadata/ownerReferences", owner);
    (of("TrainJob"), made)
}

/// What the trainer does: it merges the patches of the runtime into the `JobSet`.
fn merged(job: &Object, made: Object) -> Object {
    let mut made = made;
    let patches =
        job.0["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
            .clone();
    for (index, patch) in patches.as_array().into_iter().flatten().enumerate() {
        for (field, value) in patch["template"]["spec"]["template"].as_object().unwrap() {
            for (key, value) in value.as_object().unwrap() {
                let at = format!("/spec/replicatedJobs/{index}/template/spec/template/{field}/{key}");
                if made.0["spec"]["replicatedJobs"][index]["name"] == patch["name"] {
                    made = made.put_in(&at, value.clone());
                }
            }
        }
    }
    made
}

#[test]
fn a_train_job_is_queued_with_the_pods_that_its_controller_made_of_it() {
    let (job, made) = train_job();
    assert_eq!(word(&next("TrainJob", &operator([job.clone()]))), "rest", "until there is something");
    assert_eq!(word(&next("TrainJob", &operator([job.clone(), made.clone()]))), "create");
    let whole = job.job().whole_by(&made.job()).unwrap();
    let workload = build::workload(&whole, (None, 0));
    let sets: Vec<_> = workload.spec.pod_sets.iter().map(|set| (set.name.as_str(), set.count)).collect();
    assert_eq!(sets, [("driver", 1), ("workers", 6)]);
    assert!(workload.metadata.name.as_ref().unwrap().starts_with("trainjob-train-"));
    assert_eq!(workload.metadata.owner_references.as_ref().unwrap()[0].kind, "TrainJob");
    assert!(job.job().whole_by(&of("JobSet").job()).is_err(), "one of the same name that somebody else made");

    let waiting = Object(serde_json::to_value(workload).unwrap()).uid("uid-w").version(1);
    let mut objects = operator([job.clone(), made.clone(), waiting.clone()]);
    assert_eq!(word(&next("TrainJob", &objects)), "rest");
    let (admission, _) = admitted(&mut objects);
    let workload = waiting.version(2).put("/status", admission.body["status"].clone());
    let start = write(next("TrainJob", &operator([job.clone(), made.clone(), workload.clone()])));
    let started = patched(&job, &start).version(2);
    assert_eq!(started.0["spec"]["suspend"], false);
    let patch = &started.0["spec"]["runtimePatches"][0];
    assert_eq!(patch["manager"], "kueue.x-k8s.io/manager");
    let parts = &patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"];
    assert_eq!((&parts[0]["name"], &parts[1]["name"]), (&json!("driver"), &json!("workers")));
    assert_eq!(
        parts[1]["template"]["spec"]["template"]["spec"],
        json!({ "nodeSelector": { "gpu": "a100" } })
    );

    let running = merged(&started, made.clone()).put("/spec/suspend", json!(false)).version(2);
    for set in [made.clone(), running.clone()] {
        assert_eq!(
            word(&next("TrainJob", &operator([started.clone(), set.clone(), workload.clone()]))),
            "rest"
        );
        let of_set =
            operator([started.clone(), set, workload.clone()]).next_step(&key("JobSet", "train"), NOW);
        assert_eq!(word(&of_set), "rest");
    }

    let evicted = workload.condition("Evicted", true, "Preempted", "").version(3);
    assert_eq!(
        word(&next("TrainJob", &operator([started.clone(), running.clone(), evicted.clone()]))),
        "suspend"
    );
    let stopped = at_rest("TrainJob", started.put("/spec/suspend", json!(true))).version(3);
    let active =
        running.clone().put("/status/replicatedJobsStatus", json!([{ "name": "driver", "active": 1 }]));
    assert_eq!(word(&next("TrainJob", &operator([stopped.clone(), active, evicted.clone()]))), "rest");
    assert_eq!(
        word(&next("TrainJob", &operator([stopped.clone(), running.clone(), evicted.clone()]))),
        "restore"
    );
    let restored = patched(&stopped, &stopped.job().restore(&evicted.read(), 0).unwrap()).version(4);
    let late = operator([restored.clone(), running, evicted.clone()]);
    assert_eq!(word(&next("TrainJob", &late)), "rest", "until what it made is as it was, too");
    assert_eq!(word(&next("TrainJob", &operator([restored, made, evicted]))), "release");
}

#[test]
fn the_patches_that_others_make_of_a_train_jobs_runtime_stay() {
    let (job, made) = train_job();
    let theirs = json!({ "manager": "somebody", "trainingRuntimeSpec": { "template": {} } });
    let ours = json!({ "manager": "kueue.x-k8s.io/manager" });
    let workload = {
        let made = build::workload(&job.job().whole_by(&made.job()).unwrap(), (None, 0));
        Object(serde_json::to_value(made).unwrap()).uid("uid-w").version(1)
    };
    let mut objects = operator([job.clone(), made.clone(), workload.clone()]);
    let (admission, _) = admitted(&mut objects);
    let workload = workload.version(2).put("/status", admission.body["status"].clone());
    for (there, at) in [(json!([theirs.clone()]), 1), (json!([ours, theirs.clone()]), 0)] {
        let job = job.clone().put("/spec/runtimePatches", there);
        let start = write(next("TrainJob", &operator([job.clone(), made.clone(), workload.clone()])));
        let patches = patched(&job, &start).0["spec"]["runtimePatches"].clone();
        assert_eq!(patches.as_array().unwrap().len(), 2);
        assert_eq!(patches[1 - at], theirs);
        let parts = &patches[at]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"];
        assert_eq!(parts.as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_job_set_that_is_only_seen_for_the_train_jobs_is_not_managed() {
    let frameworks = Frameworks([kinds::find("TrainJob").unwrap()].into());
    assert_eq!(frameworks.seen().len(), 2);
    let mut objects = Objects::new(Settings { frameworks, ..Settings::default() });
    see(&mut objects, &namespace("ns"));
    see(&mut objects, &of("JobSet"));
    assert_eq!(word(&next("JobSet", &objects)), "rest");
}
