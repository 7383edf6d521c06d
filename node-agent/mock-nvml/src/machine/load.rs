//! How busy a GPU is, and what its counters show.

use serde::{Deserialize, Serialize};

use crate::wave::Wave;

/// What something (a process, or the machine's configuration) does with a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// How much of the time the multiprocessors work, in percent of the GPU or instance.
    pub utilization: Wave,
    /// How much of the memory's bandwidth is used, in percent.
    pub memory_bandwidth: Wave,
    /// Memory taken, in MiB.
    pub memory_mib: Wave,
    /// What it sends over PCIe, in KiB/s.
    pub pcie_tx_kib: Wave,
    /// What it receives over PCIe, in KiB/s.
    pub pcie_rx_kib: Wave,
    /// What it sends over all NVLinks, in KiB/s.
    pub nvlink_tx_kib: Wave,
    /// What it receives over all NVLinks, in KiB/s.
    pub nvlink_rx_kib: Wave,
}

/// A load that began at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Since when, in the machine's milliseconds.
    pub since: u64,
    /// What it is.
    pub load: Load,
}

/// How busy something is at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Percent of the time that multiprocessors work.
    pub utilization: u64,
    /// Percent of the memory's bandwidth.
    pub memory_bandwidth: u64,
    /// Memory taken in MiB.
    pub memory_mib: u64,
    /// KiB/s sent over PCIe.
    pub pcie_tx_kib: u64,
    /// KiB/s received over PCIe.
    pub pcie_rx_kib: u64,
    /// KiB/s sent over NVLink.
    pub nvlink_tx_kib: u64,
    /// KiB/s received over NVLink.
    pub nvlink_rx_kib: u64,
}

/// What was done since the boot. Sums of rates are in the rate's unit times milliseconds; they never fall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Percent times milliseconds.
    pub utilization: u64,
    /// Percent of the memory's bandwidth times milliseconds.
    pub memory_bandwidth: u64,
    /// KiB/s times milliseconds sent over PCIe.
    pub pcie_tx: u64,
    /// KiB/s times milliseconds received over PCIe.
    pub pcie_rx: u64,
    /// KiB/s times milliseconds sent over NVLink.
    pub nvlink_tx: u64,
    /// KiB/s times milliseconds received over NVLink.
    pub nvlink_rx: u64,
}

impl Load {
    /// What is wrong with it.
    pub fn impossible(&self) -> Option<String> {
        let all = [
            ("utilization", self.utilization, 100),
            ("memory_bandwidth", self.memory_bandwidth, 100),
            ("memory_mib", self.memory_mib, u64::MAX),
            ("pcie_tx_kib", self.pcie_tx_kib, u64::MAX),
            ("pcie_rx_kib", self.pcie_rx_kib, u64::MAX),
            ("nvlink_tx_kib", self.nvlink_tx_kib, u64::MAX),
            ("nvlink_rx_kib", self.nvlink_rx_kib, u64::MAX),
        ];
        let wrong = |(name, wave, most): (_, Wave, _)| Some(format!("{name}: {}", wave.impossible(most)?));
        all.into_iter().find_map(wrong)
    }
}

impl Running {
    /// How busy it makes its GPU at `now`.
    pub fn activity(self, now: u64) -> Activity {
        let at = now.saturating_sub(self.since);
        Activity {
            utilization: self.load.utilization.at(at).min(100),
            memory_bandwidth: self.load.memory_bandwidth.at(at).min(100),
            memory_mib: self.load.memory_mib.at(at),
            pcie_tx_kib: self.load.pcie_tx_kib.at(at),
            pcie_rx_kib: self.load.pcie_rx_kib.at(at),
            nvlink_tx_kib: self.load.nvlink_tx_kib.at(at),
            nvlink_rx_kib: self.load.nvlink_rx_kib.at(at),
        }
    }

    /// What it has done until `now`.
    pub fn totals(self, now: u64) -> Totals {
        let until = now.saturating_sub(self.since);
        Totals {
            utilization: self.load.utilization.integral(until),
            memory_bandwidth: self.load.memory_bandwidth.integral(until),
            pcie_tx: self.load.pcie_tx_kib.integral(until),
            pcie_rx: self.load.pcie_rx_kib.integral(until),
            nvlink_tx: self.load.nvlink_tx_kib.integral(until),
            nvlink_rx: self.load.nvlink_rx_kib.integral(until),
        }
    }
}

impl Activity {
    /// Both at once. Percentages end at 100.
    pub fn and(self, other: Self) -> Self {
        Self {
            utilization: (self.utilization + other.utilization).min(100),
            memory_bandwidth: (self.memory_bandwidth + other.memory_bandwidth).min(100),
            memory_mib: self.memory_mib.saturating_add(other.memory_mib),
            pcie_tx_kib: self.pcie_tx_kib.saturating_add(other.pcie_tx_kib),
            pcie_rx_kib: self.pcie_rx_kib.saturating_add(other.pcie_rx_kib),
            nvlink_tx_kib: self.nvlink_tx_kib.saturating_add(other.nvlink_tx_kib),
            nvlink_rx_kib: self.nvlink_rx_kib.saturating_add(other.nvlink_rx_kib),
        }
    }
}

impl Totals {
    /// The sum of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            utilization: self.utilization.saturating_add(other.utilization),
            memory_bandwidth: self.memory_bandwidth.saturating_add(other.memory_bandwidth),
            pcie_tx: self.pcie_tx.saturating_add(other.pcie_tx),
            pcie_rx: self.pcie_rx.saturating_add(other.pcie_rx),
            nvlink_tx: self.nvlink_tx.saturating_add(other.nvlink_tx),
            nvlink_rx: self.nvlink_rx.saturating_add(other.nvlink_rx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wave::{Period, Shape};

    #[test]
    fn a_load_beyond_what_can_be_is_refused_by_name() {
        let wave = |high, period_ms| Wave::Periodic(Period { shape: Shape::Saw, low: 0, high, period_ms });
        let table = [
            (Load::default(), None),
            (Load { utilization: Wave::Steady(100), ..Load::default() }, None),
            (Load { utilization: Wave::Steady(101), ..Load::default() }, Some("utilization")),
            (Load { memory_bandwidth: wave(500, 1_000), ..Load::default() }, Some("memory_bandwidth")),
            (Load { nvlink_rx_kib: wave(500, 0), ..Load::default() }, Some("nvlink_rx_kib")),
            (Load { memory_mib: Wave::Steady(u64::MAX), ..Load::default() }, Some("memory_mib")),
        ];
        for (load, wrong) in table {
            let said = load.impossible();
            assert_eq!(said.as_deref().and_then(|said| said.split(':').next()), wrong, "{load:?}");
        }
    }
}
