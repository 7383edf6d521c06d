//! Checks that the cluster autoscaler answers: what is asked of it, and what its answers mean.

use serde_json::{Value, json};
use whalezen_core::workload::Timestamp;
use whalezen_dialects::{
    kueue::{
        objects::Objects,
        provisioning::{Step, build},
    },
    write::{Note, Verb, Write},
};

use crate::{
    object::{Object, admission_check, check, checked_queue, workload},
    seen::{NOW, key, see, seen},
};

const CONTROLLER: &str = "kueue.x-k8s.io/provisioning-request";

/// The check `dws` with the configuration `conf`.
fn dws() -> Object {
    admission_check("dws", true).put("/spec/controllerName", json!(CONTROLLER)).put(
        "/spec/parameters",
        json!({ "apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "conf" }),
    )
}

/// The configuration `conf`: two more attempts, after one minute and after two.
fn conf() -> Object {
    Object(json!({ "metadata": { "name": "conf" }, "spec": {
        "provisioningClassName": "queued",
        "parameters": { "zone": "a" },
        "retryStrategy": { "backoffLimitCount": 2, "backoffBaseSeconds": 60, "backoffMaxSeconds": 100 },
        "podSetUpdates": { "nodeSelector": [
            { "key": "pool", "valueFromProvisioningClassDetail": "PoolName" },
            { "key": "other", "valueFromProvisioningClassDetail": "Missing" },
        ] },
    } }))
}

/// The Workload of Job `train`, which holds quota, with this state of the check.
fn waiting(state: &Value) -> Object {
    workload("train").version(2).reserved("a100").put("/status/admissionChecks", json!([state]))
}

/// What was asked for the Workload, at this attempt.
fn request(attempt: u32) -> Object {
    let name = key(&workload("train")).name.to_string();
    let request = format!("{name}-dws-{attempt}");
    Object(json!({
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {
            "namespace": "ns",
            "name": request,
            "uid": format!("uid-request-{attempt}"),
            "ownerReferences": [{
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": name, "uid": "uid-w", "controller": true,
            }],
        },
        "spec": {
            "provisioningClassName": "queued",
            "parameters": { "zone": "a" },
            "podSets": [{ "podTemplateRef": { "name": format!("ppt-{request}-main") }, "count": 2 }],
        },
    }))
}

fn world<const N: usize>(more: [Object; N]) -> Objects {
    let mut objects = seen([checked_queue(), dws()]);
    objects.serve_provisioning_requests(true);
    objects.apply_provisioning_config(&conf().read());
    for object in more {
        match object.0["kind"].as_str() {
            Some("ProvisioningRequest") => objects.apply_provisioning_request(&object.read()).unwrap(),
            _ => see(&mut objects, &object),
        }
    }
    objects
}

fn next<const N: usize>(more: [Object; N]) -> Step {
    world(more).next_provisioning_step(&key(&workload("train")), NOW)
}

fn written(step: Step) -> (Write, Vec<Note>) {
    match step {
        Step::Write(write, notes) => (*write, notes),
        other => panic!("{other:?}"),
    }
}

/// The check as the next write has it: state, message, and for how long the Workload is to pause.
fn answered<const N: usize>(more: [Object; N]) -> (String, String, Value) {
    let (write, _) = written(next(more));
    assert!(write.status && write.verb == Verb::Merge, "{write:?}");
    assert_eq!(write.body["metadata"], json!({ "uid": "uid-w", "resourceVersion": "2" }));
    let check = write.body["status"]["admissionChecks"][0].clone();
    let text = |field: &str| check[field].as_str().unwrap().to_owned();
    (text("state"), text("message"), check["requeueAfterSeconds"].clone())
}

fn pending() -> Value {
    check("dws", "Pending", "")
}

fn asks(step: &Step) -> Option<&str> {
    match step {
        Step::Ask { request, .. } => request.rsplit_once("-dws-").map(|(_, attempt)| attempt),
        _ => None,
    }
}

#[test]
fn a_workload_that_holds_quota_is_asked_for_and_one_that_waits_is_not() {
    assert_eq!(next([workload("train").put("/status/admissionChecks", json!([pending()]))]), Step::Rest);
    assert_eq!(asks(&next([waiting(&pending())])), Some("1"));
    assert_eq!(next([waiting(&pending()), request(1)]), Step::Rest, "the autoscaler has the word");
}

#[test]
fn what_the_autoscaler_says_is_the_checks_answer() {
    let said = |condition: &str, message: &str| request(1).condition(condition, true, "r", message);
    for (request, state, message, pause) in [
        (said("Provisioned", "there"), "Ready", "there", Value::Null),
        (said("Failed", "no room"), "Retry", "Retrying after failure: no room", json!(60)),
        (said("BookingExpired", "too late"), "Retry", "Retrying after booking expired: too late", json!(60)),
        (said("CapacityRevoked", "taken away"), "Rejected", "taken away", Value::Null),
        (
            said("Accepted", "").condition("Provisioned", false, "r", "in an hour"),
            "Pending",
            "in an hour",
            Value::Null,
        ),
    ] {
        let expected = (state.to_owned(), message.to_owned(), pause);
        assert_eq!(answered([waiting(&pending()), request]), expected);
    }
}

#[test]
fn a_failure_is_tried_again_with_longer_pauses_and_at_last_no_more() {
    let failed = |attempt| request(attempt).condition("Failed", true, "r", "no room");
    let mut before = check("dws", "Pending", "");
    before["retryCount"] = json!(1);
    // The failure of the attempt that was counted says nothing new; another attempt is made.
    let told = answered([waiting(&before), failed(1)]);
    assert_eq!((told.0.as_str(), told.2), ("Pending", Value::Null));
    let mut told = before.clone();
    told["message"] = json!("Retrying after failure: no room");
    assert_eq!(asks(&next([waiting(&told), failed(1)])), Some("2"));
    // Without the request, which is cleaned up when the Workload stops, the check's count goes on.
    assert_eq!(asks(&next([waiting(&before)])), Some("2"));
    let again = answered([waiting(&before), failed(2)]);
    assert_eq!((again.0.as_str(), again.2), ("Retry", json!(100)), "no longer than the longest");
    before["retryCount"] = json!(2);
    let last = answered([waiting(&before), failed(3)]);
    assert_eq!((last.0.as_str(), last.1.as_str()), ("Rejected", "no room"));
}

#[test]
fn pods_are_told_which_request_they_use_and_go_where_the_autoscaler_says() {
    let provisioned = request(1)
        .condition("Provisioned", true, "r", "there")
        .put("/status/provisioningClassDetails", json!({ "PoolName": "pool-7" }));
    let (write, notes) = written(next([waiting(&pending()), provisioned.clone()]));
    let name = provisioned.0["metadata"]["name"].clone();
    assert_eq!(
        write.body["status"]["admissionChecks"][0]["podSetUpdates"],
        json!([{
            "name": "main",
            "annotations": {
                "autoscaling.x-k8s.io/consume-provisioning-request": name,
                "autoscaling.x-k8s.io/provisioning-class-name": "queued",
            },
            "nodeSelector": { "pool": "pool-7" },
        }])
    );
    assert_eq!(notes.len(), 1);
    assert_eq!(
        notes[0].message,
        "Admission check dws updated state from Pending to Ready with message: there"
    );
}

#[test]
fn a_workload_that_runs_is_not_stopped_because_its_booking_ends_but_because_its_nodes_go() {
    let runs = || waiting(&check("dws", "Ready", "there")).admitted("a100");
    let said = |condition: &str| {
        request(1).condition("Provisioned", true, "r", "there").condition(condition, true, "r", "over")
    };
    assert_eq!(next([runs(), said("BookingExpired")]), Step::Rest);
    assert_eq!(answered([runs(), said("CapacityRevoked")]).0, "Rejected");
}

#[test]
fn the_requests_of_a_workload_that_stops_or_is_over_go_and_so_do_those_that_ask_for_something_else() {
    let gone = |objects: Objects| {
        let (write, _) = written(objects.next_provisioning_step(&key(&workload("train")), NOW));
        assert_eq!((write.target.kind, write.verb), ("ProvisioningRequest", Verb::Delete));
        (write.target.name, write.body)
    };
    let name = request(1).0["metadata"]["name"].as_str().unwrap().to_owned();
    let expected = (name, json!({ "uid": "uid-request-1" }));
    for over in ["Evicted", "Finished"] {
        assert_eq!(gone(world([waiting(&pending()).condition(over, true, "r", "m"), request(1)])), expected);
    }
    let other = request(1).put("/spec/provisioningClassName", json!("another"));
    assert_eq!(gone(world([waiting(&pending()), other])), expected);
    let leaving = request(1).put("/metadata/deletionTimestamp", json!("2026-01-01T00:00:09Z"));
    let evicted = waiting(&pending()).condition("Evicted", true, "r", "m");
    assert_eq!(next([evicted, leaving]), Step::Rest, "once is enough");
}

#[test]
fn a_request_that_only_says_to_be_the_workloads_is_not_believed_across_namespaces() {
    let elsewhere =
        request(1).condition("Provisioned", true, "r", "m").put("/metadata/namespace", json!("other"));
    assert_eq!(asks(&next([waiting(&pending()), elsewhere])), Some("1"));
}

#[test]
fn pods_that_use_nothing_of_what_the_autoscaler_provides_need_no_request() {
    let mut objects = world([waiting(&pending())]);
    let managed = |resource: &str| conf().put("/spec/managedResources", json!([resource]));
    objects.apply_provisioning_config(&managed("example.com/other").read());
    let (write, _) = written(objects.next_provisioning_step(&key(&workload("train")), NOW));
    assert_eq!(write.body["status"]["admissionChecks"][0]["state"], "Ready");
    objects.apply_provisioning_config(&managed("nvidia.com/gpu").read());
    assert_eq!(asks(&objects.next_provisioning_step(&key(&workload("train")), NOW)), Some("1"));
}

#[test]
fn a_check_says_whether_it_can_be_answered_and_why_not() {
    let status = |objects: &Objects| {
        objects.check_status("dws", Timestamp(NOW.0)).map(|write| {
            let condition = &write.body["status"]["conditions"][0];
            let text = |field: &str| condition[field].as_str().unwrap().to_owned();
            (text("status"), text("reason"), text("message"))
        })
    };
    let says = |status: &str, reason: &str, message: &str| {
        Some((status.to_owned(), reason.to_owned(), message.to_owned()))
    };
    let mut objects = world([]);
    assert_eq!(status(&objects), says("True", "Active", "The admission check is active"));
    objects.delete_provisioning_config("conf");
    let missing = "ProvisioningRequestConfig.kueue.x-k8s.io \"conf\" not found";
    assert_eq!(status(&objects), says("False", "BadParametersRef", missing));
    see(&mut objects, &dws().put("/spec/parameters/kind", json!("ConfigMap")));
    assert_eq!(status(&objects), says("False", "BadParametersRef", "bad parameters reference"));
    objects.serve_provisioning_requests(false);
    assert_eq!(status(&objects).unwrap().1, "NotSupported");
    see(&mut objects, &admission_check("dws", true));
    assert_eq!(status(&objects), None, "it is another controller's");
}

#[test]
fn a_check_without_its_configuration_waits_and_says_so() {
    let mut objects = world([waiting(&check("dws", "Pending", "soon"))]);
    objects.delete_provisioning_config("conf");
    let (write, _) = written(objects.next_provisioning_step(&key(&workload("train")), NOW));
    assert_eq!(write.body["status"]["admissionChecks"][0]["message"], "the check is not active");
}

#[test]
fn a_request_asks_for_the_pods_as_they_will_be() {
    let mut workload = waiting(&pending())
        .put("/metadata/annotations/provreq.kueue.x-k8s.io~1ValidUntilSeconds", json!("60"));
    let container = &mut workload.0["spec"]["podSets"][0]["template"]["spec"]["containers"][0];
    container["resources"]["limits"] = json!({ "cpu": "4" });
    let objects = world([workload.clone()]);
    let placed = objects.placed(&key(&workload));
    let config = objects.provisioning_config("dws").unwrap();
    let asked = build::requested(&workload.read(), "w-dws-1", config, &placed);
    let templates = asked.templates();
    assert_eq!(
        asked.request()["spec"],
        json!({
            "provisioningClassName": "queued",
            "parameters": { "zone": "a", "ValidUntilSeconds": "60" },
            "podSets": [{ "podTemplateRef": { "name": "ppt-w-dws-1-main" }, "count": 2 }],
        })
    );
    assert_eq!(templates.len(), 1);
    let spec = &templates[0].body["template"]["spec"];
    assert_eq!(spec["nodeSelector"], json!({ "gpu": "a100" }));
    assert_eq!(spec["containers"][0]["resources"]["requests"], json!({ "nvidia.com/gpu": "1", "cpu": "4" }));
    let owner = |write: &Write| write.body["metadata"]["ownerReferences"][0]["kind"].clone();
    assert_eq!(owner(&templates[0]), "Workload");
    let handed = asked.hand_over("uid-request");
    assert_eq!((owner(&handed[0]), &handed[0].target), (json!("ProvisioningRequest"), &templates[0].target));
}

#[test]
fn pod_sets_are_put_together_where_the_configuration_says_so() {
    let two = |image: &str| {
        let mut workload = waiting(&pending());
        let mut second = workload.0["spec"]["podSets"][0].clone();
        second["name"] = json!("more");
        second["template"]["spec"]["containers"][0]["image"] = json!(image);
        workload.0["spec"]["podSets"].as_array_mut().unwrap().push(second);
        let mut given = workload.0["status"]["admission"]["podSetAssignments"][0].clone();
        given["name"] = json!("more");
        given["count"] = json!(1);
        workload.0["status"]["admission"]["podSetAssignments"].as_array_mut().unwrap().push(given);
        workload
    };
    for (policy, image, counts) in [
        (Value::Null, "i", vec![2, 1]),
        (json!("IdenticalPodTemplates"), "i", vec![3]),
        (json!("IdenticalPodTemplates"), "another", vec![2, 1]),
        (json!("IdenticalWorkloadSchedulingRequirements"), "another", vec![3]),
    ] {
        let config = conf().put("/spec/podSetMergePolicy", policy.clone()).0["spec"].clone();
        let config = serde_json::from_value(config).unwrap();
        let asked =
            build::requested(&two(image).read(), "w-dws-1", &config, &std::collections::BTreeMap::new());
        let sets = asked.request()["spec"]["podSets"].as_array().unwrap();
        let found: Vec<i64> = sets.iter().map(|set| set["count"].as_i64().unwrap()).collect();
        assert_eq!(found, counts, "{policy} {image}");
    }
}
