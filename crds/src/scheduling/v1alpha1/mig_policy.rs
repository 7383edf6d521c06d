//! `MIGPolicy`: which layout GPUs have by default, and what may be changed.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mig_names;
use crate::definition::{Column, CustomResource, Definition};
use crate::resource::resource;
use crate::schema::{mark, names};

resource! {
    /// A MIGPolicy says which MIG layout the GPUs of some nodes have when no workload needs another, whether workloads
    /// may have them changed, which GPUs are pinned to a layout, and who may change the MIG mode. Where several are
    /// about the same GPU, the one with the highest priority decides, and of these the first by name.
    MIGPolicy("scheduling.gen.io", "v1alpha1", "migpolicies"): ClusterResourceScope {
        /// Which GPUs, and what of them.
        spec: MIGPolicySpec,
    }
}

impl CustomResource for MIGPolicy {
    const DEFINITION: Definition = Definition {
        short_names: &["mp"],
        columns: &[
            Column::new("Mode", "string", ".spec.mode", "Whether workloads may have layouts changed."),
            Column::new(
                "Default",
                "string",
                ".spec.defaultConfig",
                "The default layout, where it has a name.",
            ),
            Column::new("Mode-Change", "string", ".spec.modeChange", "When the MIG mode may be changed."),
            Column::new("Priority", "integer", ".spec.priority", "Which policy goes before which.").wide(),
            Column::new("Age", "date", ".metadata.creationTimestamp", "Since when it is there."),
        ],
        selectable: &[],
        status: false,
    };
}

/// Which GPUs a MIGPolicy is about, and what of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[(
    "!(has(self.defaultConfig) && has(self.defaultLayout))",
    "the default is a name (defaultConfig) or a layout (defaultLayout), not both",
)]))]
pub struct MIGPolicySpec {
    /// The nodes, by their labels. Without it, all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,

    /// The GPUs, by the product's name as GPUNode status has it, such as "NVIDIA H100 80GB HBM3". Without it, all that
    /// know MIG.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 128)), transform = mark::set_list)]
    pub models: Vec<String>,

    /// Among policies about the same GPU the highest decides.
    #[serde(default)]
    #[schemars(range(min = -1_000_000, max = 1_000_000))]
    pub priority: i32,

    /// Whether workloads may have layouts changed. Without a policy about a GPU they may not.
    #[serde(default)]
    pub mode: LayoutMode,

    /// The default layout by one of mig-parted's names: of the agent's configuration file, or one that follows from the
    /// GPU itself: all-disabled, all-enabled, all-balanced, or all- and a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub default_config: Option<String>,

    /// The default layout as in mig-parted's configuration file. The last entry that is about a GPU decides; a GPU that
    /// none is about is left as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), transform = mark::atomic_list)]
    pub default_layout: Vec<DeviceLayout>,

    /// GPUs that have one layout and no other, whatever a workload, a label or a default says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), transform = mark::atomic_list)]
    pub pins: Vec<LayoutPin>,

    /// When the agent may turn the MIG mode of a GPU on or off, which the layout may need. Where the GPU then has to be
    /// reset, the agent says so and waits for it.
    #[serde(default)]
    pub mode_change: ModeChange,
}

/// Whether workloads may have layouts changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LayoutMode {
    /// No: pins, labels and defaults alone decide.
    #[default]
    Static,
    /// Yes: the scheduler assigns layouts to GPUs, and what it leaves alone has the default.
    Dynamic,
}

/// When the MIG mode of a GPU may be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ModeChange {
    /// By people alone.
    #[default]
    Never,
    /// By the agent, when nothing runs on the GPU and nobody has it, and only while the node is cordoned.
    WhenCordoned,
    /// By the agent, when nothing runs on the GPU and nobody has it.
    WhenIdle,
}

/// The layout of some GPUs of a node, as in mig-parted's configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[(
    "self.migEnabled || !has(self.migDevices) || size(self.migDevices) == 0",
    "instances need migEnabled",
)]))]
pub struct DeviceLayout {
    /// The GPUs by PCI device and vendor, such as 0x233010DE. Without it, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 10), regex(pattern = "^0x[0-9A-Fa-f]{8}$")), transform = mark::set_list)]
    pub device_filter: Vec<String>,

    /// The GPUs by index. Without it, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(range(min = 0, max = 63)), transform = mark::set_list)]
    pub devices: Vec<i32>,

    /// Whether they are in MIG mode.
    pub mig_enabled: bool,

    /// How many instances of which profile each of them has, such as {"1g.10gb": 2, "3g.40gb": 1}.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "mig_names::Counts")]
    pub mig_devices: BTreeMap<String, i32>,
}

/// A GPU that has one layout and no other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[(
    "self.migEnabled || !has(self.migDevices) || size(self.migDevices) == 0",
    "instances need migEnabled",
), (
    "has(self.uuid) || has(self.node)",
    "a pin names a GPU by its UUID, or a node",
)]))]
pub struct LayoutPin {
    /// The GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<mig_names::GpuUuid>")]
    pub uuid: Option<String>,

    /// The node whose GPUs are pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<names::RequiredSubdomain>")]
    pub node: Option<String>,

    /// Of that node the GPUs with these indexes. Without it, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(range(min = 0, max = 63)), transform = mark::set_list)]
    pub devices: Vec<i32>,

    /// Whether they are in MIG mode.
    pub mig_enabled: bool,

    /// How many instances of which profile each of them has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "mig_names::Counts")]
    pub mig_devices: BTreeMap<String, i32>,
}
