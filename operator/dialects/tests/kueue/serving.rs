//! What is there to serve: `Deployment`, `StatefulSet` and `LeaderWorkerSet`, together with their pods.

use serde_json::{Value, json};
use whalezen_dialects::kueue::{
    jobs::{JobKey, Step, build, kinds, serving},
    objects::Objects,
    settings::Frameworks,
};

use crate::{
    kinds::{key, operator, patched, write},
    lost::deleted,
    object::{Object, QUEUE_NAME, escaped},
    placed::node,
    samples::template,
    seen::{NOW, admitted, put_by, see, word},
};

const PARENT: &str = "kueue.x-k8s.io/pod-suspending-parent";
const MANAGED: &str = "kueue.x-k8s.io/managed";
const LWS: &str = "leaderworkerset.x-k8s.io/leaderworkerset";

/// A template as the admission policy leaves it.
fn stamped(parent: &str) -> Value {
    let mut template = template();
    template["metadata"] = json!({ "labels": { MANAGED: "true" }, "annotations": { PARENT: parent } });
    template
}

fn server(kind: &str, api_version: &str, spec: &Value) -> Object {
    Object(json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": "train", "namespace": "ns", "uid": "uid-train", "resourceVersion": "1",
            "labels": { QUEUE_NAME: "lq" },
        },
        "spec": spec,
    }))
}

fn stateful(replicas: u32) -> Object {
    let spec = json!({ "replicas": replicas, "template": stamped("statefulset") });
    server("StatefulSet", "apps/v1", &spec)
}

/// A gated pod of this parent.
fn gated(name: &str, parent: &str) -> Object {
    let mut spec = template()["spec"].clone();
    spec["schedulingGates"] = json!([
        { "name": "kueue.x-k8s.io/admission" }, { "name": "kueue.x-k8s.io/topology" },
    ]);
    Object(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "labels": { MANAGED: "true" }, "annotations": { PARENT: parent },
        },
        "spec": spec, "status": { "phase": "Pending" },
    }))
}

/// A gated pod of the `StatefulSet`.
fn replica(index: u32) -> Object {
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "train", "uid": "uid-train", "controller": true,
    }]);
    gated(&format!("train-{index}"), "statefulset").put("/metadata/ownerReferences", owner)
}

/// A pod past its gates, by this Workload.
fn runs(pod: Object, workload: &Object) -> Object {
    let mark = format!("/metadata/annotations/{}", escaped("kueue.x-k8s.io/workload"));
    pod.version(5)
        .put(&mark, workload.0["metadata"]["name"].clone())
        .put("/spec/schedulingGates", Value::Null)
        .put("/spec/nodeSelector", json!({ "gpu": "a100" }))
        .put("/spec/nodeName", json!("node"))
        .put("/status/phase", json!("Running"))
}

fn workload_of(server: &Object, number: Option<u32>) -> Object {
    let made = build::workload(&server.job().whole_of(number).unwrap(), (None, 0));
    Object(serde_json::to_value(made).unwrap()).uid("uid-w").version(1)
}

fn admitted_workload(server: &Object, number: Option<u32>) -> Object {
    let workload = workload_of(server, number);
    let (write, _) = admitted(&mut operator([server.clone(), workload.clone()]));
    workload.version(2).put("/status", write.body["status"].clone())
}

fn step<const N: usize>(objects: [Object; N]) -> Step {
    operator(objects).next_step(&key("StatefulSet", "train"), NOW)
}

fn on_hold(workload: &Object) -> Object {
    let message = "StatefulSet scaled to zero; workload on hold";
    workload.clone().put("/status", json!({})).version(9).condition("QuotaReserved", false, "OnHold", message)
}

