//! What is seen of a GPU.

use std::{fmt, sync::Arc};

use whalezen_mig::{Geometry, Instance};

/// NVML's name of a GPU or of a MIG device.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Uuid(Arc<str>);

impl Uuid {
    /// The UUID as text, such as `GPU-…` or `MIG-…`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uuid {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Uuid {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// NVIDIA's driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// Its version.
    pub version: String,
    /// The newest CUDA that it serves, major and minor.
    pub cuda: Option<(i32, i32)>,
}

/// The driver and the GPUs that it knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// The driver.
    pub driver: Driver,
    /// The GPUs, by index. One that cannot even say its name is left out.
    pub gpus: Vec<Uuid>,
}

/// A GPU at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its name.
    pub uuid: Uuid,
    /// NVML's index, which may be another after a boot.
    pub index: u32,
    /// The number in its device node, `/dev/nvidia<minor>`.
    pub minor: Option<u32>,
    /// The product's name.
    pub model: String,
    /// Where and what it is on the PCI bus.
    pub pci: Option<Pci>,
    /// Its NUMA node.
    pub numa: Option<u32>,
    /// Its memory in bytes.
    pub memory: u64,
    /// What MIG can do with it and has done; `None` if it knows no MIG.
    pub mig: Option<Mig>,
    /// The processes on it.
    pub processes: Vec<Process>,
}

/// A place on the PCI bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pci {
    /// Domain, bus, device and function as NVML writes them.
    pub bus_id: String,
    /// Device (upper half) and vendor.
    pub id: u32,
}

/// What MIG can do with a GPU and has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mig {
    /// Whether MIG mode is on.
    pub enabled: bool,
    /// Whether it will be after the next reset.
    pub pending: bool,
    /// Which profiles there are and where each may lie.
    pub geometry: Geometry,
    /// The instances there are, by start.
    pub instances: Vec<MigInstance>,
}

/// A GPU instance with its compute instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigInstance {
    /// NVML's number of it. Numbers are used again.
    pub id: u32,
    /// What and where it is.
    pub instance: Instance,
    /// How many memory slices it takes.
    pub size: u8,
    /// Its compute instances, by number.
    pub computes: Vec<Compute>,
}

impl MigInstance {
    /// The MIG device that a container is given: that of the only compute instance, if it has all the compute slices.
    pub fn device(&self) -> Option<&Uuid> {
        match self.computes.as_slice() {
            [only] if only.slices == self.instance.profile.slices() => only.uuid.as_ref(),
            _ => None,
        }
    }

    /// All MIG devices in it.
    pub fn devices(&self) -> impl Iterator<Item = &Uuid> {
        self.computes.iter().filter_map(|compute| compute.uuid.as_ref())
    }
}

/// A compute instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compute {
    /// NVML's number of it within its GPU instance.
    pub id: u32,
    /// How many compute slices it has.
    pub slices: u8,
    /// The MIG device.
    pub uuid: Option<Uuid>,
}

/// A process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number, in the host's namespace.
    pub pid: u32,
    /// The GPU instance that it is in, where there is MIG.
    pub instance: Option<u32>,
}

/// How two GPUs reach each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The one, of the lower index.
    pub a: Uuid,
    /// The other.
    pub b: Uuid,
    /// The way over PCIe.
    pub path: Path,
    /// How many NVLinks are between them, directly or by way of a switch.
    pub nvlinks: u32,
}

/// The way between two GPUs over PCIe, shortest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// On one board.
    Internal,
    /// Over one PCIe switch.
    SingleSwitch,
    /// Over several PCIe switches.
    MultipleSwitches,
    /// Over a host bridge.
    HostBridge,
    /// Within a NUMA node.
    Node,
    /// Between NUMA nodes, or not known.
    System,
}
