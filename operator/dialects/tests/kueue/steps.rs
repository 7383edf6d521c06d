//! The next step of a job, for every pair of states that it and its Workload can be in.

use serde_json::json;
use whalezen_core::name::WorkloadKey;
use whalezen_dialects::kueue::jobs::Step;

use crate::{
    object::{Object, QUEUE_NAME, check, checked_queue, flavor, job, train, workload},
    seen::{NOW, job_key, key, next, see, seen, word},
};

/// The states of a job, with a name for each.
fn jobs() -> Vec<(&'static str, Object)> {
    let suspended = || job("train").put("/status/conditions", json!([]));
    vec![
        ("at rest", job("train")),
        ("at rest, injected", job("train").injected(&train(), "a100")),
        ("at rest, copied", job("train").injected("another", "a100")),
        ("stopping", suspended().put("/status/active", json!(2))),
        ("stopping, injected", suspended().injected(&train(), "a100").put("/status/active", json!(2))),
        ("pods end", job("train").injected(&train(), "a100").put("/status/terminating", json!(1))),
        ("unnoticed", suspended()),
        ("runs", job("train").injected(&train(), "a100").running(2)),
        ("runs anywhere", job("train").running(2)),
        ("deleted", job("train").injected(&train(), "a100").running(2).deleting()),
        ("complete", job("train").injected(&train(), "a100").running(0).ended("Complete", "")),
        ("failed", job("train").injected(&train(), "a100").running(0).ended("Failed", "")),
    ]
}

#[test]
fn a_job_without_a_workload_rests_and_then_gets_one() {
    let steps = [
        "create", "create", "create", "rest", "rest", "rest", "create", "suspend", "suspend", "rest", "rest",
        "rest",
    ];
    table(&[], &steps);
    for (name, job) in jobs() {
        let mut job = job;
        job.0["metadata"]["labels"].as_object_mut().unwrap().remove(QUEUE_NAME);
        assert_eq!(word(&next([job])), "rest", "{name}, and no queue");
    }
}

#[test]
fn a_waiting_workload_keeps_its_job_at_rest() {
    let steps = [
        "rest", "restore", "restore", "rest", "rest", "rest", "rest", "suspend", "suspend", "rest", "finish",
        "finish",
    ];
    let off = |w: Object| w.put("/spec/active", json!(false));
    for waiting in [
        workload("train"),
        workload("train").condition("QuotaReserved", false, "WaitingForQuota", ""),
        workload("train").condition("Evicted", true, "Preempted", "").condition(
            "QuotaReserved",
            false,
            "x",
            "",
        ),
        // It was told already that it is out.
        off(workload("train").condition("Evicted", true, "Deactivated", "")),
        // Quota alone does not run a job as long as there is a check to pass.
        workload("train")
            .reserved("a100")
            .put("/status/admissionChecks", json!([check("dws", "Pending", "")])),
    ] {
        table(&[checked_queue(), waiting], &steps);
    }
}

#[test]
fn what_befalls_a_workload_comes_before_what_its_job_does_and_after_its_end() {
    let off = |w: Object| w.put("/spec/active", json!(false));
    for (of, word) in [
        // Leave without quota is taken back, and quota without a check to pass gives leave.
        (workload("train").condition("Admitted", true, "Admitted", ""), "take back"),
        (workload("train").reserved("a100"), "let run"),
        (off(workload("train")), "release"),
        (off(workload("train").admitted("a100")), "evict"),
    ] {
        let mut steps = [word; 12];
        steps[9..].copy_from_slice(&["rest", "finish", "finish"]);
        table(&[of], &steps);
    }
}

#[test]
fn an_admitted_workload_starts_its_job_on_the_right_nodes() {
    let steps = [
        "start", "resume", "restore", "rest", "resume", "resume", "rest", "rest", "suspend", "rest",
        "finish", "finish",
    ];
    table(&[workload("train").admitted("a100")], &steps);
}

#[test]
fn an_evicted_workload_stops_its_job_and_then_gives_back() {
    let steps = [
        "release", "restore", "restore", "rest", "rest", "rest", "rest", "suspend", "suspend", "rest",
        "finish", "finish",
    ];
    table(&[workload("train").admitted("a100").condition("Evicted", true, "Preempted", "")], &steps);
    table(&[workload("train").reserved("a100").condition("Evicted", true, "Preempted", "")], &steps);
}

#[test]
fn a_deleted_workload_goes_when_its_job_has_stopped() {
    let steps = [
        "let go", "restore", "restore", "rest", "rest", "rest", "rest", "suspend", "suspend", "let go",
        "let go", "let go",
    ];
    for deleted in [workload("train"), workload("train").admitted("a100")] {
        table(&[deleted.deleting()], &steps);
    }
}

#[test]
fn a_deleted_workload_that_somebody_else_keeps_is_written_to_no_more() {
    for (name, job) in
        jobs().into_iter().filter(|(name, _)| ["at rest", "deleted", "complete"].contains(name))
    {
        let kept = workload("train").finalizers(["theirs"]).deleting();
        assert_eq!(word(&next([kept, job])), "rest", "{name}");
    }
}

