//! Kubernetes' Pod. It is not suspended by a field but by a scheduling gate that it is born with, and how it is read and
//! stopped is code of its own ([`pod`](super::super::pod)).

use whalezen_crds::kueue::constants::label;

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
    ranks: Ranks::by(label::POD_GROUP_POD_INDEX),
    completes: None,
    wraps: None,
    priority_class: None,
    unless: Shown::Never,
    serves: None,
    status: None,
};
