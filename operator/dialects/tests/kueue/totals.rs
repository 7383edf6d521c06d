//! What pods count for: what their namespace, their runtime class and the settings make of a template.

use serde_json::{Value, json};
use whalezen_core::{quantity::Amounts, verdict::Reason};
use whalezen_dialects::kueue::objects::Objects;

use crate::{
    object::{Object, limit_range, runtime_class, workload},
    seen::{admitted, key, see, seen},
};

/// A waiting Workload of two pods with this spec.
fn of(spec: Value) -> Object {
    let mut object = workload("train");
    object.0["spec"]["podSets"][0]["template"]["spec"] = spec;
    object
}

/// One container with these resources.
fn one(resources: &Value) -> Object {
    of(json!({ "containers": [{ "name": "main", "resources": resources }] }))
}

fn per_pod(objects: &Objects) -> Vec<(String, i64)> {
    let pod_sets = objects.state.pod_sets(&key(&workload("train"))).unwrap();
    let per_pod: &Amounts = &pod_sets[0].per_pod;
    per_pod.iter().map(|(name, amount)| (name.to_string(), amount.0)).collect()
}

fn amounts(of: &[(&str, i64)]) -> Vec<(String, i64)> {
    of.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
}

fn problem(objects: &mut Objects) -> Option<String> {
    objects.state.settle();
    let verdict = objects.state.verdict(&key(&workload("train")))?;
    (verdict.reason == Reason::Misconfigured).then_some(verdict.message)
}

#[test]
fn limits_and_the_namespaces_defaults_stand_in_for_what_is_not_requested() {
    let defaults = || {
        limit_range(
            "a",
            &[json!({
                "type": "Container",
                "default": { "cpu": "2", "memory": "2Gi" },
                "defaultRequest": { "cpu": "500m" },
            })],
        )
    };
    let later =
        || limit_range("b", &[json!({ "type": "Container", "defaultRequest": { "cpu": "1", "x": "3" } })]);
    for (limits, resources, want) in [
        (vec![], json!({ "limits": { "cpu": "1" } }), &[("cpu", 1000)][..]),
        (vec![], json!({ "limits": { "cpu": "2" }, "requests": { "cpu": "1" } }), &[("cpu", 1000)][..]),
        (vec![defaults()], json!({}), &[("cpu", 500), ("memory", 2 << 30)][..]),
        (
            vec![defaults()],
            json!({ "requests": { "cpu": "1", "memory": "1Gi" } }),
            &[("cpu", 1000), ("memory", 1 << 30)][..],
        ),
        (
            vec![defaults()],
            json!({ "limits": { "memory": "1Gi" } }),
            &[("cpu", 500), ("memory", 1 << 30)][..],
        ),
        (vec![later(), defaults()], json!({}), &[("cpu", 500), ("memory", 2 << 30), ("x", 3)][..]),
    ] {
        let mut objects = seen([one(&resources)]);
        for range in limits {
            see(&mut objects, &range);
        }
        assert_eq!(per_pod(&objects), amounts(want), "{resources}");
    }
}

#[test]
fn defaults_are_for_init_containers_too_and_for_pods_that_ask_as_a_whole() {
    let ranges = limit_range(
        "a",
        &[
            json!({ "type": "Container", "defaultRequest": { "cpu": "3" } }),
            json!({ "type": "Pod", "defaultRequest": { "cpu": "7" }, "default": { "memory": "1Gi" } }),
        ],
    );
    let init = json!({
        "initContainers": [{ "name": "i" }],
        "containers": [{ "name": "main", "resources": { "requests": { "cpu": "1" } } }],
    });
    assert_eq!(per_pod(&seen([ranges.clone(), of(init)])), amounts(&[("cpu", 3000)]));
    let pod = json!({ "containers": [{ "name": "main" }], "resources": { "requests": { "hugepages-2Mi": "2Mi" } } });
    let want = amounts(&[("cpu", 7000), ("hugepages-2Mi", 2 << 20), ("memory", 1 << 30)]);
    assert_eq!(per_pod(&seen([ranges, of(pod)])), want);
}

