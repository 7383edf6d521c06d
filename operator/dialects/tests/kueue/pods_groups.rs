//! Pods that are queued together.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use whalezen_core::name::WorkloadKey;
use whalezen_dialects::{
    kueue::{
        jobs::{Step, build, group, pod::show},
        objects::Objects,
    },
    write::{Verb, Write},
};

use crate::{
    kinds::{admitted_workload, key, operator, patched, write},
    object::{Object, escaped},
    pods_plain::pod,
    seen::{NOW, admitted, put_by, see, word},
};

const GROUP: &str = "kueue.x-k8s.io/pod-group-name";
const TOTAL: &str = "kueue.x-k8s.io/pod-group-total-count";
const MANAGED: &str = "kueue.x-k8s.io/managed";

/// A gated pod of group `g`, of this role and made in this second.
fn member(name: &str, total: u32, role: &str, second: u32) -> Object {
    pod()
        .put("/metadata/name", json!(name))
        .uid(&format!("uid-{name}"))
        .label(GROUP, "g")
        .put("/metadata/creationTimestamp", json!(format!("2026-01-01T00:00:{second:02}Z")))
        .put("/metadata/annotations", json!({ TOTAL: total.to_string(), "kueue.x-k8s.io/role-hash": role }))
}

fn annotated(pod: Object, key: &str, value: &str) -> Object {
    pod.put(&format!("/metadata/annotations/{}", escaped(key)), json!(value))
}

/// Two workers of a group of two.
pub fn two() -> [Object; 2] {
    [member("a", 2, "worker", 1), member("b", 2, "worker", 2)]
}

