//! Which number is which metric. Pure.

use crate::device::{Activity, InstanceLoad, Load};

/// A metric of the DCGM exporter's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Metric {
    /// How much of the time a kernel ran.
    GpuUtil,
    /// How much of the time memory was read or written.
    MemCopyUtil,
    /// Memory in use.
    FbUsed,
    /// Memory that is free.
    FbFree,
    /// Power drawn.
    Power,
    /// Temperature.
    Temperature,
    /// The last error.
    Xid,
    /// How much of the time anything ran.
    GraphicsActive,
    /// How much of the time multiprocessors had work.
    SmActive,
    /// How much of the time tensor cores worked.
    TensorActive,
    /// How much of the memory's bandwidth was used.
    DramActive,
    /// Sent over PCIe.
    PcieTx,
    /// Received over PCIe.
    PcieRx,
    /// Sent over NVLink.
    NvlinkTx,
    /// Received over NVLink.
    NvlinkRx,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::GpuUtil,
        Self::MemCopyUtil,
        Self::FbUsed,
        Self::FbFree,
        Self::Power,
        Self::Temperature,
        Self::Xid,
        Self::GraphicsActive,
        Self::SmActive,
        Self::TensorActive,
        Self::DramActive,
        Self::PcieTx,
        Self::PcieRx,
        Self::NvlinkTx,
        Self::NvlinkRx,
    ];

    /// Its name, which is that of DCGM's field.
    pub fn name(self) -> &'static str {
        match self {
            Self::GpuUtil => "DCGM_FI_DEV_GPU_UTIL",
            Self::MemCopyUtil => "DCGM_FI_DEV_MEM_COPY_UTIL",
            Self::FbUsed => "DCGM_FI_DEV_FB_USED",
            Self::FbFree => "DCGM_FI_DEV_FB_FREE",
            Self::Power => "DCGM_FI_DEV_POWER_USAGE",
            Self::Temperature => "DCGM_FI_DEV_GPU_TEMP",
            Self::Xid => "DCGM_FI_DEV_XID_ERRORS",
            Self::GraphicsActive => "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            Self::SmActive => "DCGM_FI_PROF_SM_ACTIVE",
            Self::TensorActive => "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
            Self::DramActive => "DCGM_FI_PROF_DRAM_ACTIVE",
            Self::PcieTx => "DCGM_FI_PROF_PCIE_TX_BYTES",
            Self::PcieRx => "DCGM_FI_PROF_PCIE_RX_BYTES",
            Self::NvlinkTx => "DCGM_FI_PROF_NVLINK_TX_BYTES",
            Self::NvlinkRx => "DCGM_FI_PROF_NVLINK_RX_BYTES",
        }
    }

    /// What it says, for people. All are gauges, in DCGM's units.
    pub fn help(self) -> &'static str {
        match self {
            Self::GpuUtil => "How much of the time a kernel ran, in percent",
            Self::MemCopyUtil => "How much of the time memory was read or written, in percent",
            Self::FbUsed => "Memory in use, in MiB",
            Self::FbFree => "Memory that is free, in MiB",
            Self::Power => "Power drawn, in watts",
            Self::Temperature => "Temperature, in degrees Celsius",
            Self::Xid => "The last Xid that the GPU reported since the agent runs, or 0",
            Self::GraphicsActive => "How much of the time anything ran, 0 to 1",
            Self::SmActive => "How much of the time a multiprocessor had work, over all of them, 0 to 1",
            Self::TensorActive => "How much of the time the tensor cores worked, 0 to 1",
            Self::DramActive => "How much of the bandwidth of the memory was used, 0 to 1",
            Self::PcieTx => "Sent over PCIe, in bytes per second",
            Self::PcieRx => "Received over PCIe, in bytes per second",
            Self::NvlinkTx => "Sent over all NVLinks, in bytes per second",
            Self::NvlinkRx => "Received over all NVLinks, in bytes per second",
        }
    }
}

/// What there is to say of a GPU.
pub fn of_gpu(load: &Load) -> Vec<(Metric, f64)> {
    let mut values = Values::default();
    values.add(Metric::GpuUtil, load.gpu_percent.map(f64::from));
    values.add(Metric::MemCopyUtil, load.memory_percent.map(f64::from));
    values.memory(load.memory_used, load.memory_free);
    values.add(Metric::Power, load.power_mw.map(|milliwatts| f64::from(milliwatts) / 1000.0));
    values.add(Metric::Temperature, load.temperature_c.map(f64::from));
    if let Some(activity) = &load.activity {
        values.activity(activity);
    } else {
        values.add(Metric::PcieTx, load.pcie_tx_kbps.map(|rate| f64::from(rate) * 1000.0));
        values.add(Metric::PcieRx, load.pcie_rx_kbps.map(|rate| f64::from(rate) * 1000.0));
    }
    values.0
}

/// What there is to say of a MIG instance.
pub fn of_instance(load: &InstanceLoad) -> Vec<(Metric, f64)> {
    let mut values = Values::default();
    values.memory(load.memory_used, load.memory_free);
    if let Some(activity) = &load.activity {
        values.activity(activity);
    }
    values.0
}

#[derive(Default)]
struct Values(Vec<(Metric, f64)>);

impl Values {
    fn add(&mut self, metric: Metric, value: Option<f64>) {
        self.0.extend(value.map(|value| (metric, value)));
    }

    fn memory(&mut self, used: Option<u64>, free: Option<u64>) {
        self.add(Metric::FbUsed, used.map(|bytes| float(bytes >> 20)));
        self.add(Metric::FbFree, free.map(|bytes| float(bytes >> 20)));
    }

    fn activity(&mut self, activity: &Activity) {
        let share = |hundredths: Option<u32>| hundredths.map(|hundredths| f64::from(hundredths) / 10_000.0);
        self.add(Metric::GraphicsActive, share(activity.graphics));
        self.add(Metric::SmActive, share(activity.sm));
        self.add(Metric::TensorActive, share(activity.tensor));
        self.add(Metric::DramActive, share(activity.dram));
        self.add(Metric::PcieTx, activity.pcie_tx.map(float));
        self.add(Metric::PcieRx, activity.pcie_rx.map(float));
        self.add(Metric::NvlinkTx, activity.nvlink_tx.map(float));
        self.add(Metric::NvlinkRx, activity.nvlink_rx.map(float));
    }
}

/// A number as Prometheus has them.
#[allow(clippy::cast_precision_loss, reason = "a metric is a float")]
pub fn float(value: u64) -> f64 {
    value as f64
}