#[test]
fn a_stateful_set_gets_one_workload_of_kueues_shape_before_it_has_a_pod() {
    assert_eq!(word(&step([stateful(3)])), "create");
    assert_eq!(word(&step([stateful(3), replica(0)])), "create");
    let workload = workload_of(&stateful(3), None);
    let name = build::name("StatefulSet", "apps", "train", "uid-train");
    assert_eq!(workload.0["metadata"]["name"], json!(name));
    assert!(name.starts_with("statefulset-train-"), "{name}");
    let annotated =
        |key: &str| workload.0["metadata"]["annotations"][format!("kueue.x-k8s.io/{key}")].clone();
    assert_eq!(annotated("is-group-workload"), "true");
    assert_eq!(annotated("job-owner-gvk"), "apps/v1, Kind=StatefulSet");
    assert_eq!(annotated("job-owner-name"), "train");
    assert_eq!(workload.0["metadata"]["labels"]["kueue.x-k8s.io/job-uid"], "uid-train");
    let owners =
        json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "train", "uid": "uid-train" }]);
    assert_eq!(workload.0["metadata"]["ownerReferences"], owners);
    let set = &workload.0["spec"]["podSets"][0];
    assert_eq!((&set["name"], &set["count"]), (&json!("main"), &json!(3)));
    assert_eq!(set["template"]["metadata"], Value::Null);
    assert_eq!(set["topologyRequest"], json!({ "podIndexLabel": "apps.kubernetes.io/pod-index" }));
    assert_eq!(word(&step([stateful(3), workload, replica(0)])), "rest");
}

#[test]
fn only_what_the_policy_has_stamped_and_nothing_else_has_made_is_queued() {
    let bare = stateful(1).put("/spec/template/metadata", Value::Null);
    let of_another = stateful(1).put("/spec/template/metadata/annotations", json!({ PARENT: LWS }));
    for other in [bare, of_another, stateful(0)] {
        assert_eq!(word(&step([other])), "rest");
    }
    let stranger = replica(0).put("/metadata/ownerReferences", Value::Null).label(QUEUE_NAME, "lq");
    assert_eq!(word(&operator([stranger]).next_step(&key("Pod", "train-0"), NOW)), "rest");
}

#[test]
fn pods_of_an_admitted_stateful_set_are_let_past_their_gates_up_to_its_number_whenever_they_come() {
    let workload = admitted_workload(&stateful(2), None);
    assert_eq!(word(&step([stateful(2), workload.clone()])), "rest", "there is nobody yet");
    let start = write(step([stateful(2), workload.clone(), replica(0)]));
    assert_eq!(start.target.name, "train-0");
    assert_eq!(put_by(&start, "/spec/schedulingGates"), json!([]));
    assert_eq!(put_by(&start, "/spec/nodeSelector"), json!({ "gpu": "a100" }));
    let [first, second] = [0, 1].map(|index| runs(replica(index), &workload));
    let start = write(step([stateful(2), workload.clone(), first.clone(), replica(1)]));
    assert_eq!(start.target.name, "train-1");
    assert_eq!(word(&step([stateful(2), workload.clone(), first.clone(), second.clone()])), "rest");

    let of_an_update =
        step([stateful(2), workload.clone(), first.clone().deleting(), second.clone(), replica(2)]);
    assert_eq!(word(&of_an_update), "rest", "one that is on its way out still has its place");
    let grown = [stateful(3).version(4), workload.clone(), first.clone(), second.clone(), replica(2)];
    let Step::Stuck(note) = step(grown) else { panic!("the third has no quota") };
    assert!(note.message.starts_with("Has quota for 2 of 3 pods"), "{}", note.message);
    assert_eq!(word(&step([stateful(1).version(4), workload, first, second])), "rest", "nobody is stopped");
}

