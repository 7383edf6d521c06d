//! What people write that cannot be honoured: each ends in a sentence, and nothing panics.

use proptest::prelude::*;
use serde_json::{Value, json};
use whalezen_core::{
    labels::Selector,
    quantity::Amount,
    workload::{Phase, Workload},
};
use whalezen_crds::kueue::v1beta2 as kueue;
use whalezen_dialects::kueue::{
    jobs::{AnyJob, batch, kinds},
    objects::Objects,
    quota,
    resources::Rules,
    settings::Settings,
    workload::{WorkloadView, workload as core_workload},
};

use crate::{
    object::{Object, cluster_queue, cohort, flavor, group, job, local_queue, put, workload},
    seen::{NOW, job_key, key, see, seen},
};

fn invalid(groups: Value) -> Option<String> {
    let queue = cluster_queue("cq", 8).put("/spec/resourceGroups", groups.clone());
    let by_queue = quota::cluster_queue(&queue.read()).invalid;
    let by_cohort = quota::cohort(&cohort("all").put("/spec/resourceGroups", groups).read()).invalid;
    assert_eq!(by_queue, by_cohort);
    by_queue
}

#[test]
fn a_quota_that_cannot_be_counted_names_its_place() {
    let quota = |quota: Value| json!([{ "coveredResources": ["cpu"], "flavors": [{ "name": "f", "resources": [quota] }] }]);
    for (field, text, problem) in [
        ("nominalQuota", "-1", "flavor f, cpu: nominalQuota: \"-1\" is negative"),
        ("nominalQuota", "many", "flavor f, cpu: nominalQuota: \"many\" is not a quantity"),
        ("nominalQuota", "", "flavor f, cpu: nominalQuota: \"\" is not a quantity"),
        ("nominalQuota", "1e40", "flavor f, cpu: nominalQuota: \"1e40\" is not a quantity"),
        (
            "nominalQuota",
            "9223372036854775807",
            "flavor f, cpu: nominalQuota: \"9223372036854775807\" is too large",
        ),
        ("borrowingLimit", "-1", "flavor f, cpu: borrowingLimit: \"-1\" is negative"),
        ("lendingLimit", "1x", "flavor f, cpu: lendingLimit: \"1x\" is not a quantity"),
    ] {
        let mut given = json!({ "name": "cpu", "nominalQuota": "1" });
        given[field] = json!(text);
        assert_eq!(invalid(quota(given)).as_deref(), Some(problem));
    }
    assert_eq!(invalid(quota(json!({ "name": "cpu", "nominalQuota": "9223372036854775" }))), None);
}

#[test]
fn a_queue_does_not_lend_more_than_it_has_and_a_cohort_may_say_so() {
    let groups = |lent: &str| {
        let quota = json!({ "name": "cpu", "nominalQuota": "3", "lendingLimit": lent });
        json!([{ "coveredResources": ["cpu"], "flavors": [{ "name": "f", "resources": [quota] }] }])
    };
    let of_queue = |lent| {
        let queue = cluster_queue("cq", 8).put("/spec/resourceGroups", groups(lent));
        quota::cluster_queue(&queue.read()).invalid
    };
    let problem = "flavor f, cpu: lendingLimit: must be less than or equal to the nominalQuota";
    assert_eq!(of_queue("3"), None);
    assert_eq!(of_queue("3001m").as_deref(), Some(problem));
    let of_cohort = cohort("all").put("/spec/resourceGroups", groups("5"));
    assert_eq!(quota::cohort(&of_cohort.read()).invalid, None);
}

