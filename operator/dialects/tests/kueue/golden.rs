//! Every write, to the letter: objects in, texts out.

use serde_json::{Value, json};
use whalezen_core::state::Report;
use whalezen_core::verdict::{Reason, Verdict};
use whalezen_dialects::{
    kueue::{
        jobs::{Step, build, kinds::JOB},
        queues,
    },
    write::{Verb, Write},
};

use crate::{
    object::{
        IN_USE, QUEUE_NAME, cluster_queue, escaped, flavor, group, job, local_queue, pod_priority, train,
        workload, workload_priority,
    },
    seen::{NOW, admitted, condition, job_key, key, next, see, seen, written},
};

const BEFORE: &str = "2026-01-01T00:00:02Z";
const AT: &str = "2026-01-01T00:00:10Z";
const BY_SCHEDULER: Verb = Verb::Apply { manager: "kueue-admission" };
const BY_JOB_SIDE: Verb = Verb::Apply { manager: "kueue-job-controller" };

/// Compares a write with its address (`kind/name[/status]`), verb and body.
#[track_caller]
pub fn assert_write(write: &Write, address: &str, verb: Verb, body: &Value) {
    let status = if write.status { "/status" } else { "" };
    assert_eq!(format!("{}/{}{status}", write.target.kind, write.target.name), address);
    assert_eq!(write.verb, verb);
    assert_eq!(&write.body, body, "{:#}", write.body);
}

pub fn status_body(version: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": { "namespace": "ns", "name": train(), "uid": "uid-w", "resourceVersion": version },
        "status": status,
    })
}

pub fn admission() -> Value {
    json!({
        "clusterQueue": "cq",
        "podSetAssignments": [{
            "name": "main",
            "count": 2,
            "flavors": { "nvidia.com/gpu": "a100" },
            "resourceUsage": { "nvidia.com/gpu": "2" },
        }],
    })
}

pub fn status_of_train() -> String {
    format!("Workload/{}/status", train())
}

fn evictions(reason: &str, cause: &str, count: i32) -> Value {
    json!({ "reason": reason, "underlyingCause": cause, "count": count })
}

#[test]
fn an_admission_is_one_write_with_both_conditions() {
    let (write, notes) = admitted(&mut seen([workload("train").version(7), job("train")]));
    let reserved =
        condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue cq", AT);
    let leave = condition("Admitted", "True", "Admitted", "The workload is admitted", AT);
    let status = json!({ "admission": admission(), "conditions": [reserved, leave] });
    assert_write(&write, &status_of_train(), BY_SCHEDULER, &status_body("7", &status));
    let said: Vec<_> =
        notes.iter().map(|note| (&*note.reason, note.message.as_str(), note.warning)).collect();
    assert_eq!(
        said,
        [
            ("QuotaReserved", "Quota reserved in ClusterQueue cq, wait time since queued was 10s", false),
            ("Admitted", "Admitted by ClusterQueue cq, wait time since reservation was 0s", false),
        ]
    );
}

#[test]
fn a_second_admission_ends_what_was_true_and_keeps_what_others_say() {
    let evicted = workload("train")
        .version(7)
        .condition("Evicted", true, "Deactivated", "The workload is deactivated")
        .condition("Preempted", false, "QuotaReserved", "Previously: p")
        .condition("QuotaReserved", false, "WaitingForQuota", "no room")
        .condition("Requeued", true, "Reactivated", "The workload was reactivated")
        .put("/status/requeueState/count", json!(2))
        .put("/status/accumulatedPastExecutionTimeSeconds", json!(30))
        .put("/status/schedulingStats/evictions", json!([evictions("Deactivated", "", 1)]))
        .condition("Foreign", true, "Theirs", "not ours");
    let (write, _) = admitted(&mut seen([evicted, job("train")]));
    let status = json!({
        "requeueState": { "count": 2 },
        "accumulatedPastExecutionTimeSeconds": 30,
        "schedulingStats": { "evictions": [evictions("Deactivated", "", 1)] },
        "admission": admission(), "conditions": [
        condition("Evicted", "False", "QuotaReserved", "Previously: The workload is deactivated", AT),
        condition("Preempted", "False", "QuotaReserved", "Previously: p", BEFORE),
        condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue cq", AT),
        condition("Requeued", "True", "Reactivated", "The workload was reactivated", BEFORE),
        condition("Admitted", "True", "Admitted", "The workload is admitted", AT),
    ]});
    assert_write(&write, &status_of_train(), BY_SCHEDULER, &status_body("7", &status));
}

