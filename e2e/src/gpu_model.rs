//! GPU models and the servers they come in, as NVIDIA's feature discovery describes them.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, bail};

/// A GPU model and the machine it usually sits in, with eight of them.
///
/// Memory is what `nvidia-smi` reports in MiB with a driver of the 550 branch or newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuModel {
    /// The name without the vendor, for example `A100-SXM4-80GB`.
    pub name: &'static str,
    /// The value of `nvidia.com/gpu.product`.
    pub product: &'static str,
    /// The architecture in lower case, as in `nvidia.com/gpu.family`.
    pub family: &'static str,
    /// Compute capability, major and minor.
    pub compute: (u8, u8),
    /// Memory of one GPU in MiB.
    pub memory_mib: u32,
    /// Whether it can be divided into MIG instances.
    pub mig_capable: bool,
    /// The machine's product name, as in `nvidia.com/gpu.machine`.
    pub machine: &'static str,
    /// CPUs of a machine with eight GPUs.
    pub machine_cpus: u32,
    /// Memory of a machine with eight GPUs in GiB.
    pub machine_memory_gib: u32,
}

impl GpuModel {
    /// NVIDIA A100 SXM4 with 40 GB, in a DGX A100.
    pub const A100_SXM4_40GB: Self = Self {
        name: "A100-SXM4-40GB",
        product: "NVIDIA-A100-SXM4-40GB",
        family: "ampere",
        compute: (8, 0),
        memory_mib: 40_960,
        mig_capable: true,
        machine: "DGXA100-920-23687-2530-000",
        machine_cpus: 256,
        machine_memory_gib: 1024,
    };
    /// NVIDIA A100 SXM4 with 80 GB, in a DGX A100.
    pub const A100_SXM4_80GB: Self = Self {
        name: "A100-SXM4-80GB",
        product: "NVIDIA-A100-SXM4-80GB",
        memory_mib: 81_920,
        machine_memory_gib: 2048,
        ..Self::A100_SXM4_40GB
    };
    /// NVIDIA H100 SXM5 with 80 GB, in a DGX H100.
    pub const H100_80GB_HBM3: Self = Self {
        name: "H100-80GB-HBM3",
        product: "NVIDIA-H100-80GB-HBM3",
        family: "hopper",
        compute: (9, 0),
        memory_mib: 81_559,
        mig_capable: true,
        machine: "DGXH100",
        machine_cpus: 224,
        machine_memory_gib: 2048,
    };
    /// NVIDIA H200 SXM5 with 141 GB, in a DGX H200.
    pub const H200: Self = Self {
        name: "H200",
        product: "NVIDIA-H200",
        memory_mib: 143_771,
        machine: "DGXH200",
        ..Self::H100_80GB_HBM3
    };
    /// NVIDIA V100 SXM2 with 32 GB, in a DGX-1. It has no MIG.
    pub const V100_SXM2_32GB: Self = Self {
        name: "V100-SXM2-32GB",
        product: "Tesla-V100-SXM2-32GB",
        family: "volta",
        compute: (7, 0),
        memory_mib: 32_768,
        mig_capable: false,
        machine: "DGX-1-with-V100-32",
        machine_cpus: 80,
        machine_memory_gib: 512,
    };
    /// NVIDIA T4 with 16 GB, in an ordinary server. It has no MIG.
    pub const T4: Self = Self {
        name: "T4",
        product: "Tesla-T4",
        family: "turing",
        compute: (7, 5),
        memory_mib: 15_360,
        mig_capable: false,
        machine: "PowerEdge-R750xa",
        machine_cpus: 96,
        machine_memory_gib: 384,
    };
    /// Every model there is here.
    pub const ALL: [Self; 6] = [
        Self::A100_SXM4_40GB,
        Self::A100_SXM4_80GB,
        Self::H100_80GB_HBM3,
        Self::H200,
        Self::V100_SXM2_32GB,
        Self::T4,
    ];
}

impl FromStr for GpuModel {
    type Err = Error;

    /// Accepts the name or the product, in any case.
    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL
            .into_iter()
            .find(|model| text.eq_ignore_ascii_case(model.name) || text.eq_ignore_ascii_case(model.product));
        let Some(model) = found else {
            let known = Self::ALL.map(|model| model.name).join(", ");
            bail!("{text} is not a GPU model known here; known are {known}");
        };
        Ok(model)
    }
}

impl fmt::Display for GpuModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
