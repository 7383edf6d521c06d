//! How busy a GPU is at one moment: what the sensing reads and the metrics show.

use super::Uuid;

/// How busy a GPU is. What the GPU or its driver does not tell is `None`; utilisation is not told in MIG mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How much of the time a kernel ran, in percent.
    pub gpu_percent: Option<u32>,
    /// How much of the time memory was read or written, in percent.
    pub memory_percent: Option<u32>,
    /// Memory in use, in bytes.
    pub memory_used: Option<u64>,
    /// Memory that is free, in bytes.
    pub memory_free: Option<u64>,
    /// Power drawn, in milliwatts.
    pub power_mw: Option<u32>,
    /// Temperature in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// What is sent over PCIe, in KB/s.
    pub pcie_tx_kbps: Option<u32>,
    /// What is received over PCIe, in KB/s.
    pub pcie_rx_kbps: Option<u32>,
    /// How busy its parts were since they were last asked, where the GPU counts that.
    pub activity: Option<Activity>,
    /// The same of each MIG device.
    pub instances: Vec<InstanceLoad>,
}

/// How busy the parts of a GPU, or of an instance, were between two looks. Hopper and later count that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// How much of the time anything ran, in hundredths of a percent.
    pub graphics: Option<u32>,
    /// How much of the time a multiprocessor had a warp, over all of them, in hundredths of a percent.
    pub sm: Option<u32>,
    /// How much of the time the tensor cores worked, in hundredths of a percent.
    pub tensor: Option<u32>,
    /// How much of the memory's bandwidth was used, in hundredths of a percent.
    pub dram: Option<u32>,
    /// What was sent over PCIe, in bytes per second.
    pub pcie_tx: Option<u64>,
    /// What was received over PCIe, in bytes per second.
    pub pcie_rx: Option<u64>,
    /// What was sent over all NVLinks, in bytes per second.
    pub nvlink_tx: Option<u64>,
    /// What was received over all NVLinks, in bytes per second.
    pub nvlink_rx: Option<u64>,
}

/// How busy a MIG device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceLoad {
    /// The MIG device.
    pub uuid: Uuid,
    /// NVML's number of its GPU instance.
    pub gpu_instance: u32,
    /// Memory in use, in bytes.
    pub memory_used: Option<u64>,
    /// Memory that is free, in bytes.
    pub memory_free: Option<u64>,
    /// How busy its parts were since they were last asked, where the GPU counts that.
    pub activity: Option<Activity>,
}