#[test]
fn a_report_says_why_it_waits_and_keeps_the_time_of_the_transition() {
    let waiting = workload("train").version(7).condition("QuotaReserved", false, "PendingEvaluation", "");
    let objects = seen([waiting.clone(), job("train")]);
    let report = Report {
        workload: key(&waiting),
        verdict: Verdict::new(Reason::WaitingForQuota, "couldn't assign flavors"),
    };
    let (write, note) = objects.report(&report, NOW).unwrap();
    let said = condition("QuotaReserved", "False", "Pending", "couldn't assign flavors", BEFORE);
    assert_write(
        &write,
        &status_of_train(),
        BY_SCHEDULER,
        &status_body(
            "7",
            &json!({
                "conditions": [said],
                "resourceRequests": [{ "name": "main", "resources": { "nvidia.com/gpu": "2" } }],
            }),
        ),
    );
    assert_eq!((&*note.reason, note.warning), ("Pending", true));
}

#[test]
fn a_deactivated_workload_is_told_to_stop_and_keeps_its_quota_until_it_has() {
    let off = workload("train").version(7).admitted("a100").put("/spec/active", json!(false));
    let (write, _) = written([off, job("train").injected(&train(), "a100").running(2)]);
    let status = json!({ "admission": admission(), "conditions": [
        condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue cq", BEFORE),
        condition("Admitted", "True", "Admitted", "The workload is admitted", BEFORE),
        condition("Evicted", "True", "Deactivated", "The workload is deactivated", AT),
    ], "schedulingStats": { "evictions": [evictions("Deactivated", "", 1)] } });
    assert_write(&write, &status_of_train(), BY_SCHEDULER, &status_body("7", &status));
}

#[test]
fn an_evicted_workload_gives_its_quota_back_once_nothing_of_it_runs() {
    let evicted =
        workload("train").version(7).admitted("a100").condition("Evicted", true, "Deactivated", "because");
    let (write, _) = written([evicted, job("train")]);
    let status = json!({ "conditions": [
        condition("QuotaReserved", "False", "Pending", "because", AT),
        condition("Admitted", "False", "NoReservation", "The workload has no reservation", AT),
        condition("Evicted", "True", "Deactivated", "because", BEFORE),
        condition("Requeued", "False", "Deactivated", "because", AT),
    ], "accumulatedPastExecutionTimeSeconds": 8 });
    assert_write(&write, &status_of_train(), BY_SCHEDULER, &status_body("7", &status));
}