fn phase(pod: &Object, phase: &str) -> Object {
    let version = pod.0["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    pod.clone().version(version + 1).put("/status/phase", json!(phase)).put("/spec/nodeName", json!("node"))
}

/// A pod past its gate.
pub fn runs(pod: &Object) -> Object {
    let mark = annotated(pod.clone(), "kueue.x-k8s.io/workload", "g");
    phase(&mark.put("/spec/schedulingGates", Value::Null), "Running")
        .put("/spec/nodeSelector", json!({ "gpu": "a100" }))
}

fn whole(pods: &[Object]) -> Result<Object, String> {
    let pods: Vec<Pod> = pods.iter().map(Object::read).collect();
    let made = build::workload(&group::whole(&pods)?, (None, 0));
    Ok(Object(serde_json::to_value(made).unwrap()).uid("uid-w").version(1))
}

fn workload() -> Object {
    whole(&two()).unwrap()
}

pub fn admitted_group() -> Object {
    let [a, b] = two();
    let (write, _) = admitted(&mut operator([a, b, workload()]));
    workload().version(2).put("/status", write.body["status"].clone())
}

fn step<const N: usize>(objects: [Object; N]) -> Step {
    operator(objects).next_step(&key("PodGroup", "g"), NOW)
}

/// What people are told by a step that does nothing else.
fn told(step: Step) -> String {
    let Step::Stuck(note) = step else { panic!("{step:?}") };
    note.message
}

/// What is written to which pod.
fn to(write: &Write) -> (&str, &str) {
    let what = match write.verb {
        Verb::Json => "start",
        Verb::Delete => "delete",
        Verb::Apply { .. } => "tell",
        Verb::Merge => "free",
    };
    (what, &write.target.name)
}

#[test]
fn a_group_gets_one_workload_of_its_name_that_all_its_pods_own_with_a_pod_set_for_each_role() {
    let pods = [member("a", 3, "worker", 1), member("b", 3, "driver", 2), member("c", 3, "worker", 3)];
    assert_eq!(word(&step(pods.clone())), "create");
    let workload = whole(&pods).unwrap().0;
    assert_eq!(workload["metadata"]["name"], "g");
    assert_eq!(workload["metadata"]["annotations"]["kueue.x-k8s.io/is-group-workload"], "true");
    let owners = workload["metadata"]["ownerReferences"].as_array().unwrap().iter();
    let owners: Vec<_> = owners.map(|owner| (&owner["name"], &owner["controller"])).collect();
    assert_eq!(
        owners,
        [(&json!("a"), &Value::Null), (&json!("b"), &Value::Null), (&json!("c"), &Value::Null)]
    );
    let sets = workload["spec"]["podSets"].as_array().unwrap().iter();
    let sets: Vec<_> = sets.map(|set| (set["name"].clone(), set["count"].clone())).collect();
    assert_eq!(sets, [(json!("driver"), json!(1)), (json!("worker"), json!(2))]);
}

#[test]
fn a_group_that_serves_is_never_over_and_what_has_ended_of_it_frees_nothing() {
    let serving = |pod: &Object| annotated(pod.clone(), "kueue.x-k8s.io/pod-group-serving", "true");
    for (pods, want) in [(two(), "finish"), (two().map(|pod| serving(&pod)), "rest")] {
        let [a, b] = pods.map(|pod| phase(&runs(&pod), "Succeeded"));
        assert_eq!(word(&step([a, b, admitted_group()])), want);
    }
}

#[test]
fn a_group_waits_for_all_of_its_pods_unless_it_is_to_be_admitted_fast() {
    let [a, b] = two();
    assert_eq!(word(&step([a.clone()])), "stuck");
    assert_eq!(
        whole(std::slice::from_ref(&a)).unwrap_err(),
        "'g' group has fewer runnable pods than expected"
    );
    let fast = annotated(a.clone(), "kueue.x-k8s.io/pod-group-fast-admission", "true");
    assert_eq!(word(&step([fast.clone()])), "create");
    assert_eq!(whole(&[fast]).unwrap().0["spec"]["podSets"][0]["count"], 2);
    for (wrong, problem) in [
        (annotated(b.clone(), TOTAL, "3"), "do not agree on how many they are"),
        (annotated(b.clone(), TOTAL, "many"), "do not agree on how many they are"),
        (b.label("kueue.x-k8s.io/queue-name", "other"), "name different queues"),
    ] {
        assert_eq!(word(&step([a.clone(), wrong.clone()])), "stuck");
        assert!(whole(&[a.clone(), wrong]).unwrap_err().contains(problem));
    }
}

#[test]
fn pods_of_the_same_requests_have_one_role_and_others_another() {
    let roles = |second: Value| {
        let other = member("b", 2, "", 2).put("/spec/containers", second);
        let pods =
            [member("a", 2, "", 1), other].map(|pod| pod.put("/metadata/annotations", json!({ TOTAL: "2" })));
        whole(&pods).unwrap().0["spec"]["podSets"].as_array().unwrap().len()
    };
    let container = |gpus: &str| json!([{ "name": "x", "image": "j", "resources": { "requests": { "nvidia.com/gpu": gpus } } }]);
    assert_eq!((roles(container("1")), roles(container("2"))), (1, 2));
}

/// The same pod with so many GPUs.
fn asking(pod: &Object, gpus: &str) -> Object {
    let requests = json!({ "requests": { "nvidia.com/gpu": gpus } });
    pod.clone().put("/spec/containers", json!([{ "name": "x", "image": "j", "resources": requests }]))
}

#[test]
fn no_pod_runs_on_what_another_of_its_role_requests() {
    let [a, b] = two();
    for pods in [[asking(&a, "0"), asking(&b, "8")], [asking(&a, "8"), asking(&b, "0")]] {
        assert_eq!(told(step(pods.clone())), "pod group g: its pods of role worker do not request the same");
        assert!(whole(&pods).is_err());
    }
    // Nor on what one requested that failed.
    let failed = phase(&asking(&member("0", 2, "worker", 0), "0"), "Failed");
    let made = whole(&[failed, asking(&a, "8"), asking(&b, "8")]).unwrap().0;
    let requests = &made["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(requests["nvidia.com/gpu"], "8");
}

#[test]
fn a_pod_that_its_groups_workload_does_not_count_stays_gated_and_is_named_and_the_others_run() {
    let [a, b] = two();
    let admitted = || admitted_group().condition("WaitingForReplacementPods", true, "PodsFailed", "m");
    for other in [asking(&b, "8"), member("b", 2, "driver", 2)] {
        assert_eq!(word(&step([a.clone(), other.clone(), admitted_group()])), "ask for pods");
        assert_eq!(to(&write(step([a.clone(), other.clone(), admitted()]))), ("start", "a"));
        let role = other.0["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"].as_str().unwrap();
        assert_eq!(
            told(step([runs(&a), other.clone(), admitted()])),
            format!("pod group g: pod b is none of those that its Workload counts as role {role}")
        );
        assert_eq!(word(&step([runs(&a), runs(&other), admitted()])), "delete", "one that runs stops all");
        assert_eq!(to(&write(step([runs(&a), other.deleting(), admitted()]))), ("free", "b"));
    }
}

#[test]
fn of_a_group_that_is_admitted_fast_the_pods_run_that_have_the_role_of_the_first() {
    let fast = |pod: &Object| annotated(pod.clone(), "kueue.x-k8s.io/pod-group-fast-admission", "true");
    let [first, other] = [fast(&member("b", 2, "worker", 1)), fast(&member("a", 2, "driver", 2))];
    let pods = [first.clone(), other.clone()];
    let made = whole(&pods).unwrap();
    assert_eq!(made.0["spec"]["podSets"][0]["name"], "worker");
    assert_eq!(made.0["spec"]["podSets"][0]["count"], 2);
    assert!(told(step([first.clone(), other.clone(), made.clone()])).contains("pod a is none of those"));
    let (admission, _) = admitted(&mut operator([first.clone(), other.clone(), made.clone()]));
    let admitted = made.version(2).put("/status", admission.body["status"].clone());
    assert_eq!(to(&write(step([first.clone(), other.clone(), admitted.clone()]))), ("start", "b"));
    assert!(told(step([runs(&first), other, admitted])).contains("pod a is none of those"));
}

#[test]
fn an_admitted_group_is_started_pod_by_pod_and_each_remembers_its_role() {
    let [a, b] = two();
    let first = write(step([a.clone(), b.clone(), admitted_group()]));
    assert_eq!(to(&first), ("start", "a"));
    assert_eq!(put_by(&first, "/spec/nodeSelector"), json!({ "gpu": "a100" }));
    assert_eq!(put_by(&first, "/metadata/annotations")["kueue.x-k8s.io/role-hash"], "worker");
    let a = patched(&a, &first).version(2);
    assert_eq!(to(&write(step([a.clone(), b.clone(), admitted_group()]))), ("start", "b"));
    let b = patched(&b, &write(step([a.clone(), b.clone(), admitted_group()]))).version(2);
    assert_eq!(word(&step([a, b, admitted_group()])), "rest");
}

#[test]
fn pods_beyond_the_number_are_deleted_the_youngest_gated_first() {
    let [a, b] = two();
    let late = member("late", 2, "worker", 9);
    for objects in [
        operator([a.clone(), b.clone(), late.clone()]),
        operator([a.clone(), b.clone(), late.clone(), workload()]),
        operator([runs(&a), late.clone(), b.clone(), admitted_group()]),
    ] {
        assert_eq!(to(&write(objects.next_step(&key("PodGroup", "g"), NOW))), ("delete", "late"));
    }
    let going = late.deleting().put("/spec/nodeName", json!("node"));
    assert_eq!(to(&write(step([a, b, going, workload()]))), ("free", "late"));
}

#[test]
fn a_pod_that_failed_is_kept_until_another_has_come_in_its_place_which_is_started() {
    let [a, b] = two();
    let failed = phase(&runs(&b), "Failed");
    let owned = admitted_group();
    let asks = write(step([runs(&a), failed.clone(), owned.clone()]));
    let condition = &asks.body["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("WaitingForReplacementPods"), &json!("PodsFailed"))
    );
    let asking = |workload: Object| workload.condition("WaitingForReplacementPods", true, "PodsFailed", "m");
    assert_eq!(word(&step([runs(&a), failed.clone(), asking(owned.clone())])), "rest");
    // The new one owns the Workload before the old one goes: else nobody might.
    let new = member("new", 2, "worker", 9);
    let owns = write(step([runs(&a), failed.clone(), new.clone(), owned.clone()]));
    assert_eq!(
        (owns.target.kind, &owns.body[1]["path"]),
        ("Workload", &json!("/metadata/ownerReferences/-"))
    );
    assert_eq!(owns.body[1]["value"]["name"], "new");
    let mut owners = owned.0["metadata"]["ownerReferences"].clone();
    owners.as_array_mut().unwrap().push(owns.body[1]["value"].clone());
    let owned = owned.version(3).put("/metadata/ownerReferences", owners);
    assert_eq!(to(&write(step([runs(&a), failed.clone(), new.clone(), owned.clone()]))), ("free", "b"));
    let freed = failed.put("/metadata/finalizers", Value::Null);
    assert_eq!(to(&write(step([runs(&a), freed.clone(), new.clone(), owned.clone()]))), ("start", "new"));
    assert_eq!(word(&step([runs(&a), freed, new, asking(owned)])), "has its pods");
}

#[test]
fn a_group_gives_quota_back_pod_by_pod_and_is_over_when_all_have_succeeded() {
    let [a, b] = two().map(|pod| runs(&pod));
    let half = write(step([phase(&a, "Succeeded"), b.clone(), admitted_group()]));
    assert_eq!(half.body["status"]["reclaimablePods"], json!([{ "name": "worker", "count": 1 }]));
    let ended = [phase(&a, "Succeeded"), phase(&b, "Succeeded")];
    let finish = write(step([ended[0].clone(), ended[1].clone(), admitted_group()]));
    assert_eq!(finish.body["status"]["conditions"][0]["message"], "Pods succeeded: 2/2.");
    let finished = admitted_group().version(4).condition("Finished", true, "Succeeded", "m");
    assert_eq!(to(&write(step([ended[0].clone(), ended[1].clone(), finished]))), ("free", "a"));
}

#[test]
fn no_pod_alone_ends_its_group_and_none_is_over_while_one_of_them_runs() {
    let [a, b] = two().map(|pod| runs(&pod));
    let alone = |pod: &Object| annotated(pod.clone(), TOTAL, "1");
    let ended = phase(&a, "Succeeded");
    for [first, second] in
        [[alone(&ended), b.clone()], [ended.clone(), alone(&b)], [alone(&ended), alone(&b)]]
    {
        assert_eq!(word(&step([first, second, admitted_group()])), "reclaim");
    }
    let lasting = annotated(a, "kueue.x-k8s.io/retriable-in-group", "false");
    let failed = phase(&alone(&b), "Failed");
    assert_eq!(word(&step([lasting, failed, admitted_group()])), "ask for pods");
}

#[test]
fn a_pod_that_failed_and_is_replaced_has_no_say_in_how_many_its_group_is() {
    let [a, b] = two();
    let failed = annotated(phase(&runs(&b), "Failed"), TOTAL, "3");
    let new = member("new", 2, "worker", 9);
    assert_eq!(whole(&[a, failed, new]).unwrap().0["spec"]["podSets"][0]["count"], 2);
}

#[test]
fn a_group_with_a_pod_that_cannot_be_replaced_is_over_when_none_of_them_runs() {
    let [a, b] = two().map(|pod| runs(&pod));
    let last = annotated(phase(&b, "Failed"), "kueue.x-k8s.io/retriable-in-group", "false");
    assert_eq!(word(&step([a.clone(), last.clone(), admitted_group()])), "ask for pods");
    let finish = write(step([phase(&a, "Succeeded"), last, admitted_group()]));
    assert_eq!(finish.body["status"]["conditions"][0]["message"], "Pods succeeded: 1/2.");
}

#[test]
fn a_group_that_has_to_stop_is_deleted_pod_by_pod_and_waits_for_others_without_quota() {
    let [a, b] = two();
    let evicted = admitted_group().version(3).condition("Evicted", true, "Preempted", "Make room");
    let told = write(step([runs(&a), b.clone(), evicted.clone()]));
    assert_eq!(to(&told), ("tell", "a"));
    let stopping = runs(&a).put("/status/conditions", told.body["status"]["conditions"].clone());
    assert_eq!(to(&write(step([stopping.clone(), b.clone(), evicted.clone()]))), ("delete", "a"));
    let going = stopping.deleting();
    assert_eq!(word(&step([going.clone(), b.clone(), evicted.clone()])), "rest");
    assert_eq!(word(&step([phase(&going, "Failed"), b, evicted])), "release");
}

#[test]
fn whoever_deletes_all_pods_of_a_group_has_them_gone_and_with_half_of_them_the_group_waits_for_others() {
    let [a, b] = two();
    let asking = admitted_group().condition("WaitingForReplacementPods", true, "PodsFailed", "m");
    let gone = |pod: &Object| pod.clone().deleting();
    for [a, b] in [[a.clone(), b.clone()], [runs(&a), runs(&b)], [runs(&a), b.clone()]] {
        assert_eq!(to(&write(step([gone(&a), gone(&b), admitted_group()]))), ("free", "a"));
        let freed = gone(&a).put("/metadata/finalizers", Value::Null);
        assert_eq!(to(&write(step([freed.clone(), gone(&b), admitted_group()]))), ("free", "b"));
        let other = gone(&b).put("/metadata/finalizers", Value::Null);
        assert_eq!(
            word(&step([freed, other, admitted_group()])),
            "rest",
            "its quota is held until they are gone"
        );
    }
    assert_eq!(to(&write(step([gone(&a), gone(&b), workload()]))), ("free", "a"));
    assert_eq!(word(&step([gone(&phase(&runs(&a), "Failed")), runs(&b), asking])), "rest");
}

#[test]
fn whoever_deletes_a_groups_workload_deletes_the_group() {
    let [a, b] = two();
    let deleted = admitted_group().deleting();
    assert_eq!(to(&write(step([runs(&a), b.clone(), deleted.clone()]))), ("tell", "a"));
    let gone = |pod: &Object| pod.clone().deleting();
    assert_eq!(to(&write(step([gone(&runs(&a)), b.clone(), deleted.clone()]))), ("tell", "b"));
    assert_eq!(to(&write(step([gone(&runs(&a)), gone(&b), deleted.clone()]))), ("free", "a"));
    let freed = |pod: Object| pod.put("/metadata/finalizers", Value::Null);
    assert_eq!(word(&step([freed(gone(&runs(&a))), freed(gone(&b)), deleted.clone()])), "rest");
    assert_eq!(word(&step([freed(gone(&b)), deleted])), "let go");
}

#[test]
fn a_pod_is_one_job_whether_it_joins_a_group_or_leaves_it() {
    let (alone, grouped) = (key("Pod", "train"), key("PodGroup", "g"));
    let joined = |version| {
        pod().label(GROUP, "g").put("/metadata/annotations", json!({ TOTAL: "1" })).version(version)
    };
    let known = |objects: &Objects| [&alone, &grouped].map(|key| objects.job(key).is_some());
    let mut objects = operator([pod(), admitted_workload("Pod", &pod())]);
    objects.take_due();
    see(&mut objects, &joined(2));
    assert_eq!(known(&objects), [false, true]);
    assert_eq!(objects.take_due().orphans.len(), 1, "its Workload is nobody's now");
    see(&mut objects, &pod());
    assert_eq!(known(&objects), [false, true], "what is older is ignored");
    see(&mut objects, &pod().version(3));
    assert_eq!(known(&objects), [true, false]);
    see(&mut objects, &joined(2));
    assert_eq!(known(&objects), [true, false]);
    objects.delete_job(&alone);
    assert_eq!(known(&objects), [false, false]);
}

#[test]
fn a_groups_workload_is_over_only_when_the_api_server_knows_none_of_its_pods_either() {
    let objects = operator([admitted_group()]);
    let Step::IfGone { job, uid, .. } = objects.next_orphan_step(&WorkloadKey::new("ns", "g"), NOW) else {
        panic!("it is not asked for its pods");
    };
    assert_eq!((job.kind, group::of_uid(&uid)), ("Pod", Some("g")));
}

#[test]
fn a_pod_that_is_not_seen_any_more_although_it_was_kept_is_looked_for_and_shown_again() {
    let [a, b] = two();
    let freed = b.put("/metadata/finalizers", Value::Null);
    let mut objects = operator([a.clone(), freed, pod(), admitted_workload("Pod", &pod())]);
    for name in ["a", "b", "train"] {
        objects.delete_job(&key("Pod", name));
    }
    let unseen = objects.take_due().unseen;
    assert_eq!(unseen.into_keys().collect::<Vec<_>>(), ["uid-a", "uid-train"]);
    let hidden = show(&a.clone().label(MANAGED, "false").read()).unwrap();
    assert_eq!(hidden.body["metadata"]["labels"], json!({ MANAGED: "true" }));
    assert_eq!(show(&a.read()), None);
}

#[test]
fn a_workload_that_only_has_the_groups_name_is_not_its() {
    let [a, b] = two();
    let other =
        workload().put("/metadata/annotations", Value::Null).put("/metadata/ownerReferences", Value::Null);
    assert_eq!(word(&step([a, b, other])), "create");
    assert!(two()[0].0["metadata"]["finalizers"].as_array().unwrap().contains(&json!(MANAGED)));
}
