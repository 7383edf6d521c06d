//! What befalls a Workload while it waits and while it holds quota, and what is written of it.

use std::time::Duration;

use serde_json::{Value, json};
use whalezen_core::workload::Timestamp;
use whalezen_dialects::{
    kueue::{
        jobs::Step,
        objects::Objects,
        settings::{PodsReady, Requeuing, RequeuingTimestamp, Settings},
    },
    write::{Note, Verb, Write},
};

use crate::{
    object::{
        Object, admission_check, check, checked_queue, cluster_queue, job, local_queue, train, workload,
    },
    seen::{NOW, job_key, key, put_by, see, seen_with, word},
};

const MINUTE: i64 = 60_000;

fn settings() -> Settings {
    Settings { pods_ready: Some(PodsReady::default()), ..Settings::default() }
}

fn running() -> Object {
    job("train").injected(&train(), "a100").running(2)
}

fn admitted() -> Object {
    workload("train").version(2).admitted("a100")
}

/// What is written next, in a world with these settings at this moment.
fn due<const N: usize>(
    settings: Settings,
    now: Timestamp,
    more: [Object; N],
) -> (String, Write, Option<Note>) {
    let objects = seen_with(settings, more);
    let step = objects.next_step(&job_key("train"), now);
    match step {
        Step::Write(ref write, ref note) => (word(&step), (**write).clone(), note.clone()),
        other => panic!("{other:?}"),
    }
}

fn rests(objects: &Objects, now: Timestamp) -> bool {
    objects.next_step(&job_key("train"), now) == Step::Rest
}

fn word_of(objects: &Objects) -> String {
    word(&objects.next_step(&job_key("train"), NOW))
}

/// A condition of a written status, as `status reason: message`.
fn says(write: &Write, type_: &str) -> String {
    let conditions = write.body["status"]["conditions"].as_array().unwrap();
    let Some(of) = conditions.iter().find(|condition| condition["type"] == type_) else {
        return String::new();
    };
    let text = |field: &str| of[field].as_str().unwrap().to_owned();
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}

fn after(minutes: i64) -> Timestamp {
    Timestamp(NOW.0 + minutes * MINUTE)
}

fn stopped(object: Object, policy: &str) -> Object {
    object.version(2).put("/spec/stopPolicy", json!(policy))
}

#[test]
fn a_drained_queue_evicts_whoever_runs_and_one_on_hold_nobody() {
    for (queue, reason, message) in [
        (cluster_queue("cq", 8), "ClusterQueueStopped", "The ClusterQueue is stopped"),
        (local_queue("lq", "cq"), "LocalQueueStopped", "The LocalQueue is stopped"),
    ] {
        let held = seen_with(Settings::default(), [stopped(queue.clone(), "Hold"), admitted(), running()]);
        assert!(rests(&held, NOW));
        let drained = [stopped(queue, "HoldAndDrain"), admitted(), running()];
        let (word, write, note) = due(Settings::default(), NOW, drained);
        assert_eq!((&*word, says(&write, "Evicted")), ("evict", format!("True {reason}: {message}")));
        assert!(write.body["status"]["admission"].is_object(), "its pods still run");
        let count = json!([{ "reason": reason, "underlyingCause": "", "count": 1 }]);
        assert_eq!(write.body["status"]["schedulingStats"]["evictions"], count);
        let note = note.unwrap();
        assert_eq!((&*note.reason, &*note.message), (&*format!("EvictedDueTo{reason}"), message));
    }
}