#[test]
fn an_ended_job_finishes_its_workload_whoever_else_writes_meanwhile() {
    for (type_, message, reason, said) in [
        (
            "Complete",
            "Reached expected number of succeeded pods",
            "Succeeded",
            "Reached expected number of succeeded pods",
        ),
        ("Failed", "BackoffLimitExceeded", "Failed", "BackoffLimitExceeded"),
        ("Complete", "", "Succeeded", "Job finished"),
    ] {
        let (write, note) = written([
            workload("train").version(7).admitted("a100"),
            job("train").running(0).ended(type_, message),
        ]);
        let finished = condition("Finished", "True", reason, said, AT);
        let mut body = status_body("7", &json!({ "conditions": [finished] }));
        body["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        assert_write(&write, &status_of_train(), BY_JOB_SIDE, &body);
        assert_eq!(note.unwrap().message, format!("Workload 'ns/{}' is declared finished", train()));
    }
}

#[test]
fn an_orphan_is_finished_if_the_api_server_has_no_such_job() {
    let orphan = workload("train").version(7).admitted("a100");
    let step = seen([orphan.clone()]).next_orphan_step(&key(&orphan), NOW);
    let Step::IfGone { job, uid, write } = step else { panic!("{step:?}") };
    assert_eq!((job, uid.as_str()), (JOB.target("ns", "train"), "uid-train"));
    let finished = condition("Finished", "True", "OwnerNotFound", "The job is gone", AT);
    let mut body = status_body("7", &json!({ "conditions": [finished] }));
    body["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_write(&write, &status_of_train(), BY_JOB_SIDE, &body);
}

#[test]
fn a_finished_workload_loses_our_finalizer_and_no_other() {
    for (finalizers, left) in [(json!([IN_USE]), Value::Null), (json!(["a/b", IN_USE]), json!(["a/b"]))] {
        let over = workload("train")
            .version(7)
            .condition("Finished", true, "Succeeded", "")
            .put("/metadata/finalizers", finalizers);
        let (write, _) = written([over, job("train").ended("Complete", "")]);
        let body = json!({ "metadata": { "resourceVersion": "7", "finalizers": left } });
        assert_write(&write, &format!("Workload/{}", train()), Verb::Merge, &body);
    }
}

#[test]
fn an_admitted_job_starts_on_its_flavors_nodes() {
    let toleration = json!({ "key": "gpu", "operator": "Exists" });
    let own = json!({ "key": "spot", "operator": "Exists" });
    for (labels, tolerations, has, want) in [
        (json!({}), json!([]), json!([]), json!({})),
        (json!({ "gpu": "a100" }), json!([]), json!([own]), json!({ "nodeSelector": { "gpu": "a100" } })),
        (json!({}), json!([toleration]), json!([own]), json!({ "tolerations": [own, toleration] })),
        (json!({}), json!([own, own]), json!([own]), json!({})),
        (json!({}), json!([toleration, toleration]), json!([]), json!({ "tolerations": [toleration] })),
    ] {
        let flavor = flavor("a100").put("/spec/nodeLabels", labels).put("/spec/tolerations", tolerations);
        let template = "/spec/podSets/0/template/spec/tolerations";
        let workload = workload("train").admitted("a100");
        let mut workload = workload;
        *workload.0.pointer_mut("/spec/podSets/0/template/spec").unwrap() = {
            let mut spec = workload.0.pointer("/spec/podSets/0/template/spec").unwrap().clone();
            spec["tolerations"] = has.clone();
            spec
        };
        assert!(workload.0.pointer(template).is_some());
        let job = job("train").version(3).put("/spec/template/spec/tolerations", has);
        let (write, note) = written([flavor, workload, job]);
        let add = |field: &str, value: Value| json!({ "op": "add", "path": format!("/spec/{field}"), "value": value });
        let mut body = vec![
            json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": "3" }),
            add("suspend", json!(false)),
            add(
                "template/metadata/labels",
                json!({
                    "app": "x", "batch.kubernetes.io/job-name": "train", "controller-uid": "uid-train",
                    "kueue.x-k8s.io/podset": "main",
                }),
            ),
            add("template/metadata/annotations", json!({ "kueue.x-k8s.io/workload": train() })),
        ];
        for (field, value) in want.as_object().unwrap() {
            body.push(add(&format!("template/spec/{field}"), value.clone()));
        }
        assert_write(&write, "Job/train", Verb::Json, &json!(body));
        let note = note.unwrap();
        assert_eq!((&*note.reason, note.message.as_str()), ("Started", "Admitted by clusterQueue cq"));
    }
}

#[test]
fn a_job_suspended_by_hand_is_only_resumed() {
    let job = job("train").version(3).injected(&train(), "a100");
    let (write, _) = written([workload("train").admitted("a100"), job]);
    let body = json!({ "metadata": { "resourceVersion": "3" }, "spec": { "suspend": false } });
    assert_write(&write, "Job/train", Verb::Merge, &body);
}

#[test]
fn a_job_that_may_not_run_is_suspended_with_a_word_why() {
    for (objects, reason, why) in [
        (vec![job("train").running(2)], "Suspended", "Waits for admission"),
        (vec![workload("train"), job("train").running(2)], "Stopped", "Not admitted by cluster queue"),
        (vec![workload("train").deleting(), job("train").running(2)], "Stopped", "The Workload is deleted"),
        (
            vec![
                workload("train").admitted("a100").condition("Evicted", true, "Preempted", "for another"),
                job("train").running(2),
            ],
            "Stopped",
            "for another",
        ),
        (
            vec![workload("train").admitted("a100"), job("train").running(2)],
            "Stopped",
            "Not on the nodes of its flavors",
        ),
    ] {
        let mut all = seen([]);
        for object in &objects {
            see(&mut all, object);
        }
        let step = all.next_step(&job_key("train"), NOW);
        let Step::Write(write, Some(note)) = step else { panic!("{step:?}") };
        let body = json!({ "metadata": { "resourceVersion": "1" }, "spec": { "suspend": true } });
        assert_write(&write, "Job/train", Verb::Merge, &body);
        assert_eq!((&*note.reason, note.message.as_str()), (reason, why));
    }
}

#[test]
fn a_stopped_job_gets_its_template_back_but_for_what_the_job_controller_put_there() {
    let own = json!([{ "key": "spot", "operator": "Exists" }]);
    let mut of = workload("train").0;
    of["spec"]["podSets"][0]["template"]["metadata"]["annotations"] =
        json!({ "note": "mine", "kueue.x-k8s.io/workload": "copied" });
    of["spec"]["podSets"][0]["template"]["metadata"]["labels"]["kueue.x-k8s.io/podset"] = json!("main");
    of["spec"]["podSets"][0]["template"]["spec"]["tolerations"] = own.clone();
    let job = job("train").version(3).injected(&train(), "a100");
    let write = job.job().restore(&serde_json::from_value(of.clone()).unwrap(), 0).unwrap();
    let body = json!([
        { "op": "replace", "path": "/metadata/resourceVersion", "value": "3" },
        { "op": "add", "path": "/spec/template/metadata/labels", "value": {
            "app": "x", "batch.kubernetes.io/job-name": "train", "controller-uid": "uid-train",
        } },
        { "op": "add", "path": "/spec/template/metadata/annotations", "value": { "note": "mine" } },
        { "op": "remove", "path": "/spec/template/spec/nodeSelector" },
        { "op": "add", "path": "/spec/template/spec/tolerations", "value": own },
    ]);
    assert_write(&write, "Job/train", Verb::Json, &body);
    let moved_on = job.running(2);
    assert_eq!(moved_on.job().restore(&serde_json::from_value(of).unwrap(), 0), None);
}

#[test]
fn a_workload_is_made_of_the_job_without_what_is_only_for_this_job() {
    let job = job("train")
        .label("kueue.x-k8s.io/max-exec-time-seconds", "60")
        .injected("copied-from-another", "a100");
    let made = build::workload(
        &job.whole(),
        (Some(whalezen_crds::kueue::v1beta2::PriorityClassRef::workload("high")), 5),
    );
    assert_eq!(
        serde_json::to_value(&made).unwrap(),
        json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {
                "name": train(),
                "namespace": "ns",
                "labels": { "kueue.x-k8s.io/job-uid": "uid-train" },
                "finalizers": [IN_USE],
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "active": true,
                "queueName": "lq",
                "priorityClassRef": { "group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high" },
                "priority": 5,
                "maximumExecutionTimeSeconds": 60,
                "podSets": [{
                    "name": "main",
                    "count": 2,
                    "template": {
                        "metadata": {
                            "labels": { "app": "x", "batch.kubernetes.io/job-name": "train" },
                            "annotations": {},
                        },
                        "spec": {
                            "restartPolicy": "Never",
                            "nodeSelector": { "gpu": "a100" },
                            "containers": [{
                                "name": "main", "image": "i", "resources": { "requests": { "nvidia.com/gpu": "1" } },
                            }],
                        },
                    },
                    "topologyRequest": { "podIndexLabel": "batch.kubernetes.io/job-completion-index" },
                }],
            },
        })
    );
}

