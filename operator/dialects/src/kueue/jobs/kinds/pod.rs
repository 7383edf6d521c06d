//! Kubernetes' Pod. It is not suspended by a field but by a scheduling gate that it is born with, and how it is read and
//! stopped is code of its own ([`pod`](super::super::pod)).

use super::{JobKind, Ranks, Shown};

/// `v1` Pod.
pub static POD: JobKind = JobKind {
    framework: "pod",
    group: "",
    version: "v1",
    kind: "Pod",
    plural: "pods",
    suspend: "",
    pods: &[],
    ranks: Ranks::NONE,
    completes: None,
    wraps: None,
    priority_class: None,
    unless: Shown::Never,
    status: None,
};
