//! What is counted when it happens to a Workload, and that it is counted once.

use std::time::Duration;

use serde_json::json;
use whalezen_core::{preempt::Ground, workload::Timestamp};
use whalezen_dialects::kueue::{milestones::What, objects::Objects};

use crate::{
    object::{Object, workload},
    seen::{NOW, key, see, seen},
};

/// A condition that came to be at this second of 2026.
fn at(object: Object, type_: &str, holds: bool, reason: &str, second: u32) -> Object {
    let mut object = object.condition(type_, holds, reason, "");
    let last = object.0["status"]["conditions"].as_array_mut().unwrap().last_mut().unwrap();
    last["lastTransitionTime"] = json!(format!("2026-01-01T00:00:{second:02}Z"));
    object
}

fn train(version: u64) -> Object {
    workload("train").version(version).put("/metadata/creationTimestamp", json!("2026-01-01T00:00:00Z"))
}

/// The Workload with quota since the third second.
fn reserved(version: u64) -> Object {
    let mut object = train(version).reserved("a100");
    object.0["status"]["conditions"] = json!([]);
    at(object, "QuotaReserved", true, "QuotaReserved", 3)
}

fn happened(objects: &mut Objects, object: &Object) -> Vec<What> {
    see(objects, object);
    objects.take_milestones().into_iter().map(|milestone| milestone.what).collect()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn what_is_seen_for_the_first_time_happened_before() {
    let mut objects = seen([]);
    assert_eq!(happened(&mut objects, &at(reserved(5), "Admitted", true, "Admitted", 3)), []);
}

#[test]
fn a_life_is_counted_step_by_step_and_each_step_once() {
    let mut objects = seen([train(1)]);
    assert_eq!(happened(&mut objects, &reserved(2)), [What::Reserved { waited: seconds(3) }]);
    assert_eq!(happened(&mut objects, &reserved(2)), []);

    let checks = json!([{"name": "check", "state": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:05Z"}]);
    let admitted = |version| {
        at(reserved(version), "Admitted", true, "Admitted", 5).put("/status/admissionChecks", checks.clone())
    };
    let want = What::Admitted { waited: seconds(5), checked: Some(seconds(2)) };
    assert_eq!(happened(&mut objects, &admitted(3)), [want]);

    let ready = |version| at(admitted(version), "PodsReady", true, "Started", 9);
    let want = What::Ready { queued: seconds(9), admitted: seconds(4) };
    assert_eq!(happened(&mut objects, &ready(4)), [want]);

    let finished = at(ready(5), "Finished", true, "Succeeded", 20);
    see(&mut objects, &finished);
    let milestones = objects.take_milestones();
    let [finish] = milestones.as_slice() else { panic!("{milestones:?}") };
    assert_eq!(finish.what, What::Finished { replaced: false });
    assert_eq!((finish.cluster_queue.as_str(), &*finish.local_queue.name), ("cq", "lq"));
}

#[test]
fn a_slice_that_another_took_the_place_of_counts_as_replaced() {
    let mut objects = seen([reserved(1)]);
    let over = at(reserved(2), "Finished", true, "WorkloadSliceReplaced", 20);
    assert_eq!(happened(&mut objects, &over), [What::Finished { replaced: true }]);
}

#[test]
fn an_eviction_is_counted_by_its_reason_and_cause_and_then_how_long_the_quota_was_kept() {
    let running = at(at(reserved(1), "Admitted", true, "Admitted", 3), "PodsReady", true, "Started", 4);
    let mut objects = seen([running]);
    let evicted = |version, count| {
        let evictions =
            json!([{"reason": "Deactivated", "underlyingCause": "RequeuingLimitExceeded", "count": count}]);
        at(reserved(version), "Evicted", true, "DeactivatedDueToRequeuingLimitExceeded", 10)
            .put("/status/schedulingStats", json!({ "evictions": evictions }))
    };
    let want = What::Evicted {
        reason: "Deactivated".to_owned(),
        cause: "RequeuingLimitExceeded".to_owned(),
        first: true,
        ready: Some(seconds(6)),
    };
    assert_eq!(happened(&mut objects, &evicted(2, 1)), [want]);

    let released = at(train(3), "Evicted", true, "DeactivatedDueToRequeuingLimitExceeded", 10);
    let released = at(released, "QuotaReserved", false, "Pending", 12);
    let want = What::Released { reason: "Deactivated".to_owned(), after: seconds(2) };
    assert_eq!(happened(&mut objects, &released), [want]);

    let mut objects = seen([reserved(1).put(
        "/status/schedulingStats",
        json!({"evictions": [{"reason": "Deactivated", "underlyingCause": "RequeuingLimitExceeded", "count": 1}]}),
    )]);
    let again = happened(&mut objects, &evicted(2, 2));
    assert!(matches!(again.as_slice(), [What::Evicted { first: false, .. }]), "{again:?}");
}

#[test]
fn a_wait_begins_anew_when_a_workload_is_queued_again() {
    let mut objects = seen([at(train(1), "Requeued", true, "Preempted", 2)]);
    let again = at(reserved(2), "Requeued", true, "Preempted", 2);
    assert_eq!(happened(&mut objects, &again), [What::Reserved { waited: seconds(1) }]);
}

#[test]
fn a_workload_made_anew_has_no_past() {
    let mut objects = seen([train(1)]);
    assert_eq!(happened(&mut objects, &reserved(2).uid("another")), []);
    assert!(objects.state.workload(&key(&train(1))).is_some());
}

#[test]
fn what_was_preempted_before_is_read_off_the_conditions() {
    let preempted = |name: &str, version, holds, second, message: &str| {
        let object = workload(name).version(version);
        let mut object = at(object, "Preempted", holds, "InClusterQueue", second);
        let last = object.0["status"]["conditions"].as_array_mut().unwrap().last_mut().unwrap();
        last["message"] = json!(message);
        object
    };
    let path = "due to x; preemptor path: /all/cq; preemptee path: /all/other";
    let objects = seen([
        preempted("waits", 1, true, 9, path),
        preempted("runs-again", 2, false, 4, "Previously: Preempted"),
        train(3),
    ]);
    let before = |now| {
        let past = objects.preemptions_before(now);
        past.into_iter().map(|past| (past.at.0 - NOW.0, past.queue.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(before(NOW), [(-6000, "cq".to_owned()), (-1000, "other".to_owned())]);
    assert_eq!(before(Timestamp(NOW.0 + 3_595_000)), [(-1000, "other".to_owned())]);
    assert_eq!(before(Timestamp(NOW.0 + 3_600_000)), []);
    assert_eq!(objects.ground_of_preemption(&key(&workload("waits"))), Some(Ground::InClusterQueue));
    assert_eq!(objects.ground_of_preemption(&key(&workload("runs-again"))), None);
}
