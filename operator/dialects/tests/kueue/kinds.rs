//! Jobs of every kind: what is read of each, and what is written to it.

use proptest::prelude::*;
use serde_json::{Value, json};
use whalezen_dialects::{
    kueue::{
        jobs::{JobKey, Step, build, kinds},
        objects::Objects,
        settings::{Frameworks, Settings},
    },
    write::{Verb, Write},
};

use crate::{
    object::{Object, cluster_queue, flavor, group, local_queue, namespace, put},
    reading::{apply, changes, see_if_readable},
    samples::{described, of, template, view},
    seen::{NOW, admitted, see, word},
};

/// An operator that manages all kinds, with 64 GPUs of flavor `a100`.
pub fn operator<const N: usize>(more: [Object; N]) -> Objects {
    let frameworks = Frameworks(kinds::ALL.into_iter().collect());
    let mut objects = Objects::new(Settings { frameworks, ..Settings::default() });
    let quotas = [("nvidia.com/gpu", "64"), ("cpu", "64"), ("memory", "64Gi")];
    let covered = quotas.map(|(resource, _)| resource);
    let queue =
        cluster_queue("cq", 64).put("/spec/resourceGroups", json!([group(&covered, "a100", &quotas)]));
    let basis = [namespace("ns"), flavor("a100"), queue, local_queue("lq", "cq")];
    for object in basis.into_iter().chain(more) {
        see(&mut objects, &object);
    }
    objects.state.settle();
    objects
}

/// The key of a job in `ns`.
pub fn key(kind: &'static str, name: &str) -> JobKey {
    JobKey { kind, namespace: "ns".into(), name: name.into() }
}

/// The Workload of a job, as the API server has it once it was made.
pub fn workload_of(job: &Object) -> Object {
    let made = build::workload(&job.whole(), (None, 0));
    Object(serde_json::to_value(made).unwrap()).uid("uid-w").version(1)
}

/// A job's Workload once it has got its quota.
pub fn admitted_workload(kind: &'static str, job: &Object) -> Object {
    let mut objects = operator([job.clone(), workload_of(job)]);
    assert_eq!(word(&objects.next_step(&key(kind, "train"), NOW)), "rest");
    let (write, _) = admitted(&mut objects);
    workload_of(job).version(2).put("/status", write.body["status"].clone())
}

/// The next step of job `train`.
pub fn next(kind: &'static str, objects: &Objects) -> Step {
    objects.next_step(&key(kind, "train"), NOW)
}

/// The write of a step that is one.
pub fn write(step: Step) -> Write {
    let Step::Write(write, _) = step else { panic!("{step:?}") };
    *write
}

/// A job after a patch.
pub fn patched(object: &Object, write: &Write) -> Object {
    let mut value = object.0.clone();
    for operation in write.body.as_array().unwrap() {
        let path = operation["path"].as_str().unwrap();
        let (parent, last) = path.rsplit_once('/').unwrap();
        let last = last.replace("~1", "/");
        let parent = value.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {parent}"));
        match (operation["op"].as_str().unwrap(), parent) {
            ("add" | "replace", Value::Object(fields)) => {
                fields.insert(last, operation["value"].clone());
            }
            ("add", Value::Array(items)) if last == "-" => items.push(operation["value"].clone()),
            ("remove", Value::Object(fields)) => {
                fields.remove(&last).unwrap_or_else(|| panic!("nothing at {path}"));
            }
            other => panic!("{other:?}"),
        }
    }
    Object(value)
}

