//! How the GPUs of a machine are connected: PCIe, NUMA nodes, NVLink.

use super::Machine;
use crate::refusal::Refusal;

/// How near two GPUs are over PCIe, the nearest first (`nvmlGpuTopologyLevel_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// The same GPU.
    Internal,
    /// Behind one PCIe switch.
    Single,
    /// Behind several PCIe switches.
    Multiple,
    /// At one host bridge.
    HostBridge,
    /// At one NUMA node.
    Node,
    /// In one machine.
    System,
}

/// Where an NVLink ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// At that GPU.
    Gpu(usize),
    /// At that switch.
    Switch(usize),
}

/// Switches on a board.
const SWITCHES: usize = 4;

impl Machine {
    /// How near two GPUs are over PCIe: each two in a row are behind a switch, and a NUMA node's are at that node.
    pub fn nearness(&self, one: usize, other: usize) -> Result<Nearness, Refusal> {
        Ok(match (self.numa(one)? == self.numa(other)?, one / 2 == other / 2) {
            (true, _) if one == other => Nearness::Internal,
            (true, true) => Nearness::Single,
            (true, false) => Nearness::Node,
            (false, _) => Nearness::System,
        })
    }

    /// The GPUs that a GPU reaches over NVLink.
    pub fn nvlink_peers(&self, gpu: usize) -> Result<Vec<usize>, Refusal> {
        let hardware = self.hardware(gpu)?;
        let island: Vec<usize> = match &self.config.nvlink {
            Some(islands) => {
                islands.iter().map(|island| &island.gpus).find(|gpus| gpus.contains(&gpu)).cloned()
            }
            None if hardware.switched => Some((0..self.gpus.len()).collect()),
            None => None,
        }
        .unwrap_or_default();
        let reached = |peer: &usize| {
            *peer != gpu
                && self
                    .hardware(*peer)
                    .is_ok_and(|peer| peer.switched == hardware.switched && peer.nvlinks > 0)
        };
        Ok(island.into_iter().filter(reached).collect())
    }

    /// Where a GPU's NVLink with that number ends; nowhere if nothing is connected to it.
    pub fn link_end(&self, gpu: usize, link: u32) -> Result<Option<LinkEnd>, Refusal> {
        let hardware = self.hardware(gpu)?;
        if link >= hardware.nvlinks {
            return Err(Refusal::InvalidArgument);
        }
        let peers = self.nvlink_peers(gpu)?;
        if peers.is_empty() {
            return Ok(None);
        }
        let (link, links) = (link as usize, hardware.nvlinks as usize);
        if self.is_switched(gpu)? {
            return Ok(Some(LinkEnd::Switch(link % SWITCHES)));
        }
        // Links are dealt out evenly; those that are left over are not connected.
        let each = links / peers.len();
        Ok(link.checked_div(each).and_then(|at| peers.get(at)).copied().map(LinkEnd::Gpu))
    }

    /// How many NVLinks of a GPU are connected.
    pub fn active_links(&self, gpu: usize) -> Result<u32, Refusal> {
        let links = 0..self.hardware(gpu)?.nvlinks;
        let active = links.filter(|link| self.link_end(gpu, *link).is_ok_and(|end| end.is_some()));
        u32::try_from(active.count()).map_err(|_| Refusal::Unknown)
    }

    /// Whether two GPUs reach each other's memory over NVLink. While MIG is on for one of them they do not.
    pub fn peers_over_nvlink(&self, one: usize, other: usize) -> Result<bool, Refusal> {
        let mig = self.gpu(one)?.mig || self.gpu(other)?.mig;
        Ok(!mig && self.nvlink_peers(one)?.contains(&other))
    }

    fn is_switched(&self, gpu: usize) -> Result<bool, Refusal> {
        let islands = self.config.nvlink.iter().flatten();
        let said = islands.filter(|island| island.gpus.contains(&gpu)).find_map(|island| island.switched);
        Ok(said.unwrap_or(self.hardware(gpu)?.switched))
    }
}