#[test]
fn a_limit_of_time_that_is_none_is_left_out() {
    for seconds in ["0", "-5", "soon", "99999999999"] {
        let job = job("train").label("kueue.x-k8s.io/max-exec-time-seconds", seconds);
        assert_eq!(build::workload(&job.whole(), (None, 0)).spec.maximum_execution_time_seconds, None);
    }
}

#[test]
fn a_waiting_workload_follows_the_pods_of_its_job_and_keeps_its_place() {
    let scaled = job("train").put("/spec/parallelism", json!(1));
    assert_eq!(next([workload("train"), scaled.clone()]), Step::Update((None, 0)));
    let write = build::update(&scaled.whole(), &key(&workload("train")), 7, (None, 0));
    assert_eq!(write.body["metadata"], json!({ "resourceVersion": "7" }));
    assert_eq!(write.body["spec"]["podSets"][0]["count"], 1);
    assert_eq!(write.body["spec"]["queueName"], "lq");
    assert_eq!(write.body["spec"].get("active"), None, "a person's decision is kept");
    assert_eq!(write.verb, Verb::Merge);
}

#[test]
fn a_workload_that_holds_quota_for_other_pods_is_deleted() {
    let scaled = job("train").injected(&train(), "a100").running(2).put("/spec/parallelism", json!(1));
    let (write, note) = written([workload("train").admitted("a100"), scaled]);
    assert_write(&write, &format!("Workload/{}", train()), Verb::Delete, &json!({ "uid": "uid-w" }));
    assert_eq!(note.unwrap().message, format!("Deleted not matching Workload: ns/{}", train()));
}

