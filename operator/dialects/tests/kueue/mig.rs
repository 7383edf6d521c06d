//! Workloads that need MIG instances: what is reserved for them, when they may run, and what becomes of it after.

use serde_json::{Value, json};
use whalezen_core::workload::Timestamp;
use whalezen_dialects::{
    kueue::{
        mig::{CHECK, Step, TIMEOUT},
        objects::Objects,
    },
    write::{Note, Verb, Write},
};
use whalezen_mig::Model;

use crate::{
    object::{Object, check, workload},
    seen::{NOW, key, see, seen},
};

/// `3g.40gb@0 1g.10gb@6!`: instances, of which those with a mark are busy.
pub fn there(words: &str) -> Value {
    let instance = |word: &str| {
        let (plain, busy) = word.strip_suffix('!').map_or((word, false), |plain| (plain, true));
        let (profile, start) = plain.split_once('@').unwrap();
        let start: i32 = start.parse().unwrap();
        json!({ "profile": profile, "start": start, "size": 1, "gpuInstanceId": start, "busy": busy, "origin": "Agent" })
    };
    words.split_whitespace().map(instance).collect()
}

/// An H100 with these instances.
pub fn gpu(uuid: &str, words: &str) -> Value {
    let geometry = Model::H100_80.geometry().unwrap();
    let profile = |of: &whalezen_mig::Profile| {
        json!({
            "name": of.name.to_string(), "size": of.memory_slices, "compute": of.compute_slices(),
            "memoryMiB": of.engines.memory_mib, "max": of.max, "starts": of.starts,
        })
    };
    json!({
        "uuid": uuid, "index": 0, "model": "NVIDIA H100 80GB HBM3", "memoryMiB": 81559, "health": "Healthy",
        "mig": {
            "enabled": true,
            "profiles": geometry.profiles().iter().map(profile).collect::<Vec<_>>(),
            "instances": there(words),
        },
    })
}

/// A `GPUNode` whose agent is well.
pub fn gpu_node(name: &str, gpus: &[Value]) -> Object {
    Object(json!({
        "apiVersion": "scheduling.gen.io/v1alpha1", "kind": "GPUNode",
        "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1" },
        "spec": {},
        "status": { "gpus": gpus },
    }))
    .condition("Ready", true, "r", "m")
}

/// The policy that lets workloads have every layout changed, or none.
pub fn policy(name: &str, mode: &str) -> Object {
    Object(json!({
        "apiVersion": "scheduling.gen.io/v1alpha1", "kind": "MIGPolicy",
        "metadata": { "name": name, "resourceVersion": "1" },
        "spec": { "mode": mode },
    }))
}

/// A node of flavor `a100` that offers these.
pub fn node(name: &str, offered: &Value) -> Object {
    let mut allocatable = json!({ "cpu": "8", "pods": "110" });
    allocatable.as_object_mut().unwrap().extend(offered.as_object().unwrap().clone());
    Object(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "gpu": "a100", "kubernetes.io/hostname": format!("host-{name}") } },
        "status": { "allocatable": allocatable, "conditions": [{ "type": "Ready", "status": "True" }] },
    }))
}

/// The Workload of Job `name`, of so many pods with one instance of this profile each.
pub fn asking(name: &str, profile: &str, pods: u32) -> Object {
    let resource = format!("nvidia.com/mig-{profile}");
    workload(name).uid(&format!("uid-w-{name}")).put_in("/spec/podSets/0/count", json!(pods)).put_in(
        "/spec/podSets/0/template/spec/containers/0/resources",
        json!({ "requests": { resource: "1", "cpu": "1" } }),
    )
}

/// … which holds quota for them, and has this check.
pub fn holding(name: &str, profile: &str, pods: u32, state: &Value) -> Object {
    let resource = format!("nvidia.com/mig-{profile}");
    let (count, cpu) = (pods.to_string(), "cpu");
    asking(name, profile, pods)
        .put(
            "/status/admission",
            json!({
                "clusterQueue": "cq",
                "podSetAssignments": [{
                    "name": "main", "count": pods,
                    "flavors": { &resource: "a100", cpu: "a100" },
                    "resourceUsage": { &resource: &count, cpu: &count },
                }],
            }),
        )
        .condition("QuotaReserved", true, "QuotaReserved", "Quota reserved in ClusterQueue cq")
        .put("/status/admissionChecks", json!([state]))
}

