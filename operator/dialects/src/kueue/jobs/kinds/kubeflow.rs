//! The kinds of Kubeflow's training operator. They differ in what they call the roles of their pods.

use super::{
    Active, Ended, Factor, JobKind, List, Message, Place, REPLICA_INDEX, Ranks, Ready, Shown, Status,
};

/// A kind of this name, plural and framework, whose pods have these roles in this order.
macro_rules! training_job {
    ($static:ident, $kind:literal, $plural:literal, $framework:literal, $specs:literal, [$($role:literal as $name:literal),+]) => {
        #[doc = concat!("`", $kind, "`.")]
        pub static $static: JobKind = JobKind {
            framework: $framework,
            group: "kubeflow.org",
            version: "v1",
            kind: $kind,
            plural: $plural,
            suspend: "/spec/runPolicy/suspend",
            pods: &[$(Place::One {
                name: $name,
                at: concat!("/spec/", $specs, "/", $role),
                template: "/template",
                count: &[Factor::Smallest(&["/replicas"])],
            }),+],
            ranks: Ranks::by(REPLICA_INDEX),
            completes: None,
            wraps: None,
            priority_class: Some("/spec/runPolicy/schedulingPolicy/priorityClass"),
            unless: Shown::Never,
            serves: None,
            status: Some(Status {
                active: Active::Sum(List { at: "/status/replicaStatuses", fields: &["/active"] }),
                rests: Shown::Condition("Suspended"),
                ready: Ready::When(Shown::Condition("Running")),
                endings: ENDINGS,
                done: None,
            }),
        };
    };
}

/// How all of them, and `MPIJob`, show that they are over.
pub(super) const ENDINGS: &[Ended] = &[
    Ended { when: Shown::Condition("Succeeded"), succeeded: true, message: Message::Condition("Succeeded") },
    Ended { when: Shown::Condition("Failed"), succeeded: false, message: Message::Condition("Failed") },
];

training_job!(PYTORCH_JOB, "PyTorchJob", "pytorchjobs", "kubeflow.org/pytorchjob", "pytorchReplicaSpecs", ["Master" as "master", "Worker" as "worker"]);
training_job!(
    TF_JOB, "TFJob", "tfjobs", "kubeflow.org/tfjob", "tfReplicaSpecs",
    ["Chief" as "chief", "Master" as "master", "PS" as "ps", "Worker" as "worker", "Evaluator" as "evaluator"]
);
training_job!(XGBOOST_JOB, "XGBoostJob", "xgboostjobs", "kubeflow.org/xgboostjob", "xgbReplicaSpecs", ["Master" as "master", "Worker" as "worker"]);
training_job!(PADDLE_JOB, "PaddleJob", "paddlejobs", "kubeflow.org/paddlejob", "paddleReplicaSpecs", ["Master" as "master", "Worker" as "worker"]);
training_job!(JAX_JOB, "JAXJob", "jaxjobs", "kubeflow.org/jaxjob", "jaxReplicaSpecs", ["Worker" as "worker"]);