#[test]
fn groups_that_contradict_each_other_or_themselves_are_refused() {
    let one = |flavor| group(&["cpu"], flavor, &[("cpu", "1")]);
    for (groups, problem) in [
        (json!([one("a"), one("b")]), "resource cpu is covered by more than one resource group"),
        (
            json!([group(&["cpu", "cpu"], "a", &[("cpu", "1"), ("cpu", "1")])]),
            "resource cpu is covered by more than one resource group",
        ),
        (json!([one("a"), group(&["memory"], "a", &[("memory", "1")])]), "flavor a is listed more than once"),
        (
            json!([group(&["cpu"], "a", &[("memory", "1")])]),
            "flavor a has quotas for [\"memory\"], in a group that covers [\"cpu\"]",
        ),
        (
            json!([group(&["cpu", "memory"], "a", &[("cpu", "1")])]),
            "flavor a has quotas for [\"cpu\"], in a group that covers [\"cpu\", \"memory\"]",
        ),
        (
            json!([group(&["cpu", "memory"], "a", &[("memory", "1"), ("cpu", "1")])]),
            "flavor a has quotas for [\"memory\", \"cpu\"], in a group that covers [\"cpu\", \"memory\"]",
        ),
    ] {
        assert_eq!(invalid(groups).as_deref(), Some(problem));
    }
    assert_eq!(invalid(json!([])), None);
}

#[test]
fn a_selector_that_means_nothing_makes_the_queue_inactive() {
    for (expression, problem) in [
        (
            json!({ "key": "k", "operator": "In" }),
            "spec.namespaceSelector: operator \"In\" with 0 values on \"k\"",
        ),
        (
            json!({ "key": "k", "operator": "Exists", "values": ["v"] }),
            "spec.namespaceSelector: operator \"Exists\" with 1 values on \"k\"",
        ),
        (
            json!({ "key": "k", "operator": "Gt", "values": ["1"] }),
            "spec.namespaceSelector: operator \"Gt\" with 1 values on \"k\"",
        ),
        (
            json!({ "key": "k", "operator": "" }),
            "spec.namespaceSelector: operator \"\" with 0 values on \"k\"",
        ),
    ] {
        let queue = cluster_queue("cq", 8)
            .put("/spec/namespaceSelector", json!({ "matchExpressions": [expression] }));
        let queue = quota::cluster_queue(&queue.read());
        assert_eq!(queue.invalid.as_deref(), Some(problem));
        assert_eq!(queue.namespaces, Selector::Nothing);
    }
    let none = cluster_queue("cq", 8).put("/spec/namespaceSelector", Value::Null);
    assert_eq!(quota::cluster_queue(&none.read()).namespaces, Selector::Nothing);
}

#[test]
fn what_is_wrong_with_a_queue_stands_in_its_condition() {
    let bad = cluster_queue("cq", 8).put("/spec/resourceGroups/0", json!(null));
    let bad = bad.put("/spec/resourceGroups", json!([group(&["cpu"], "a100", &[("cpu", "-1")])]));
    let objects = seen([bad, workload("train")]);
    let active = |status: &Value| status["status"]["conditions"][0].clone();
    let status = active(&objects.queue_status(&"cq".into(), NOW).unwrap().body);
    assert_eq!((&status["status"], &status["reason"]), (&json!("False"), &json!("InvalidSpec")));
    let message = "Can't admit new workloads: flavor a100, cpu: nominalQuota: \"-1\" is negative.";
    assert_eq!(status["message"], message);
    let local =
        objects.local_queue_status(&whalezen_core::name::LocalQueueKey::new("ns", "lq"), NOW).unwrap();
    assert_eq!(active(&local.body)["reason"], "ClusterQueueIsInactive");
    let verdict = objects.state.verdict(&key(&workload("train"))).unwrap();
    assert!(verdict.message.contains("nominalQuota"), "{}", verdict.message);
}

