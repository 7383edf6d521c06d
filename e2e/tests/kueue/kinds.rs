//! Jobs of other projects' kinds, whose definitions come while the operator runs.

use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use whalezen_e2e::DURATION_ANNOTATION;

use crate::{
    doubles,
    ground::{Ground, QUEUE, condition, is, text},
    objects::{A100, GPU, PRODUCT, job, local_queue, workload_priority_class},
};

/// One definition is made at a time: two tests may want the same.
static DEFINING: Mutex<()> = Mutex::const_new(());

/// Installs the definition of a kind.
pub async fn define(ground: &Ground, kind: &str) {
    let _turn = DEFINING.lock().await;
    let file = format!("{}/tests/kueue/crds/{kind}.yaml", env!("CARGO_MANIFEST_DIR"));
    ground.kubectl(&["apply", "--filename", &file]).await;
    ground.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "--filename", &file]).await;
}

/// A template of pods with one GPU each, which run so long, or until they are deleted.
fn template(runs: Option<&str>) -> Value {
    let annotations = runs.map_or(json!({}), |time| json!({ DURATION_ANNOTATION: time }));
    let container = json!({ "name": "train", "image": "train", "resources": { "limits": { GPU: 1 } } });
    json!({
        "metadata": { "annotations": annotations },
        "spec": { "restartPolicy": "Never", "containers": [container] },
    })
}

/// A `JobSet` of a driver and two Jobs of two workers. The Jobs carry a queue's name, too.
fn job_set(name: &str, runs: Option<&str>) -> Value {
    let part = |name: &str, replicas: u32, pods: u32| {
        json!({ "name": name, "replicas": replicas, "template": {
            "metadata": { "labels": { "kueue.x-k8s.io/queue-name": QUEUE } },
            "spec": { "parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template(runs) },
        } })
    };
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": { "name": name, "labels": { "kueue.x-k8s.io/queue-name": QUEUE } },
        "spec": { "replicatedJobs": [part("driver", 1, 1), part("workers", 2, 2)] },
    })
}

/// A training job with a master and three workers.
fn training_job(kind: &str, roles: &str, name: &str) -> Value {
    let role = |replicas: u32| json!({ "replicas": replicas, "template": template(None) });
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": kind,
        "metadata": { "name": name, "labels": { "kueue.x-k8s.io/queue-name": QUEUE } },
        "spec": { roles: { "Worker": role(3), "Master": role(1) } },
    })
}

/// A Job of this `WorkloadPriorityClass`.
fn of_class(mut job: Value, class: &str) -> Value {
    job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(class);
    job
}

/// Lets jobs stop for others of a higher class.
async fn preempts(ground: &Ground) -> String {
    let class = format!("{}-high", ground.name);
    ground.apply(&workload_priority_class(&class, 100)).await;
    let policy = json!({ "spec": { "preemption": { "withinClusterQueue": "LowerPriority" } } });
    ground.patch("ClusterQueue", &ground.name, policy).await;
    class
}

/// The pod sets of a Workload: their names and counts.
fn sets(workload: &Value) -> Vec<(&str, u64)> {
    let sets = workload["spec"]["podSets"].as_array().unwrap().iter();
    sets.map(|set| (text(set, "/name"), set["count"].as_u64().unwrap())).collect()
}

/// Whether all of these templates send their pods where the flavor is, or none has anything of it.
fn directed(templates: &[&Value]) -> Option<bool> {
    let of = |template: &Value| {
        let marks = &template["metadata"]["annotations"]["kueue.x-k8s.io/workload"];
        (template["spec"]["nodeSelector"][PRODUCT] == A100, !marks.is_null())
    };
    let all: Vec<_> = templates.iter().map(|template| of(template)).collect();
    [true, false].into_iter().find(|is| all.iter().all(|of| *of == (*is, *is)))
}

fn parts(set: &Value) -> Vec<&Value> {
    let parts = set["spec"]["replicatedJobs"].as_array().unwrap().iter();
    parts.map(|part| &part["template"]["spec"]["template"]).collect()
}

fn roles(job: &Value) -> Vec<&Value> {
    let roles = job["spec"]["pytorchReplicaSpecs"].as_object().unwrap().values();
    roles.map(|role| &role["template"]).collect()
}

