//! `JobSet` (Kubernetes' batch working group): several Jobs that are one.

use super::{
    Active, COMPLETION_INDEX, Ended, Factor, JobKind, List, Message, Place, Ranks, Ready, Shown, Status,
};

const STATUS: &str = "/status/replicatedJobsStatus";

/// `JobSet`.
pub static JOB_SET: JobKind = JobKind {
    framework: "jobset.x-k8s.io/jobset",
    group: "jobset.x-k8s.io",
    version: "v1alpha2",
    kind: "JobSet",
    plural: "jobsets",
    suspend: "/spec/suspend",
    pods: &[Place::Each {
        list: "/spec/replicatedJobs",
        name: "/name",
        template: "/template/spec/template",
        count: &[
            Factor::Smallest(&["/replicas"]),
            Factor::Smallest(&["/template/spec/parallelism", "/template/spec/completions"]),
        ],
    }],
    ranks: Ranks { index: Some(COMPLETION_INDEX), group: Some("jobset.sigs.k8s.io/job-index") },
    completes: None,
    wraps: None,
    priority_class: None,
    unless: Shown::Never,
    serves: None,
    status: Some(Status {
        active: Active::Sum(List { at: STATUS, fields: &["/active"] }),
        rests: Shown::Condition("Suspended"),
        ready: Ready::Sum(List { at: STATUS, fields: &["/ready", "/succeeded"] }),
        endings: &[
            Ended {
                when: Shown::Condition("Completed"),
                succeeded: true,
                message: Message::Condition("Completed"),
            },
            Ended {
                when: Shown::Condition("Failed"),
                succeeded: false,
                message: Message::Condition("Failed"),
            },
        ],
        done: Some(List { at: STATUS, fields: &["/succeeded"] }),
    }),
};