#[test]
fn a_waiting_workload_follows_its_job_to_another_queue_and_another_class() {
    let label = |value: &str| job("train").label("kueue.x-k8s.io/priority-class", value);
    let class = json!({ "group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high" });
    let high = workload_priority("high", 9);
    let moved = job("train").label(QUEUE_NAME, "other");
    for (job, spec) in [
        (moved, json!({ "queueName": "other" })),
        (label("high"), json!({ "priorityClassRef": class, "priority": 9 })),
    ] {
        let (write, _) = written([high.clone(), workload("train").version(7), job]);
        let body = json!({ "metadata": { "resourceVersion": "7" }, "spec": spec });
        assert_write(&write, &format!("Workload/{}", train()), Verb::Merge, &body);
    }
}

#[test]
fn the_priority_follows_the_label_and_nothing_else() {
    let class = |kind: &str, name: &str| {
        let group = if kind == "PriorityClass" { "scheduling.k8s.io" } else { "kueue.x-k8s.io" };
        json!({ "group": group, "kind": kind, "name": name })
    };
    let label = |value: &str| job("train").label("kueue.x-k8s.io/priority-class", value);
    let of =
        |class: Value| workload("train").put("/spec/priorityClassRef", class).put("/spec/priority", json!(1));
    let running = |job: crate::object::Object| job.injected(&train(), "a100").running(2);
    let high = workload_priority("high", 9);
    let default = pod_priority("standard", 3).put("/globalDefault", json!(true));
    // The value of a class is taken once.
    assert_eq!(next([high.clone(), of(class("WorkloadPriorityClass", "high")), label("high")]), Step::Rest);
    // A default for pods that appears later changes nothing, and neither does a class that does not exist.
    assert_eq!(next([default.clone(), workload("train"), job("train")]), Step::Rest);
    assert_eq!(next([workload("train"), label("missing")]), Step::Rest);
    // One that came from the pods' class stays with it.
    assert_eq!(next([high.clone(), of(class("PriorityClass", "p")), label("high")]), Step::Rest);
    // Without its label it falls back to the default.
    let (write, _) = written([default, of(class("WorkloadPriorityClass", "high")), job("train")]);
    assert_eq!(
        write.body["spec"],
        json!({ "priorityClassRef": class("PriorityClass", "standard"), "priority": 3 })
    );
    // While quota is held, only another class of the same kind is taken.
    let held = of(class("WorkloadPriorityClass", "low")).admitted("a100");
    let (write, _) = written([high.clone(), held.clone(), running(label("high"))]);
    assert_eq!(write.body["spec"]["priority"], 9);
    assert_eq!(next([held, running(job("train"))]), Step::Rest);
    assert_eq!(next([high, workload("train").admitted("a100"), running(label("high"))]), Step::Rest);
}

#[test]
fn a_job_gets_the_priority_of_its_class_or_of_the_lowest_default() {
    use whalezen_crds::kueue::v1beta2::PriorityClassRef;
    let default = |name: &str, value| pod_priority(name, value).put("/globalDefault", json!(true));
    let all = || [workload_priority("w", 7), pod_priority("p", 5), default("a", 4), default("b", 3)];
    let with = |job| {
        let [a, b, c, d] = all();
        next([a, b, c, d, job])
    };
    let named = job("train").put("/spec/template/spec/priorityClassName", json!("p"));
    let both = named.clone().label("kueue.x-k8s.io/priority-class", "w");
    assert_eq!(with(both), Step::Create((Some(PriorityClassRef::workload("w")), 7)));
    assert_eq!(with(named), Step::Create((Some(PriorityClassRef::pod("p")), 5)));
    assert_eq!(with(job("train")), Step::Create((Some(PriorityClassRef::pod("b")), 3)));
    assert_eq!(next([job("train")]), Step::Create((None, 0)));
    for (job, problem) in [
        (job("train").label("kueue.x-k8s.io/priority-class", "w"), "WorkloadPriorityClass w doesn't exist"),
        (
            job("train").put("/spec/template/spec/priorityClassName", json!("p")),
            "PriorityClass p doesn't exist",
        ),
    ] {
        let step = next([job]);
        let Step::Stuck(note) = step else { panic!("{step:?}") };
        assert_eq!((note.warning, note.message.as_str()), (true, problem));
    }
}