#[test]
fn pod_sets_have_kueues_names_order_and_counts() {
    for (kind, want) in [
        ("JobSet", vec![("driver", 1), ("workers", 6)]),
        ("PyTorchJob", vec![("master", 1), ("worker", 3)]),
        ("TFJob", vec![("chief", 1), ("ps", 1), ("worker", 2), ("evaluator", 1)]),
        ("XGBoostJob", vec![("master", 1), ("worker", 2)]),
        ("PaddleJob", vec![("worker", 2)]),
        ("JAXJob", vec![("worker", 2)]),
        ("MPIJob", vec![("launcher", 1), ("worker", 2)]),
        ("RayJob", vec![("head", 1), ("small", 4), ("submitter", 1)]),
        ("RayCluster", vec![("head", 1), ("small", 4)]),
        ("AppWrapper", vec![("train-0", 1), ("train-1", 1), ("train-2", 6), ("train-3", 5)]),
    ] {
        let workload = build::workload(&of(kind).whole(), (None, 0));
        let sets: Vec<_> = workload.spec.pod_sets.iter().map(|set| (set.name.as_str(), set.count)).collect();
        assert_eq!(sets, want, "{kind}");
        let pods = view(&of(kind)).pods.unwrap();
        let counts: Vec<_> =
            pods.iter().map(|pods| (&*pods.name, i32::try_from(pods.count).unwrap())).collect();
        assert_eq!(counts, want, "{kind}");
        let owner = &workload.metadata.owner_references.unwrap()[0];
        let known = kinds::find(kind).unwrap();
        assert_eq!((&owner.kind, &owner.api_version), (&kind.to_owned(), &known.api_version()));
        assert!(workload.metadata.name.unwrap().starts_with(&format!("{}-train-", kind.to_lowercase())));
    }
}

#[test]
fn workers_of_a_ray_cluster_count_as_kuberay_makes_them() {
    for (group, pods) in [
        (json!({ "replicas": 2, "numOfHosts": 2 }), Ok(4)),
        (json!({ "replicas": 0, "minReplicas": 4 }), Ok(4)),
        (json!({ "replicas": 9, "maxReplicas": 3, "numOfHosts": 2 }), Ok(6)),
        (json!({}), Ok(1)),
        (json!({ "replicas": 4, "numOfHosts": 0 }), Ok(0)),
        (json!({ "replicas": 2, "numOfHosts": -2 }), Err("pod set w: the count -2 is negative")),
        (
            json!({ "replicas": -2, "minReplicas": -2, "numOfHosts": -2 }),
            Err("pod set w: the count -2 is negative"),
        ),
    ] {
        let mut workers = json!({ "groupName": "w", "template": template() });
        workers.as_object_mut().unwrap().extend(group.as_object().unwrap().clone());
        let cluster = of("RayCluster").put("/spec/workerGroupSpecs", json!([workers]));
        let counts = view(&cluster).pods.map(|pods| pods[1].count);
        assert_eq!(
            counts.as_ref().map_err(String::as_str),
            pods.as_ref().map_err(|problem| *problem),
            "{group}"
        );
    }
}