fn pending() -> Value {
    check(CHECK, "Pending", "")
}

fn world(objects: &[Object]) -> Objects {
    let mut world = seen([]);
    for object in objects {
        match object.0["kind"].as_str().unwrap() {
            "GPUNode" => world.apply_gpu_node(&object.read()),
            "MIGPolicy" => world.apply_mig_policy(&object.read()),
            _ => see(&mut world, object),
        }
    }
    world
}

fn turn(world: &Objects, now: Timestamp) -> Step {
    world.next_instances_step(&key(&workload("train")), &mut world.ground(), now)
}

fn next(objects: &[Object]) -> Step {
    turn(&world(objects), NOW)
}

fn reserved(step: Step) -> (Write, Note) {
    match step {
        Step::Layout { write, note, .. } => (*write, note),
        other => panic!("{other:?}"),
    }
}

/// The check as it is written: state, message and the rest.
fn answered(step: Step) -> (String, String, Value) {
    let Step::Write(write, _) = step else { panic!("{step:?}") };
    assert!(write.status && write.target.kind == "Workload" && write.verb == Verb::Merge, "{write:?}");
    let check = write.body["status"]["admissionChecks"][0].clone();
    assert_eq!(check["name"], CHECK);
    let text = |field: &str| check[field].as_str().unwrap().to_owned();
    (text("state"), text("message"), check)
}

/// What a spec wants of each GPU: `3g.40gb@4=train`, where somebody has a claim.
pub fn spec(body: &Value) -> Vec<String> {
    let word = |wanted: &Value| {
        let whose = wanted.pointer("/assignment/workload/uid").and_then(Value::as_str);
        let whose = whose.map_or(String::new(), |uid| format!("={}", uid.trim_start_matches("uid-w-")));
        format!("{}@{}{whose}", wanted["profile"].as_str().unwrap(), wanted["start"])
    };
    let gpu = |gpu: &Value| {
        let words: Vec<_> = gpu["instances"].as_array().into_iter().flatten().map(word).collect();
        format!("{}: {}", gpu["uuid"].as_str().unwrap(), words.join(" "))
    };
    body["spec"]["gpus"].as_array().into_iter().flatten().map(gpu).collect()
}

#[test]
fn whoever_gets_quota_for_instances_has_them_to_wait_for_where_agents_make_them() {
    for (agents, checks) in [(true, vec![CHECK]), (false, vec![])] {
        let mut objects = vec![asking("train", "3g.40gb", 1)];
        if agents {
            objects.push(gpu_node("n", &[gpu("g", "")]));
        }
        let world = world(&objects);
        let admit = whalezen_core::plan::Admit {
            workload: key(&workload("train")),
            version: 1,
            at: NOW,
            admission: {
                let given = holding("train", "3g.40gb", 1, &pending());
                let read = self::world(&[given]);
                read.state.admission(&key(&workload("train"))).unwrap().clone()
            },
        };
        let (write, notes) = world.admission(&admit).unwrap();
        let written: Vec<&str> = write.body["status"]["admissionChecks"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|check| check["name"].as_str().unwrap())
            .collect();
        assert_eq!(written, checks);
        assert_eq!(notes.iter().any(|note| note.reason == "Admitted"), !agents);
    }
}

