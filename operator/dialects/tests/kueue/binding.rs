//! Pods are bound to the domains that were chosen for them: which goes where, and when it is anybody's turn.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};
use whalezen_core::{name::PodKey, workload::Timestamp};
use whalezen_dialects::kueue::{
    jobs::{Step, binding, build, slices},
    objects::Objects,
};

use crate::{
    object::{Object, WORKLOAD, escaped, job, train, workload},
    placed::{assignment, placed, seen_in_racks},
    seen::{NOW, job_key, put_by, see, word},
};

pub const GATE: &str = "kueue.x-k8s.io/topology";
const HOST: &str = "kubernetes.io/hostname";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const GROUP: &str = "jobset.sigs.k8s.io/job-index";
const OFFSET: &str = "kueue.x-k8s.io/pod-index-offset";

/// A pod set: its name and topology request, and how many pods are on which hosts.
type Set<'a> = (&'a str, Value, &'a [(&'a str, i32)]);

/// Workload `train` with these pod sets.
fn given(sets: &[Set<'_>]) -> Object {
    let pods = |spots: &[(&str, i32)]| spots.iter().map(|(_, pods)| pods).sum::<i32>();
    let mut object = workload("train").admitted("a100");
    let set = object.0["spec"]["podSets"][0].clone();
    let given = object.0["status"]["admission"]["podSetAssignments"][0].clone();
    let asked = sets.iter().map(|(name, request, spots)| {
        let mut set = set.clone();
        (set["name"], set["count"], set["topologyRequest"]) =
            (json!(name), json!(pods(spots)), request.clone());
        set
    });
    let assigned = sets.iter().map(|(name, _, spots)| {
        let roots: Vec<&str> = spots.iter().map(|(host, _)| *host).collect();
        let counts: Vec<i32> = spots.iter().map(|(_, pods)| *pods).collect();
        let mut given = given.clone();
        (given["name"], given["count"]) = (json!(name), json!(pods(spots)));
        given["topologyAssignment"] = json!({ "levels": [HOST], "slices": [{
            "domainCount": spots.len(),
            "valuesPerLevel": [{ "individual": { "roots": roots } }],
            "podCounts": { "individual": counts },
        }] });
        given
    });
    let (asked, assigned): (Value, Value) = (asked.collect(), assigned.collect());
    object.0["spec"]["podSets"] = asked;
    object.0["status"]["admission"]["podSetAssignments"] = assigned;
    object
}

/// A pod of the set `main` that waits, with these labels.
fn pod(name: &str, labels: &[(&str, &str)]) -> Object {
    let labels = labels.iter().copied().chain([("kueue.x-k8s.io/podset", "main")]).rev();
    let labels: Map<String, Value> = labels.map(|(key, value)| (key.to_owned(), json!(value))).collect();
    Object(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "5",
            "labels": labels, "annotations": { WORKLOAD: train() },
        },
        "spec": { "containers": [], "schedulingGates": [{ "name": GATE }] },
    }))
}

/// The same, bound to this host.
fn bound(pod: Object, host: &str) -> Object {
    pod.put("/spec/schedulingGates", Value::Null).put("/spec/nodeSelector", json!({ HOST: host }))
}

fn of_set(pod: Object, set: &str) -> Object {
    pod.label("kueue.x-k8s.io/podset", set)
}

/// Which pods go where.
fn goes(workload: &Object, pods: &[Object]) -> Vec<String> {
    let pods: Vec<Pod> = pods.iter().map(Object::read).collect();
    let writes = binding::bind(&workload.read(), &pods, &train());
    let word = |write: &whalezen_dialects::write::Write| {
        let host = write.body["spec"]["nodeSelector"][HOST].as_str().unwrap().to_owned();
        format!("{} to {host}", write.target.name)
    };
    let mut words: Vec<String> = writes.iter().map(word).collect();
    words.sort();
    words
}

fn by_index() -> Value {
    json!({ "required": "rack", "podIndexLabel": INDEX })
}

fn indexed(indexes: &[&str]) -> Vec<Object> {
    indexes.iter().map(|index| pod(&format!("p{index}"), &[(INDEX, index)])).collect()
}

