//! Kubernetes' Job. How it shows how it is, and that it may run with fewer pods or change their number, is code of its
//! own ([`batch`](super::super::batch)).

use super::{COMPLETION_INDEX, Factor, JobKind, Place, Ranks, Shown};

/// `batch/v1` Job.
pub static JOB: JobKind = JobKind {
    framework: "batch/job",
    group: "batch",
    version: "v1",
    kind: "Job",
    plural: "jobs",
    suspend: "/spec/suspend",
    pods: &[Place::One {
        name: "main",
        at: "/spec",
        template: "/template",
        count: &[Factor::Smallest(&["/parallelism", "/completions"])],
    }],
    ranks: Ranks::by(COMPLETION_INDEX),
    completes: None,
    wraps: None,
    priority_class: None,
    unless: Shown::Never,
    serves: None,
    status: None,
};
