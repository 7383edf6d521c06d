//! Hosts that fail under a gang: its pods get others, or it is stopped as a whole.

use serde_json::{Value, json};
use whalezen_core::{
    name::PodKey,
    topology::{Placement, Profile},
    workload::{Admission, Timestamp},
};
use whalezen_dialects::kueue::{
    jobs::{Step, binding},
    objects::Objects,
};

use crate::{
    binding::{GATE, on_hosts},
    lost::{deleted, pod},
    object::{Object, job, put, train},
    placed::{node, placed, seen_in_racks},
    seen::{NOW, job_key, key, see, word},
};

/// The Job of Workload [`on_hosts`], of which not all pods are ready. Its hosts are `node-2` and `node-3`.
fn running() -> Object {
    job("train").injected(&train(), "a100").running(2).put("/status/ready", json!(1))
}

fn step(objects: &Objects) -> Step {
    objects.next_step(&job_key("train"), NOW)
}

fn named(hosts: &[&str]) -> Object {
    let hosts: Vec<Value> = hosts.iter().map(|name| json!({ "name": name })).collect();
    on_hosts().version(50).put("/status/unhealthyNodes", json!(hosts))
}

fn unready(name: &str) -> Object {
    let since = json!({ "type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:08Z" });
    node("r2", name, 1).put("/status/conditions", json!([since]))
}

fn tainted(name: &str, effect: &str) -> Object {
    node("r2", name, 1).put("/spec/taints", json!([{ "key": "k", "value": "v", "effect": effect }]))
}

/// What is written to the list of hosts that fail.
fn names(step: &Step) -> Value {
    let Step::Write(write, _) = step else { panic!("{step:?}") };
    write.body["status"]["unhealthyNodes"].clone()
}

