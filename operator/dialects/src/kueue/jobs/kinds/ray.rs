//! `RayJob` and `RayCluster` of `KubeRay`.

use serde_json::{Value, json};

use super::{Active, Count, Ended, Factor, JobKind, Message, Place, Ranks, Ready, Shown, Status};

/// `RayJob`. One that runs on a cluster that is there already brings no pods of its own.
pub static RAY_JOB: JobKind = JobKind {
    framework: "ray.io/rayjob",
    group: "ray.io",
    version: "v1",
    kind: "RayJob",
    plural: "rayjobs",
    suspend: "/spec/suspend",
    pods: &[
        Place::One {
            name: HEAD,
            at: "/spec/rayClusterSpec/headGroupSpec",
            template: "/template",
            count: &[],
        },
        Place::Each {
            list: "/spec/rayClusterSpec/workerGroupSpecs",
            name: "/groupName",
            template: "/template",
            count: WORKERS,
        },
        Place::Own {
            name: "submitter",
            template: "/spec/submitterPodTemplate",
            when: Shown::Field("/spec/submissionMode", &["", "K8sJobMode"]),
            otherwise: submitter,
        },
    ],
    ranks: Ranks::NONE,
    completes: Some(complete_job),
    wraps: None,
    priority_class: None,
    unless: Shown::There("/spec/clusterSelector"),
    serves: None,
    status: Some(Status {
        active: Active::While(Shown::Not(&Shown::Field(DEPLOYMENT, &["", "Suspended"]))),
        rests: Shown::Field(DEPLOYMENT, &["Suspended"]),
        ready: Ready::When(Shown::Field("/status/rayClusterStatus/state", &["ready"])),
        endings: &[
            Ended {
                when: Shown::All(&[OVER, Shown::Field("/status/jobStatus", &["SUCCEEDED"])]),
                succeeded: true,
                message: Message::Field("/status/message"),
            },
            Ended { when: OVER, succeeded: false, message: Message::Field("/status/message") },
        ],
        done: None,
    }),
};

/// `RayCluster`. It is never over.
pub static RAY_CLUSTER: JobKind = JobKind {
    framework: "ray.io/raycluster",
    group: "ray.io",
    version: "v1",
    kind: "RayCluster",
    plural: "rayclusters",
    suspend: "/spec/suspend",
    pods: &[
        Place::One { name: HEAD, at: "/spec/headGroupSpec", template: "/template", count: &[] },
        Place::Each {
            list: "/spec/workerGroupSpecs",
            name: "/groupName",
            template: "/template",
            count: WORKERS,
        },
    ],
    ranks: Ranks::NONE,
    completes: Some(complete_cluster),
    wraps: None,
    priority_class: None,
    unless: Shown::Never,
    serves: None,
    status: Some(Status {
        active: Active::While(Shown::Not(&Shown::Field("/status/state", &["", "suspended"]))),
        rests: Shown::Field("/status/state", &["suspended"]),
        ready: Ready::When(Shown::Field("/status/state", &["ready"])),
        endings: &[],
        done: None,
    }),
};

const HEAD: &str = "head";
/// `KubeRay` starts no fewer than the least and no more than the most, whatever the number is between.
const WORKERS: Count = &[
    Factor::Within { of: "/replicas", least: "/minReplicas", most: "/maxReplicas" },
    Factor::Smallest(&["/numOfHosts"]),
];
const DEPLOYMENT: &str = "/status/jobDeploymentStatus";
const OVER: Shown = Shown::Field(DEPLOYMENT, &["Complete", "Failed"]);

/// The container that submits the job, as `KubeRay` makes it.
fn submitting(image: &Value) -> Value {
    let resources = json!({
        "requests": { "cpu": "500m", "memory": "200Mi" }, "limits": { "cpu": "1", "memory": "1Gi" },
    });
    json!({ "name": "ray-job-submitter", "image": image, "resources": resources })
}

fn submitter(job: &Value) -> Value {
    let image = job.pointer("/spec/rayClusterSpec/headGroupSpec/template/spec/containers/0/image");
    json!({ "spec": { "restartPolicy": "Never", "containers": [submitting(image.unwrap_or(&json!("")))] } })
}

/// With this mode the submitter is a container of the head.
fn complete_job(job: &Value, pod_set: &str, template: &mut Value) {
    let cluster = job.pointer("/spec/rayClusterSpec").unwrap_or(&Value::Null);
    complete(cluster, pod_set, template);
    if pod_set == HEAD && job.pointer("/spec/submissionMode").is_some_and(|mode| mode == "SidecarMode") {
        add(template, submitting(&json!("")));
    }
}

fn complete_cluster(job: &Value, pod_set: &str, template: &mut Value) {
    complete(job.pointer("/spec").unwrap_or(&Value::Null), pod_set, template);
}

/// The autoscaler is a container of the head.
fn complete(cluster: &Value, pod_set: &str, template: &mut Value) {
    if pod_set == HEAD && cluster.pointer("/enableInTreeAutoscaling") == Some(&Value::Bool(true)) {
        let own = json!({ "cpu": "500m", "memory": "512Mi" });
        let own = json!({ "requests": own, "limits": own });
        let resources = cluster.pointer("/autoscalerOptions/resources").unwrap_or(&own);
        add(template, json!({ "name": "autoscaler", "resources": resources }));
    }
}

fn add(template: &mut Value, container: Value) {
    if let Some(containers) = template.pointer_mut("/spec/containers").and_then(Value::as_array_mut) {
        containers.push(container);
    }
}
