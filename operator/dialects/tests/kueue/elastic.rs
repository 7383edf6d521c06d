//! Jobs that hold less than they asked for: pods that have done their work, and fewer pods from the start.

use serde_json::{Value, json};
use whalezen_dialects::{
    kueue::jobs::{Step, build},
    write::Verb,
};

use crate::{
    golden::{assert_write, status_body, status_of_train},
    object::{Object, escaped, job, train, workload},
    seen::{admitted, key, next, put_by, see, seen, word, written},
};

const BY_RECLAIM: Verb = Verb::Apply { manager: "kueue-reclaimable-pods" };

/// The running job of two pods, of which so many have succeeded.
fn succeeded(pods: i32) -> Object {
    job("train").injected(&train(), "a100").running(2 - pods).put("/status/succeeded", json!(pods))
}

/// The Workload says that so many pods have done their work.
fn reclaimed(of: Object, pods: i32) -> Object {
    of.put("/status/reclaimablePods", json!([{ "name": "main", "count": pods }]))
}

#[test]
fn pods_that_succeeded_are_said_to_be_done_once() {
    let of = || workload("train").admitted("a100");
    let (write, note) = written([of().version(7), succeeded(1)]);
    let status = json!({ "reclaimablePods": [{ "name": "main", "count": 1 }] });
    assert_write(&write, &status_of_train(), BY_RECLAIM, &status_body("7", &status));
    assert_eq!(note, None);
    assert_eq!(next([reclaimed(of(), 1), succeeded(1)]), Step::Rest);
    assert_eq!(next([of(), succeeded(0)]), Step::Rest);
}

#[test]
fn what_is_said_to_be_done_follows_the_job_down_as_well() {
    let of = reclaimed(workload("train"), 1).version(7);
    let (write, _) = written([of, job("train")]);
    assert_write(&write, &status_of_train(), BY_RECLAIM, &status_body("7", &json!({})));
}

#[test]
fn an_evicted_job_stops_first_and_a_finished_one_says_no_more() {
    let evicted = workload("train").admitted("a100").condition("Evicted", true, "Preempted", "");
    assert_eq!(word(&next([evicted, succeeded(1)])), "suspend");
    let over = succeeded(2).ended("Complete", "");
    assert_eq!(word(&next([workload("train").admitted("a100"), over])), "finish");
}

#[test]
fn no_more_pods_are_done_than_the_workload_has() {
    let wide = job("train").put("/spec/parallelism", json!(9)).put("/spec/completions", json!(9));
    let of = workload("train").put("/spec/podSets/0", Value::Null).put(
        "/spec/podSets",
        json!([{ "name": "main", "count": 9, "template": wide.0["spec"]["template"].clone() }]),
    );
    let (write, _) = written([of, wide.put("/status/succeeded", json!(99))]);
    assert_eq!(write.body["status"]["reclaimablePods"][0]["count"], json!(9));
}

#[test]
fn what_is_done_is_not_charged_neither_while_it_runs_nor_when_it_comes_again() {
    let held = |objects: &whalezen_dialects::kueue::objects::Objects| {
        let workload = objects.state.workload(&key(&workload("train"))).unwrap();
        let usage = workload.usage(workload.admission().unwrap());
        usage.into_values().map(|amount| amount.0).collect::<Vec<_>>()
    };
    let mut objects = seen([workload("train").admitted("a100")]);
    assert_eq!(held(&objects), [2]);
    see(&mut objects, &reclaimed(workload("train").admitted("a100"), 1).version(2));
    assert_eq!(held(&objects), [1]);
    // Somebody's write that makes no sense is no credit.
    for (version, nonsense) in [(3, 7), (4, -7)] {
        see(&mut objects, &reclaimed(workload("train").admitted("a100"), nonsense).version(version));
        assert_eq!(held(&objects), [if nonsense > 0 { 0 } else { 2 }]);
    }
    let (write, _) = admitted(&mut seen([reclaimed(workload("train"), 1)]));
    let given = &write.body["status"]["admission"]["podSetAssignments"][0];
    assert_eq!((&given["count"], &given["resourceUsage"]), (&json!(1), &json!({ "nvidia.com/gpu": "1" })));
    assert_eq!(
        word(&next([
            reclaimed(workload("train").admitted("a100"), 1),
            job("train").put("/status/succeeded", json!(1))
        ])),
        "start",
        "it still stands for the job"
    );
}

const LEAST: &str = "kueue.x-k8s.io/job-min-parallelism";
const SYNC: &str = "kueue.x-k8s.io/job-completions-equal-parallelism";

fn annotate(of: Object, key: &str, value: &str) -> Object {
    of.put(&format!("/metadata/annotations/{}", escaped(key)), json!(value))
}

/// The job of two pods for which one is enough.
fn modest() -> Object {
    annotate(job("train"), LEAST, "1")
}