#[test]
fn the_manifests_speak_of_every_kind() {
    let manifests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/kustomize");
    let read = |path: &str| std::fs::read_to_string(manifests.join(path)).unwrap();
    let words = |path: &str| {
        let text = read(path);
        let words = text.split(|c: char| !(c.is_alphanumeric() || "./-".contains(c)));
        words.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let configuration = words("base/operator/controller_manager_config.yaml");
    for kind in kinds::ALL {
        assert!(configuration.iter().any(|word| word == kind.framework), "{}", kind.framework);
    }
    for path in [
        "base/rbac/operator-role.yaml",
        "observe/rbac/observer-role.yaml",
        "base/rbac/people-roles.yaml",
        "base/admission/default-queue.yaml",
        "base/admission/suspend-queued-kinds.yaml",
        "base/admission/validate-queued-kinds.yaml",
    ] {
        let words = words(path);
        for kind in kinds::ALL.into_iter().filter(|kind| kind.status.is_some()) {
            assert!(words.iter().any(|word| word == kind.plural), "{path} has no {}", kind.plural);
            assert!(words.iter().any(|word| word == kind.group), "{path} has no {}", kind.group);
        }
    }
}

#[test]
fn workloads_have_kueues_names() {
    // By Kueue 0.19.2's workload_names.go, as for Jobs.
    for (kind, name) in [
        ("JobSet", "jobset-train-8cf60"),
        ("PyTorchJob", "pytorchjob-train-02b78"),
        ("RayJob", "rayjob-train-4619b"),
        ("AppWrapper", "appwrapper-train-35a9b"),
    ] {
        let made = build::workload(&of(kind).whole(), (None, 0));
        assert_eq!(made.metadata.name.as_deref(), Some(name));
    }
}

#[test]
fn a_job_of_any_kind_is_queued_started_whole_on_its_flavors_nodes_and_put_back_as_it_was() {
    for kind in described() {
        let job = of(kind);
        assert_eq!(word(&next(kind, &operator([job.clone()]))), "create", "{kind}");
        let workload = admitted_workload(kind, &job);
        let step = next(kind, &operator([job.clone(), workload.clone()]));
        assert_eq!(word(&step), "start", "{kind}");
        let start = write(step);
        assert_eq!(
            start.body[0],
            json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": "1" }),
            "{kind}"
        );
        let started = patched(&job, &start).version(2);
        let known = kinds::find(kind).unwrap();
        assert_eq!(started.0.pointer(known.suspend), Some(&json!(false)), "{kind}");
        for (set, name) in started.whole().sets.iter().zip(view(&job).pods.unwrap().iter()) {
            let selector = set.template.spec.as_ref().unwrap().node_selector.clone().unwrap();
            assert_eq!(selector["gpu"], "a100", "{kind}");
            let metadata = set.template.metadata.clone().unwrap();
            assert_eq!(metadata.labels.unwrap()["kueue.x-k8s.io/podset"], *name.name, "{kind}");
            let by = &metadata.annotations.unwrap()["kueue.x-k8s.io/workload"];
            assert_eq!(workload.0["metadata"]["name"], json!(by), "{kind}");
        }
        assert_eq!(word(&next(kind, &operator([started.clone(), workload.clone()]))), "rest", "{kind} runs");

        let evicted = workload.condition("Evicted", true, "Preempted", "for another").version(3);
        let step = next(kind, &operator([started.clone(), evicted.clone()]));
        assert_eq!(word(&step), "suspend", "{kind}");
        let suspension = write(step);
        assert_eq!(suspension.verb, Verb::Merge);
        let stopped = started.put(known.suspend, suspension.body.pointer(known.suspend).unwrap().clone());
        let unnoticed = next(kind, &operator([stopped.clone().version(3), evicted.clone()]));
        assert_eq!(word(&unnoticed), "rest", "the controller of {kind} has not taken notice");
        let stopped = at_rest(kind, stopped).version(4);
        assert_eq!(word(&next(kind, &operator([stopped.clone(), evicted.clone()]))), "restore", "{kind}");
        let back = stopped.job().restore(&evicted.read(), 0).unwrap();
        let restored = patched(&stopped, &back).version(5);
        assert_eq!(spec_without_marks(&restored), spec_without_marks(&job), "{kind}");
        assert_eq!(word(&next(kind, &operator([restored, evicted]))), "release", "{kind}");
    }
}

/// As a kind's controller shows that it has taken notice of a suspension.
pub fn at_rest(kind: &str, job: Object) -> Object {
    match kind {
        "RayJob" => job.put("/status/jobDeploymentStatus", json!("Suspended")),
        "RayCluster" => job.put("/status/state", json!("suspended")),
        "AppWrapper" => job.put("/status/phase", json!("Suspended")),
        _ => job.put("/status/conditions", json!([{ "type": "Suspended", "status": "True" }])),
    }
}

/// A spec without what may be left of an admission: empty lists and metadata, and the submitter's template.
fn spec_without_marks(job: &Object) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.values_mut().for_each(strip);
                fields.retain(|key, value| {
                    let empty = value.as_object().is_some_and(serde_json::Map::is_empty)
                        || value.as_array().is_some_and(Vec::is_empty);
                    key != "submitterPodTemplate"
                        && !(empty && ["metadata", "podSetInfos"].contains(&key.as_str()))
                });
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut spec = job.0["spec"].clone();
    strip(&mut spec);
    spec
}

#[test]
fn a_job_without_leave_is_suspended_where_its_kind_says_so() {
    for kind in described() {
        let known = kinds::find(kind).unwrap();
        let step = next(kind, &operator([of(kind).put(known.suspend, json!(false))]));
        assert_eq!(word(&step), "suspend", "{kind}");
        let write = write(step);
        assert_eq!(write.target, known.target("ns", "train"));
        assert_eq!(write.body.pointer(known.suspend), Some(&json!(true)));
        assert_eq!(write.body["metadata"], json!({ "resourceVersion": "1" }));
    }
}