#[test]
fn the_first_host_gets_the_first_pods() {
    let workload = given(&[("main", by_index(), &[("b", 2), ("a", 1)])]);
    assert_eq!(goes(&workload, &indexed(&["2", "0", "1"])), ["p0 to b", "p1 to b", "p2 to a"]);
    assert_eq!(goes(&workload, &indexed(&["2"])), ["p2 to a"], "the others are not made yet");
}

#[test]
fn where_ranks_do_not_fit_each_host_gets_as_many_as_there_is_room_for() {
    let spots: &[(&str, i32)] = &[("b", 2), ("a", 1)];
    let workload = given(&[("main", by_index(), spots)]);
    let unlabeled = || vec![pod("p0", &[]), pod("p1", &[(INDEX, "1")]), pod("p2", &[(INDEX, "0")])];
    let by_room = ["p0 to b", "p1 to b", "p2 to a"];
    assert_eq!(goes(&workload, &unlabeled()), by_room, "one does not say which it is");
    let same = [pod("p0", &[(INDEX, "2")]), pod("p1", &[(INDEX, "2")]), pod("p2", &[(INDEX, "0")])];
    assert_eq!(goes(&workload, &same), by_room, "two say the same");
    let beyond = [pod("p0", &[(INDEX, "2")]), pod("p1", &[(INDEX, "3")]), pod("p2", &[(INDEX, "0")])];
    assert_eq!(goes(&workload, &beyond), by_room, "one is none of them");
    let elsewhere =
        [bound(pod("p0", &[(INDEX, "0")]), "a"), pod("p1", &[(INDEX, "2")]), pod("p2", &[(INDEX, "1")])];
    assert_eq!(goes(&workload, &elsewhere), ["p1 to b", "p2 to b"], "one is not where its rank is");
    let unranked = given(&[("main", json!({ "required": "rack" }), spots)]);
    assert_eq!(
        goes(&unranked, &indexed(&["2", "0", "1"])),
        ["p0 to b", "p1 to a", "p2 to b"],
        "as they are listed"
    );
}

