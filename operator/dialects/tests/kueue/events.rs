//! In whatever order things are seen, and however often: the same is due, and nothing that was done already.

use serde_json::{Value, json};
use whalezen_core::{
    labels::{Operator, Requirement, Selector},
    name::LocalQueueKey,
};
use whalezen_crds::kueue::v1beta2 as kueue;
use whalezen_dialects::kueue::{
    jobs::Step,
    objects::Objects,
    settings::{ManagedNamespaces, Settings},
};

use crate::{
    object::{
        IN_USE, Object, cluster_queue, flavor, job, local_queue, namespace, train, workload,
        workload_priority,
    },
    seen::{NOW, job_key, key, see, seen, word},
};

fn step(objects: &Objects) -> String {
    word(&objects.next_step(&job_key("train"), NOW))
}

#[test]
fn a_workload_seen_before_its_job_is_no_orphan() {
    let mut objects = seen([workload("train").admitted("a100")]);
    assert!(objects.take_due().orphans.contains(&key(&workload("train"))));
    see(&mut objects, &job("train").injected(&train(), "a100").running(2));
    assert!(objects.take_due().jobs.contains(&job_key("train")));
    assert_eq!(step(&objects), "rest");
    assert_eq!(objects.next_orphan_step(&key(&workload("train")), NOW), Step::Rest);
}

#[test]
fn a_job_without_a_queue_is_known_when_its_workload_comes() {
    let mut out = job("train").injected(&train(), "a100").running(2);
    out.0["metadata"]["labels"] = json!({});
    let mut objects = seen([out]);
    assert_eq!(step(&objects), "rest");
    see(&mut objects, &workload("train").admitted("a100"));
    let due = objects.take_due();
    assert!(due.orphans.is_empty(), "{due:?}");
    assert_eq!(step(&objects), "rest");
}

#[test]
fn a_job_made_anew_under_the_same_name_has_nothing_of_the_old_one() {
    let mut objects = seen([job("train").version(5), workload("train").admitted("a100")]);
    objects.take_due();
    see(&mut objects, &job("train").uid("uid-2").version(9));
    let due = objects.take_due();
    assert!(due.orphans.contains(&key(&workload("train"))), "{due:?}");
    assert_eq!(step(&objects), "create");
    // A late answer about the old one changes nothing.
    see(&mut objects, &job("train").version(6).running(2));
    objects.confirm_job(&job("train").version(10).running(2).job());
    assert_eq!(objects.job(&job_key("train")).unwrap().uid, "uid-2");
    assert_eq!(step(&objects), "create");
}

#[test]
fn an_answer_about_a_job_that_is_gone_does_not_bring_it_back() {
    let mut objects = seen([job("train"), workload("train")]);
    objects.delete_job(&job_key("train"));
    objects.confirm_job(&job("train").version(9).job());
    assert!(objects.job(&job_key("train")).is_none());
    assert!(objects.take_due().orphans.contains(&key(&workload("train"))));
}

#[test]
fn what_is_older_than_what_is_known_is_ignored() {
    let mut objects =
        seen([job("train").version(5).running(2), workload("train").version(5).admitted("a100")]);
    for version in [1, 5] {
        see(&mut objects, &job("train").version(version));
        see(&mut objects, &workload("train").version(version));
    }
    assert!(!objects.job(&job_key("train")).unwrap().suspended);
    assert!(objects.state.workload(&key(&workload("train"))).unwrap().admission().is_some());
}

#[test]
fn a_workload_deleted_and_made_anew_is_another_one() {
    let mut objects = seen([job("train"), workload("train").version(5).admitted("a100")]);
    see(&mut objects, &workload("train").version(9).uid("uid-again"));
    objects.state.settle();
    assert_eq!(objects.state.tally(&"cq".into()).reserving, 0);
    objects.delete_workload(&key(&workload("train")));
    assert_eq!(step(&objects), "create");
    assert!(objects.take_due().orphans.is_empty());
}

#[test]
fn a_workload_that_changes_hands_makes_both_jobs_due() {
    let other = |w: Object| {
        w.put("/metadata/ownerReferences", json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": "other", "uid": "uid-other", "controller": true,
        }]))
    };
    let mut objects = seen([job("train"), job("other"), workload("train")]);
    assert_eq!(step(&objects), "rest");
    objects.take_due();
    see(&mut objects, &other(workload("train").version(2)));
    assert!(objects.take_due().jobs.contains(&job_key("train")));
    assert_eq!(step(&objects), "create");
    assert_eq!(objects.workload_of(&job_key("other")), Some(&key(&workload("train"))));
}