#[tokio::test]
async fn a_job_set_is_queued_as_a_whole_stops_for_another_and_runs_again() {
    let ground = Ground::new("job-sets", 5).await;
    define(&ground, "jobset").await;
    let class = preempts(&ground).await;
    let _controller = doubles::job_sets(&ground);
    let made = ground.create(job_set("low", None)).await;
    assert_eq!(made["spec"]["suspend"], true, "it is suspended before anybody can make Jobs for it");
    let name = ground.workload_of_kind("JobSet", "low").await;
    assert!(name.starts_with("jobset-low-"), "{name}");
    let workload = ground.sees("Workload", &name, "is admitted", |w| is(w, "Admitted")).await;
    assert_eq!(sets(&workload), [("driver", 1), ("workers", 4)]);
    let started = ground.sees("JobSet", "low", "is started", |set| set["spec"]["suspend"] == false).await;
    assert_eq!(directed(&parts(&started)), Some(true), "{started:#}");
    for part in ["low-driver-0", "low-workers-0", "low-workers-1"] {
        ground.runs(part).await;
    }
    ground.counts("job-sets", 0, 1, 5).await;
    let workloads = ground.api("Workload").list(&ListParams::default()).await.unwrap();
    assert_eq!(workloads.items.len(), 1, "its Jobs are not queued again");

    ground.create(of_class(job("high", 1, 5, None), &class)).await;
    let stopped = |set: &Value| set["spec"]["suspend"] == true && directed(&parts(set)) == Some(false);
    ground.sees("JobSet", "low", "stops and is as it was", stopped).await;
    ground.runs("high").await;
    for part in ["low-driver-0", "low-workers-0", "low-workers-1"] {
        let part = ground.get("Job", part).await.unwrap();
        assert_eq!((part["status"]["failed"].as_u64(), &part["spec"]["suspend"]), (None, &json!(true)));
        assert!(
            ground.pods(text(&part, "/metadata/name")).await.is_empty(),
            "its quota was free when they were gone"
        );
    }
    let victim =
        ground.sees("Workload", &name, "waits again", |w| is(w, "Requeued") && !is(w, "QuotaReserved")).await;
    assert_eq!(condition(&victim, "Evicted").unwrap()["reason"], "Preempted");

    ground.delete("Job", "high").await;
    ground.sees("Workload", &name, "is admitted again", |w| is(w, "Admitted")).await;
    ground.runs("low-workers-1").await;
    ground.delete("JobSet", "low").await;
    ground.gone("Workload", &name).await;
    ground.counts("job-sets", 0, 0, 0).await;
}

#[tokio::test]
async fn a_job_set_gives_quota_back_part_by_part_and_finishes_with_its_controllers_words() {
    let ground = Ground::new("job-set-ends", 5).await;
    define(&ground, "jobset").await;
    let _controller = doubles::job_sets(&ground);
    let mut set = job_set("short", Some("300ms"));
    let driver = &mut set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
    driver["metadata"]["annotations"][DURATION_ANNOTATION] = json!("4s");
    ground.create(set).await;
    let name = ground.workload_of_kind("JobSet", "short").await;
    let given_back = json!([{ "name": "workers", "count": 4 }]);
    ground.sees("Workload", &name, "has given back", |w| w["status"]["reclaimablePods"] == given_back).await;
    ground.counts("job-set-ends", 0, 1, 1).await;
    let finished = ground.sees("Workload", &name, "is finished", |w| is(w, "Finished")).await;
    let finished = condition(&finished, "Finished").unwrap();
    assert_eq!((&finished["reason"], &finished["message"]), (&json!("Succeeded"), &json!("Completed it is")));
    ground.counts("job-set-ends", 0, 0, 0).await;
}

#[tokio::test]
async fn a_training_job_is_queued_with_all_of_its_roles_stops_and_finishes() {
    let ground = Ground::new("training", 4).await;
    define(&ground, "pytorchjob").await;
    let class = preempts(&ground).await;
    let controller = doubles::training_jobs(&ground);
    let made = ground.create(training_job("PyTorchJob", "pytorchReplicaSpecs", "bert")).await;
    assert_eq!(made["spec"]["runPolicy"]["suspend"], true);
    let name = ground.workload_of_kind("PyTorchJob", "bert").await;
    let workload = ground.sees("Workload", &name, "is admitted", |w| is(w, "Admitted")).await;
    assert_eq!(sets(&workload), [("master", 1), ("worker", 3)], "in the order of their roles");
    let runs = |job: &Value| is(job, "Running") && directed(&roles(job)) == Some(true);
    ground.sees("PyTorchJob", "bert", "runs", runs).await;
    let moved = json!({ "metadata": { "labels": { "kueue.x-k8s.io/queue-name": "other" } } });
    let refused = ground.try_patch("PyTorchJob", "bert", moved).await.unwrap_err();
    assert!(refused.contains("may change only while the job is suspended"), "{refused}");

    ground.create(of_class(job("high", 1, 4, None), &class)).await;
    let stopped = |job: &Value| is(job, "Suspended") && directed(&roles(job)) == Some(false);
    ground.sees("PyTorchJob", "bert", "stops and is as it was", stopped).await;
    ground.runs("high").await;
    ground.delete("Job", "high").await;
    ground.sees("PyTorchJob", "bert", "runs again", runs).await;

    drop(controller);
    let over = json!([{ "type": "Succeeded", "status": "True", "message": "trained" }]);
    ground.patch_status("PyTorchJob", "bert", json!({ "conditions": over })).await;
    let finished = ground.sees("Workload", &name, "is finished", |w| is(w, "Finished")).await;
    let finished = condition(&finished, "Finished").unwrap();
    assert_eq!((&finished["reason"], &finished["message"]), (&json!("Succeeded"), &json!("trained")));
    ground.counts("training", 0, 0, 0).await;
}