#[test]
fn instances_are_reserved_beside_what_is_busy_and_on_one_node() {
    let policy = policy("p", "Dynamic");
    let small = gpu_node("a", &[gpu("ga", "1g.10gb@0! 1g.10gb@4!")]);
    let busy = gpu_node("b", &[gpu("gb", "1g.10gb@0! 1g.10gb@6"), gpu("gc", "")]);
    let nodes = [node("a", &json!({})), node("b", &json!({}))];
    let objects = |pods| {
        [
            &nodes[..],
            &[policy.clone(), small.clone(), busy.clone(), holding("train", "3g.40gb", pods, &pending())],
        ]
        .concat()
    };
    let (write, note) = reserved(next(&objects(1)));
    assert_eq!((write.target.kind, write.target.name.as_str(), write.verb), ("GPUNode", "b", Verb::Merge));
    assert_eq!(write.body["metadata"], json!({ "uid": "uid-b", "resourceVersion": "1" }));
    // Nothing idle goes where that can be avoided.
    assert_eq!(spec(&write.body), ["gc: 3g.40gb@4=train"]);
    assert_eq!(
        (note.reason.as_ref(), note.message.as_str()),
        ("MIGReserved", "1×3g.40gb on node b reserved")
    );
    let (write, _) = reserved(next(&objects(3)));
    assert_eq!(spec(&write.body), ["gb: 1g.10gb@0 3g.40gb@4=train", "gc: 3g.40gb@0=train 3g.40gb@4=train"]);
    let (state, message, _) = answered(next(&objects(4)));
    assert_eq!(
        (state.as_str(), message.as_str()),
        ("Pending", "no node can be given 4×3g.40gb beside what is in use or promised")
    );
}

#[test]
fn whoever_has_the_higher_priority_or_holds_quota_longer_has_its_turn_first() {
    let holder = |name: &str, priority: i32, since: &str| {
        holding(name, "3g.40gb", 1, &pending())
            .put("/spec/priority", json!(priority))
            .put_in("/status/conditions/0/lastTransitionTime", json!(since))
    };
    let (late, early) = ("2026-01-01T00:00:03Z", "2026-01-01T00:00:02Z");
    let holders = [holder("a", 0, late), holder("b", 0, early), holder("c", 1, late)];
    let mut objects = vec![policy("p", "Dynamic"), node("n", &json!({})), gpu_node("n", &[gpu("g", "")])];
    objects.extend(holders.iter().cloned());
    let world = world(&objects);
    let keys = holders.iter().map(key).collect();
    let steps = world.next_instances_steps(keys, NOW);
    let order: Vec<_> =
        steps.iter().map(|(of, _)| holders.iter().position(|holder| key(holder) == *of).unwrap()).collect();
    assert_eq!(order, [2, 1, 0]);
    // They all see the same room: of two writes to one node the API server takes one.
    assert!(steps.iter().all(|(_, step)| matches!(step, Step::Layout { .. })));
}

#[test]
fn nodes_that_cannot_take_the_pods_and_gpus_that_may_not_be_changed_are_not_asked() {
    let holder = holding("train", "3g.40gb", 1, &pending());
    let well = || gpu("g", "1g.10gb@6");
    let with = |node: Object, gpu: Value, policy: Object| {
        next(&[node, gpu_node("a", &[gpu]), policy, holder.clone()])
    };
    let dynamic = || policy("p", "Dynamic");
    let here = || node("a", &json!({}));
    assert!(matches!(with(here(), well(), dynamic()), Step::Layout { .. }));
    let refused = [
        with(here().put("/metadata/labels/gpu", json!("other")), well(), dynamic()),
        with(here().put("/spec/taints", json!([{ "key": "k", "effect": "NoSchedule" }])), well(), dynamic()),
        with(here().put("/spec/unschedulable", json!(true)), well(), dynamic()),
        with(here().put("/status/allocatable/cpu", json!("500m")), well(), dynamic()),
        with(here(), well(), policy("p", "Static")),
        with(here(), well(), dynamic().put("/spec/models", json!(["NVIDIA A30"]))),
        with(here(), well(), dynamic().put("/spec/nodeSelector", json!({ "matchLabels": { "x": "y" } }))),
        with(here(), Object(well()).put("/health", json!("Unhealthy")).0, dynamic()),
        with(here(), Object(well()).put("/mig/enabled", json!(false)).0, dynamic()),
        with(
            here(),
            Object(well()).put("/mig/layout", json!({ "source": "Pin", "state": "Applied" })).0,
            dynamic(),
        ),
        with(
            here(),
            Object(well()).put("/mig/layout", json!({ "source": "Default", "state": "Failed" })).0,
            dynamic(),
        ),
    ];
    for step in refused {
        assert_eq!(answered(step).0, "Pending");
    }
    // What is idle may be had as it is, where the layout may not be changed.
    let (write, _) = reserved(with(here(), gpu("g", "3g.40gb@0 1g.10gb@6"), policy("p", "Static")));
    assert_eq!(spec(&write.body), ["g: 3g.40gb@0=train 1g.10gb@6"]);
}

