//! `GPUNode`: what layout a node's GPUs are to have, which the operator writes, and what there is, which the node's
//! agent writes ([`super::gpu_node_status`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GPUNodeStatus, mig_names};
use crate::definition::{Column, CustomResource, Definition};
use crate::resource::resource;
use crate::schema::{mark, names};

resource! {
    /// A GPUNode is what is known of the GPUs of one node, and the MIG layout that the scheduler wants of them. It has
    /// the name of its node. The node's agent makes it and alone writes the status; the operator alone writes the spec.
    GPUNode("scheduling.gen.io", "v1alpha1", "gpunodes"): ClusterResourceScope {
        /// What the scheduler wants of the node's GPUs.
        spec: GPUNodeSpec,
        /// What the node's agent sees.
        status: GPUNodeStatus,
    }
}

impl CustomResource for GPUNode {
    const DEFINITION: Definition = Definition {
        short_names: &["gn"],
        columns: &[
            Column::new("GPUs", "integer", ".status.summary.gpus", "How many GPUs the node has."),
            Column::new("Model", "string", ".status.summary.model", "Which GPUs they are."),
            Column::new("MIG", "string", ".status.summary.mig", "Which instances there are, and how many."),
            Column::new("Free", "string", ".status.summary.free", "Of its devices, how many nobody uses."),
            Column::new(
                "Ready",
                "string",
                ".status.conditions[?(@.type=='Ready')].status",
                "Whether the agent sees the GPUs.",
            ),
            Column::new(
                "Layout",
                "string",
                ".status.conditions[?(@.type=='LayoutApplied')].reason",
                "Whether the GPUs have the layout that is wanted, or why not.",
            )
            .wide(),
            Column::new(
                "Unhealthy",
                "integer",
                ".status.summary.unhealthy",
                "How many GPUs take no new work.",
            )
            .wide(),
            Column::new("Driver", "string", ".status.driverVersion", "The version of NVIDIA's driver.")
                .wide(),
            Column::new("CUDA", "string", ".status.cudaVersion", "The newest CUDA that the driver serves.")
                .wide(),
            Column::new("Age", "date", ".metadata.creationTimestamp", "Since when it is there."),
        ],
        selectable: &[],
        status: true,
    };
}

/// What the scheduler wants of a node's GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GPUNodeSpec {
    /// The GPUs whose layout the scheduler has decided. A GPU that is not named here has the layout of its node's label
    /// nvidia.com/mig.config or else of its MIGPolicy; a pin in a MIGPolicy goes before what is said here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), transform = mark::map_list(&["uuid"]))]
    pub gpus: Vec<WantedGpu>,
}

/// The layout that is wanted of one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WantedGpu {
    /// The GPU, as NVML names it.
    #[schemars(with = "mig_names::GpuUuid")]
    pub uuid: String,

    /// All instances that the GPU is to have. None means an empty GPU in MIG mode. What is in use stays, wanted or not,
    /// and what is wanted in its place waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), transform = mark::map_list(&["start"]))]
    pub instances: Vec<WantedInstance>,
}

/// One MIG instance at its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WantedInstance {
    /// The profile by NVIDIA's name, such as 3g.40gb.
    #[schemars(with = "mig_names::Profile")]
    pub profile: String,

    /// The first memory slice that the instance takes.
    #[schemars(range(min = 0, max = 7))]
    pub start: i32,

    /// For whom the instance is made. Without it nobody has it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<Assignment>,
}

/// For whom an instance is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// The workload that it was reserved for.
    pub workload: Claimant,

    /// The one pod that gets it, where that was decided. The instance is then kept from the device plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Claimant>,
}

/// An object in a namespace that an instance is made for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claimant {
    /// Its namespace.
    #[schemars(with = "names::RequiredSubdomain")]
    pub namespace: String,

    /// Its name.
    #[schemars(with = "names::RequiredSubdomain")]
    pub name: String,

    /// Its UID, so that another object of the same name is not taken for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub uid: Option<String>,
}
