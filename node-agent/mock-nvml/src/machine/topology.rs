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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::from_toml;

    #[test]
    fn nearness_is_the_same_from_both_ends() {
        let machine =
            from_toml(r#"gpus = [{ model = "H100-80", count = 4 }, { model = "A30", count = 4, numa = 1 }]"#);
        let near = |one, other| machine.nearness(one, other).unwrap();
        let table = [
            (0, 0, Nearness::Internal),
            (0, 1, Nearness::Single),
            (0, 2, Nearness::Node),
            (3, 4, Nearness::System),
            (4, 5, Nearness::Single),
        ];
        for (one, other, expected) in table {
            assert_eq!((near(one, other), near(other, one)), (expected, expected), "{one} {other}");
        }
    }

    #[test]
    fn links_that_end_at_gpus_end_at_each_other() {
        let machine = from_toml(
            r#"
            gpus = [{ model = "H100-NVL", count = 5 }]
            nvlink = [{ gpus = [0, 1] }, { gpus = [2, 3, 4] }]
            "#,
        );
        for gpu in 0..5 {
            let ends = |from: usize, to: usize| {
                let links = 0..machine.hardware(from).unwrap().nvlinks;
                links.filter(|link| machine.link_end(from, *link) == Ok(Some(LinkEnd::Gpu(to)))).count()
            };
            for peer in machine.nvlink_peers(gpu).unwrap() {
                assert!(ends(gpu, peer) > 0 && ends(gpu, peer) == ends(peer, gpu), "{gpu} {peer}");
                assert!(machine.nvlink_peers(peer).unwrap().contains(&gpu), "{gpu} {peer}");
            }
        }
    }

    #[test]
    fn without_islands_boards_with_switches_are_whole_and_cards_are_alone() {
        let machine =
            from_toml(r#"gpus = [{ model = "H100-80", count = 3 }, { model = "H100-NVL", count = 2 }]"#);
        let peers: Vec<_> = (0..5).map(|gpu| machine.nvlink_peers(gpu).unwrap()).collect();
        assert_eq!(peers, [vec![1, 2], vec![0, 2], vec![0, 1], vec![], vec![]]);
        assert_eq!((machine.active_links(0), machine.active_links(3)), (Ok(18), Ok(0)));
    }

    #[test]
    fn mig_ends_the_way_over_nvlink() {
        let mut machine = from_toml(r#"gpus = [{ model = "H100-80", count = 2 }]"#);
        assert_eq!(machine.peers_over_nvlink(0, 1), Ok(true));
        machine.gpus[1].mig = true;
        assert_eq!(
            (machine.peers_over_nvlink(0, 1), machine.peers_over_nvlink(1, 0)),
            (Ok(false), Ok(false))
        );
    }
}
