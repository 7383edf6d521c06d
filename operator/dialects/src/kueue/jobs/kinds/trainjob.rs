//! `TrainJob` of Kubeflow's trainer, which makes a `JobSet` of it and of a runtime. So the pods are described there, and what
//! an admission adds to them is written as a patch of the runtime.

use serde_json::{Value, json};

use super::{Active, Beside, Ended, JobKind, List, Message, Place, Ranks, Ready, Shown, Status};

/// `TrainJob`. Whether its pods are ready and which are done is for its `JobSet` to say.
pub static TRAIN_JOB: JobKind = JobKind {
    framework: "trainer.kubeflow.org/trainjob",
    group: "trainer.kubeflow.org",
    version: "v1alpha1",
    kind: "TrainJob",
    plural: "trainjobs",
    suspend: "/spec/suspend",
    pods: &[Place::Made { of: "JobSet", beside }],
    ranks: Ranks::NONE,
    completes: None,
    wraps: Some(replicated_job),
    priority_class: None,
    unless: Shown::Never,
    serves: None,
    status: Some(Status {
        active: Active::Sum(List { at: "/status/jobsStatus", fields: &["/active"] }),
        rests: Shown::Condition("Suspended"),
        ready: Ready::When(Shown::Never),
        endings: &[
            Ended {
                when: Shown::Condition("Complete"),
                succeeded: true,
                message: Message::Condition("Complete"),
            },
            Ended {
                when: Shown::Condition("Failed"),
                succeeded: false,
                message: Message::Condition("Failed"),
            },
        ],
        done: None,
    }),
};

const PATCHES: &str = "/spec/runtimePatches";
const JOBS: &str = "trainingRuntimeSpec/template/spec/replicatedJobs";
/// Whose patch it is. The name is Kueue's, so that either can go on with the other's.
const MANAGER: &str = "kueue.x-k8s.io/manager";

/// The patch of the runtime that is ours.
fn beside(job: &Value) -> Beside {
    let patches = job.pointer(PATCHES).and_then(Value::as_array);
    let own = patches
        .and_then(|patches| patches.iter().position(|patch| patch.get("manager") == Some(&json!(MANAGER))));
    let nothing = json!({ "template": { "spec": { "replicatedJobs": [] } } });
    let new = || json!({ "manager": MANAGER, "trainingRuntimeSpec": nothing.clone() });
    let (index, anew) = match (patches, own) {
        (_, Some(own)) => (own, (format!("{PATCHES}/{own}/trainingRuntimeSpec"), nothing.clone())),
        (Some(patches), None) => (patches.len(), (format!("{PATCHES}/-"), new())),
        (None, None) => (0, (PATCHES.to_owned(), json!([new()]))),
    };
    let list = format!("{PATCHES}/{index}/{JOBS}");
    let entries = job.pointer(&list).and_then(Value::as_array).into_iter().flatten();
    let entry = |entry: &Value| {
        let name = entry.pointer("/name").and_then(Value::as_str).unwrap_or_default();
        let template = entry.pointer("/template/spec/template").cloned();
        (name.to_owned(), template.unwrap_or_else(|| json!({})))
    };
    Beside { entries: entries.map(entry).collect(), list, anew }
}

/// The patch of one of the runtime's replicated jobs.
fn replicated_job(pod_set: &str, added: &Value) -> Value {
    json!({ "name": pod_set, "template": { "spec": { "template": added } } })
}