#[test]
fn what_a_drained_queue_gives_back_says_at_once_why_it_waits_and_queues_again_when_the_queue_does() {
    for (open, policy, restarted, why) in [
        (
            cluster_queue("cq", 8),
            "ClusterQueueStopped",
            "True ClusterQueueRestarted: The ClusterQueue was restarted after being stopped",
            "ClusterQueue cq is inactive: Can't admit new workloads: is stopped.",
        ),
        (
            local_queue("lq", "cq"),
            "LocalQueueStopped",
            "True LocalQueueRestarted: The LocalQueue was restarted after being stopped",
            "LocalQueue lq is stopped",
        ),
    ] {
        let evicted = admitted().condition("Evicted", true, policy, "m");
        let closed = stopped(open.clone(), "HoldAndDrain");
        let (step, write, _) = due(Settings::default(), NOW, [closed.clone(), evicted, job("train")]);
        assert_eq!(step, "release");
        assert_eq!(says(&write, "QuotaReserved"), format!("False Inadmissible: {why}"));
        assert_eq!(says(&write, "Requeued"), format!("False {policy}: m"));
        assert_eq!(write.body["status"]["accumulatedPastExecutionTimeSeconds"], 8);

        let waiting = || {
            workload("train")
                .version(2)
                .condition("Evicted", true, policy, "m")
                .condition("Requeued", false, policy, "m")
        };
        let mut objects = seen_with(Settings::default(), [closed, waiting(), job("train")]);
        assert!(rests(&objects, NOW));
        objects.take_due();
        see(&mut objects, &open.version(3));
        objects.state.settle();
        assert!(objects.take_due().jobs.contains(&job_key("train")));
        assert!(objects.state.awake_lines().next().is_none(), "it is not queued before it is let back");
        let step = objects.next_step(&job_key("train"), NOW);
        let Step::Write(write, _) = &step else { panic!("{step:?}") };
        assert_eq!((&*word(&step), says(write, "Requeued")), ("let queue", restarted.to_owned()));
    }
}

#[test]
fn quota_that_nobody_uses_yet_is_given_back_when_the_way_to_it_closes() {
    let reserved = || {
        workload("train")
            .version(2)
            .reserved("a100")
            .put("/status/admissionChecks", json!([check("dws", "Pending", "")]))
    };
    let hold = stopped(checked_queue(), "Hold").version(3);
    let (word, write, _) = due(Settings::default(), NOW, [hold.clone(), reserved(), job("train")]);
    assert_eq!(word, "release");
    assert!(says(&write, "QuotaReserved").starts_with("False Inadmissible: "));
    assert_eq!(says(&write, "Evicted"), "", "it was not told to stop, for it never ran");
    let (word, ..) = due(Settings::default(), NOW, [hold, reserved(), running()]);
    assert_eq!(word, "suspend", "but not while pods run");
}

