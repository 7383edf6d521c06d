//! What other controllers tell a Workload: answers to admission checks, positions of preemption gates.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resource_flavor::TOLERATIONS;
use crate::schema::{mark, names};

/// How an admission check of a workload stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionCheckState {
    /// The name of the AdmissionCheck.
    #[schemars(with = "names::CheckName")]
    pub name: String,

    /// The answer.
    pub state: CheckState,

    /// When the answer last changed.
    pub last_transition_time: Time,

    /// The answer in words; may be empty.
    #[schemars(length(max = 32768))]
    pub message: String,

    /// With the state `Retry`, how many seconds after `lastTransitionTime` the workload may be tried again.
    /// Absent, at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub requeue_after_seconds: Option<i32>,

    /// How many times the state became `Retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub retry_count: Option<i32>,

    /// What the check wants added to the pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 18), transform = mark::atomic_list)]
    pub pod_set_updates: Vec<PodSetUpdate>,
}

/// The answer to an admission check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CheckState {
    /// There is no answer yet.
    Pending,
    /// Passed. A workload that holds quota and has passed every check may run.
    Ready,
    /// Not now: the workload gives its quota back and tries again later.
    Retry,
    /// No: the workload is evicted and deactivated.
    Rejected,
}

/// What an admission check wants added to the pods of a set. It can only add: changing what is there, or what
/// another check adds, fails the admission.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSetUpdate {
    /// The name of the pod set.
    #[schemars(with = "names::PodSetName")]
    pub name: String,

    /// Labels to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,

    /// Node selector entries to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,

    /// Tolerations to add. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), transform = mark::atomic_list, transform = mark::rules(TOLERATIONS))]
    pub tolerations: Vec<Toleration>,
}

/// The position of a gate that keeps a workload from preempting others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionGateState {
    /// The name of the gate.
    #[schemars(with = "names::GateName")]
    pub name: String,

    /// Whether the gate is open.
    pub position: PreemptionGatePosition,

    /// When the position last changed.
    pub last_transition_time: Time,
}

/// Whether a preemption gate is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PreemptionGatePosition {
    /// The workload may not preempt.
    Closed,
    /// This gate does not keep the workload from preempting.
    Open,
}
