//! Kubernetes' own kinds that serve: `Deployment` and `StatefulSet`. The admission policies write into their pod templates
//! that their pods are gated.

use super::{By, Factor, JobKind, Place, Ranks, Serves, Shown};

/// `apps/v1` `Deployment`.
pub static DEPLOYMENT: JobKind = JobKind {
    framework: "deployment",
    group: "apps",
    version: "v1",
    kind: "Deployment",
    plural: "deployments",
    suspend: "",
    pods: &[],
    ranks: Ranks::NONE,
    completes: None,
    wraps: None,
    priority_class: None,
    unless: Shown::Never,
    serves: Some(Serves { by: By::Pod, bare: true }),
    status: None,
};

/// `apps/v1` `StatefulSet`.
pub static STATEFUL_SET: JobKind = JobKind {
    framework: "statefulset",
    group: "apps",
    version: "v1",
    kind: "StatefulSet",
    plural: "statefulsets",
    suspend: "",
    pods: &[Place::One {
        name: "main",
        at: "/spec",
        template: "/template",
        count: &[Factor::Smallest(&["/replicas"])],
    }],
    ranks: Ranks::by("apps.kubernetes.io/pod-index"),
    completes: None,
    wraps: None,
    priority_class: None,
    // Its pods are not gated, or by what made it.
    unless: Shown::Not(&Shown::Field(
        "/spec/template/metadata/annotations/kueue.x-k8s.io~1pod-suspending-parent",
        &["statefulset"],
    )),
    serves: Some(Serves { by: By::Object, bare: true }),
    status: None,
};