#[test]
fn a_runtime_class_adds_its_overhead_where_the_template_has_none() {
    let spec = json!({ "runtimeClassName": "kata", "containers": [{ "name": "main", "resources": { "requests": { "cpu": "1" } } }] });
    let kata = runtime_class("kata", &json!({ "cpu": "250m", "memory": "64Mi" }));
    let mut objects = seen([of(spec.clone()), runtime_class("other", &json!({ "cpu": "9" }))]);
    assert_eq!(per_pod(&objects), amounts(&[("cpu", 1000)]), "a class that is not there adds nothing");
    see(&mut objects, &kata);
    assert_eq!(per_pod(&objects), amounts(&[("cpu", 1250), ("memory", 64 << 20)]));
    objects.delete_runtime_class("kata");
    assert_eq!(per_pod(&objects), amounts(&[("cpu", 1000)]));
    let own = of(spec).put("/spec/podSets/0", json!(null)).put(
        "/spec/podSets",
        json!([{ "name": "main", "count": 1, "template": { "spec": {
        "runtimeClassName": "kata", "overhead": { "cpu": "1" }, "containers": [],
    } } }]),
    );
    assert_eq!(per_pod(&seen([kata, own])), amounts(&[("cpu", 1000)]));
}

#[test]
fn who_waits_is_counted_anew_when_the_namespaces_limits_change_and_who_holds_is_not() {
    let gpus = |count: &str| {
        limit_range("gpus", &[json!({ "type": "Container", "defaultRequest": { "nvidia.com/gpu": count } })])
    };
    let mut objects = seen([gpus("8"), one(&json!({}))]);
    objects.state.settle();
    let plan =
        whalezen_core::plan::plan(&objects.state, crate::seen::NOW, &whalezen_core::plan::Policy::default());
    assert!(plan.admit.is_empty(), "16 of 8");
    objects.state.follow(&plan, crate::seen::NOW, &whalezen_core::plan::Policy::default());
    see(&mut objects, &gpus("4"));
    let (write, _) = admitted(&mut objects);
    let usage = &write.body["status"]["admission"]["podSetAssignments"][0]["resourceUsage"];
    assert_eq!(*usage, json!({ "nvidia.com/gpu": "8" }), "and is charged for what its pods will request");

    let mut objects = seen([workload("train").admitted("a100")]);
    see(&mut objects, &gpus("8"));
    let held = objects.state.admission(&key(&workload("train"))).unwrap().usage();
    assert_eq!(held.into_values().map(|amount| amount.0).collect::<Vec<_>>(), [2]);
}