#[test]
fn of_several_policies_the_one_with_the_highest_priority_decides_and_then_the_first_by_name() {
    let with = |policies: [(&str, &str, i32); 2]| {
        let mut objects = vec![
            node("a", &json!({})),
            gpu_node("a", &[gpu("g", "")]),
            holding("train", "3g.40gb", 1, &pending()),
        ];
        objects.extend(
            policies.map(|(name, mode, priority)| policy(name, mode).put("/spec/priority", json!(priority))),
        );
        matches!(next(&objects), Step::Layout { .. })
    };
    assert!(with([("a", "Dynamic", 0), ("b", "Static", 0)]));
    assert!(!with([("a", "Static", 0), ("b", "Dynamic", 0)]));
    assert!(with([("a", "Static", 0), ("b", "Dynamic", 1)]));
}

/// A node on which Job `train` has a claim on `3g.40gb@4`.
fn claimed(words: &str) -> Object {
    let whose = json!({ "workload": { "namespace": "ns", "name": workload("train").0["metadata"]["name"], "uid": "uid-w-train" } });
    gpu_node("a", &[gpu("g", words)]).put("/spec/gpus", json!([{
        "uuid": "g",
        "instances": [{ "profile": "1g.10gb", "start": 0 }, { "profile": "3g.40gb", "start": 4, "assignment": whose }],
    }]))
}

#[test]
fn a_workload_may_run_when_its_instances_are_there_and_its_node_offers_them() {
    let offered = |count: &str| node("a", &json!({ "nvidia.com/mig-3g.40gb": count }));
    let holder = holding("train", "3g.40gb", 1, &pending());
    let step = |node: Object, claimed: Object| next(&[policy("p", "Dynamic"), node, claimed, holder.clone()]);
    let being_made = ("Pending".to_owned(), "1×3g.40gb is being made on node a".to_owned());
    for (node, claimed) in [
        (offered("1"), claimed("1g.10gb@0")),
        (offered("0"), claimed("1g.10gb@0 3g.40gb@4")),
        (node("a", &json!({})), claimed("1g.10gb@0 3g.40gb@4")),
    ] {
        let (state, message, _) = answered(step(node, claimed));
        assert_eq!((state, message), being_made);
    }
    // Somebody else uses one that nobody has a claim on: then one is not enough.
    assert_eq!(answered(step(offered("1"), claimed("3g.40gb@0! 3g.40gb@4"))).0, "Pending");
    let (state, message, check) = answered(step(offered("1"), claimed("1g.10gb@0 3g.40gb@4")));
    assert_eq!((state.as_str(), message.as_str()), ("Ready", "node a has 1×3g.40gb"));
    assert_eq!(
        check["podSetUpdates"],
        json!([{ "name": "main", "nodeSelector": { "kubernetes.io/hostname": "host-a" } }])
    );
}

#[test]
fn what_was_said_is_not_said_again_and_too_long_a_wait_ends_in_a_pause() {
    let mut told = pending();
    told["message"] = json!("1×3g.40gb is being made on node a");
    let objects = |told: &Value| [node("a", &json!({})), claimed(""), holding("train", "3g.40gb", 1, told)];
    let Step::Until(Some(end)) = next(&objects(&told)) else { panic!() };
    let late = |told: &Value| turn(&world(&objects(told)), end);
    let (state, message, check) = answered(late(&told));
    assert_eq!(state, "Retry");
    assert_eq!(message, format!("1×3g.40gb is being made on node a, for {} s", TIMEOUT.as_secs()));
    assert_eq!(check["requeueAfterSeconds"], 60);
    for (retries, pause) in [(1, 120), (4, 960), (5, 1800), (31, 1800), (2_000_000_000, 1800)] {
        told["retryCount"] = json!(retries);
        assert_eq!(answered(late(&told)).2["requeueAfterSeconds"], pause);
    }
}

