//! `MPIJob` of Kubeflow's MPI operator.

use super::{
    Active, Factor, JobKind, List, Place, REPLICA_INDEX, Ranks, Ready, Shown, Status, kubeflow::ENDINGS,
};

/// `MPIJob`.
pub static MPI_JOB: JobKind = JobKind {
    framework: "kubeflow.org/mpijob",
    group: "kubeflow.org",
    version: "v2beta1",
    kind: "MPIJob",
    plural: "mpijobs",
    suspend: "/spec/runPolicy/suspend",
    pods: &[
        Place::One {
            name: "launcher",
            at: "/spec/mpiReplicaSpecs/Launcher",
            template: "/template",
            count: &[Factor::Smallest(&["/replicas"])],
        },
        Place::One {
            name: "worker",
            at: "/spec/mpiReplicaSpecs/Worker",
            template: "/template",
            count: &[Factor::Smallest(&["/replicas"])],
        },
    ],
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