#[test]
fn a_finished_workload_is_let_go_once() {
    let finished = workload("train").admitted("a100").condition("Finished", true, "Succeeded", "");
    table(std::slice::from_ref(&finished), &["let go"; 12]);
    table(&[finished.clone().deleting()], &["let go"; 12]);
    table(&[finished.finalizers([])], &["rest"; 12]);
}

#[test]
fn a_job_that_dropped_its_label_stays_where_it_is() {
    for (of, job, step) in [
        (workload("train"), job("train"), "rest"),
        (workload("train").admitted("a100"), job("train"), "start"),
        (workload("train").admitted("a100"), job("train").injected(&train(), "a100").running(2), "rest"),
    ] {
        let mut job = job;
        job.0["metadata"]["labels"].as_object_mut().unwrap().remove(QUEUE_NAME);
        assert_eq!(word(&next([of, job])), step);
    }
}

#[test]
fn other_pods_than_the_workloads_make_it_another_one() {
    let changes: [(&str, serde_json::Value); 3] = [
        ("/spec/parallelism", json!(1)),
        ("/spec/template/spec/containers/0/resources/requests/cpu", json!("1")),
        ("/spec/template/spec/containers/0/resources/requests", json!({ "nvidia.com/gpu": "-1" })),
    ];
    for (pointer, value) in changes {
        let change = |job: Object| {
            let mut job = job;
            match job.0.pointer_mut(pointer) {
                Some(place) => *place = value.clone(),
                None => {
                    job.0["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
                        value.clone();
                }
            }
            job
        };
        for (of, job, step) in [
            (workload("train"), job("train"), "update"),
            (workload("train"), job("train").running(2), "suspend"),
            (workload("train").admitted("a100"), job("train"), "delete"),
            (
                workload("train").admitted("a100"),
                job("train").injected(&train(), "a100").running(2),
                "delete",
            ),
            (workload("train").admitted("a100").deleting(), job("train").running(2), "suspend"),
        ] {
            assert_eq!(word(&next([of, change(job)])), step, "{pointer}");
        }
    }
}

#[test]
fn other_demands_on_nodes_count_while_it_waits_and_not_what_admission_put_there() {
    let zone = |job: Object| job.put("/spec/template/spec/nodeSelector/zone", json!("a"));
    assert_eq!(word(&next([workload("train"), zone(job("train"))])), "update");
    assert_eq!(word(&next([workload("train").admitted("a100"), zone(job("train"))])), "delete");
    let placed = job("train").injected(&train(), "a100");
    assert_eq!(word(&next([workload("train").admitted("a100"), zone(placed)])), "resume");
    let template = |job: Object| job.put("/spec/template/metadata/labels/mine", json!("b"));
    assert_eq!(word(&next([workload("train"), template(job("train"))])), "rest", "labels are not compared");
}

#[test]
fn a_job_suspended_by_hand_starts_anew_if_its_flavor_was_edited() {
    let edited = flavor("a100").put("/spec/nodeLabels/gpu", json!("a100-80g"));
    let admitted = || workload("train").admitted("a100");
    let placed = || job("train").injected(&train(), "a100");
    assert_eq!(word(&next([edited.clone(), admitted(), placed()])), "restore");
    assert_eq!(word(&next([edited, admitted(), placed().running(2)])), "rest", "an edit stops nobody");
}

#[test]
fn a_job_waits_for_its_flavor_and_starts_when_that_comes() {
    let mut objects = seen([]);
    for object in [workload("train").admitted("late"), job("train")] {
        see(&mut objects, &object);
    }
    let Step::Stuck(note) = objects.next_step(&job_key("train"), NOW) else { panic!() };
    assert_eq!(note.message, "ResourceFlavor late, in which the quota is, doesn't exist");
    objects.take_due();
    see(&mut objects, &flavor("late"));
    assert!(objects.take_due().jobs.contains(&job_key("train")));
    assert_eq!(word(&objects.next_step(&job_key("train"), NOW)), "start");
}

#[test]
fn a_workload_that_cannot_be_read_stops_nobody() {
    for (name, job) in jobs() {
        let mut objects = seen([job]);
        let unreadable = workload("train").admitted("a100").version(2);
        objects.apply_unreadable_workload(
            &unreadable.read::<whalezen_crds::kueue::v1beta2::Workload>().metadata,
            "bad",
        );
        let step = word(&objects.next_step(&job_key("train"), NOW));
        let want = if ["complete", "failed"].contains(&name) { "finish" } else { "rest" };
        assert_eq!(step, want, "{name}");
    }
}

#[test]
fn of_several_workloads_the_one_by_which_the_job_runs_is_kept() {
    let second = || workload("train").put("/metadata/name", json!("a-second")).uid("uid-2");
    let running = || job("train").injected(&train(), "a100").running(2);
    let target = |step: Step| match step {
        Step::Write(write, _) => write.target.name,
        other => panic!("{other:?}"),
    };
    let both = |of: Object, other: Object| next([of, other, running()]);
    let step = both(workload("train").admitted("a100"), second().admitted("a100"));
    assert_eq!((word(&step).as_str(), target(step).as_str()), ("delete", "a-second"));
    let step = both(workload("train").admitted("a100"), second().deleting());
    assert_eq!((word(&step).as_str(), target(step).as_str()), ("let go", "a-second"));
    assert_eq!(both(workload("train").admitted("a100"), second().finalizers(["x"]).deleting()), Step::Rest);
}

#[test]
fn pods_that_together_cannot_be_counted_wait_and_their_workload_is_not_written_again_and_again() {
    let huge = |mut of: Object, template: &str| {
        let container = of.0.pointer_mut(&format!("{template}/spec/containers/0")).unwrap();
        container["resources"]["requests"]["memory"] = json!("9223372036854775807");
        of
    };
    let job = || huge(job("train"), "/spec/template");
    let workload = || huge(workload("train"), "/spec/podSets/0/template");
    assert_eq!(next([job(), workload()]), Step::Rest);
    let one = job().put("/spec/parallelism", json!(1));
    assert_eq!(word(&next([one, workload()])), "update");
}

#[test]
fn a_workload_of_another_namespace_is_not_the_jobs_whatever_it_says() {
    let spy = workload("train").put("/metadata/namespace", json!("another")).uid("uid-spy").admitted("a100");
    let elsewhere = WorkloadKey::new("another", train());
    assert_eq!(word(&next([job("train"), spy.clone()])), "create");
    let objects = seen([job("train"), workload("train"), spy]);
    assert_eq!(objects.workload_of(&job_key("train")), Some(&key(&workload("train"))));
    assert_eq!(objects.next_step(&job_key("train"), NOW), Step::Rest);
    assert_eq!(word(&objects.next_orphan_step(&elsewhere, NOW)), "if gone: finish");
}

#[test]
fn an_orphan_is_let_go_or_finished_and_what_is_not_ours_is_left_alone() {
    let foreign =
        |kind: &str, version: &str| {
            workload("train").put("/metadata/ownerReferences", json!([{
            "apiVersion": version, "kind": kind, "name": "train", "uid": "uid-train", "controller": true,
        }]))
        };
    let left_behind = || workload("train").put("/metadata/ownerReferences", json!([]));
    let stripped = || left_behind().put("/metadata/labels", json!({}));
    for (orphan, step) in [
        (workload("train"), "if gone: finish"),
        (workload("train").admitted("a100"), "if gone: finish"),
        (workload("train").admitted("a100").deleting(), "if gone: let go"),
        (workload("train").condition("Finished", true, "Succeeded", ""), "let go"),
        (workload("train").finalizers([]), "rest"),
        (left_behind().admitted("a100"), "finish"),
        (foreign("JobSet", "jobset.x-k8s.io/v1alpha2").admitted("a100"), "rest"),
        (foreign("Job", "batch.volcano.sh/v1alpha1").admitted("a100"), "rest"),
        (
            foreign("JobSet", "jobset.x-k8s.io/v1alpha2").admitted("a100").put("/spec/active", json!(false)),
            "evict",
        ),
        (foreign("JobSet", "jobset.x-k8s.io/v1alpha2").deleting(), "rest"),
        (stripped().admitted("a100"), "rest"),
        (stripped().admitted("a100").deleting(), "let go"),
    ] {
        let objects = seen([orphan.clone()]);
        assert_eq!(word(&objects.next_orphan_step(&key(&orphan), NOW)), step, "{:#}", orphan.0);
    }
    let known = seen([workload("train"), job("train")]);
    assert_eq!(known.next_orphan_step(&key(&workload("train")), NOW), Step::Rest);
}

/// Checks the step of each state of a job with these other objects.
#[track_caller]
fn table(others: &[Object], steps: &[&str; 12]) {
    for ((name, job), want) in jobs().into_iter().zip(steps) {
        let mut objects = seen([]);
        for object in others.iter().chain([&job]) {
            see(&mut objects, object);
        }
        let step = objects.next_step(&job_key("train"), NOW);
        assert_eq!(word(&step), *want, "a job that is {name:?}: {step:#?}");
    }
}

#[test]
fn a_workload_that_took_a_jobs_name_is_named() {
    let stripped =
        workload("train").put("/metadata/ownerReferences", json!([])).put("/metadata/labels", json!({}));
    let objects = seen([job("train"), stripped]);
    assert_eq!(word(&objects.next_step(&job_key("train"), NOW)), "create");
    let note = objects.name_taken(&job_key("train")).unwrap();
    assert!(note.message.starts_with(&format!("Workload ns/{} has the name", train())), "{}", note.message);
    assert_eq!((note.about.name.as_str(), note.warning), ("train", true));
    assert_eq!(seen([job("train")]).name_taken(&job_key("train")), None);
    assert_eq!(seen([job("train"), workload("train")]).name_taken(&job_key("train")), None);
}