#[test]
fn claims_of_who_holds_no_quota_are_taken_out_and_others_stay() {
    let tidied = |objects: &[Object]| world(objects).tidy_layout("a").map(|write| spec(&write.body));
    let there = || [node("a", &json!({})), claimed("1g.10gb@0 3g.40gb@4")];
    let with = |workload: Object| tidied(&[&there()[..], &[workload]].concat());
    assert_eq!(with(holding("train", "3g.40gb", 1, &pending())), None);
    assert_eq!(with(holding("train", "3g.40gb", 1, &check(CHECK, "Ready", ""))), None);
    let nothing = Some(vec![]);
    assert_eq!(with(asking("train", "3g.40gb", 1)), nothing, "it gave its quota back");
    assert_eq!(tidied(&there()), nothing, "it is gone");
    assert_eq!(with(holding("train", "3g.40gb", 1, &pending()).uid("uid-another")), nothing);
    assert_eq!(with(holding("train", "3g.40gb", 2, &pending())), nothing, "it is another number now");
    let lost = claimed("").put("/status/gpus", json!([]));
    assert_eq!(tidied(&[lost, holding("train", "3g.40gb", 1, &pending())]), nothing, "the GPU is gone");
    let lost = claimed("").put("/status/gpus", json!([]));
    let runs = holding("train", "3g.40gb", 1, &check(CHECK, "Ready", ""));
    assert_eq!(tidied(&[lost, runs]), None, "who runs is not moved");
}

#[test]
fn workloads_on_a_gpu_that_fails_are_told() {
    let runs = holding("train", "3g.40gb", 1, &check(CHECK, "Ready", ""));
    let mut world = world(&[node("a", &json!({})), claimed("3g.40gb@4!"), runs]);
    world.take_due();
    let failing = |version: u64| {
        let mut node = claimed("3g.40gb@4!").version(version);
        node.0["status"]["gpus"][0]["health"] = json!("Unhealthy");
        node.0["status"]["gpus"][0]["healthReason"] = json!("Xid79");
        node
    };
    for (version, notes) in [(2, 1), (3, 0)] {
        world.apply_gpu_node(&failing(version).read());
        let due = world.take_due();
        assert_eq!(due.notes.len(), notes, "it is said once");
        for note in due.notes {
            assert_eq!((note.reason.as_ref(), note.warning), ("GPUUnhealthy", true));
            assert_eq!(note.message, "GPU g of node a takes no new work: Xid79");
        }
    }
}

#[test]
fn whatever_a_gpu_node_says_nothing_breaks() {
    let names = ["", "3g", "3g.40gb", "9g.999gb", "3g.40gb+me.all", "1c.3g.40gb", "\u{0}"];
    for name in names {
        for number in [-1, 0, 7, 255, 256, i32::MAX] {
            let mut node = gpu_node("a", &[gpu("g", "")]);
            let mig = &mut node.0["status"]["gpus"][0]["mig"];
            mig["instances"] =
                json!([{ "profile": name, "start": number, "size": number, "gpuInstanceId": 0 }]);
            mig["profiles"][0] = json!({ "name": name, "size": number, "compute": number, "memoryMiB": number, "max": number, "starts": [number] });
            node = node.put(
                "/spec/gpus",
                json!([{ "uuid": "g", "instances": [{ "profile": name, "start": number }] }]),
            );
            let holder = holding("train", "3g.40gb", 1, &pending());
            let world = world(&[policy("p", "Dynamic"), self::node("a", &json!({})), node, holder]);
            let step = turn(&world, NOW);
            assert!(!matches!(step, Step::Until(None)), "{step:?}");
            world.tidy_layout("a");
        }
    }
}
