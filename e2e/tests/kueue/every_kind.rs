//! Each of the other kinds through a whole life: gated, admitted, preempted, resumed, finished. Their controllers are played
//! by the tests: they say of a job what it would show.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    ground::{Ground, QUEUE, condition, is, text},
    objects::{A100, GPU, PRODUCT, job, workload_priority_class},
};

/// A kind, and what its jobs show.
struct Kind {
    name: &'static str,
    api_version: &'static str,
    spec: Value,
    /// Where it is suspended.
    suspend: &'static str,
    /// Where its pods' node selectors are.
    selectors: &'static [&'static str],
    /// Its pod sets, which ask for four GPUs.
    sets: &'static [(&'static str, u64)],
    runs: Value,
    rests: Value,
    ended: Value,
    message: &'static str,
}

fn template() -> Value {
    let container = json!({ "name": "train", "image": "train", "resources": { "limits": { GPU: 1 } } });
    json!({ "spec": { "restartPolicy": "Never", "containers": [container] } })
}

fn condition_of(type_: &str) -> Value {
    json!({ "conditions": [{ "type": type_, "status": "True", "message": "so it is" }] })
}

/// A kind of Kubeflow's with one pod of the first role and three of the other.
fn training(name: &'static str, api_version: &'static str, specs: &str, roles: [&str; 2], of: Kind) -> Kind {
    let [first, other] = roles;
    let mut runs = condition_of("Running");
    runs["replicaStatuses"] = json!({ first: { "active": 1 }, other: { "active": 3 } });
    let mut rests = condition_of("Suspended");
    rests["replicaStatuses"] = json!({ first: { "active": 0 }, other: { "active": 0 } });
    let specs = json!({ specs: {
        first: { "replicas": 1, "template": template() }, other: { "replicas": 3, "template": template() },
    } });
    Kind { name, api_version, spec: specs, suspend: "/spec/runPolicy/suspend", runs, rests, ..of }
}

/// What is left to say of such a kind.
fn of(sets: &'static [(&'static str, u64)], selectors: &'static [&'static str]) -> Kind {
    Kind {
        name: "",
        api_version: "",
        spec: Value::Null,
        suspend: "/spec/suspend",
        selectors,
        sets,
        runs: Value::Null,
        rests: Value::Null,
        ended: condition_of("Succeeded"),
        message: "so it is",
    }
}

fn ray() -> Value {
    json!({
        "headGroupSpec": { "template": template() },
        "workerGroupSpecs": [{ "groupName": "workers", "replicas": 3, "template": template() }],
    })
}

/// Installs a definition of a kind that lets everything through.
pub async fn define(ground: &Ground, api_version: &str, kind: &str) {
    let (group, version) = api_version.split_once('/').unwrap();
    let singular = kind.to_lowercase();
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = json!({ "type": "object", "properties": { "spec": anything, "status": anything } });
    let name = format!("{singular}s.{group}");
    ground
        .apply(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": name },
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": { "kind": kind, "plural": format!("{singular}s"), "singular": singular },
                "versions": [{
                    "name": version, "served": true, "storage": true, "subresources": { "status": {} },
                    "schema": { "openAPIV3Schema": schema },
                }],
            },
        }))
        .await;
    ground.sees("CustomResourceDefinition", &name, "is established", |crd| is(crd, "Established")).await;
}

fn selects(job: &Value, at: &str) -> bool {
    job.pointer(at).is_some_and(|selector| selector[PRODUCT] == A100)
}

impl Kind {
    fn is_suspended(&self, job: &Value) -> bool {
        job.pointer(self.suspend) == Some(&json!(true))
    }

    /// Whether it runs on its flavor's nodes.
    fn is_started(&self, job: &Value) -> bool {
        !self.is_suspended(job) && self.selectors.iter().all(|at| selects(job, at))
    }

    /// Whether it is suspended and has nothing left of an admission.
    fn is_as_it_was(&self, job: &Value) -> bool {
        self.is_suspended(job) && !self.selectors.iter().any(|at| selects(job, at))
    }

    /// Its controller says this of the job.
    async fn say(&self, ground: &Ground, status: &Value) {
        ground.patch_status(self.name, "train", status.clone()).await;
    }