#[test]
fn pods_that_cannot_be_counted_name_the_pod_set() {
    let requests = |of: &Object, requests: Value| {
        let mut of = of.clone();
        of.0["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"] = requests;
        of
    };
    let one = workload("train");
    let huge = json!({ "memory": "9223372036854775807" });
    for (of, problem) in [
        (
            requests(&one, json!({ "cpu": "-1" })),
            "pod set main: container main requests cpu: \"-1\" is negative",
        ),
        (
            requests(&one, json!({ "cpu": "x" })),
            "pod set main: container main requests cpu: \"x\" is not a quantity",
        ),
        (
            requests(&one, json!({ "cpu": "1e30" })),
            "pod set main: container main requests cpu: \"1e30\" is too large",
        ),
        (
            requests(&one, huge.clone()),
            "the requests for memory of all pods together exceed what can be counted",
        ),
        (
            one.clone()
                .put("/spec/podSets/0", json!(null))
                .put("/spec/podSets", json!([{ "name": "a", "count": -1, "template": {} }])),
            "pod set a: the count -1 is negative",
        ),
        (
            {
                let mut of = one.clone();
                of.0["spec"]["podSets"][0]["template"]["spec"]["affinity"] = json!({ "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                        { "matchExpressions": [{ "key": "k", "operator": "Near" }] },
                    ] },
                } });
                of
            },
            "pod set main: node affinity on \"k\" has the unknown operator \"Near\"",
        ),
    ] {
        assert_eq!(held(&of).pod_sets, Err(problem.to_owned()));
        let objects = seen([of.clone()]);
        assert_eq!(objects.state.verdict(&key(&of)).map(|verdict| verdict.message).as_deref(), Some(problem));
    }
    // One pod is not too much; two are, whatever their sets.
    let single = requests(&one, huge.clone()).0;
    let mut two = single.clone();
    two["spec"]["podSets"][0]["count"] = json!(1);
    let mut other = two["spec"]["podSets"][0].clone();
    other["name"] = json!("other");
    two["spec"]["podSets"].as_array_mut().unwrap().push(other);
    assert!(held(&Object(two)).pod_sets.unwrap_err().contains("all pods together"));
}

#[test]
fn as_many_pods_run_at_a_time_as_there_is_work_for() {
    for (pointer, value, count) in [
        ("/spec/parallelism", json!(0), 0),
        ("/spec/parallelism", Value::Null, 1),
        ("/spec/completions", Value::Null, 2),
        ("/spec/completions", json!(1), 1),
        ("/spec/completions", json!(0), 0),
    ] {
        let view = batch::view(&job("train").put(pointer, value).read());
        assert_eq!(view.pods.unwrap()[0].count, count, "{pointer}");
    }
    let negative = batch::view(&job("train").put("/spec/parallelism", json!(-1)).read());
    assert_eq!(negative.pods.unwrap_err(), "pod set main: the count -1 is negative");
}

fn held(of: &Object) -> Workload {
    let object: kueue::Workload = of.read();
    core_workload(&object, &WorkloadView::new(&object), &Rules::default(), &Settings::default())
}

#[test]
fn what_is_held_counts_even_where_its_usage_cannot_be_read() {
    let path = "/status/admission/podSetAssignments";
    let assigned = |assignment: Value| workload("train").admitted("a100").put(path, json!([assignment]));
    let flavors = json!({ "nvidia.com/gpu": "a100" });
    for (assignment, amount) in [
        (
            json!({ "name": "main", "flavors": flavors, "count": 2, "resourceUsage": { "nvidia.com/gpu": "4" } }),
            4,
        ),
        (
            json!({ "name": "main", "flavors": flavors, "count": 2, "resourceUsage": { "nvidia.com/gpu": "many" } }),
            2,
        ),
        (
            json!({ "name": "main", "flavors": flavors, "count": 2, "resourceUsage": { "nvidia.com/gpu": "-2" } }),
            2,
        ),
        (json!({ "name": "main", "flavors": flavors, "count": 2 }), 2),
        (json!({ "name": "main", "flavors": flavors }), 2),
        (json!({ "name": "main", "flavors": flavors, "count": -7 }), 2),
        (json!({ "name": "unknown", "flavors": flavors, "count": 2 }), 0),
    ] {
        let held = held(&assigned(assignment.clone()));
        let usage: Vec<Amount> = held.admission().unwrap().usage().into_values().collect();
        assert_eq!(usage, [Amount(amount)], "{assignment}");
    }
}

