//! One GPU in the status of a `GPUNode`: what it is, what MIG makes of it, who has it, and how it is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::mark;

/// A GPU as its node's agent sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuDevice {
    /// The GPU, as NVML names it.
    #[schemars(length(min = 1, max = 96))]
    pub uuid: String,

    /// NVML's index. It may be another after the node has booted.
    #[schemars(range(min = 0))]
    pub index: i32,

    /// The product's name, such as "NVIDIA H100 80GB HBM3".
    #[schemars(length(max = 128))]
    pub model: String,

    /// The PCI device and vendor, as in a device-filter of mig-parted, such as 0x233010DE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub pci_id: Option<String>,

    /// Where it is on the PCI bus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub pci_bus_id: Option<String>,

    /// Its NUMA node, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub numa_node: Option<i32>,

    /// The GPUs of a node that reach each other over NVLink have the same number here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub nvlink_island: Option<i32>,

    /// Its memory in MiB.
    #[serde(rename = "memoryMiB")]
    #[schemars(range(min = 0))]
    pub memory_mib: i64,

    /// What MIG can do with it and has done. Without it the GPU knows no MIG.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<GpuMig>,

    /// The pods that have the whole GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), transform = mark::atomic_list)]
    pub holders: Vec<Holder>,

    /// Whether a process lives on the GPU or a pod has it, whole or in part.
    #[serde(default)]
    pub busy: bool,

    /// Whether it takes new work.
    pub health: GpuHealth,

    /// Why it takes no new work, such as Xid79 or Lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub health_reason: Option<String>,

    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub health_message: Option<String>,
}

/// Whether a GPU takes new work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GpuHealth {
    /// It does.
    #[default]
    Healthy,
    /// It does not. What runs on it is left alone.
    Unhealthy,
}

/// What MIG can do with a GPU and has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuMig {
    /// Whether the GPU is in MIG mode.
    pub enabled: bool,

    /// Whether it will be after the next reset, where that is not what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<bool>,

    /// The profiles of instances that the GPU knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), transform = mark::map_list(&["name"]))]
    pub profiles: Vec<MigProfile>,

    /// The instances that there are, by start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), transform = mark::atomic_list)]
    pub instances: Vec<MigInstance>,

    /// Where the wanted layout comes from and how far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayoutProgress>,
}

/// A profile of MIG instances that a GPU knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigProfile {
    /// NVIDIA's name, such as 3g.40gb.
    #[schemars(length(min = 1, max = 32))]
    pub name: String,

    /// How many memory slices an instance takes.
    #[schemars(range(min = 1, max = 64))]
    pub size: i32,

    /// How many compute slices it takes.
    #[schemars(range(min = 1, max = 64))]
    pub compute: i32,

    /// Its memory in MiB.
    #[serde(rename = "memoryMiB")]
    #[schemars(range(min = 0))]
    pub memory_mib: i64,

    /// How many of it fit on an empty GPU.
    #[schemars(range(min = 0, max = 64))]
    pub max: i32,

    /// The first memory slices that an instance can have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), transform = mark::atomic_list)]
    pub starts: Vec<i32>,
}

/// A MIG instance that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigInstance {
    /// NVIDIA's name of its profile.
    #[schemars(length(max = 32))]
    pub profile: String,

    /// The first memory slice that it takes.
    #[schemars(range(min = 0, max = 63))]
    pub start: i32,

    /// How many memory slices it takes.
    #[schemars(range(min = 1, max = 64))]
    pub size: i32,

    /// The MIG device that a container is given. Without it the instance has no compute instance, or several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 96))]
    pub uuid: Option<String>,

    /// NVML's number of the GPU instance. Numbers are used again.
    #[schemars(range(min = 0))]
    pub gpu_instance_id: i32,

    /// NVML's number of the compute instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub compute_instance_id: Option<i32>,

    /// Whether a process lives in it or a pod has it. A busy instance is never destroyed.
    #[serde(default)]
    pub busy: bool,

    /// Who made it.
    #[serde(default)]
    #[schemars(transform = mark::undefaulted)]
    pub origin: InstanceOrigin,

    /// The pods that have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), transform = mark::atomic_list)]
    pub holders: Vec<Holder>,
}

/// Who made an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InstanceOrigin {
    /// The agent did.
    Agent,
    /// Somebody else did, or it is not known. Such an instance is destroyed only when it has been free for a while.
    #[default]
    Other,
}

/// A container that has a device, as the kubelet says.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The pod's namespace.
    #[schemars(length(max = 63))]
    pub namespace: String,

    /// The pod's name.
    #[schemars(length(max = 253))]
    pub pod: String,

    /// The container's name.
    #[schemars(length(max = 63))]
    pub container: String,
}

/// Where the wanted layout of a GPU comes from and how far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LayoutProgress {
    /// Who wants it.
    pub source: LayoutSource,

    /// The MIGPolicy whose pin or default it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub policy: Option<String>,

    /// How far it is.
    pub state: LayoutState,

    /// Which step failed or waits, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,

    /// When it will be tried again, if nothing changes before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<Time>,
}

/// Who wants a layout. The first of these that says something decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum LayoutSource {
    /// A pin in a MIGPolicy.
    Pin,
    /// The spec of this GPUNode.
    Assignment,
    /// The node's label nvidia.com/mig.config.
    Label,
    /// The default of a MIGPolicy.
    Default,
    /// Nobody wants anything: the GPU is left as it is.
    #[default]
    Nobody,
}

/// How far a wanted layout is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LayoutState {
    /// NVML shows it.
    #[default]
    Applied,
    /// It is being made.
    Pending,
    /// Something in use is in the way, and it is made when that is gone.
    Waiting,
    /// A step failed. It is tried again.
    Failed,
    /// It cannot be: what is wanted has to change, or somebody has to allow it.
    Refused,
}

/// How two GPUs of a node reach each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuLink {
    /// The index of the one GPU, the lower of the two.
    #[schemars(range(min = 0))]
    pub a: i32,

    /// The index of the other.
    #[schemars(range(min = 0))]
    pub b: i32,

    /// The way over PCIe.
    pub path: PciePath,

    /// How many NVLinks are between the two, directly or by way of a switch.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub nvlinks: i32,
}

/// The way between two GPUs over PCIe, shortest first, with nvidia-smi's words for it in brackets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum PciePath {
    /// On one board.
    Internal,
    /// Over one PCIe switch (PIX).
    SingleSwitch,
    /// Over several PCIe switches (PXB).
    MultipleSwitches,
    /// Over a host bridge (PHB).
    HostBridge,
    /// Within a NUMA node (NODE).
    Node,
    /// Between NUMA nodes (SYS), or not known.
    #[default]
    System,
}
