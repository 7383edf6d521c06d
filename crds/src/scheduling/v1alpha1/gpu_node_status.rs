//! The status of a `GPUNode`: what the agent reads from NVML and from the kubelet.
//!
//! Only what changes seldom is here. Utilisation, memory in use, temperature and power are the agent's metrics.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GpuDevice, GpuLink};
use crate::schema::mark;

/// The condition that says whether the agent sees the node's GPUs and serves them.
pub const READY: &str = "Ready";

/// The condition that says whether the agent is about to change something.
pub const RECONCILING: &str = "Reconciling";

/// The condition that says whether something is in the way that will not go by waiting alone.
pub const STALLED: &str = "Stalled";

/// The condition that says whether the GPUs have the layout that is wanted of them, as NVML shows them.
pub const LAYOUT_APPLIED: &str = "LayoutApplied";

/// What a node's agent sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GPUNodeStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// When the agent last wrote, changed or not. It writes at least every five minutes while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_time: Option<Time>,

    /// The version of NVIDIA's driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub driver_version: Option<String>,

    /// The newest CUDA that the driver serves, such as 12.8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub cuda_version: Option<String>,

    /// The version of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub agent_version: Option<String>,

    /// The same in a line, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<GpuSummary>,

    /// The node's GPUs, by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), transform = mark::map_list(&["uuid"]))]
    pub gpus: Vec<GpuDevice>,

    /// How the GPUs reach each other, each pair once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2016), transform = mark::atomic_list)]
    pub links: Vec<GpuLink>,

    /// What was last observed. Ready: the agent sees the GPUs. LayoutApplied: they have the layout that is wanted.
    /// Reconciling: something is being changed. Stalled: something is in the way, and the message says what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), transform = mark::map_list(&["type"]))]
    pub conditions: Vec<Condition>,
}

/// A node's GPUs in a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuSummary {
    /// How many GPUs there are.
    #[schemars(range(min = 0))]
    pub gpus: i32,

    /// Their models.
    #[schemars(length(max = 256))]
    pub model: String,

    /// Which instances there are, such as "1g.10gb:7,3g.40gb:2", or "Disabled".
    #[schemars(length(max = 256))]
    pub mig: String,

    /// Of the devices that a pod can have (GPUs that are not in MIG mode, and instances), how many nobody uses and how
    /// many there are, such as 5/9.
    #[schemars(length(max = 16))]
    pub free: String,

    /// How many GPUs take no new work.
    #[schemars(range(min = 0))]
    pub unhealthy: i32,
}