#[test]
fn conditions_tell_the_phase_in_whatever_order_and_company() {
    let admission = workload("train").reserved("a100").0["status"]["admission"].clone();
    let phase = |conditions: &[(&str, &str)], with_admission: bool| {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(type_, status)| json!({ "type": type_, "status": status, "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }))
            .collect();
        let mut of = workload("train").put("/status/conditions", json!(conditions));
        if with_admission {
            of = of.put("/status/admission", admission.clone());
        }
        match held(&of).phase {
            Phase::Pending => "pending",
            Phase::Finished => "finished",
            Phase::Reserved { admitted: true, evicted: None, .. } => "admitted",
            Phase::Reserved { admitted: false, evicted: None, .. } => "reserved",
            Phase::Reserved { evicted: Some(_), .. } => "evicted",
        }
    };
    for (conditions, with_admission, want) in [
        (&[][..], false, "pending"),
        (&[][..], true, "pending"),
        (&[("QuotaReserved", "True")][..], false, "pending"),
        (&[("QuotaReserved", "True")][..], true, "reserved"),
        (&[("QuotaReserved", "Unknown")][..], true, "pending"),
        (&[("QuotaReserved", "true")][..], true, "pending"),
        (&[("Admitted", "True"), ("Other", "True"), ("QuotaReserved", "True")][..], true, "admitted"),
        (&[("Admitted", "True"), ("QuotaReserved", "False")][..], true, "pending"),
        (&[("Evicted", "True"), ("Admitted", "True"), ("QuotaReserved", "True")][..], true, "evicted"),
        (&[("Evicted", "False"), ("Admitted", "True"), ("QuotaReserved", "True")][..], true, "admitted"),
        (&[("Finished", "True"), ("Admitted", "True"), ("QuotaReserved", "True")][..], true, "finished"),
    ] {
        assert_eq!(phase(conditions, with_admission), want, "{conditions:?}");
    }
    assert_eq!(held(&workload("train").deleting()).phase, Phase::Finished, "it is given nothing any more");
    assert!(held(&workload("train").admitted("a100").deleting()).admission().is_some());
}

#[test]
fn objects_without_anything_are_read() {
    let nothing = Object(json!({ "metadata": {} }));
    assert_eq!(quota::flavor(&nothing.read()).name.as_str(), "");
    assert_eq!(quota::cluster_queue(&nothing.read()).invalid, None);
    assert_eq!(quota::local_queue(&nothing.read()).cluster_queue.as_str(), "");
    assert_eq!(quota::cohort(&nothing.read()).parent, None);
    assert!(held(&nothing).pod_sets.unwrap().is_empty());
    assert!(batch::view(&nothing.read()).pods.is_ok());
    assert_eq!(WorkloadView::new(&nothing.read()).job, None);
}

#[test]
fn empty_names_are_no_names() {
    assert_eq!(
        quota::cluster_queue(&cluster_queue("cq", 1).put("/spec/cohortName", json!("")).read()).cohort,
        None
    );
    assert_eq!(quota::cohort(&cohort("c").put("/spec/parentName", json!("")).read()).parent, None);
    for key in ["kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"] {
        let view = batch::view(&job("train").label(key, "").read());
        assert!(view.queue.is_none() || view.workload_priority_class.is_none());
    }
}

/// Values that stand for anything that the types let through.
fn texts() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        "",
        "1",
        "-1",
        "0.5",
        "1e99999",
        "9223372036854775807",
        "99999999999999999999999",
        "1Ki",
        "x",
        "True",
        "False",
        "Unknown",
        "é\u{0}",
        "In",
        "Exists",
        "QuotaReserved",
        "Admitted",
        "Evicted",
        "Finished",
        "main",
        "cpu",
        "a100",
        "cq",
        "lq",
        "ns",
        "NoSchedule",
        "Always",
        "batch/v1",
        "Job",
        "uid-train",
        "kueue.x-k8s.io/resource-in-use",
    ])
    .prop_map(|text| json!(text))
}

