//! What a model of GPU has beside MIG: power, links, clocks. Nominal values from NVIDIA's data sheets.

use whalezen_mig::{Model, model::Architecture};

/// What a model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Watts that it may draw.
    pub limit_watts: u64,
    /// Watts that it draws when idle.
    pub idle_watts: u64,
    /// How many NVLinks it has.
    pub nvlinks: u32,
    /// The generation of its NVLinks.
    pub nvlink_version: u32,
    /// What one NVLink carries in one direction, in MB/s.
    pub nvlink_mbps: u64,
    /// Whether its NVLinks end at switches and not at other GPUs.
    pub switched: bool,
    /// The generation of its PCIe link.
    pub pcie_generation: u32,
    /// CUDA cores per streaming multiprocessor.
    pub cores_per_multiprocessor: u32,
    /// Width of the memory bus in bits.
    pub memory_bus_bits: u32,
    /// The highest clock of its multiprocessors, in MHz.
    pub clock_mhz: u32,
    /// The highest clock of its memory, in MHz.
    pub memory_clock_mhz: u32,
    /// Memory that the driver keeps for itself, in MiB.
    pub reserved_mib: u64,
}

/// What `model` has.
pub fn of(model: Model) -> Hardware {
    let generation = match model.architecture() {
        Architecture::Ampere => Hardware {
            limit_watts: 400,
            idle_watts: 50,
            nvlinks: 12,
            nvlink_version: 3,
            nvlink_mbps: 25_781,
            switched: true,
            pcie_generation: 4,
            cores_per_multiprocessor: 64,
            memory_bus_bits: 5_120,
            clock_mhz: 1_410,
            memory_clock_mhz: 1_215,
            reserved_mib: 575,
        },
        Architecture::Hopper => Hardware {
            limit_watts: 700,
            idle_watts: 70,
            nvlinks: 18,
            nvlink_version: 4,
            nvlink_mbps: 26_562,
            switched: true,
            pcie_generation: 5,
            cores_per_multiprocessor: 128,
            memory_bus_bits: 5_120,
            clock_mhz: 1_980,
            memory_clock_mhz: 2_619,
            reserved_mib: 551,
        },
        Architecture::Blackwell => Hardware {
            limit_watts: 1_000,
            idle_watts: 140,
            nvlinks: 18,
            nvlink_version: 5,
            nvlink_mbps: 53_125,
            switched: true,
            pcie_generation: 5,
            cores_per_multiprocessor: 128,
            memory_bus_bits: 8_192,
            clock_mhz: 1_965,
            memory_clock_mhz: 3_996,
            reserved_mib: 600,
        },
    };
    match model {
        Model::A100_80 => Hardware { memory_clock_mhz: 1_593, ..generation },
        Model::A30 => Hardware {
            limit_watts: 165,
            idle_watts: 28,
            nvlinks: 4,
            switched: false,
            memory_bus_bits: 3_072,
            clock_mhz: 1_440,
            ..generation
        },
        // Cards with bridges, two by two.
        Model::H100Nvl => Hardware {
            limit_watts: 400,
            nvlinks: 12,
            switched: false,
            memory_bus_bits: 6_016,
            clock_mhz: 1_785,
            ..generation
        },
        Model::H200 => Hardware { memory_bus_bits: 6_144, memory_clock_mhz: 3_201, ..generation },
        Model::Gb200 => Hardware { limit_watts: 1_200, ..generation },
        Model::A100_40 | Model::H100_80 | Model::B200 => generation,
    }
}