fn message(step: &Step) -> String {
    let Step::Write(write, _) = step else { panic!("{step:?}") };
    let conditions = write.body["status"]["conditions"].as_array().unwrap();
    let evicted = conditions.iter().find(|condition| condition["type"] == "Evicted").unwrap();
    assert_eq!(evicted["reason"], "NodeFailures");
    evicted["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_host_fails_when_it_keeps_pods_off_and_none_of_the_job_goes_on_there() {
    let goes_on = || vec![pod("p", "node-2")];
    let goes = || vec![deleted(pod("p", "node-2"), 9)];
    let tolerant = json!([{ "key": "k", "operator": "Exists" }]);
    for (what, changed, pods, job, fails) in [
        ("all is well", node("r2", "node-2", 1), vec![], running(), false),
        ("it is not ready", unready("node-2"), vec![], running(), true),
        ("a pod goes on", unready("node-2"), goes_on(), running(), false),
        ("it is being deleted", unready("node-2"), goes(), running(), true),
        ("it is tainted", tainted("node-2", "NoSchedule"), vec![], running(), true),
        ("and a pod goes on", tainted("node-2", "NoExecute"), goes_on(), running(), false),
        ("which is no order", tainted("node-2", "PreferNoSchedule"), vec![], running(), false),
        (
            "which is tolerated",
            tainted("node-2", "NoSchedule"),
            vec![],
            running().put("/spec/template/spec/tolerations", tolerant),
            false,
        ),
        ("nobody needs it", unready("node-2"), vec![], running().put("/status/ready", json!(2)), false),
        ("another one's", unready("node-1"), vec![], running(), false),
    ] {
        let mut objects = seen_in_racks(&[on_hosts(), job]);
        for pod in pods {
            objects.apply_pod(&pod.read());
        }
        objects.take_due();
        see(&mut objects, &changed);
        objects.state.settle();
        if fails {
            assert!(objects.take_due().jobs.contains(&job_key("train")), "{what}");
            assert_eq!(names(&step(&objects)), json!([{ "name": "node-2" }]), "{what}");
        } else {
            assert_eq!(word(&step(&objects)), "rest", "{what}");
        }
    }
    let mut objects = seen_in_racks(&[on_hosts(), running()]);
    objects.apply_pod(&pod("p", "node-2").read());
    objects.delete_node(&"node-2".into());
    assert_eq!(names(&step(&objects)), json!([{ "name": "node-2" }]), "it is gone, whoever was there");
}

fn hosts(of: &Admission) -> Vec<&str> {
    of.pod_sets[0].placement.iter().flat_map(Placement::hosts).map(|host| &**host).collect()
}

#[test]
fn a_host_that_is_named_is_replaced_and_not_promised_twice() {
    let mut objects = seen_in_racks(&[named(&["node-2"]), running()]);
    see(&mut objects, &node("r2", "node-4", 1));
    objects.state.settle();
    let Step::Move(write, note, moved) = step(&objects) else { panic!("{:?}", step(&objects)) };
    assert_eq!(hosts(&moved), ["node-3", "node-4"]);
    assert_eq!(note.reason, "NodeReplaced");
    let given = "/status/admission/podSetAssignments/0/topologyAssignment";
    let roots = format!("{given}/slices/0/valuesPerLevel/0/individual/roots");
    assert_eq!(write.body.pointer(&roots), Some(&json!(["3", "4"])));
    objects.state.assume_move(&key(&on_hosts()), *moved);
    let next = objects.state.without_host(&key(&on_hosts()), "node-3", Profile::default()).unwrap();
    assert_eq!(hosts(&next), ["node-2", "node-4"], "it holds node-4 already, and node-2 no more");
    objects.state.settle();
    assert_eq!(objects.state.audit(), Ok(()));
}

#[test]
fn a_node_may_have_another_name_than_its_host() {
    let named = |host: &str| {
        let named = unready(host).put("/metadata/name", json!(format!("machine-of-{host}")));
        named.put("/metadata/labels/kubernetes.io~1hostname", json!(host))
    };
    let mut objects = seen_in_racks(&[on_hosts(), running()]);
    objects.delete_node(&"node-2".into());
    objects.apply_pod(&pod("p", "machine-of-node-2").read());
    objects.take_due();
    see(&mut objects, &named("node-2"));
    assert!(objects.take_due().jobs.contains(&job_key("train")));
    assert_eq!(word(&step(&objects)), "rest", "a pod goes on there");
    objects.apply_pod(&deleted(pod("p", "machine-of-node-2"), 9).read());
    assert_eq!(names(&step(&objects)), json!([{ "name": "node-2" }]));
}

#[test]
fn where_there_is_no_other_host_the_whole_stops() {
    let objects = seen_in_racks(&[named(&["node-2"]), running()]);
    let text = message(&step(&objects));
    assert!(
        text.starts_with("Workload was evicted as there was no replacement for unhealthy node(s): node-2"),
        "{text}"
    );
}

#[test]
fn where_several_hosts_fail_the_whole_stops() {
    let mut objects = seen_in_racks(&[on_hosts(), running()]);
    see(&mut objects, &unready("node-2"));
    see(&mut objects, &unready("node-3"));
    objects.state.settle();
    assert_eq!(
        message(&step(&objects)),
        "Workload eviction triggered due to multiple TAS assigned node failures, including: node-2, node-3"
    );
}

#[test]
fn what_is_not_its_host_any_more_is_not_named_any_more() {
    let elsewhere = seen_in_racks(&[named(&["node-1"]), running()]);
    assert_eq!(names(&step(&elsewhere)), Value::Null);
    let stopped = named(&["node-2"]).condition("Evicted", true, "NodeFailures", "");
    let mut objects = seen_in_racks(&[stopped, running()]);
    assert_eq!(word(&step(&objects)), "suspend");
    let waits = placed().version(60).put("/status/unhealthyNodes", json!([{ "name": "node-2" }]));
    see(&mut objects, &waits);
    see(&mut objects, &job("train").version(61));
    assert_eq!(names(&step(&objects)), Value::Null);
}

/// A pod of the Job that was bound to `node-2`.
fn bound(name: &str, status: Value) -> Object {
    pod(name, "")
        .put("/metadata/labels", json!({ "kueue.x-k8s.io/podset": "main" }))
        .put(
            "/metadata/annotations",
            json!({ "kueue.x-k8s.io/workload": train(), "kueue.x-k8s.io/podset-required-topology": "rack" }),
        )
        .put("/metadata/creationTimestamp", json!("2026-01-01T00:00:03Z"))
        .put("/spec/nodeSelector", json!({ "kubernetes.io/hostname": "node-2" }))
        .put("/status", status)
}

#[test]
fn a_pod_that_is_not_let_on_its_host_has_the_whole_stopped_after_a_while() {
    let says = |at: &str, reason: &str| {
        let said = json!({
            "type": "PodScheduled", "status": "False", "reason": reason, "message": "no room", "lastTransitionTime": at,
        });
        bound("p", json!({ "phase": "Pending", "conditions": [said] }))
    };
    let now = Timestamp(NOW.0 + 60_000);
    let mut objects = seen_in_racks(&[on_hosts(), running()]);
    objects.apply_waiting_pod(&says("2026-01-01T00:00:05Z", "Unschedulable").read());
    assert_eq!(word(&step(&objects)), "rest");
    let gives_up = Timestamp(NOW.0 + 55_000);
    assert_eq!(objects.job_wakes(&job_key("train"), NOW), Some(gives_up));
    let text = message(&objects.next_step(&job_key("train"), now));
    assert_eq!(text, "Pod ns/p cannot be scheduled on node-2, which was chosen for it: no room");
    for other in
        [says("2026-01-01T00:00:30Z", "Unschedulable"), says("2026-01-01T00:00:05Z", "SchedulerError")]
    {
        objects.apply_waiting_pod(&other.read());
        assert_eq!(word(&objects.next_step(&job_key("train"), now)), "rest");
    }
    objects.apply_waiting_pod(&says("2026-01-01T00:00:05Z", "Unschedulable").read());
    objects.delete_waiting_pod(&PodKey::new("ns", "p"));
    assert_eq!(word(&objects.next_step(&job_key("train"), now)), "rest");
}

#[test]
fn nobody_is_bound_to_a_host_that_turned_a_pod_away_and_that_is_named() {
    let waits = || {
        let mut waits = bound("new", json!({ "phase": "Pending" }));
        put(&mut waits.0, "/spec/nodeSelector", Value::Null);
        put(&mut waits.0, "/spec/schedulingGates", json!([{ "name": GATE }]));
        waits
    };
    let stays = || {
        let stays = bound("stays", json!({ "phase": "Running" }));
        stays.put("/spec/nodeSelector", json!({ "kubernetes.io/hostname": "node-3" }))
    };
    let failed = |reason: &str| bound("old", json!({ "phase": "Failed", "reason": reason }));
    let before = failed("OutOfcpu").put("/metadata/creationTimestamp", json!("2026-01-01T00:00:01Z"));
    for (what, workload, old, names, binds) in [
        ("the room was taken", on_hosts(), failed("OutOfcpu"), true, false),
        ("so was a device", on_hosts(), failed("OutOfnvidia.com/gpu"), true, false),
        ("something else of the kubelet", on_hosts(), failed("UnexpectedAdmissionError"), true, false),
        ("it failed by itself", on_hosts(), failed("Error"), false, true),
        ("before this admission", on_hosts(), before, false, true),
        ("it is named already", named(&["node-2"]), failed("OutOfcpu"), false, false),
    ] {
        let pods = [old.read(), waits().read(), stays().read()];
        let writes = binding::bind(&workload.read(), &pods, &train());
        let named = writes.iter().find(|write| write.target.kind == "Workload");
        assert_eq!(named.is_some(), names, "{what}");
        assert_eq!(writes.iter().any(|write| write.target.name == "new"), binds, "{what}");
        if let Some(named) = named {
            assert_eq!(named.body["status"]["unhealthyNodes"], json!([{ "name": "node-2" }]), "{what}");
        }
    }
}