/// Its Workload.
fn of_modest() -> Object {
    let mut of = workload("train");
    of.0["spec"]["podSets"][0]["minCount"] = json!(1);
    of
}

/// It holds quota for one pod.
fn given_one() -> Object {
    let mut of = of_modest().admitted("a100");
    of.0["status"]["admission"]["podSetAssignments"][0]["count"] = json!(1);
    of.0["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] = json!({ "nvidia.com/gpu": "1" });
    of
}

fn sized(job: Object, pods: i32) -> Object {
    job.put("/spec/parallelism", json!(pods))
}

#[test]
fn a_job_says_how_many_pods_are_enough_and_its_workload_does_too() {
    let made = |job: &Object| build::workload(&job.whole(), (None, 0)).spec.pod_sets[0].min_count;
    assert_eq!(made(&modest()), Some(1));
    assert_eq!(made(&job("train")), None);
    assert_eq!(made(&annotate(job("train"), LEAST, "some")), None, "as in Kueue");
    assert_eq!(next([of_modest(), modest()]), Step::Rest);
    assert_eq!(word(&next([of_modest(), job("train")])), "update", "it makes a difference");
    assert_eq!(word(&next([workload("train"), modest()])), "update");
    let objects = seen([of_modest()]);
    let pod_sets = objects.state.pod_sets(&key(&of_modest())).unwrap();
    assert_eq!((pod_sets[0].count, pod_sets[0].min_count), (2, Some(1)));
    let objects = seen([reclaimed(of_modest(), 2)]);
    let pod_sets = objects.state.pod_sets(&key(&of_modest())).unwrap();
    assert_eq!((pod_sets[0].count, pod_sets[0].min_count), (0, Some(0)), "never more than there are");
}

#[test]
fn it_starts_with_as_many_pods_as_it_has_quota_for() {
    let spec = |job: Object| {
        let (write, _) = written([given_one(), job]);
        (
            word(&Step::Write(Box::new(write.clone()), None)),
            put_by(&write, "/spec/parallelism"),
            put_by(&write, "/spec/completions"),
        )
    };
    assert_eq!(spec(modest()), ("start".to_owned(), json!(1), Value::Null));
    let synced = annotate(modest(), SYNC, "true").put("/spec/completionMode", json!("Indexed"));
    assert_eq!(spec(synced), ("start".to_owned(), json!(1), json!(1)));
    let (write, _) = written([of_modest().admitted("a100"), modest()]);
    assert_eq!(put_by(&write, "/spec/parallelism"), Value::Null, "all of its pods fit");
    let stubborn = given_one()
        .put("/spec/podSets/0", Value::Null)
        .put("/spec/podSets", workload("train").0["spec"]["podSets"].clone());
    let (write, _) = written([stubborn, job("train")]);
    assert_eq!(write.body["spec"].get("parallelism"), None, "who did not ask for it is not made smaller");
}

#[test]
fn a_job_that_runs_with_fewer_pods_is_still_the_workloads_and_no_other_number_is() {
    let running = |pods: i32| sized(modest(), pods).injected(&train(), "a100").running(pods);
    assert_eq!(next([given_one(), running(1)]), Step::Rest);
    assert_eq!(word(&next([given_one(), running(2)])), "delete");
    assert_eq!(
        word(&next([given_one(), sized(modest(), 2).running(2)])),
        "suspend",
        "it was not started here"
    );
    let by_hand = |pods: i32| sized(modest(), pods).injected(&train(), "a100");
    assert_eq!(word(&next([given_one(), by_hand(1)])), "resume");
    assert_eq!(word(&next([given_one(), by_hand(2)])), "restore", "and then it starts with one");
    let wider = sized(modest(), 3).put("/spec/completions", json!(3));
    assert_eq!(word(&next([given_one(), wider])), "delete");
}

#[test]
fn a_stopped_job_asks_for_all_of_its_pods_again() {
    let stopped = || sized(modest(), 1).injected(&train(), "a100");
    let evicted = given_one().condition("Evicted", true, "Preempted", "");
    assert_eq!(word(&next([evicted, stopped()])), "restore");
    let put_back = |job: Object, field: &str| {
        let write = job.job().restore(&given_one().read(), 0).unwrap();
        let path = format!("/spec/{field}");
        let operations = write.body.as_array().unwrap().clone();
        operations
            .iter()
            .find(|operation| operation["path"] == *path)
            .map(|operation| operation["value"].clone())
    };
    assert_eq!(put_back(stopped(), "parallelism"), Some(json!(2)));
    assert_eq!(put_back(stopped(), "completions"), None);
    let synced = || annotate(stopped(), SYNC, "1").put("/spec/completions", json!(1));
    assert_eq!(put_back(synced(), "completions"), Some(json!(2)));
    assert_eq!(put_back(sized(stopped(), 2), "parallelism"), None);
    let ordinary = sized(job("train"), 1).injected(&train(), "a100");
    assert_eq!(put_back(ordinary, "parallelism"), None, "the size of others is theirs");
}
