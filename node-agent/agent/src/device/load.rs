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
    /// The same of each MIG device.
    pub instances: Vec<InstanceLoad>,
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
}