#[test]
fn a_pod_that_is_placed_keeps_the_gate_of_its_host_until_it_is_bound() {
    let workload = admitted_workload(&stateful(1), None);
    let placed = json!({
        "levels": ["kubernetes.io/hostname"],
        "slices": [{
            "domainCount": 1, "valuesPerLevel": [{ "universal": "node-1" }], "podCounts": { "universal": 1 },
        }],
    });
    let mut placed_workload = workload;
    placed_workload.0["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] = placed;
    let start = write(step([stateful(1), placed_workload.clone(), replica(0)]));
    assert_eq!(put_by(&start, "/spec/schedulingGates"), json!([{ "name": "kueue.x-k8s.io/topology" }]));
    let started = patched(&replica(0), &start).version(2);
    let on = node("r1", "node-1", 1);
    let mut objects = operator([on, stateful(1), placed_workload.clone(), started.clone()]);
    objects.apply_waiting_pod(&started.read());
    let bind = objects.next_step(&key("StatefulSet", "train"), NOW);
    let name = placed_workload.0["metadata"]["name"].as_str().unwrap();
    assert_eq!(word(&bind), format!("bind {name}"));
}

#[test]
fn what_was_scaled_to_zero_is_on_hold_once_its_pods_are_gone_and_queues_again_with_its_new_number() {
    let workload = admitted_workload(&stateful(2), None);
    let none = stateful(0).version(4);
    let leaving = runs(replica(0), &workload).deleting();
    assert_eq!(word(&step([none.clone(), workload.clone(), leaving])), "rest", "it holds what its pods hold");
    let hold = write(step([none.clone(), workload.clone()]));
    let said = hold.body["status"]["conditions"].as_array().unwrap().iter();
    let said: Vec<_> =
        said.map(|said| (said["type"].clone(), said["status"].clone(), said["reason"].clone())).collect();
    assert!(said.contains(&(json!("QuotaReserved"), json!("False"), json!("OnHold"))), "{said:?}");
    assert_eq!(hold.body["status"]["admission"], Value::Null);

    let waits = on_hold(&workload);
    assert_eq!(word(&step([none, waits.clone()])), "rest");
    assert_eq!(word(&step([stateful(3).version(5), waits.clone()])), "update");
    let again = write(step([stateful(2).version(5), waits]));
    let said = &again.body["status"]["conditions"][0];
    assert_eq!((&said["reason"], &said["status"]), (&json!("Pending"), &json!("False")));
}

#[test]
fn a_stateful_set_that_has_to_stop_holds_its_quota_until_its_pods_are_gone_and_waits_with_those_that_come() {
    let workload = admitted_workload(&stateful(2), None);
    let evicted = workload.clone().version(3).condition("Evicted", true, "Preempted", "Make room");
    let running = runs(replica(0), &workload);
    assert_eq!(word(&step([stateful(2), evicted.clone(), running.clone()])), "tell");
    let told = running.put("/status/conditions", json!([{ "type": "TerminationTarget", "status": "True" }]));
    assert_eq!(word(&step([stateful(2), evicted.clone(), told.clone()])), "delete pod");
    assert_eq!(word(&step([stateful(2), evicted.clone(), told.deleting()])), "rest");
    assert_eq!(word(&step([stateful(2), evicted, replica(0)])), "release");
}

#[test]
fn one_that_stops_does_not_wait_for_a_pod_of_which_nothing_is_heard() {
    let workload = admitted_workload(&stateful(2), None);
    let evicted = workload.clone().version(3).condition("Evicted", true, "Preempted", "Make room");
    let lost = deleted(runs(replica(0), &workload).put("/metadata/finalizers", json!([])), 6);
    let mut objects = operator([stateful(2), evicted, lost.clone(), node("r1", "node", 1)]);
    objects.apply_pod(&lost.read());
    let step = |objects: &Objects| word(&objects.next_step(&key("StatefulSet", "train"), NOW));
    assert_eq!(step(&objects), "rest");
    objects.take_due();
    let gone = json!([{ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" }]);
    see(&mut objects, &node("r1", "node", 1).put("/spec/taints", gone));
    assert!(objects.take_due().jobs.contains(&key("StatefulSet", "train")));
    assert_eq!(step(&objects), "release");
}

#[test]
fn the_workload_of_one_that_is_deleted_goes_with_its_last_pod() {
    let workload = admitted_workload(&stateful(1), None).version(3).deleting();
    let pod = runs(replica(0), &workload).deleting();
    let mut objects = operator([stateful(1), workload.clone(), pod]);
    let name = key("StatefulSet", "train");
    objects.delete_job(&name);
    assert_eq!(word(&objects.next_step(&name, NOW)), "rest", "the pod has not ended");
    objects.delete_job(&key("Pod", "train-0"));
    assert!(objects.job(&name).is_none());
    let orphan = objects.next_orphan_step(&crate::seen::key(&workload), NOW);
    assert_eq!(word(&orphan), "if gone: let go");
}

#[test]
fn one_that_is_made_anew_by_the_same_name_has_nothing_to_do_with_the_pods_and_the_workload_of_the_other() {
    let workload = admitted_workload(&stateful(1), None).version(3).deleting();
    let mut objects = operator([stateful(1), workload.clone(), runs(replica(0), &workload).deleting()]);
    objects.take_due();
    see(&mut objects, &stateful(1).uid("uid-next").version(9));
    assert_eq!(word(&objects.next_step(&key("StatefulSet", "train"), NOW)), "create");
    let old = crate::seen::key(&workload);
    assert!(objects.take_due().orphans.contains(&old));
    assert_eq!(word(&objects.next_orphan_step(&old, NOW)), "if gone: let go");
}

#[test]
fn one_whose_workload_somebody_deletes_stops_and_gets_another_for_the_pods_that_come() {
    let workload = admitted_workload(&stateful(2), None).version(3).deleting();
    let running = runs(replica(0), &workload);
    assert_eq!(word(&step([stateful(2), workload.clone(), running.clone(), replica(1)])), "tell");
    assert_eq!(word(&step([stateful(2), workload.clone(), running.deleting(), replica(1)])), "rest");
    assert_eq!(word(&step([stateful(2), workload, replica(0), replica(1)])), "let go");
    assert_eq!(word(&step([stateful(2), replica(0), replica(1)])), "create");
}

/// A `LeaderWorkerSet` of groups of three.
fn led(replicas: u32, leads: bool) -> Object {
    let mut template = json!({ "size": 3, "workerTemplate": stamped(LWS) });
    if leads {
        template["leaderTemplate"] = stamped(LWS);
    }
    let spec = json!({ "replicas": replicas, "leaderWorkerTemplate": template });
    server("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", &spec)
}

/// A gated pod of a group of it.
fn of_group(group: u32, index: u32) -> Object {
    let pod = gated(&format!("train-{group}-{index}"), LWS)
        .label("leaderworkerset.sigs.k8s.io/name", "train")
        .label("leaderworkerset.sigs.k8s.io/group-index", &group.to_string())
        .label("leaderworkerset.sigs.k8s.io/worker-index", &index.to_string())
        .label(QUEUE_NAME, "lq");
    let leader = format!("/metadata/annotations/{}", escaped("leaderworkerset.sigs.k8s.io/leader-name"));
    if index == 0 { pod } else { pod.put(&leader, json!(format!("train-{group}-0"))) }
}

fn group(number: u32) -> JobKey {
    serving::key(&key("LeaderWorkerSet", "train"), Some(number))
}

#[test]
fn each_group_of_a_leader_worker_set_has_a_workload_of_its_own() {
    let objects = operator([led(2, true)]);
    for number in 0..2 {
        assert_eq!(word(&objects.next_step(&group(number), NOW)), "create");
    }
    assert!(objects.job(&group(2)).is_none());
    let second = workload_of(&led(2, true), Some(1));
    let name = build::name("LeaderWorkerSet", "leaderworkerset.x-k8s.io", "train-1", "uid-train");
    assert_eq!(second.0["metadata"]["name"], json!(name));
    assert_eq!(second.0["metadata"]["annotations"]["kueue.x-k8s.io/component-workload-index"], "1");
    let sets = |workload: &Object| {
        let sets = workload.0["spec"]["podSets"].as_array().unwrap().iter();
        let index = |set: &Value| set["topologyRequest"]["podIndexLabel"].as_str().is_some();
        sets.map(|set| (set["name"].clone(), set["count"].clone(), index(set))).collect::<Vec<_>>()
    };
    assert_eq!(sets(&second), [(json!("leader"), json!(1), false), (json!("worker"), json!(2), true)]);
    assert_eq!(sets(&workload_of(&led(2, false), Some(0))), [(json!("main"), json!(3), true)]);
    let objects = operator([led(2, true), second]);
    assert_eq!(word(&objects.next_step(&group(0), NOW)), "create");
    assert_eq!(word(&objects.next_step(&group(1), NOW)), "rest");
}

#[test]
fn a_group_is_started_leader_first_as_its_pods_come() {
    for (leads, sets) in [(true, ["leader", "worker"]), (false, ["main", "main"])] {
        let workload = admitted_workload(&led(1, leads), Some(0));
        for (index, set) in [(0, sets[0]), (2, sets[1])] {
            let start =
                operator([led(1, leads), workload.clone(), of_group(0, index)]).next_step(&group(0), NOW);
            let start = write(start);
            assert_eq!(start.target.name, format!("train-0-{index}"));
            assert_eq!(put_by(&start, "/metadata/labels")["kueue.x-k8s.io/podset"], set);
        }
    }
    let unnumbered = of_group(0, 0).put("/metadata/labels", json!({ MANAGED: "true", QUEUE_NAME: "lq" }));
    assert_eq!(word(&operator([unnumbered]).next_step(&key("Pod", "train-0-0"), NOW)), "rest");
}

#[test]
fn a_group_that_is_not_to_be_any_more_gives_its_quota_back_with_its_last_pod() {
    let workload = admitted_workload(&led(2, true), Some(1));
    let pod = runs(of_group(1, 0), &workload);
    let mut objects = operator([led(2, true), workload.clone(), pod]);
    see(&mut objects, &led(1, true).version(2));
    assert_eq!(word(&objects.next_step(&group(1), NOW)), "rest", "its leader is there");
    objects.delete_job(&key("Pod", "train-1-0"));
    assert!(objects.job(&group(1)).is_none());
    let name = crate::seen::key(&workload);
    assert!(objects.take_due().orphans.contains(&name));
    assert_eq!(word(&objects.next_orphan_step(&name, NOW)), "delete");
    see(&mut objects, &workload.version(5).deleting());
    assert_eq!(word(&objects.next_orphan_step(&name, NOW)), "let go");
}

#[test]
fn the_workloads_that_kueue_made_with_the_pods_as_owners_are_gone_on_with() {
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "name": "train-0", "uid": "uid-train-0" });
    let mut workload = admitted_workload(&stateful(1), None);
    workload.0["metadata"]["ownerReferences"].as_array_mut().unwrap().insert(0, pod);
    let named = format!("/metadata/annotations/{}", escaped("kueue.x-k8s.io/pod-group-name"));
    let member = replica(0).put(&named, workload.0["metadata"]["name"].clone());
    let start = write(step([stateful(1), workload, member]));
    assert_eq!(start.target.name, "train-0");
}

#[test]
fn pods_of_a_deployment_are_queued_one_by_one_and_not_kept() {
    let pod = gated("train", "deployment").label(QUEUE_NAME, "lq");
    let of = |objects: &Objects| word(&objects.next_step(&key("Pod", "train"), NOW));
    assert_eq!(of(&operator([pod.clone()])), "create");
    let workload = workload_of(&pod, None);
    let (write, _) = admitted(&mut operator([pod.clone(), workload.clone()]));
    let given = workload.version(2).put("/status", write.body["status"].clone());
    assert_eq!(of(&operator([pod.clone(), given.clone()])), "start");
    let leaving = runs(pod, &given).deleting();
    assert_eq!(of(&operator([leaving, given])), "rest", "there is no finalizer");
}

#[test]
fn where_what_serves_is_managed_pods_are_too_and_deployments_need_not_be_seen() {
    let frameworks: Frameworks =
        ["deployment", "statefulset"].into_iter().filter_map(kinds::of_framework).collect();
    let names = |kinds: std::collections::BTreeSet<&'static kinds::JobKind>| {
        kinds.into_iter().map(|kind| kind.kind).collect::<Vec<_>>()
    };
    assert_eq!(names(frameworks.seen()), ["Pod", "StatefulSet"]);
    assert_eq!(names(frameworks.0), ["Deployment", "Pod", "StatefulSet"]);
}

#[test]
fn the_manifests_speak_of_everything_that_serves() {
    let manifests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/kustomize");
    let read = |path: &str| std::fs::read_to_string(manifests.join(path)).unwrap();
    for kind in kinds::ALL.into_iter().filter(|kind| kind.serves.is_some()) {
        for file in ["stamp-queued-servers", "validate-queued-servers", "default-queue-of-servers"] {
            let text = read(&format!("base/admission/{file}.yaml"));
            let resource = format!("- apiGroups: [{}]", kind.group);
            assert!(text.contains(&resource) && text.contains(kind.plural), "{file} has no {}", kind.plural);
            assert!(
                file.starts_with("validate") || text.contains(&format!("'{}'", kind.framework)),
                "{file}"
            );
        }
        for file in ["base/rbac/operator-role.yaml", "observe/rbac/observer-role.yaml"] {
            assert!(!kind.is_seen() || read(file).contains(kind.plural), "{file} has no {}", kind.plural);
        }
    }
}