    async fn lives(self) {
        let ground = Ground::new(&format!("every-{}", self.name.to_lowercase()), 4).await;
        define(&ground, self.api_version, self.name).await;
        let class = format!("{}-high", ground.name);
        ground.apply(&workload_priority_class(&class, 100)).await;
        let policy = json!({ "spec": { "preemption": { "withinClusterQueue": "LowerPriority" } } });
        ground.patch("ClusterQueue", &ground.name, policy).await;

        let labels = json!({ "kueue.x-k8s.io/queue-name": QUEUE });
        let made = json!({
            "apiVersion": self.api_version, "kind": self.name,
            "metadata": { "name": "train", "labels": labels }, "spec": self.spec,
        });
        assert!(self.is_suspended(&ground.create(made).await), "it is gated");
        self.say(&ground, &self.rests).await;
        let name = ground.workload_of_kind(self.name, "train").await;
        let workload = ground.sees("Workload", &name, "is admitted", |w| is(w, "Admitted")).await;
        let sets = workload["spec"]["podSets"].as_array().unwrap().iter();
        let sets: Vec<_> = sets.map(|set| (text(set, "/name"), set["count"].as_u64().unwrap())).collect();
        assert_eq!(sets, self.sets);
        ground.sees(self.name, "train", "is started", |job| self.is_started(job)).await;
        self.say(&ground, &self.runs).await;
        ground.sees("Workload", &name, "has pods that are ready", |w| is(w, "PodsReady")).await;

        let mut high = job("high", 1, 4, None);
        high["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!(class);
        ground.create(high).await;
        ground.sees(self.name, "train", "is suspended", |job| self.is_suspended(job)).await;
        sleep(Duration::from_millis(300)).await;
        let victim = ground.get("Workload", &name).await.unwrap();
        assert!(is(&victim, "QuotaReserved"), "it holds its quota until its controller says that it rests");
        self.say(&ground, &self.rests).await;
        ground.sees(self.name, "train", "is as it was", |job| self.is_as_it_was(job)).await;
        ground.runs("high").await;

        ground.delete("Job", "high").await;
        ground.sees(self.name, "train", "is started again", |job| self.is_started(job)).await;
        self.say(&ground, &self.runs).await;
        if self.message.is_empty() {
            // It is never over.
            return ground.delete(self.name, "train").await;
        }
        self.say(&ground, &self.ended).await;
        let finished = ground.sees("Workload", &name, "is finished", |w| is(w, "Finished")).await;
        let finished = condition(&finished, "Finished").unwrap();
        assert_eq!((&finished["reason"], &finished["message"]), (&json!("Succeeded"), &json!(self.message)));
    }
}

macro_rules! training_job {
    ($test:ident, $kind:literal, $version:literal, $specs:literal, $first:literal as $name:literal) => {
        #[tokio::test]
        async fn $test() {
            let selectors = &[
                concat!("/spec/", $specs, "/", $first, "/template/spec/nodeSelector"),
                concat!("/spec/", $specs, "/Worker/template/spec/nodeSelector"),
            ];
            let rest = of(&[($name, 1), ("worker", 3)], selectors);
            training($kind, $version, $specs, [$first, "Worker"], rest).lives().await;
        }
    };
}

training_job!(a_tf_job_lives, "TFJob", "kubeflow.org/v1", "tfReplicaSpecs", "Chief" as "chief");
training_job!(an_xgboost_job_lives, "XGBoostJob", "kubeflow.org/v1", "xgbReplicaSpecs", "Master" as "master");
training_job!(a_paddle_job_lives, "PaddleJob", "kubeflow.org/v1", "paddleReplicaSpecs", "Master" as "master");
training_job!(an_mpi_job_lives, "MPIJob", "kubeflow.org/v2beta1", "mpiReplicaSpecs", "Launcher" as "launcher");

#[tokio::test]
async fn a_ray_cluster_lives() {
    let rest = of(
        &[("head", 1), ("workers", 3)],
        &[
            "/spec/headGroupSpec/template/spec/nodeSelector",
            "/spec/workerGroupSpecs/0/template/spec/nodeSelector",
        ],
    );
    Kind {
        name: "RayCluster",
        api_version: "ray.io/v1",
        spec: ray(),
        runs: json!({ "state": "ready" }),
        rests: json!({ "state": "suspended" }),
        message: "",
        ..rest
    }
    .lives()
    .await;
}

#[tokio::test]
async fn a_ray_job_lives() {
    let rest = of(
        &[("head", 1), ("workers", 3)],
        &[
            "/spec/rayClusterSpec/headGroupSpec/template/spec/nodeSelector",
            "/spec/rayClusterSpec/workerGroupSpecs/0/template/spec/nodeSelector",
        ],
    );
    let deployed =
        |status: &str| json!({ "jobDeploymentStatus": status, "rayClusterStatus": { "state": "ready" } });
    Kind {
        name: "RayJob",
        api_version: "ray.io/v1",
        spec: json!({ "submissionMode": "HTTPMode", "rayClusterSpec": ray() }),
        runs: deployed("Running"),
        rests: deployed("Suspended"),
        ended: json!({ "jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "so it is" }),
        ..rest
    }
    .lives()
    .await;
}

#[tokio::test]
async fn an_app_wrapper_lives() {
    let rest = of(
        &[("train-0", 1), ("train-1", 3)],
        &["/spec/components/0/podSetInfos/0/nodeSelector", "/spec/components/1/podSetInfos/0/nodeSelector"],
    );
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "spec": template()["spec"] });
    let wrapped = json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "parallelism": 3, "template": template() } });
    let reserved = |phase: &str, status: &str| {
        let conditions =
            ["QuotaReserved", "PodsReady"].map(|type_| json!({ "type": type_, "status": status }));
        json!({ "phase": phase, "conditions": conditions })
    };
    Kind {
        name: "AppWrapper",
        api_version: "workload.codeflare.dev/v1beta2",
        spec: json!({ "components": [{ "template": pod }, { "template": wrapped }] }),
        runs: reserved("Running", "True"),
        rests: reserved("Suspended", "False"),
        ended: json!({ "phase": "Succeeded" }),
        message: "AppWrapper finished successfully",
        ..rest
    }
    .lives()
    .await;
}

#[tokio::test]
async fn a_ray_cluster_that_would_outgrow_its_quota_is_refused() {
    let ground = Ground::new("autoscaled", 1).await;
    let kind = Kind { name: "RayCluster", api_version: "ray.io/v1", ..of(&[], &[]) };
    define(&ground, kind.api_version, kind.name).await;
    let mut spec = ray();
    spec["enableInTreeAutoscaling"] = json!(true);
    let labels = json!({ "kueue.x-k8s.io/queue-name": QUEUE });
    let cluster = json!({
        "apiVersion": kind.api_version, "kind": kind.name, "metadata": { "name": "grows", "labels": labels }, "spec": spec,
    });
    let refused = ground.try_create(cluster).await.unwrap_err();
    assert!(refused.contains("enableInTreeAutoscaling"), "{refused}");
}