#[test]
fn who_takes_the_place_of_a_pod_that_is_over_goes_where_that_one_was() {
    let workload = given(&[("main", by_index(), &[("b", 1), ("a", 1)])]);
    let there = || bound(pod("p0", &[(INDEX, "0")]), "b");
    let again = || pod("again", &[(INDEX, "1")]);
    let failed = bound(pod("p1", &[(INDEX, "1")]), "a").put("/status", json!({ "phase": "Failed" }));
    assert_eq!(goes(&workload, &[there(), failed, again()]), ["again to a"]);
    let leaving = bound(pod("p1", &[(INDEX, "1")]), "a")
        .put("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    assert_eq!(goes(&workload, &[there(), leaving, again()]), [""; 0], "that one is still there");
}

#[test]
fn pods_of_several_jobs_in_one_set_are_counted_job_by_job() {
    let request = json!({ "required": "rack", "podIndexLabel": INDEX, "subGroupIndexLabel": GROUP, "subGroupCount": 2 });
    let workload = given(&[("main", request, &[("a", 1), ("b", 2), ("c", 1)])]);
    let pod = |name: &str, group: &str, index: &str| pod(name, &[(INDEX, index), (GROUP, group)]);
    let pods = [pod("p00", "0", "0"), pod("p01", "0", "1"), pod("p10", "1", "0"), pod("p11", "1", "1")];
    assert_eq!(goes(&workload, &pods), ["p00 to a", "p01 to b", "p10 to b", "p11 to c"]);
    let odd = [pod("p00", "0", "0"), pod("p02", "0", "2")];
    assert_eq!(goes(&workload, &odd), ["p00 to a", "p02 to b"], "by room: a job has two");
}

#[test]
fn a_leader_comes_before_its_workers() {
    let grouped = || {
        let mut request = by_index();
        request["podSetGroupName"] = json!("gang");
        request
    };
    let workload = given(&[("main", grouped(), &[("b", 1), ("a", 1)]), ("leader", grouped(), &[("b", 1)])]);
    let mut pods = indexed(&["2", "1"]);
    pods.push(of_set(pod("leader", &[(INDEX, "0")]), "leader"));
    assert_eq!(goes(&workload, &pods), ["leader to b", "p1 to b", "p2 to a"]);
}

#[test]
fn pods_may_count_from_an_offset() {
    let workload = given(&[("main", by_index(), &[("b", 1), ("a", 1)])]);
    let at = format!("/metadata/annotations/{}", escaped(OFFSET));
    let pods = indexed(&["2", "1"]).into_iter().map(|pod| pod.put(&at, json!("1"))).collect::<Vec<_>>();
    assert_eq!(goes(&workload, &pods), ["p1 to b", "p2 to a"]);
}

#[test]
fn only_the_pods_of_a_workload_that_may_run_are_bound() {
    let workload = || given(&[("main", by_index(), &[("b", 1), ("a", 1)])]);
    let foreign = [
        of_set(pod("p0", &[(INDEX, "0")]), "other"),
        pod("p1", &[(INDEX, "1")])
            .put(&format!("/metadata/annotations/{}", escaped(WORKLOAD)), json!("other")),
    ];
    assert_eq!(goes(&workload(), &foreign), [""; 0]);
    let pods = indexed(&["0", "1"]);
    let evicted = workload().condition("Evicted", true, "Preempted", "");
    assert_eq!(goes(&evicted, &pods), [""; 0]);
    assert_eq!(goes(&workload().deleting(), &pods), [""; 0]);
    let mut reserved = workload();
    reserved.0["status"]["conditions"][1]["status"] = json!("False");
    assert_eq!(goes(&reserved, &pods), [""; 0]);
}

#[test]
fn a_pod_is_bound_as_it_was_seen_and_keeps_its_other_gates() {
    let workload = given(&[("main", by_index(), &[("b", 1)])]);
    let gates = json!([{ "name": "other" }, { "name": GATE }]);
    let pod = pod("p0", &[(INDEX, "0")]).put("/spec/schedulingGates", gates).read();
    let write = binding::bind(&workload.read(), &[pod], &train()).remove(0);
    let want = json!({
        "metadata": { "uid": "uid-p0", "resourceVersion": "5" },
        "spec": { "schedulingGates": [{ "name": "other" }], "nodeSelector": { HOST: "b" } },
    });
    assert_eq!(write.body, want);
}

/// Workload `train`, admitted, with its two pods on hosts.
pub fn on_hosts() -> Object {
    let mut object = placed().admitted("a100");
    object.0["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] = assignment();
    object
}

fn step(objects: &Objects) -> Step {
    objects.next_step(&job_key("train"), NOW)
}

#[test]
fn the_pods_of_a_job_whose_place_was_chosen_are_born_with_a_gate() {
    let asks = json!({ "kueue.x-k8s.io/podset-required-topology": "rack" });
    let gates = json!([{ "name": "own" }]);
    let job = job("train")
        .put("/spec/template/metadata/annotations", asks)
        .put("/spec/template/spec/schedulingGates", gates);
    let Step::Write(start, _) = step(&seen_in_racks(&[on_hosts(), job])) else { panic!("it does not start") };
    let gates = put_by(&start, "/spec/template/spec/schedulingGates");
    assert_eq!(gates, json!([{ "name": "own" }, { "name": GATE }]));
    let unconstrained = "kueue.x-k8s.io/podset-unconstrained-topology";
    assert!(put_by(&start, "/spec/template/metadata/annotations")[unconstrained].is_null());
}

#[test]
fn pods_that_were_placed_without_asking_say_that_they_are() {
    let mut workload = on_hosts();
    workload.0["spec"]["podSets"][0]["topologyRequest"] = Value::Null;
    let Step::Write(start, _) = step(&seen_in_racks(&[workload, job("train")])) else {
        panic!("it does not start")
    };
    let unconstrained = "kueue.x-k8s.io/podset-unconstrained-topology";
    assert_eq!(put_by(&start, "/spec/template/metadata/annotations")[unconstrained], "true");
}

#[test]
fn it_is_a_jobs_turn_as_long_as_a_pod_of_it_waits() {
    let running = || job("train").injected(&train(), "a100").running(2);
    let bind = &*format!("bind {}", train());
    let mut objects = seen_in_racks(&[on_hosts(), running()]);
    objects.take_due();
    assert_eq!((word(&step(&objects)), objects.job_wakes(&job_key("train"), NOW)), ("rest".to_owned(), None));
    objects.apply_waiting_pod(&pod("p0", &[(INDEX, "0")]).read());
    assert!(objects.take_due().jobs.contains(&job_key("train")));
    assert_eq!(word(&step(&objects)), bind);
    assert_eq!(objects.job_wakes(&job_key("train"), NOW), Some(Timestamp(NOW.0 + 3000)));
    see(&mut objects, &on_hosts().version(90).condition("Evicted", true, "Preempted", ""));
    assert_ne!(word(&step(&objects)), bind, "it has to stop");
    see(&mut objects, &on_hosts().version(91));
    assert_eq!(word(&step(&objects)), bind);
    objects.apply_waiting_pod(&bound(pod("p0", &[(INDEX, "0")]), "node-2").read());
    assert_eq!(word(&step(&objects)), "rest", "it is bound");
    objects.apply_waiting_pod(&pod("p1", &[(INDEX, "1")]).read());
    objects.delete_waiting_pod(&PodKey::new("ns", "p1"));
    assert_eq!(word(&step(&objects)), "rest", "it is gone");
}

#[test]
fn the_gate_of_an_elastic_job_is_not_the_one_of_its_place() {
    let both = json!([{ "name": "kueue.x-k8s.io/elastic-job" }, { "name": GATE }]);
    let chain = format!("/metadata/annotations/{}", escaped("kueue.x-k8s.io/workload-slice-name"));
    let pod: Pod = pod("p0", &[]).put("/spec/schedulingGates", both).put(&chain, json!("chain")).read();
    let opened = slices::open_gates(std::slice::from_ref(&pod), "chain", 1).remove(0);
    assert_eq!(opened.body["spec"]["schedulingGates"], json!([{ "name": GATE }]));
    assert!(opened.body["spec"]["nodeSelector"].is_null());
}

#[test]
fn a_pod_for_which_an_elastic_job_has_no_quota_takes_no_place() {
    let workload = given(&[("main", json!({ "required": "rack" }), &[("b", 1)])]);
    let both = json!([{ "name": "kueue.x-k8s.io/elastic-job" }, { "name": GATE }]);
    let pods = [pod("p0", &[]).put("/spec/schedulingGates", both), pod("p1", &[])];
    assert_eq!(goes(&workload, &pods), ["p1 to b"]);
}

#[test]
fn workloads_say_how_pods_say_which_they_are() {
    let request = |job: &Object| {
        let built = build::workload(&job.whole(), (None, 0));
        serde_json::to_value(&built.spec.pod_sets[0].topology_request).unwrap()
    };
    assert_eq!(request(&job("train")), json!({ "podIndexLabel": INDEX }));
    let template = json!({ "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let mut set = job("train");
    set.0["apiVersion"] = json!("jobset.x-k8s.io/v1alpha2");
    set.0["kind"] = json!("JobSet");
    set.0["spec"] = json!({ "replicatedJobs": [{ "name": "w", "replicas": 3, "template": { "spec": {
        "parallelism": 2, "completions": 2, "template": template,
    } } }] });
    let want = json!({ "podIndexLabel": INDEX, "subGroupIndexLabel": GROUP, "subGroupCount": 3 });
    assert_eq!(request(&set), want);
    let mut wrapper = job("train");
    wrapper.0["apiVersion"] = json!("workload.codeflare.dev/v1beta2");
    wrapper.0["kind"] = json!("AppWrapper");
    wrapper.0["spec"] = json!({ "components": [{ "template": set.0 }] });
    assert_eq!(request(&wrapper), want, "what is wrapped says it");
    let mut torch = job("train");
    torch.0["apiVersion"] = json!("kubeflow.org/v1");
    torch.0["kind"] = json!("PyTorchJob");
    torch.0["spec"] = json!({ "pytorchReplicaSpecs": { "Worker": { "replicas": 2, "template": template } } });
    assert_eq!(request(&torch), json!({ "podIndexLabel": "training.kubeflow.org/replica-index" }));
}
