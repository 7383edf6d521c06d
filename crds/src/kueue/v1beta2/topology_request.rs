//! How near to each other the pods of a set must run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::mark;

/// How near to each other the pods of a set must run, as the annotations of its pod template say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSetTopologyRequest {
    /// The topology level at which all pods must be in one domain
    /// (`kueue.x-k8s.io/podset-required-topology`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub required: Option<String>,

    /// The topology level at which all pods should be in one domain
    /// (`kueue.x-k8s.io/podset-preferred-topology`). Where that is impossible, wider levels are tried, and in
    /// the end several domains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub preferred: Option<String>,

    /// Whether any placement will do, as long as there is room for each pod on a node
    /// (`kueue.x-k8s.io/podset-unconstrained-topology`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconstrained: Option<bool>,

    /// The pod label that holds a pod's rank in the set, such as `batch.kubernetes.io/job-completion-index`.
    /// With it, neighbouring ranks are placed in the same domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub pod_index_label: Option<String>,

    /// The pod label that holds the rank of a pod's group in the set, such as `jobset.sigs.k8s.io/job-index`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub sub_group_index_label: Option<String>,

    /// How many groups the set is made of, such as the replicas of a job in a JobSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_group_count: Option<i32>,

    /// Sets with the same name here get the same flavor and are placed together
    /// (`kueue.x-k8s.io/podset-group-name`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub pod_set_group_name: Option<String>,

    /// The topology level at which each slice of the set must be in one domain
    /// (`kueue.x-k8s.io/podset-slice-required-topology`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub pod_set_slice_required_topology: Option<String>,

    /// How many pods make a slice (`kueue.x-k8s.io/podset-slice-size`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_set_slice_size: Option<i32>,

    /// Slices within slices, the widest level first; at most 3. It replaces `podSetSliceRequiredTopology`
    /// and `podSetSliceSize`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3), transform = mark::atomic_list)]
    pub podset_slice_required_topology_constraints: Vec<PodsetSliceRequiredTopologyConstraint>,
}

/// A layer of slices that must each be in one topology domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodsetSliceRequiredTopologyConstraint {
    /// The topology level of the domain.
    #[schemars(length(min = 1, max = 63))]
    pub topology: String,

    /// How many pods make a slice of this layer.
    #[schemars(range(min = 1))]
    pub size: i32,
}