#[test]
fn a_priority_class_that_appears_late_lets_the_job_go_on() {
    let mut objects = seen([job("train").label("kueue.x-k8s.io/priority-class", "high")]);
    assert_eq!(step(&objects), "stuck");
    objects.take_due();
    see(&mut objects, &workload_priority("high", 7));
    assert!(objects.take_due().jobs.contains(&job_key("train")));
    assert_eq!(step(&objects), "create");
    objects.delete_workload_priority_class("high");
    assert_eq!(step(&objects), "stuck");
}

#[test]
fn a_new_leader_looks_at_everything() {
    let orphan = workload("other");
    let mut objects = seen([job("train"), workload("train"), orphan.clone()]);
    objects.take_due();
    objects.all_due();
    let due = objects.take_due();
    assert!(due.jobs.contains(&job_key("train")));
    assert_eq!(due.orphans.into_iter().collect::<Vec<_>>(), [key(&orphan)]);
    assert!(due.queues.contains(&"cq".into()) && due.flavors.contains(&"a100".into()));
}

#[test]
fn a_queue_is_kept_while_workloads_hold_its_quota() {
    let finalizers = |objects: &Objects| {
        objects.queue_finalizer(&"cq".into()).map(|write| write.body["metadata"]["finalizers"].clone())
    };
    let mut objects = seen([]);
    assert_eq!(finalizers(&objects), Some(json!([IN_USE])));
    let kept = cluster_queue("cq", 8).finalizers(["theirs", IN_USE]);
    see(&mut objects, &kept.clone().version(2));
    assert_eq!(finalizers(&objects), None);
    see(&mut objects, &workload("train").admitted("a100"));
    see(&mut objects, &kept.clone().version(3).deleting());
    objects.state.settle();
    objects.take_due();
    assert_eq!(finalizers(&objects), None);
    let over = workload("train").version(2).admitted("a100").condition("Finished", true, "Succeeded", "");
    see(&mut objects, &over);
    assert!(objects.take_due().queues.contains(&"cq".into()));
    objects.state.settle();
    assert_eq!(finalizers(&objects), Some(json!(["theirs"])));
    see(&mut objects, &cluster_queue("cq", 8).version(4).finalizers(["theirs"]).deleting());
    assert_eq!(finalizers(&objects), None, "not again on its way out");
}

#[test]
fn a_flavor_is_kept_while_a_queue_names_it() {
    let finalizers = |objects: &Objects| {
        objects.flavor_finalizer(&"a100".into()).map(|write| write.body["metadata"]["finalizers"].clone())
    };
    let mut objects = seen([]);
    assert_eq!(finalizers(&objects), Some(json!([IN_USE])));
    see(&mut objects, &flavor("a100").version(2).finalizers([IN_USE]).deleting());
    assert_eq!(finalizers(&objects), None);
    objects.take_due();
    objects.delete_queue(&"cq".into());
    assert!(objects.take_due().flavors.contains(&"a100".into()));
    assert_eq!(finalizers(&objects), Some(json!([])));
}

/// The object of a kind with the status that a merge patch gives it, as its type reads it.
fn shown(object: Object, body: &Value) -> Object {
    object.version(2).put("/status", body["status"].clone())
}

#[test]
fn a_status_is_written_once_and_again_only_when_it_changes() {
    let name = "cq".into();
    let lq = LocalQueueKey::new("ns", "lq");
    let mut objects = seen([workload("train").admitted("a100"), workload("other")]);
    let queue = objects.queue_status(&name, NOW).unwrap().body;
    let local = objects.local_queue_status(&lq, NOW).unwrap().body;
    objects.queue_status_written(&name, &queue);
    objects.local_queue_status_written(&lq, &local);
    assert_eq!(objects.queue_status(&name, NOW), None);
    assert_eq!(objects.local_queue_status(&lq, NOW), None);
    // The same as the watch shows it.
    see(&mut objects, &shown(cluster_queue("cq", 8), &queue));
    see(&mut objects, &shown(local_queue("lq", "cq"), &local));
    objects.state.settle();
    assert_eq!(objects.queue_status(&name, NOW), None);
    assert_eq!(objects.local_queue_status(&lq, NOW), None);
    let finished = workload("train").version(2).admitted("a100").condition("Finished", true, "Succeeded", "");
    see(&mut objects, &finished);
    let write = objects.queue_status(&name, NOW).unwrap();
    assert_eq!(write.body["status"]["reservingWorkloads"], 0);
    assert_eq!(
        write.body["status"]["conditions"], queue["status"]["conditions"],
        "no transition, no new time"
    );
}

