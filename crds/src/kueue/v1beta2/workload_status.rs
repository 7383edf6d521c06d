//! The state of a Workload.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Admission, AdmissionCheckState, PreemptionGateState};
use crate::schema::{mark, names};

/// The state of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[
    (
        "!has(oldSelf.clusterName) || !has(self.clusterName) || oldSelf.clusterName == self.clusterName",
        "clusterName cannot be changed to another cluster, only removed",
    ),
    (
        "!has(self.clusterName) || (!has(self.nominatedClusterNames) || (has(self.nominatedClusterNames) && size(self.nominatedClusterNames) == 0))",
        "nominatedClusterNames must be empty once clusterName is set",
    ),
]))]
pub struct WorkloadStatus {
    /// What was last observed about the workload. The most telling types: `QuotaReserved` (it holds quota;
    /// while False, the reason says what it waits for), `Admitted` (it may run), `PodsReady` (all its pods
    /// run or have succeeded), `Evicted` (it was stopped and waits again) and `Finished`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), transform = mark::map_list(&["type"]))]
    pub conditions: Vec<Condition>,

    /// What the workload was given. It is there while the workload holds quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,

    /// How often the workload was put back in the queue because its pods did not get ready, and how long it
    /// waits before it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_state: Option<RequeueState>,

    /// Pods that are done, whose quota is given back while the others still run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 18), transform = mark::map_list(&["name"]))]
    pub reclaimable_pods: Vec<ReclaimablePod>,

    /// The admission checks that the workload must pass, and how each stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), transform = mark::map_list(&["name"]))]
    pub admission_checks: Vec<AdmissionCheckState>,

    /// How much each pod set asked for when the workload was last tried. Absent once it holds quota: the
    /// admission says it then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 18), transform = mark::map_list(&["name"]))]
    pub resource_requests: Vec<PodSetRequest>,

    /// How many seconds the workload was admitted before its last eviction, over all its admissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accumulated_past_execution_time_seconds: Option<i32>,

    /// What happened to the workload so far, in numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_stats: Option<SchedulingStats>,

    /// The clusters that may take the workload. Empty once one of them has, as `clusterName` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(max = 256)), transform = mark::atomic_list)]
    pub nominated_cluster_names: Vec<String>,

    /// The cluster that has the workload. Removed on eviction. On the new slice of a job that grows, the
    /// cluster that has the old slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub cluster_name: Option<String>,

    /// Nodes that failed under the workload and are being replaced. Not for users to set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), transform = mark::map_list(&["name"]))]
    pub unhealthy_nodes: Vec<UnhealthyNode>,

    /// The positions of the gates that `spec.preemptionGates` names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), transform = mark::map_list(&["name"]))]
    pub preemption_gates: Vec<PreemptionGateState>,
}

/// How often a workload was put back in the queue, and until when it waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequeueState {
    /// How many times. Forgotten when a deactivated workload is made active again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub count: Option<i32>,

    /// When the workload is tried again. Forgotten likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_at: Option<Time>,
}

/// Pods of a set that are done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReclaimablePod {
    /// The name of the pod set.
    #[schemars(with = "names::PodSetName")]
    pub name: String,

    /// How many of its pods need their resources no more.
    #[schemars(range(min = 0))]
    pub count: i32,
}

/// How much a pod set asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSetRequest {
    /// The name of the pod set.
    #[schemars(with = "names::PodSetName")]
    pub name: String,

    /// What the whole set needs, with overheads and defaults, and after the resource transformations of the
    /// configuration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Quantity>,
}

/// What happened to a workload so far, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingStats {
    /// How often it was evicted, by reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), transform = mark::map_list(&["reason", "underlyingCause"]))]
    pub evictions: Vec<WorkloadSchedulingStatsEviction>,
}

/// How often a workload was evicted for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSchedulingStatsEviction {
    /// The reason, as in the `Evicted` condition.
    #[schemars(length(max = 316))]
    pub reason: String,

    /// What was behind the reason; may be empty.
    #[schemars(length(max = 316))]
    pub underlying_cause: String,

    /// How many times.
    #[schemars(range(min = 0))]
    pub count: i32,
}

/// A node that failed under a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyNode {
    /// The name of the node.
    #[schemars(length(max = 63))]
    pub name: String,
}