#[test]
fn pods_that_the_api_server_would_refuse_wait_and_say_why_in_its_words() {
    let cpu = |name: &str, least: &str, most: &str| {
        limit_range(name, &[json!({ "type": "Container", "min": { "cpu": least }, "max": { "cpu": most } })])
    };
    let pod = || {
        limit_range(
            "pod",
            &[json!({ "type": "Pod", "min": { "cpu": "2" }, "max": { "cpu": "4", "memory": "1Gi" } })],
        )
    };
    let requests = |cpu: &str| one(&json!({ "requests": { "cpu": cpu } }));
    let path = "spec.podSets[0].template.spec";
    let above = "requests must not be above the limitRange max";
    let below = "requests must not be below the limitRange min";
    let unsatisfied = "resources didn't satisfy LimitRange constraints";
    for (ranges, of, want) in [
        (vec![cpu("c", "1", "2")], requests("1"), None),
        (
            vec![cpu("c", "1", "2")],
            requests("3"),
            Some(format!("{unsatisfied}: {path}.containers[0]: Invalid value: [\"cpu\"]: {above}")),
        ),
        (
            vec![cpu("c", "1", "2")],
            requests("0"),
            Some(format!("{unsatisfied}: {path}.containers[0]: Invalid value: [\"cpu\"]: {below}")),
        ),
        // The tightest of several counts.
        (
            vec![cpu("a", "1", "8"), cpu("b", "0", "2"), cpu("c", "0", "9")],
            requests("3"),
            Some(format!("{unsatisfied}: {path}.containers[0]: Invalid value: [\"cpu\"]: {above}")),
        ),
        // What nobody names is not limited.
        (vec![pod()], one(&json!({})), None),
        (vec![pod()], requests("3"), None),
        (
            vec![pod()],
            one(&json!({ "requests": { "cpu": "5", "memory": "2Gi" } })),
            Some(format!("{unsatisfied}: {path}: Invalid value: [\"cpu\",\"memory\"]: {above}")),
        ),
        (
            vec![pod(), cpu("c", "2", "9")],
            requests("1"),
            Some(format!(
                "{unsatisfied}: [{path}.containers[0]: Invalid value: [\"cpu\"]: {below}, {path}: Invalid value: [\"cpu\"]: {below}]"
            )),
        ),
        // A limit counts as well as a request.
        (
            vec![cpu("c", "1", "2")],
            one(&json!({ "requests": { "cpu": "1" }, "limits": { "cpu": "3" } })),
            Some(format!("{unsatisfied}: {path}.containers[0]: Invalid value: [\"cpu\"]: {above}")),
        ),
        (
            vec![],
            one(&json!({ "requests": { "cpu": "2" }, "limits": { "cpu": "1" } })),
            Some(format!(
                "resources validation failed: {path}.containers[0]: Invalid value: [\"cpu\"]: requests must not exceed its limits"
            )),
        ),
        (
            vec![limit_range("d", &[json!({ "type": "Container", "default": { "cpu": "1" } })])],
            of(
                json!({ "initContainers": [{ "name": "i", "resources": { "requests": { "cpu": "2" } } }], "containers": [] }),
            ),
            Some(format!(
                "resources validation failed: {path}.initContainers[0]: Invalid value: [\"cpu\"]: requests must not exceed its limits"
            )),
        ),
        (
            vec![],
            self::of(
                json!({ "containers": [], "resources": { "requests": { "cpu": "2" }, "limits": { "cpu": "1" } } }),
            ),
            Some(format!(
                "resources validation failed: {path}.resources: Invalid value: [\"cpu\"]: requests must not exceed its limits"
            )),
        ),
    ] {
        let mut objects = seen([of.clone()]);
        for range in &ranges {
            see(&mut objects, range);
        }
        assert_eq!(problem(&mut objects), want, "{:#} {ranges:#?}", of.0["spec"]);
        for range in &ranges {
            objects.delete_limit_range("ns", range.0["metadata"]["name"].as_str().unwrap());
        }
        if !ranges.is_empty() {
            assert_eq!(problem(&mut objects), None, "without limits nothing is wrong");
        }
    }
}

#[test]
fn limits_of_another_namespace_are_nobody_elses() {
    let elsewhere = limit_range("a", &[json!({ "type": "Container", "max": { "nvidia.com/gpu": "0" } })])
        .put("/metadata/namespace", json!("another"));
    let mut objects = seen([workload("train"), elsewhere]);
    admitted(&mut objects);
}

#[test]
fn a_limit_range_that_cannot_be_read_in_part_limits_by_the_rest() {
    let odd = limit_range(
        "a",
        &[
            json!({ "type": "Container", "max": { "cpu": "many", "memory": "1Gi" } }),
            json!({ "type": "PersistentVolumeClaim", "max": { "storage": "1" } }),
        ],
    );
    let mut objects = seen([odd, one(&json!({ "requests": { "cpu": "9", "memory": "2Gi" } }))]);
    assert!(problem(&mut objects).unwrap().contains("[\"memory\"]"));
}