#[test]
fn an_empty_status_is_written_once_too() {
    let lq = LocalQueueKey::new("ns", "lq");
    let mut objects =
        seen([local_queue("lq", "none"), cluster_queue("cq", 8).put("/spec/resourceGroups", json!([]))]);
    objects.state.settle();
    for (write, name) in [
        (objects.local_queue_status(&lq, NOW).unwrap(), None),
        (objects.queue_status(&"cq".into(), NOW).unwrap(), Some("cq")),
    ] {
        match name {
            None => see(&mut objects, &shown(local_queue("lq", "none"), &write.body)),
            Some(name) => {
                let queue = cluster_queue(name, 8).put("/spec/resourceGroups", json!([]));
                see(&mut objects, &shown(queue, &write.body));
            }
        }
    }
    objects.state.settle();
    assert_eq!(objects.local_queue_status(&lq, NOW), None);
    assert_eq!(objects.queue_status(&"cq".into(), NOW), None);
}

#[test]
fn conditions_of_others_stay_in_the_status_of_a_queue() {
    let theirs = json!({
        "type": "MultiKueueManagerQuotaAutomation", "status": "True", "reason": "r", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:02Z",
    });
    let objects = seen([cluster_queue("cq", 8).version(2).put("/status/conditions", json!([theirs]))]);
    let write = objects.queue_status(&"cq".into(), NOW).unwrap();
    let conditions = write.body["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 2);
    assert_eq!(conditions[0], theirs);
}

#[test]
fn an_unreadable_queue_is_inactive_and_an_unreadable_workload_goes_on_holding() {
    let mut objects = seen([job("train"), workload("train").admitted("a100")]);
    let metadata = |object: Object| object.version(2).read::<kueue::Workload>().metadata;
    objects.apply_unreadable_queue(&metadata(cluster_queue("cq", 8)), "cannot be read: bad");
    objects.apply_unreadable_workload(&metadata(workload("train")), "cannot be read: bad");
    objects.apply_unreadable_workload(&metadata(workload("other")), "cannot be read: bad");
    objects.state.settle();
    let status = objects.queue_status(&"cq".into(), NOW).unwrap().body["status"].clone();
    assert_eq!(status["reservingWorkloads"], 1);
    assert!(status["conditions"][0]["message"].as_str().unwrap().contains("cannot be read: bad"));
    let verdict = objects.state.verdict(&key(&workload("other"))).unwrap();
    assert_eq!(verdict.message, "cannot be read: bad");
}

#[test]
fn news_of_an_end_does_not_end_the_next_workload_of_that_name() {
    let mut objects = seen([job("train"), workload("train").version(2).uid("uid-first")]);
    see(&mut objects, &workload("train").version(9).uid("uid-again"));
    objects.gone(&key(&workload("train")), "uid-first");
    assert!(objects.state.workload(&key(&workload("train"))).is_some());
    objects.gone(&key(&workload("train")), "uid-again");
    assert!(objects.state.workload(&key(&workload("train"))).is_none());
}

#[test]
fn a_job_in_a_namespace_that_is_not_managed_is_left_alone_until_it_is() {
    let managed = Requirement { key: "team".to_owned(), operator: Operator::Exists, values: vec![] };
    let managed_namespaces = ManagedNamespaces(Selector::All(vec![managed]));
    let mut objects = Objects::new(Settings { managed_namespaces, ..Settings::default() });
    for object in
        [namespace("ns"), flavor("a100"), cluster_queue("cq", 8), local_queue("lq", "cq"), job("train")]
    {
        see(&mut objects, &object);
    }
    objects.take_due();
    assert_eq!(step(&objects), "rest");
    see(&mut objects, &namespace("ns").label("team", "a"));
    assert!(objects.take_due().jobs.contains(&job_key("train")));
    assert_eq!(step(&objects), "create");
}

#[test]
fn what_is_kept_of_objects_has_no_environment_in_it() {
    let container = json!({ "name": "c", "env": [{ "name": "PASSWORD", "value": "hunter2" }] });
    let spec = json!({ "containers": [container], "restartPolicy": "Never" });
    let of_job = job("train").put("/spec/template/spec", spec.clone());
    let pod_set = json!({ "name": "main", "count": 1, "template": { "spec": spec } });
    let of_workload = workload("train").put("/spec/podSets", json!([pod_set]));
    assert!(of_job.0.to_string().contains("hunter2") && of_workload.0.to_string().contains("hunter2"));
    let objects = seen([of_job, of_workload]);
    let snapshot = serde_json::to_string(objects.state.snapshot()).unwrap();
    for kept in [snapshot, format!("{objects:?}")] {
        assert!(!kept.contains("hunter2") && !kept.contains("PASSWORD"), "{kept}");
    }
}