#[test]
fn jobs_end_by_what_their_kind_shows() {
    let condition =
        |type_: &str| json!({ "conditions": [{ "type": type_, "status": "True", "message": "m" }] });
    let mut cases = vec![
        ("JobSet", condition("Completed"), Some((true, "m"))),
        ("JobSet", condition("Failed"), Some((false, "m"))),
        ("JobSet", condition("Suspended"), None),
        ("JobSet", json!({ "conditions": [{ "type": "Completed", "status": "False" }] }), None),
        ("RayJob", json!({ "jobDeploymentStatus": "Running", "jobStatus": "SUCCEEDED" }), None),
        (
            "RayJob",
            json!({ "jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "m" }),
            Some((true, "m")),
        ),
        ("RayJob", json!({ "jobDeploymentStatus": "Complete", "jobStatus": "STOPPED" }), Some((false, ""))),
        ("RayJob", json!({ "jobDeploymentStatus": "Failed", "message": "m" }), Some((false, "m"))),
        ("RayCluster", json!({ "state": "failed" }), None),
        ("AppWrapper", json!({ "phase": "Succeeded" }), Some((true, "AppWrapper finished successfully"))),
        ("AppWrapper", json!({ "phase": "Failed" }), Some((false, "AppWrapper failed"))),
        (
            "AppWrapper",
            {
                let mut status = condition("ResourcesDeployed");
                status["phase"] = json!("Failed");
                status
            },
            None,
        ),
    ];
    for kind in ["PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob"] {
        cases.push((kind, condition("Succeeded"), Some((true, "m"))));
        cases.push((kind, condition("Failed"), Some((false, "m"))));
        cases.push((kind, condition("Running"), None));
    }
    for (kind, status, want) in cases {
        let ending = view(&of(kind).put("/status", status.clone())).ending;
        let ending = ending.as_ref().map(|ending| (ending.succeeded, ending.message.as_str()));
        assert_eq!(ending, want, "{kind} {status}");
    }
}

#[test]
fn jobs_show_what_of_them_runs_and_is_ready() {
    let running = json!({ "conditions": [{ "type": "Running", "status": "True" }], "replicaStatuses": {
        "Master": { "active": 1 }, "Worker": { "active": 3 },
    } });
    let of_jobs = |jobs: Value| json!({ "replicatedJobsStatus": jobs });
    for (kind, status, active, ready) in [
        ("JobSet", json!({}), 0, false),
        (
            "JobSet",
            of_jobs(
                json!([{ "name": "driver", "active": 1 }, { "name": "workers", "active": 2, "ready": 2 }]),
            ),
            3,
            false,
        ),
        (
            "JobSet",
            of_jobs(
                json!([{ "name": "driver", "succeeded": 1 }, { "name": "workers", "active": 2, "ready": 2 }]),
            ),
            2,
            true,
        ),
        ("PyTorchJob", running.clone(), 4, true),
        ("PyTorchJob", json!({ "replicaStatuses": { "Worker": {} } }), 0, false),
        ("MPIJob", running, 4, true),
        ("RayJob", json!({ "jobDeploymentStatus": "Initializing" }), 1, false),
        (
            "RayJob",
            json!({ "jobDeploymentStatus": "Running", "rayClusterStatus": { "state": "ready" } }),
            1,
            true,
        ),
        ("RayJob", json!({ "jobDeploymentStatus": "Suspended" }), 0, false),
        ("RayCluster", json!({ "state": "ready" }), 1, true),
        ("RayCluster", json!({ "state": "failed" }), 1, false),
        ("RayCluster", json!({ "state": "suspended" }), 0, false),
        (
            "AppWrapper",
            json!({ "conditions": [{ "type": "QuotaReserved", "status": "True" }, { "type": "PodsReady", "status": "True" }] }),
            1,
            true,
        ),
        ("AppWrapper", json!({ "phase": "Resetting" }), 0, false),
    ] {
        let view = view(&of(kind).put("/status", status.clone()));
        assert_eq!((view.active, view.unready == 0), (active, ready), "{kind} {status}");
    }
}

#[test]
fn replicas_of_a_job_set_that_are_through_give_their_pods_quota_back() {
    let job = of("JobSet");
    let workload = admitted_workload("JobSet", &job);
    let started =
        patched(&job, &write(next("JobSet", &operator([job.clone(), workload.clone()])))).version(2);
    let status = json!([
        { "name": "driver", "active": 1 }, { "name": "workers", "active": 1, "succeeded": 1 },
    ]);
    let running = started.put("/status/replicatedJobsStatus", status);
    let step = next("JobSet", &operator([running.clone(), workload.clone()]));
    assert_eq!(word(&step), "reclaim");
    let body = write(step).body;
    assert_eq!(body["status"], json!({ "reclaimablePods": [{ "name": "workers", "count": 3 }] }));
    let told = workload.put("/status/reclaimablePods", body["status"]["reclaimablePods"].clone()).version(3);
    assert_eq!(word(&next("JobSet", &operator([running, told]))), "rest");
}

#[test]
fn the_priority_class_of_a_training_job_is_from_its_policy_and_then_from_the_first_pods_that_have_one() {
    let own = "/spec/pytorchReplicaSpecs/Worker/template/spec/priorityClassName";
    let by_pods = of("PyTorchJob").put(own, json!("of-workers"));
    assert_eq!(view(&by_pods).pod_priority_class.as_deref(), Some("of-workers"));
    let by_policy = by_pods.put("/spec/runPolicy/schedulingPolicy/priorityClass", json!("of-all"));
    assert_eq!(view(&by_policy).pod_priority_class.as_deref(), Some("of-all"));
}

#[test]
fn the_pods_that_ray_adds_are_counted() {
    let requests = |job: &Object, set: usize| {
        let pods = view(job).pods.unwrap();
        let total = pods[set].template.total().unwrap();
        total.get(&"cpu".into()).map_or(0, |amount| amount.0)
    };
    assert_eq!(requests(&of("RayJob"), 2), 500, "the submitter");
    let own = of("RayJob").put("/spec/submitterPodTemplate", template());
    assert_eq!(requests(&own, 2), 0, "with a template of its own");
    let sidecar = of("RayJob").put("/spec/submissionMode", json!("SidecarMode"));
    assert_eq!((view(&sidecar).slots.len(), requests(&sidecar, 0)), (2, 500));
    let http = of("RayJob").put("/spec/submissionMode", json!("HTTPMode"));
    assert_eq!((view(&http).slots.len(), requests(&http, 0)), (2, 0));
    let scaled = of("RayCluster").put("/spec/enableInTreeAutoscaling", json!(true));
    assert_eq!(requests(&scaled, 0), 500);
}

#[test]
fn a_ray_job_on_a_cluster_that_is_there_is_not_queued() {
    let job = of("RayJob").put("/spec/clusterSelector", json!({ "ray.io/cluster": "mine" }));
    assert_eq!(word(&next("RayJob", &operator([job.put("/spec/suspend", json!(false))]))), "rest");
}

#[test]
fn a_job_that_describes_no_pods_is_told_so_and_has_no_workload() {
    for (kind, at, value, problem) in [
        ("JobSet", "/spec/replicatedJobs", json!([]), "it describes no pods"),
        ("JobSet", "/spec/replicatedJobs/0/template", json!({}), "pod set driver has no template"),
        (
            "RayJob",
            "/spec/rayClusterSpec/headGroupSpec/template",
            json!([]),
            "the template of pod set head cannot be read",
        ),
    ] {
        let mut job = of(kind);
        *job.0.pointer_mut(at).unwrap() = value;
        let step = next(kind, &operator([job]));
        let Step::Stuck(note) = step else { panic!("{step:?}") };
        assert!(note.message.contains(problem), "{}", note.message);
        assert_eq!(note.reason, "ErrWorkloadCompose");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_to_jobs_of_other_kinds_nothing_panics(
        index in 0..described().count(),
        suspended in any::<bool>(),
        changes in changes(),
    ) {
        let kind = described().nth(index).unwrap();
        let known = kinds::find(kind).unwrap();
        let job = of(kind).put(known.suspend, json!(suspended));
        let workload = admitted_workload(kind, &of(kind));
        let mut changed = job.0;
        for (path, change) in &changes {
            apply(&mut changed, path, change);
        }
        put(&mut changed, "/kind", json!(kind));
        let mut objects = operator([workload.clone()]);
        see_if_readable(&mut objects, changed.clone());
        for due in objects.take_due().jobs {
            objects.next_step(&due, NOW);
        }
        if serde_json::from_value::<kube::core::DynamicObject>(changed.clone()).is_ok() {
            Object(changed).job().restore(&workload.read(), 0);
        }
    }
}