#[tokio::test]
async fn a_train_job_is_queued_with_what_its_controller_makes_of_it_and_of_a_runtime() {
    let ground = Ground::new("train-jobs", 5).await;
    define(&ground, "jobset").await;
    define(&ground, "trainjob").await;
    let class = preempts(&ground).await;
    let _job_sets = doubles::job_sets(&ground);
    let _trainer = doubles::train_jobs(&ground, job_set("runtime", None)["spec"].clone());
    let made = json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": { "name": "llm", "labels": { "kueue.x-k8s.io/queue-name": QUEUE } },
        "spec": { "runtimeRef": { "name": "runtime" } },
    });
    assert_eq!(ground.create(made).await["spec"]["suspend"], true);
    let name = ground.workload_of_kind("TrainJob", "llm").await;
    let workload = ground.sees("Workload", &name, "is admitted", |w| is(w, "Admitted")).await;
    assert_eq!(sets(&workload), [("driver", 1), ("workers", 4)]);
    let started = |set: &Value| set["spec"]["suspend"] == false && directed(&parts(set)) == Some(true);
    ground.sees("JobSet", "llm", "is started by its owner", started).await;
    ground.runs("llm-workers-1").await;
    let workloads = ground.api("Workload").list(&ListParams::default()).await.unwrap();
    assert_eq!(workloads.items.len(), 1, "neither its JobSet nor that one's Jobs are queued again");

    ground.create(of_class(job("high", 1, 5, None), &class)).await;
    ground.runs("high").await;
    let set = ground.get("JobSet", "llm").await.unwrap();
    assert_eq!((&set["spec"]["suspend"], directed(&parts(&set))), (&json!(true), Some(false)), "{set:#}");
    ground.delete("Job", "high").await;
    ground.sees("JobSet", "llm", "is started again", started).await;
    ground.runs("llm-workers-1").await;
}

#[tokio::test]
async fn a_kind_that_goes_takes_its_jobs_along_and_may_come_back() {
    let ground = Ground::new("coming-and-going", 3).await;
    let jax = |name: &str| training_job("JAXJob", "jaxReplicaSpecs", name);
    for name in ["first", "second"] {
        define(&ground, "jaxjob").await;
        ground.create(jax(name)).await;
        let workload = ground.workload_of_kind("JAXJob", name).await;
        ground.sees("Workload", &workload, "is admitted", |w| is(w, "Admitted")).await;
        ground.counts("coming-and-going", 0, 1, 3).await;
        ground.delete("CustomResourceDefinition", "jaxjobs.kubeflow.org").await;
        ground.gone("CustomResourceDefinition", "jaxjobs.kubeflow.org").await;
        ground.counts("coming-and-going", 0, 0, 0).await;
        ground.create(job(&format!("meanwhile-{name}"), 1, 3, Some("100ms"))).await;
        ground.finished(&format!("meanwhile-{name}"), "Succeeded").await;
    }
}

#[tokio::test]
async fn where_there_is_a_local_queue_named_default_jobs_of_any_kind_go_there() {
    let ground = Ground::new("all-defaulted", 4).await;
    define(&ground, "jobset").await;
    define(&ground, "pytorchjob").await;
    ground.apply(&local_queue("all-defaulted", "default", "all-defaulted")).await;
    let bare = json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": { "name": "unnamed" },
        "spec": { "pytorchReplicaSpecs": { "Master": { "replicas": 1, "template": template(None) } } },
    });
    let mut set = job_set("unnamed", None);
    set["metadata"]["labels"] = json!({});
    for (job, suspend) in [(bare, "/spec/runPolicy/suspend"), (set, "/spec/suspend")] {
        let kind = text(&job, "/kind").to_owned();
        ground
            .until("the API server's notice of the LocalQueue", async || {
                let made = ground.create(job.clone()).await;
                let defaulted = made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "default";
                if defaulted {
                    assert_eq!(made.pointer(suspend), Some(&json!(true)));
                } else {
                    ground.delete(&kind, "unnamed").await;
                    ground.gone(&kind, "unnamed").await;
                }
                defaulted
            })
            .await;
        let name = ground.workload_of_kind(&kind, "unnamed").await;
        let workload = ground.get("Workload", &name).await.unwrap();
        assert_eq!(workload["spec"]["queueName"], "default");
    }
}

#[tokio::test]
async fn a_patch_made_of_what_was_seen_before_a_change_is_a_conflict() {
    let ground = Ground::new("outdated", 1).await;
    let seen = ground.create(job("changed", 1, 1, None)).await;
    ground.patch("Job", "changed", json!({ "metadata": { "annotations": { "a": "b" } } })).await;
    let patch = json!([
        { "op": "replace", "path": "/metadata/resourceVersion", "value": seen["metadata"]["resourceVersion"] },
        { "op": "add", "path": "/metadata/annotations", "value": { "a": "c" } },
    ]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    let answer = ground.api("Job").patch("changed", &PatchParams::default(), &patch).await;
    assert!(matches!(answer, Err(kube::Error::Api(status)) if status.code == 409));
}