#[test]
fn the_status_of_a_cluster_queue_lists_every_flavor_and_what_is_borrowed() {
    let queue = cluster_queue("cq", 1)
        .put("/spec/cohortName", json!("all"))
        .put("/metadata/generation", json!(4))
        .put("/spec/resourceGroups/1", json!(null))
        .put(
            "/spec/resourceGroups",
            json!([
                group(&["nvidia.com/gpu"], "a100", &[("nvidia.com/gpu", "1")]),
                group(&["memory"], "ram", &[("memory", "1Gi")]),
            ]),
        );
    let mut objects = seen([queue, flavor("ram"), workload("train").admitted("a100"), workload("other")]);
    objects.state.settle();
    let write = objects.queue_status(&"cq".into(), NOW).unwrap();
    let usage = json!([
        { "name": "a100", "resources": [{ "name": "nvidia.com/gpu", "total": "2", "borrowed": "1" }] },
        { "name": "ram", "resources": [{ "name": "memory", "total": "0", "borrowed": "0" }] },
    ]);
    let active = json!({
        "type": "Active", "status": "True", "reason": "Ready", "message": "Can admit new workloads",
        "lastTransitionTime": AT, "observedGeneration": 4,
    });
    let body = json!({ "status": {
        "pendingWorkloads": 1, "reservingWorkloads": 1, "admittedWorkloads": 1,
        "flavorsReservation": usage, "flavorsUsage": usage, "conditions": [active],
    } });
    assert_write(&write, "ClusterQueue/cq/status", Verb::Merge, &body);
}

#[test]
fn the_status_of_a_local_queue_says_what_stands_in_the_way() {
    let stopped = cluster_queue("cq", 8).put("/spec/stopPolicy", json!("Hold"));
    for (queue, local, status, reason, message, pending) in [
        (
            cluster_queue("cq", 8),
            local_queue("lq", "cq"),
            "True",
            "Ready",
            "Can submit new workloads to localQueue",
            1,
        ),
        (
            cluster_queue("cq", 8),
            local_queue("lq", "cq").put("/spec/stopPolicy", json!("Hold")),
            "False",
            "Stopped",
            "LocalQueue is stopped",
            0,
        ),
        (
            cluster_queue("cq", 8),
            local_queue("lq", "none"),
            "False",
            "ClusterQueueDoesNotExist",
            "Can't submit new workloads to clusterQueue",
            1,
        ),
        (
            stopped,
            local_queue("lq", "cq"),
            "False",
            "ClusterQueueIsInactive",
            "Can't submit new workloads to clusterQueue",
            1,
        ),
    ] {
        let exists = local.0["spec"]["clusterQueue"] == "cq";
        let mut objects = seen([queue, local, workload("train")]);
        objects.state.settle();
        let write =
            objects.local_queue_status(&whalezen_core::name::LocalQueueKey::new("ns", "lq"), NOW).unwrap();
        let usage = json!([{ "name": "a100", "resources": [{ "name": "nvidia.com/gpu", "total": "0" }] }]);
        let usage = if exists { usage } else { json!([]) };
        let body = json!({ "status": {
            "pendingWorkloads": pending, "reservingWorkloads": 0, "admittedWorkloads": 0,
            "flavorsReservation": usage, "flavorsUsage": usage,
            "conditions": [condition("Active", status, reason, message, AT)],
        } });
        assert_write(&write, "LocalQueue/lq/status", Verb::Merge, &body);
    }
}

#[test]
fn finalizers_are_written_whole_at_the_version_that_they_were_seen_at() {
    let write =
        queues::finalizers("ClusterQueue", "clusterqueues", "cq", 7, &["a".to_owned(), IN_USE.to_owned()]);
    let body = json!({ "metadata": { "resourceVersion": "7", "finalizers": ["a", IN_USE] } });
    assert_write(&write, "ClusterQueue/cq", Verb::Merge, &body);
    assert!(escaped("a/b~c") == "a~1b~0c");
}
