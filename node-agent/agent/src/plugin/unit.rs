//! What a pod can be given: a whole GPU, or a MIG instance. The device plugin's picture of the node.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use whalezen_mig::{Instance, ProfileName};

use crate::device::Uuid;

/// What a container asks for in its limits, such as `nvidia.com/gpu`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ResourceName(Arc<str>);

impl ResourceName {
    /// Whole GPUs that are not in MIG mode.
    pub fn gpu() -> Self {
        Self("nvidia.com/gpu".into())
    }

    /// MIG instances of a profile: each profile is a resource of its own, as under the `mixed` strategy of NVIDIA's
    /// device plugin.
    pub fn mig(profile: ProfileName) -> Self {
        Self(profile.resource().into())
    }

    /// The one device that is kept for a pod. Nobody else is told the name, and no other device has it: so the kubelet
    /// can give the pod no other.
    pub fn of(device: &Uuid) -> Self {
        Self(format!("{ASSIGNED}/{device}").into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The file name of the plugin's socket. Short, because a path has 107 bytes at most.
    pub fn socket(&self) -> String {
        let name = self.0.rsplit('/').next().unwrap_or_default();
        format!("wz-{name}.sock")
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// The domain of resources that are one device, assigned to one pod.
pub const ASSIGNED: &str = "device.scheduling.gen.io";

/// A whole GPU or a MIG instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Its UUID.
    pub id: Uuid,
    /// The GPU that it is, or that it is a part of.
    pub gpu: Uuid,
    /// The number of that GPU on the node. Orders what is otherwise equal.
    pub index: u32,
    /// Of a MIG device, the instance that it is.
    pub instance: Option<Instance>,
    /// Why no container may have it, if none may.
    pub unhealthy: Option<Arc<str>>,
    /// The NUMA node that the GPU is next to.
    pub numa: Option<u32>,
    /// The device files that a process in a container needs, beside those of the driver.
    pub files: Vec<PathBuf>,
}

/// How close two GPUs are. What is greater is closer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Closeness {
    /// NVLinks between the two.
    pub nvlinks: u32,
    /// The way over PCIe: 0 between NUMA nodes, then within one, over a host bridge, several switches, one switch, and
    /// 5 on one board.
    pub pcie: u32,
}

/// What there is on the node, and what of it is kept from whom.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inventory {
    /// Everything that a pod can be given, in any order.
    pub units: Vec<Unit>,
    /// How close GPUs are, each pair in both orders. What is not here is far.
    pub links: Arc<BTreeMap<(Uuid, Uuid), Closeness>>,
    /// What is kept from everybody, or for one pod.
    pub kept: BTreeMap<Uuid, Kept>,
    /// Device files of the driver that every container with a GPU needs.
    pub driver_files: Arc<[PathBuf]>,
}

/// Why a device is not offered under its resource's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// It is assigned to one pod, which asks for it by name.
    Assigned,
    /// It is about to go.
    Leaving,
}