fn numbers() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![i64::from(i32::MIN), -1, 0, 1, 2, 7, i64::from(i32::MAX)])
        .prop_map(|n| json!(n))
}

/// Changes to an object: at every step another key or index of what is there.
pub fn changes() -> impl Strategy<Value = Vec<(Vec<usize>, Change)>> {
    let change = prop_oneof![
        3 => texts().prop_map(Change::Put),
        2 => numbers().prop_map(Change::Put),
        1 => any::<bool>().prop_map(|b| Change::Put(json!(b))),
        1 => Just(Change::Put(Value::Null)),
        1 => Just(Change::Put(json!({}))),
        1 => Just(Change::Put(json!([]))),
        2 => Just(Change::Remove),
        2 => Just(Change::Double),
    ];
    prop::collection::vec((prop::collection::vec(0..16_usize, 1..9), change), 0..8)
}

/// A change at one place.
#[derive(Clone, Debug)]
pub enum Change {
    Put(Value),
    Remove,
    Double,
}

/// Makes a change at the end of a path.
pub fn apply(object: &mut Value, path: &[usize], change: &Change) {
    let Some((step, rest)) = path.split_first() else { return };
    let last = rest.is_empty();
    match object {
        Value::Object(fields) if !fields.is_empty() => {
            let key = fields.keys().nth(step % fields.len()).cloned().unwrap();
            match change {
                Change::Remove if last => {
                    fields.remove(&key);
                }
                Change::Put(value) if last => {
                    fields.insert(key, value.clone());
                }
                _ => apply(&mut fields[&key], rest, change),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let index = step % items.len();
            match change {
                Change::Remove if last => {
                    items.remove(index);
                }
                Change::Double if last => items.push(items[index].clone()),
                Change::Put(value) if last => items[index] = value.clone(),
                _ => apply(&mut items[index], rest, change),
            }
        }
        leaf => {
            if let Change::Put(value) = change {
                *leaf = value.clone();
            }
        }
    }
}

/// Objects with every part that is read.
fn full() -> Vec<Object> {
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": "gpu", "operator": "In", "values": ["a100"] }] },
    ] } } });
    let tolerations = json!([{ "key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule", "tolerationSeconds": 3 }]);
    let mut of = workload("train").admitted("a100").condition("Evicted", false, "Preempted", "m").put(
        "/spec/priorityClassRef",
        json!({ "group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "p" }),
    );
    let mut of_job = job("train").injected("w", "a100").running(2);
    let job_template = of_job.0["spec"]["template"].as_object_mut().unwrap();
    put(job_template.get_mut("spec").unwrap(), "/affinity", affinity.clone());
    let set = &mut of.0["spec"]["podSets"][0]["template"]["spec"];
    put(set, "/affinity", affinity);
    put(set, "/tolerations", tolerations.clone());
    put(set, "/overhead", json!({ "cpu": "1" }));
    put(
        set,
        "/initContainers",
        json!([
            { "name": "s", "restartPolicy": "Always", "resources": { "requests": { "cpu": "1" }, "limits": { "cpu": "2" } } },
            { "name": "i", "resources": { "requests": { "cpu": "1" } } },
        ]),
    );
    put(set, "/resources", json!({ "requests": { "cpu": "3" } }));
    vec![
        flavor("a100").put("/spec/nodeTaints", json!([{ "key": "k", "value": "v", "effect": "NoSchedule" }])).put("/spec/tolerations", tolerations),
        cohort("all").put("/spec/parentName", json!("root")).put("/spec/resourceGroups", json!([group(&["cpu"], "a100", &[("cpu", "1")])])),
        cluster_queue("cq", 8)
            .put("/spec/cohortName", json!("all"))
            .put("/spec/namespaceSelector", json!({ "matchLabels": { "a": "b" }, "matchExpressions": [{ "key": "k", "operator": "In", "values": ["v"] }] }))
            .put("/status", json!({ "pendingWorkloads": 1, "flavorsUsage": [{ "name": "a100", "resources": [{ "name": "cpu", "total": "1" }] }] })),
        local_queue("lq", "cq"),
        of,
        of_job,
    ]
}

/// Has it seen if it can be read as its kind.
pub fn see_if_readable(objects: &mut Objects, object: Value) {
    fn read<T: serde::de::DeserializeOwned>(object: Value) -> Option<T> {
        serde_json::from_value(object).ok()
    }
    match object["kind"].as_str() {
        Some("ResourceFlavor") => read(object).iter().for_each(|o| objects.apply_flavor(o)),
        Some("Cohort") => read(object).iter().for_each(|o| objects.apply_cohort(o)),
        Some("ClusterQueue") => read(object).iter().for_each(|o| objects.apply_queue(o)),
        Some("LocalQueue") => read(object).iter().for_each(|o| objects.apply_local_queue(o)),
        Some("Workload") => read(object).iter().for_each(|o| objects.apply_workload(o)),
        Some("Job") => read(object).into_iter().for_each(|o| objects.apply_job(&AnyJob::Batch(Box::new(o)))),
        kind => {
            let kind = kind.and_then(kinds::find);
            if let Some((kind, object)) = kind.zip(read(object)) {
                objects.apply_job(&AnyJob::Described(kind, Box::new(object)));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_nothing_panics(changed in prop::collection::vec((0..6_usize, changes()), 1..4)) {
        let mut objects = seen([]);
        for (index, changes) in changed {
            let mut object = full()[index].0.clone();
            for (path, change) in &changes {
                apply(&mut object, path, change);
            }
            put(&mut object, "/kind", full()[index].0["kind"].clone());
            see_if_readable(&mut objects, object);
        }
        objects.state.settle();
        let plan = whalezen_core::plan::plan(&objects.state, NOW, &whalezen_core::plan::Policy::default());
        for admit in &plan.admit {
            objects.admission(admit);
            objects.state.assume(admit);
        }
        objects.state.follow(&plan, NOW, &whalezen_core::plan::Policy::default());
        for report in objects.state.take_reports(10) {
            objects.report(&report, NOW);
        }
        let due = objects.take_due();
        for job in due.jobs {
            objects.next_step(&job, NOW);
        }
        for orphan in due.orphans {
            objects.next_orphan_step(&orphan, NOW);
        }
        objects.next_step(&job_key("train"), NOW);
        let all = objects.all_queues();
        for queue in &all.queues {
            objects.queue_status(queue, NOW);
            objects.queue_finalizer(queue);
        }
        for queue in &all.local_queues {
            objects.local_queue_status(queue, NOW);
        }
        prop_assert_eq!(objects.state.audit(), Ok(()));
    }
}

#[test]
fn the_full_objects_are_read() {
    let mut objects = seen([]);
    for object in full() {
        see(&mut objects, &object);
    }
    assert!(objects.job(&job_key("train")).is_some());
    assert!(objects.state.workload(&key(&workload("train"))).unwrap().pod_sets.is_ok());
}

#[test]
fn a_boost_adds_to_the_priority_where_it_counts() {
    let boosted = |text: &str, counts: bool| {
        let of = workload("train")
            .put("/spec/priority", json!(10))
            .put("/metadata/annotations/kueue.x-k8s.io~1priority-boost", json!(text));
        let object: kueue::Workload = of.read();
        let settings = Settings { priority_boost: counts, ..Settings::default() };
        core_workload(&object, &WorkloadView::new(&object), &Rules::default(), &settings).priority
    };
    for (text, priority) in
        [("5", 15), ("+5", 15), ("-20", -10), ("2147483647", i32::MAX), ("", 10), ("5.5", 10), ("x", 10)]
    {
        assert_eq!(boosted(text, true), priority, "{text:?}");
        assert_eq!(boosted(text, false), 10, "{text:?}");
    }
}