#[test]
fn the_orders_to_a_foreign_workload_are_the_same_and_whoever_owns_it_obeys() {
    let owner = json!([{ "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "t", "uid": "u", "controller": true }]);
    let foreign =
        |of: Object| of.put("/metadata/ownerReferences", owner.clone()).put("/metadata/labels", json!({}));
    let drain = stopped(cluster_queue("cq", 8), "HoldAndDrain");
    for (of, want) in [
        (foreign(admitted()), "evict"),
        (foreign(admitted().condition("Evicted", true, "ClusterQueueStopped", "m")), "rest"),
    ] {
        let objects = seen_with(Settings::default(), [drain.clone(), of.clone()]);
        assert_eq!(word(&objects.next_orphan_step(&key(&of), NOW)), want);
    }
    let back = foreign(workload("train").version(2).condition("Requeued", false, "ClusterQueueStopped", "m"));
    let objects = seen_with(Settings::default(), [back.clone()]);
    assert_eq!(word(&objects.next_orphan_step(&key(&back), NOW)), "let queue");
}

#[test]
fn a_deactivation_says_what_was_behind_it_and_forgets_how_to_come_back() {
    let marked = |of: Object| of.condition("DeactivationTarget", true, "RequeuingLimitExceeded", "too often");
    let (word, write, _) = due(Settings::default(), NOW, [marked(admitted()), running()]);
    assert_eq!((&*word, &write.body["spec"]), ("take out", &json!({ "active": false })));
    let off = |of: Object| of.put("/spec/active", json!(false)).put("/status/requeueState/count", json!(3));
    let (word, write, note) = due(Settings::default(), NOW, [off(marked(admitted())), running()]);
    assert_eq!(word, "evict");
    assert_eq!(
        says(&write, "Evicted"),
        "True DeactivatedDueToRequeuingLimitExceeded: The workload is deactivated due to too often"
    );
    assert_eq!(says(&write, "DeactivationTarget"), "");
    assert_eq!(write.body["status"]["requeueState"], Value::Null);
    let count = json!([{ "reason": "Deactivated", "underlyingCause": "RequeuingLimitExceeded", "count": 1 }]);
    assert_eq!(write.body["status"]["schedulingStats"]["evictions"], count);
    assert_eq!(note.unwrap().reason, "EvictedDueToDeactivatedDueToRequeuingLimitExceeded");

    let (word, write, _) = due(Settings::default(), NOW, [off(workload("train").version(2)), job("train")]);
    assert_eq!(word, "release", "one that waits is told too");
    assert_eq!(says(&write, "QuotaReserved"), "False Pending: The workload is deactivated");
    assert_eq!(says(&write, "Evicted"), "True Deactivated: The workload is deactivated");
    // Somebody else has written the state too, so that leaving it out did not take it away.
    let told = off(workload("train").version(2)).condition("Evicted", true, "Deactivated", "m");
    assert_eq!(due(Settings::default(), NOW, [told, job("train")]).0, "forget");
    let reactivated = workload("train").version(2).condition("Evicted", true, "Deactivated", "m").condition(
        "Requeued",
        false,
        "DeactivatedDueToRequeuingLimitExceeded",
        "m",
    );
    let (_, write, _) = due(Settings::default(), NOW, [reactivated, job("train")]);
    assert_eq!(says(&write, "Requeued"), "True Reactivated: The workload was reactivated");
}

#[test]
fn pods_that_are_not_ready_in_time_evict_and_each_pause_is_twice_the_last() {
    let objects = seen_with(settings(), [admitted(), running()]);
    assert!(rests(&objects, NOW));
    assert_eq!(objects.job_wakes(&job_key("train"), NOW), Some(Timestamp(NOW.0 - 8000 + 30 * MINUTE)));
    for (count, minutes) in [(None, 1), (Some(1), 2), (Some(4), 16), (Some(6), 60), (Some(i32::MAX), 60)] {
        let of = admitted().put("/status/requeueState", json!({ "count": count }));
        let (word, write, _) = due(settings(), after(30), [of, running()]);
        assert_eq!(word, "evict");
        let said = format!("True PodsReadyTimeout: Exceeded the PodsReady timeout ns/{}", train());
        assert_eq!(says(&write, "Evicted"), said);
        let requeue = &write.body["status"]["requeueState"];
        assert_eq!(requeue["count"], json!(count.unwrap_or(0).saturating_add(1)));
        let at: jiff::Timestamp = requeue["requeueAt"].as_str().unwrap().parse().unwrap();
        assert_eq!(at.as_millisecond(), after(30 + minutes).0);
        let stats = &write.body["status"]["schedulingStats"]["evictions"][0];
        assert_eq!(stats["underlyingCause"], "WaitForStart");
    }
}

#[test]
fn a_workload_that_came_back_too_often_is_taken_out() {
    let requeuing = Requeuing { backoff_limit_count: Some(2), ..Requeuing::default() };
    let limited = || Settings {
        pods_ready: Some(PodsReady { requeuing: requeuing.clone(), ..PodsReady::default() }),
        ..Settings::default()
    };
    for (count, want) in [(1, "evict"), (2, "mark")] {
        let of = admitted().put("/status/requeueState/count", json!(count));
        let (word, write, _) = due(limited(), after(30), [of, running()]);
        assert_eq!(word, want);
        if word == "mark" {
            let said = "True RequeuingLimitExceeded: exceeding the maximum number of re-queuing retries";
            assert_eq!(says(&write, "DeactivationTarget"), said);
        }
    }
}

#[test]
fn a_workload_in_its_pause_queues_when_it_is_over_and_behind_those_that_came_before_its_eviction() {
    let paused = |at: &str| {
        workload("train")
            .version(2)
            .put("/status/requeueState", json!({ "count": 1, "requeueAt": at }))
            .condition("Evicted", true, "PodsReadyTimeout", "late")
            .condition("Requeued", false, "PodsReadyTimeout", "late")
    };
    let objects = seen_with(settings(), [paused("2026-01-01T00:01:00Z"), job("train")]);
    assert!(rests(&objects, NOW));
    assert_eq!(objects.job_wakes(&job_key("train"), NOW), Some(Timestamp(NOW.0 + 50_000)));
    let verdict = objects.state.verdict(&key(&workload("train"))).unwrap();
    assert_eq!(verdict.message, "late");
    assert_eq!(objects.state.tally(&"cq".into()).pending, 1);

    let (word, write, _) = due(settings(), after(1), [paused("2026-01-01T00:01:00Z"), job("train")]);
    assert_eq!(word, "let queue");
    assert_eq!(says(&write, "Requeued"), "True BackoffFinished: The workload backoff was finished");
    assert_eq!(write.body["status"]["requeueState"], json!({ "count": 1 }));

    let released = admitted()
        .put("/status/requeueState", json!({ "count": 1, "requeueAt": "2026-01-01T00:01:00Z" }))
        .condition("Evicted", true, "PodsReadyTimeout", "late");
    let (_, write, _) = due(settings(), NOW, [released.clone(), job("train")]);
    assert_eq!(says(&write, "Requeued"), "False PodsReadyTimeout: late");
    assert_eq!(says(&write, "QuotaReserved"), "False Pending: late");
    let (_, write, _) = due(settings(), after(2), [released, job("train")]);
    assert!(says(&write, "Requeued").starts_with("True BackoffFinished"), "its pods were slow to go");

    for (timestamp, since) in [(RequeuingTimestamp::Eviction, 2000), (RequeuingTimestamp::Creation, 0)] {
        let requeuing = Requeuing { timestamp, ..Requeuing::default() };
        let pods_ready = Some(PodsReady { requeuing, ..PodsReady::default() });
        let of = workload("train").condition("Evicted", true, "PodsReadyTimeout", "late");
        let objects = seen_with(Settings { pods_ready, ..Settings::default() }, [of.clone()]);
        let ordered = objects.state.workload(&key(&of)).unwrap().since;
        assert_eq!(ordered, Timestamp(NOW.0 - 10_000 + since));
    }
}

#[test]
fn pods_are_reported_when_they_are_ready_and_when_one_is_lost() {
    let ready = || running().put("/status/ready", json!(2));
    let waiting = || admitted().condition("PodsReady", false, "WaitForStart", "m");
    let (word, write, _) = due(settings(), NOW, [waiting(), ready()]);
    assert_eq!(word, "ready");
    let all = "All pods reached readiness and the workload is running";
    assert_eq!(says(&write, "PodsReady"), format!("True Started: {all}"));
    assert!(
        seen_with(Settings::default(), [waiting(), ready()]).next_step(&job_key("train"), NOW) == Step::Rest
    );

    let started = || admitted().condition("PodsReady", true, "Started", "m");
    assert!(rests(&seen_with(settings(), [started(), ready()]), after(999)));
    let (_, write, _) = due(settings(), NOW, [started(), running()]);
    let lost = "At least one pod has failed, waiting for recovery";
    assert_eq!(says(&write, "PodsReady"), format!("False WaitForRecovery: {lost}"));

    let recovering = || admitted().condition("PodsReady", false, "WaitForRecovery", "m");
    let (_, write, _) = due(settings(), NOW, [recovering(), ready()]);
    assert_eq!(says(&write, "PodsReady"), format!("True Recovered: {all}"));
    let (word, write, _) = due(settings(), after(30), [recovering(), running()]);
    assert_eq!(word, "evict");
    assert_eq!(write.body["status"]["schedulingStats"]["evictions"][0]["underlyingCause"], "WaitForRecovery");
    let patient = Settings {
        pods_ready: Some(PodsReady { recovery_timeout: None, ..PodsReady::default() }),
        ..settings()
    };
    assert!(rests(&seen_with(patient, [recovering(), running()]), after(999)));
}

#[test]
fn time_to_run_adds_up_over_admissions_and_when_it_is_over_the_workload_is_taken_out() {
    let limited = |past: i32| {
        admitted()
            .put("/spec/maximumExecutionTimeSeconds", json!(60))
            .put("/status/accumulatedPastExecutionTimeSeconds", json!(past))
    };
    let objects = seen_with(Settings::default(), [limited(20), running()]);
    assert!(rests(&objects, NOW));
    assert_eq!(objects.job_wakes(&job_key("train"), NOW), Some(Timestamp(NOW.0 - 8000 + 40_000)));
    let (word, write, note) = due(Settings::default(), after(1), [limited(20), running()]);
    assert_eq!(word, "mark");
    let said = "True MaximumExecutionTimeExceeded: exceeding the maximum execution time";
    assert_eq!(says(&write, "DeactivationTarget"), said);
    assert_eq!(write.body["status"]["accumulatedPastExecutionTimeSeconds"], Value::Null);
    assert_eq!(note.unwrap().message, "The maximum execution time (60s) exceeded");
    let over = limited(0).condition("Evicted", true, "DeactivatedDueToMaximumExecutionTimeExceeded", "m");
    let (word, write, _) = due(Settings::default(), after(1), [over, job("train")]);
    assert_eq!(word, "release");
    assert_eq!(write.body["status"]["accumulatedPastExecutionTimeSeconds"], Value::Null);
}

#[test]
fn a_workload_with_checks_gets_quota_first_and_runs_when_all_have_passed() {
    let mut objects = seen_with(
        Settings { granular_reasons: true, ..settings() },
        [checked_queue(), admission_check("dws", true), workload("train").version(2), job("train")],
    );
    let (write, notes) = crate::seen::admitted(&mut objects);
    assert_eq!(says(&write, "QuotaReserved"), "True QuotaReserved: Quota reserved in ClusterQueue cq");
    let leave = "False UnsatisfiedAdmissionChecks: The workload has not all checks ready";
    assert_eq!(says(&write, "Admitted"), leave);
    assert_eq!(says(&write, "PodsReady"), "False WaitForStart: Not all pods are ready or succeeded");
    let pending = json!([{ "name": "dws", "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:10Z" }]);
    assert_eq!(write.body["status"]["admissionChecks"], pending);
    assert_eq!(notes.len(), 1, "it is not admitted yet");

    let with =
        |checks: Value| workload("train").version(2).reserved("a100").put("/status/admissionChecks", checks);
    let one = |state: &str, message: &str| with(json!([check("dws", state, message)]));
    for (of, want) in [
        (one("Pending", ""), None),
        (one("Ready", ""), Some("let run")),
        (one("Retry", "busy"), Some("evict")),
        (one("Rejected", "no"), Some("mark")),
        (with(json!([])), Some("sync checks")),
        (with(json!([check("old", "Ready", "")])), Some("sync checks")),
    ] {
        let objects =
            seen_with(settings(), [checked_queue(), admission_check("dws", true), of, job("train")]);
        let step = objects.next_step(&job_key("train"), NOW);
        assert_eq!(word(&step), want.unwrap_or("rest"));
        if let Step::Write(write, note) = step {
            match want {
                Some("evict") => {
                    let said =
                        "True AdmissionCheck: Evicted due to AdmissionCheck in Retry state: \"dws\" (busy)";
                    assert_eq!(says(&write, "Evicted"), said);
                    let reset = &write.body["status"]["admissionChecks"][0];
                    assert_eq!((&reset["state"], &reset["retryCount"]), (&json!("Pending"), &json!(1)));
                    assert_eq!(reset["message"], "Reset to Pending after eviction. Previously: Retry");
                }
                Some("mark") => {
                    let said = "True AdmissionCheck: AdmissionCheck in Rejected state: \"dws\" (no)";
                    assert_eq!(says(&write, "DeactivationTarget"), said);
                    assert_eq!(note.unwrap().reason, "AdmissionCheckRejected");
                }
                Some("sync checks") => {
                    assert_eq!(write.body["status"]["admissionChecks"], pending);
                }
                _ => assert_eq!(note.unwrap().reason, "Admitted"),
            }
        }
    }
}

#[test]
fn a_check_that_wants_a_workload_to_come_back_later_says_when() {
    let retry = |name: &str, seconds: i32| {
        let mut check = check(name, "Retry", "");
        check["requeueAfterSeconds"] = json!(seconds);
        check
    };
    let checks = json!([{ "name": "a" }, { "name": "b" }]);
    let queue = checked_queue().put("/spec/admissionChecksStrategy/admissionChecks", checks);
    let of = workload("train")
        .version(2)
        .admitted("a100")
        .put("/status/admissionChecks", json!([retry("b", 120), retry("a", 60)]));
    let (word, write, _) = due(settings(), NOW, [queue, of, running()]);
    assert_eq!(word, "evict");
    assert_eq!(write.body["status"]["requeueState"], json!({ "requeueAt": "2026-01-01T00:02:03Z" }));
    let said = "True AdmissionCheck: Evicted due to AdmissionChecks in Retry state: \"a\"; \"b\"";
    assert_eq!(says(&write, "Evicted"), said);
}

#[test]
fn a_gated_workload_does_not_queue_until_its_last_gate_is_gone() {
    let gate = |of: Object, gates: &str| {
        of.put("/metadata/annotations/kueue.x-k8s.io~1admission-gated-by", json!(gates))
    };
    let objects = seen_with(settings(), [gate(workload("train"), "example.com/a")]);
    assert!(objects.state.awake_lines().next().is_none());
    let verdict = objects.state.verdict(&key(&workload("train"))).unwrap();
    assert_eq!(verdict.reason.as_str(), "AdmissionGated");
    assert_eq!(verdict.message, "Admission is gated by: example.com/a");
    let objects = seen_with(settings(), [gate(workload("train"), "")]);
    assert!(objects.state.awake_lines().next().is_some());
}

/// A Workload that passed a check which wants this added to its pods.
fn updated(update: &Value) -> Object {
    let mut ready = check("dws", "Ready", "");
    let mut update = update.clone();
    update["name"] = json!("main");
    ready["podSetUpdates"] = json!([update]);
    admitted().put("/status/admissionChecks", json!([ready]))
}

#[test]
fn what_a_check_wants_is_added_to_the_pods_and_nothing_else_is_changed() {
    let wants = json!({
        "labels": { "team": "a" },
        "annotations": { "provreq": "x" },
        "nodeSelector": { "zone": "z" },
        "tolerations": [{ "key": "spot", "operator": "Exists" }],
    });
    let (word, write, _) = due(settings(), NOW, [checked_queue(), updated(&wants), job("train")]);
    assert_eq!(word, "start");
    let template = |field: &str| put_by(&write, &format!("/spec/template/{field}"));
    let labels = template("metadata/labels");
    assert_eq!((&labels["team"], &labels["kueue.x-k8s.io/podset"]), (&json!("a"), &json!("main")));
    assert_eq!(template("metadata/annotations")["provreq"], "x");
    assert_eq!(template("spec/nodeSelector"), json!({ "gpu": "a100", "zone": "z" }));
    assert_eq!(template("spec/tolerations"), wants["tolerations"]);
    let elsewhere = job("train").injected(&train(), "a100");
    let objects = seen_with(settings(), [checked_queue(), updated(&wants), elsewhere]);
    assert_eq!(word_of(&objects), "restore", "what an earlier admission put there goes first");
}

#[test]
fn a_check_that_wants_something_else_than_what_is_there_fails_the_start_with_a_word_why() {
    for (wants, problem) in [
        (
            json!({ "nodeSelector": { "gpu": "h100" } }),
            "in admission check \"dws\": invalid admission check PodSetUpdate: conflict for nodeSelector: \
             conflict for key=gpu, value1=a100, value2=h100",
        ),
        (
            json!({ "labels": { "app": "y" } }),
            "invalid admission check PodSetUpdate: conflict for labels: \
             conflict for key=app, value1=x, value2=y",
        ),
    ] {
        let (word, write, note) = due(settings(), NOW, [checked_queue(), updated(&wants), job("train")]);
        assert_eq!(word, "finish");
        assert_eq!(says(&write, "Finished"), format!("True FailedToStart: {problem}"));
        assert_eq!(note.unwrap().message, problem);
    }
}

#[test]
fn a_waiting_workload_follows_its_job_in_gates_and_time_to_run() {
    let gated =
        |of: Object| of.put("/metadata/annotations/kueue.x-k8s.io~1admission-gated-by", json!("a.b/c"));
    let (_, write, _) = due(settings(), NOW, [gated(workload("train").version(2)), job("train")]);
    assert_eq!(write.body["metadata"]["annotations"], json!({ "kueue.x-k8s.io/admission-gated-by": null }));
    assert!(rests(&seen_with(settings(), [gated(workload("train")), gated(job("train"))]), NOW));
    let made = whalezen_dialects::kueue::jobs::build::workload(&gated(job("train")).whole(), (None, 0));
    assert_eq!(made.metadata.annotations.unwrap()["kueue.x-k8s.io/admission-gated-by"], "a.b/c");
    let limited = || job("train").label("kueue.x-k8s.io/max-exec-time-seconds", "60");
    let (_, write, _) = due(settings(), NOW, [workload("train").version(2), limited()]);
    assert_eq!(write.body["spec"], json!({ "maximumExecutionTimeSeconds": 60 }));
    let runs = limited().injected(&train(), "a100").running(2);
    assert!(rests(&seen_with(settings(), [admitted(), runs]), NOW), "not while it runs");
}

#[test]
fn a_finished_workload_is_deleted_when_it_was_kept_for_long_enough() {
    let over = |keep_finished| Settings { keep_finished, ..Settings::default() };
    let finished = || workload("train").version(2).condition("Finished", true, "Succeeded", "");
    let done = || finished().put("/metadata/finalizers", json!([]));
    let at = |seconds: i64| Timestamp(NOW.0 - 8000 + 1000 * seconds);
    let minute = || over(Some(Duration::from_mins(1)));

    // Its finalizer goes first.
    assert_eq!(due(minute(), at(70), [finished(), job("train").ended("Complete", "")]).0, "let go");
    let (_, write, _) = due(minute(), at(60), [done(), job("train").ended("Complete", "")]);
    assert_eq!((write.verb, &write.body), (Verb::Delete, &json!({"uid": "uid-w"})));
    let objects = seen_with(minute(), [done(), job("train").ended("Complete", "")]);
    assert!(rests(&objects, at(59)));
    assert_eq!(objects.job_wakes(&job_key("train"), at(59)), Some(at(60)));
    // Of a job that nobody knows any more as well.
    let objects = seen_with(minute(), [done()]);
    assert!(matches!(objects.next_orphan_step(&key(&done()), at(60)), Step::Write(..)));
    let for_ever = seen_with(over(None), [done(), job("train").ended("Complete", "")]);
    assert!(rests(&for_ever, at(1_000_000)));
}
