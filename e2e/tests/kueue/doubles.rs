//! Controllers of other projects, as far as they matter here: each does with its jobs what the real one does.

use std::time::Duration;

use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};

use crate::ground::{Ground, is, text};

/// A double that goes on until it is dropped.
pub struct Double(JoinHandle<()>);

impl Drop for Double {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The controller of `JobSets`: it makes a Job of each replica, suspends and resumes them with the whole, and sums up how
/// they are.
pub fn job_sets(ground: &Ground) -> Double {
    let ground = ground.again();
    Double(tokio::spawn(async move {
        loop {
            for set in all(&ground, "JobSet", &ListParams::default()).await {
                reconcile_set(&ground, &set).await;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }))
}

/// The training operator: it says of a job that it runs unless that is suspended. Its pods are left out.
pub fn training_jobs(ground: &Ground) -> Double {
    let ground = ground.again();
    Double(tokio::spawn(async move {
        loop {
            for job in all(&ground, "PyTorchJob", &ListParams::default()).await {
                if !is(&job, "Succeeded") && !is(&job, "Failed") {
                    reconcile_training(&ground, &job).await;
                }
            }
            sleep(Duration::from_millis(100)).await;
        }
    }))
}

/// The trainer: it makes a `JobSet` of each job, of this runtime and the job's patches of it, and says of the job what that
/// says.
pub fn train_jobs(ground: &Ground, runtime: Value) -> Double {
    let ground = ground.again();
    Double(tokio::spawn(async move {
        loop {
            for job in all(&ground, "TrainJob", &ListParams::default()).await {
                reconcile_train(&ground, &job, &runtime).await;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }))
}

/// The controller of `LeaderWorkerSets`: it makes a `StatefulSet` of leaders, and for each leader one of its workers. What
/// its webhook writes on pods when they are made comes a moment later here.
pub fn leader_worker_sets(ground: &Ground) -> Double {
    let ground = ground.again();
    Double(tokio::spawn(async move {
        loop {
            for set in all(&ground, "LeaderWorkerSet", &ListParams::default()).await {
                reconcile_leaders(&ground, &set).await;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }))
}

async fn all(ground: &Ground, kind: &str, which: &ListParams) -> Vec<Value> {
    let found = ground.api(kind).list(which).await;
    found.iter().flat_map(|list| &list.items).map(|object| serde_json::to_value(object).unwrap()).collect()
}

/// Says how a job is, if that is news. The job may be gone.
async fn say(ground: &Ground, kind: &str, job: &Value, status: Value) {
    if job["status"] != status {
        let patch = Patch::Merge(json!({ "status": status }));
        let name = text(job, "/metadata/name");
        let _ = ground.api(kind).patch_status(name, &PatchParams::default(), &patch).await;
    }
}

fn condition(type_: &str, holds: bool) -> Value {
    json!({ "type": type_, "status": if holds { "True" } else { "False" }, "message": format!("{type_} it is") })
}

async fn reconcile_training(ground: &Ground, job: &Value) {
    let suspended = job["spec"]["runPolicy"]["suspend"] == true;
    let roles = job["spec"]["pytorchReplicaSpecs"].as_object().unwrap();
    let active = |spec: &Value| if suspended { json!(0) } else { spec["replicas"].clone() };
    let replicas: Value =
        roles.iter().map(|(role, spec)| (role.clone(), json!({ "active": active(spec) }))).collect();
    let conditions = [condition("Running", !suspended), condition("Suspended", suspended)];
    say(ground, "PyTorchJob", job, json!({ "conditions": conditions, "replicaStatuses": replicas })).await;
}

async fn reconcile_train(ground: &Ground, job: &Value, runtime: &Value) {
    let name = text(job, "/metadata/name");
    let suspended = job["spec"]["suspend"] == true;
    let sets = all(ground, "JobSet", &ListParams::default()).await;
    let set = sets.iter().find(|set| text(set, "/metadata/name") == name);
    // One that runs is left alone.
    if suspended || set.is_none_or(|set| set["spec"]["suspend"] == true) {
        let mut spec = runtime.clone();
        for patches in job["spec"]["runtimePatches"].as_array().into_iter().flatten() {
            let patches = &patches["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"];
            for patch in patches.as_array().into_iter().flatten() {
                let parts = spec["replicatedJobs"].as_array_mut().unwrap();
                let part = parts.iter_mut().find(|part| part["name"] == patch["name"]).unwrap();
                merge(&mut part["template"], &patch["template"]);
            }
        }
        spec["suspend"] = json!(suspended);
        let owner = json!({
            "apiVersion": job["apiVersion"], "kind": "TrainJob", "controller": true, "blockOwnerDeletion": true,
            "name": name, "uid": job["metadata"]["uid"],
        });
        let set = json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": { "name": name, "ownerReferences": [owner] }, "spec": spec,
        });
        let params = PatchParams::apply("trainer").force();
        let _ = ground.api("JobSet").patch(name, &params, &Patch::Apply(&set)).await;
    }
    let Some(set) = set else { return };
    let conditions = [condition("Suspended", suspended), condition("Complete", is(set, "Completed"))];
    let jobs = set["status"]["replicatedJobsStatus"].clone();
    say(ground, "TrainJob", job, json!({ "conditions": conditions, "jobsStatus": jobs })).await;
}

/// Puts what is in the one into the other.
fn merge(into: &mut Value, more: &Value) {
    match (into.as_object_mut(), more.as_object()) {
        (Some(fields), Some(more)) => {
            for (key, value) in more {
                merge(fields.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        _ => *into = more.clone(),
    }
}

const LWS: &str = "leaderworkerset.sigs.k8s.io";

async fn reconcile_leaders(ground: &Ground, set: &Value) {
    let name = text(set, "/metadata/name");
    let templates = &set["spec"]["leaderWorkerTemplate"];
    let leads = if templates["leaderTemplate"].is_null() { "workerTemplate" } else { "leaderTemplate" };
    let labels = json!({ format!("{LWS}/name"): name, format!("{LWS}/worker-index"): "0" });
    let of_set = owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", set);
    let replicas = &set["spec"]["replicas"];
    serve(ground, name, replicas, 0, (&templates[leads], &labels, &json!({})), &of_set).await;
    let of_it = ListParams::default().labels(&format!("{LWS}/name={name}"));
    let mut ready = 0;
    for pod in all(ground, "Pod", &of_it).await {
        let (pod_name, labels) = (text(&pod, "/metadata/name"), &pod["metadata"]["labels"]);
        let ordinal = text(labels, "/apps.kubernetes.io~1pod-index");
        if labels[format!("{LWS}/worker-index")] == "0" {
            ready += u64::from(is(&pod, "Ready"));
            label(ground, &pod, "group-index", ordinal).await;
            let more = json!({ format!("{LWS}/name"): name, format!("{LWS}/group-index"): ordinal });
            let led = json!({ format!("{LWS}/leader-name"): pod_name });
            let size = templates["size"].as_u64().unwrap() - 1;
            if pod["metadata"]["deletionTimestamp"].is_null() {
                let workers = (&templates["workerTemplate"], &more, &led);
                serve(ground, pod_name, &json!(size), 1, workers, &owner("v1", "Pod", &pod)).await;
            }
        } else {
            label(ground, &pod, "worker-index", ordinal).await;
        }
    }
    say(ground, "LeaderWorkerSet", set, json!({ "replicas": replicas, "readyReplicas": ready })).await;
}

fn owner(api_version: &str, kind: &str, of: &Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "controller": true, "blockOwnerDeletion": true,
        "name": of["metadata"]["name"], "uid": of["metadata"]["uid"],
    })
}

/// Writes on a pod what it is not told by then.
async fn label(ground: &Ground, pod: &Value, key: &str, value: &str) {
    let key = format!("{LWS}/{key}");
    if pod["metadata"]["labels"][&key].is_null() {
        let patch = Patch::Merge(json!({ "metadata": { "labels": { key: value } } }));
        let _ = ground.api("Pod").patch(text(pod, "/metadata/name"), &PatchParams::default(), &patch).await;
    }
}

/// Applies a `StatefulSet` of pods of this template, with more labels and annotations.
async fn serve(
    ground: &Ground,
    name: &str,
    replicas: &Value,
    first: u32,
    (template, labels, annotations): (&Value, &Value, &Value),
    owner: &Value,
) {
    let mut template = template.clone();
    for (field, more) in [("labels", labels), ("annotations", annotations)] {
        merge(&mut template["metadata"][field], more);
    }
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": name, "ownerReferences": [owner], "labels": labels },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels }, "template": template,
            "podManagementPolicy": "Parallel", "ordinals": { "start": first },
        },
    });
    let params = PatchParams::apply("leader-worker-set").force();
    let _ = ground.api("StatefulSet").patch(name, &params, &Patch::Apply(&set)).await;
}

async fn reconcile_set(ground: &Ground, set: &Value) {
    let name = text(set, "/metadata/name");
    let suspended = set["spec"]["suspend"] == true;
    let of_set = ListParams::default().labels(&format!("jobset.sigs.k8s.io/jobset-name={name}"));
    let jobs = all(ground, "Job", &of_set).await;
    let mut parts = vec![];
    let mut complete = true;
    for part in set["spec"]["replicatedJobs"].as_array().unwrap() {
        let part_name = text(part, "/name");
        let (mut ready, mut active, mut succeeded) = (0, 0, 0);
        for index in 0..part["replicas"].as_u64().unwrap() {
            let job_name = format!("{name}-{part_name}-{index}");
            let Some(job) = jobs.iter().find(|job| text(job, "/metadata/name") == job_name) else {
                make(ground, set, part, &job_name).await;
                continue;
            };
            follow(ground, job, part, suspended).await;
            let count = |of: &str| job["status"][of].as_u64().unwrap_or_default();
            ready += u64::from(count("ready") > 0 && count("ready") == count("active"));
            active += u64::from(count("active") > 0);
            succeeded += u64::from(is(job, "Complete"));
        }
        complete &= succeeded == part["replicas"].as_u64().unwrap();
        parts.push(json!({ "name": part_name, "ready": ready, "active": active, "succeeded": succeeded }));
    }
    let conditions = [condition("Suspended", suspended), condition("Completed", complete)];
    say(ground, "JobSet", set, json!({ "conditions": conditions, "replicatedJobsStatus": parts })).await;
}

/// Makes the Job of a replica.
async fn make(ground: &Ground, set: &Value, part: &Value, name: &str) {
    let mut labels = part["template"]["metadata"]["labels"].clone();
    labels["jobset.sigs.k8s.io/jobset-name"] = set["metadata"]["name"].clone();
    let mut spec = part["template"]["spec"].clone();
    spec["suspend"] = json!(set["spec"]["suspend"] == true);
    let owner = json!({
        "apiVersion": set["apiVersion"], "kind": "JobSet", "controller": true, "blockOwnerDeletion": true,
        "name": set["metadata"]["name"], "uid": set["metadata"]["uid"],
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": name, "labels": labels, "ownerReferences": [owner] }, "spec": spec,
    });
    let _ = ground.api("Job").create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await;
}

/// Suspends or resumes the Job of a replica; one that is resumed gets what was added to its template.
async fn follow(ground: &Ground, job: &Value, part: &Value, suspended: bool) {
    let is_suspended = job["spec"]["suspend"] == true;
    let ended = is(job, "Complete") || is(job, "Failed");
    if is_suspended == suspended || ended || (!suspended && !is(job, "Suspended")) {
        return;
    }
    let template = &part["template"]["spec"]["template"];
    let metadata = json!({ "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"] });
    let pod = json!({ "nodeSelector": template["spec"]["nodeSelector"], "tolerations": template["spec"]["tolerations"] });
    let spec = if suspended {
        json!({ "suspend": true })
    } else {
        json!({ "suspend": false, "template": { "metadata": metadata, "spec": pod } })
    };
    let patch = Patch::Merge(json!({ "spec": spec }));
    let _ = ground.api("Job").patch(text(job, "/metadata/name"), &PatchParams::default(), &patch).await;
}
