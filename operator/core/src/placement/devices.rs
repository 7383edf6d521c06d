//! Which GPUs of a node a task takes.
//!
//! Whole GPUs come from the smallest group that has enough of them: those on one PCIe root, in one NVLink island, near one
//! NUMA node, and last the whole node. Of several such groups the one with the fewest idle GPUs is taken, so that large groups
//! stay whole; who wants NVLink is placed by islands first. Where no single group has enough, groups are emptied one after
//! the other, the fullest first.

use serde::{Deserialize, Serialize};

use super::{
    WHOLE_GPU,
    device::Gpu,
    node::Node,
    shape::{Ask, Link, Shape},
};

/// What a task takes of a node's GPUs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Devices {
    /// None.
    None,
    /// A part of the GPU of this index.
    Part(u32),
    /// Those whose bits are set.
    Whole(u64),
    /// An instance on the GPU of this index, from this memory slice on.
    Instance(u32, u8),
}

impl Devices {
    /// The indices of the GPUs.
    pub fn indices(self) -> impl Iterator<Item = u32> {
        let bits = match self {
            Self::None => 0,
            Self::Part(index) | Self::Instance(index, _) => 1_u64.checked_shl(index).unwrap_or_default(),
            Self::Whole(bits) => bits,
        };
        (0..u64::BITS).filter(move |index| bits >> index & 1 == 1)
    }

    /// Whether a task can have them.
    pub(super) fn are_free(&self, node: &Node, shape: &Shape, per_gpu: u32) -> bool {
        self.suit(node, shape, |gpu, slices| {
            if slices == 0 {
                gpu.part() >= per_gpu
            } else {
                gpu.slots.is_some_and(|slots| slots.free & slices == slices)
            }
        })
    }

    /// Whether a task can have had them.
    pub(super) fn are_taken(&self, node: &Node, shape: &Shape, per_gpu: u32) -> bool {
        self.suit(node, shape, |gpu, slices| match gpu.slots {
            Some(slots) => slices != 0 && slots.free & slices == 0,
            None => slices == 0 && gpu.free + per_gpu <= WHOLE_GPU,
        })
    }

    /// Whether these are as many as a shape asks for, and the node has them, each like this.
    fn suit(&self, node: &Node, shape: &Shape, mut each: impl FnMut(&Gpu, u8) -> bool) -> bool {
        let right = match (shape.gpus, self) {
            (Ask::Nothing, Self::None) | (Ask::Part(_), Self::Part(_)) => true,
            (Ask::Whole { count, .. }, Self::Whole(bits)) => bits.count_ones() == count,
            (Ask::Instance(profile), Self::Instance(_, start)) => profile.slices(u32::from(*start)).is_some(),
            _ => false,
        };
        let slices = self.slices(shape);
        let found = |index| usize::try_from(index).ok().and_then(|index: usize| node.gpus.get(index));
        right
            && self.indices().all(|index| found(index).is_some_and(|gpu| each(gpu, slices)))
            && (matches!(self, Self::None) || self.indices().next().is_some())
    }

    /// The memory slices of an instance; none of anything else.
    fn slices(self, shape: &Shape) -> u8 {
        match (shape.gpus, self) {
            (Ask::Instance(profile), Self::Instance(_, start)) => {
                profile.slices(u32::from(start)).unwrap_or_default()
            }
            _ => 0,
        }
    }

    /// Changes each of them, with the slices that are taken of it.
    pub(super) fn each(&self, node: &mut Node, shape: &Shape, mut change: impl FnMut(&mut Gpu, u8)) {
        let slices = self.slices(shape);
        for index in self.indices() {
            if let Some(gpu) = usize::try_from(index).ok().and_then(|index| node.gpus.get_mut(index)) {
                change(gpu, slices);
            }
        }
    }
}

/// How many GPUs are idle in each island.
pub(super) fn islands(node: &Node) -> impl Iterator<Item = u32> {
    node.gpus.iter().enumerate().filter_map(|(index, gpu)| {
        // Once an island: where it is seen first.
        let earlier = node.gpus.iter().take(index).any(|other| other.island == gpu.island);
        (!earlier).then(|| idle(node, |other| other.island == gpu.island).count_ones())
    })
}

/// How many GPUs are idle in the island with the most.
pub(super) fn largest_island(node: &Node) -> u32 {
    islands(node).max().unwrap_or_default()
}

/// The idle GPUs of which this holds, as bits.
fn idle(node: &Node, member: impl Fn(&Gpu) -> bool) -> u64 {
    let bits = node.gpus.iter().zip(0..u64::BITS).filter(|(gpu, _)| gpu.is_idle() && member(gpu));
    bits.fold(0, |bits, (_, index)| bits | 1 << index)
}

/// What a group of GPUs has in common.
type Common = fn(&Gpu) -> u8;

/// The groups, and what it costs a task to be spread no farther than one of them.
const GROUPS: [(Common, u32); 3] = [(|gpu| gpu.root, 0), (|gpu| gpu.island, 0), (|gpu| gpu.numa, 1)];

/// The whole GPUs for a task, and the cost of how they are joined: 0 for a PCIe root or an NVLink island, 1 for a NUMA
/// node, 2 for less, and 1 more where NVLink was preferred and there is none. `None` if there are not enough.
pub(super) fn whole(node: &Node, count: u32, link: Link) -> Option<(u64, u32)> {
    let all = idle(node, |_| true);
    if all.count_ones() < count {
        return None;
    }
    let [root, island, numa] = GROUPS;
    let order = match link {
        Link::Any => [root, island, numa],
        Link::Preferred | Link::Required => [island, root, numa],
    };
    for (at, (key, cost)) in order.into_iter().enumerate() {
        if let Some(group) = tightest(node, key, count) {
            let missed = u32::from(link == Link::Preferred && at > 0);
            return Some((first(group, count), cost + missed));
        }
        if link == Link::Required {
            return None;
        }
    }
    Some((fullest_first(node, order[0].0, count), 2 + u32::from(link == Link::Preferred)))
}

/// The group with the fewest idle GPUs that has enough of them, as bits.
fn tightest(node: &Node, key: Common, count: u32) -> Option<u64> {
    let groups = node.gpus.iter().map(|gpu| idle(node, |other| key(other) == key(gpu)));
    groups
        .filter(|bits| bits.count_ones() >= count)
        .min_by_key(|bits| (bits.count_ones(), bits.trailing_zeros()))
}

/// So many GPUs, from the group with the fewest idle ones on.
fn fullest_first(node: &Node, key: Common, count: u32) -> u64 {
    let mut chosen: u64 = 0;
    while chosen.count_ones() < count {
        let groups = node.gpus.iter().map(|gpu| idle(node, |other| key(other) == key(gpu)) & !chosen);
        let next =
            groups.filter(|bits| *bits != 0).min_by_key(|bits| (bits.count_ones(), bits.trailing_zeros()));
        let Some(next) = next else { break };
        chosen |= first(next, count - chosen.count_ones());
    }
    chosen
}

/// The first so many of these.
fn first(mut bits: u64, count: u32) -> u64 {
    while bits.count_ones() > count {
        bits &= !(1 << (u64::BITS - 1 - bits.leading_zeros()));
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{Profile, Slots, node::GpuKind};

    /// A node like a two-socket server: GPUs 0-3 and 4-7 near each socket, two of them on each PCIe root.
    fn server(islands: [u8; 8], busy: &[usize]) -> Node {
        let mut node =
            Node::idle("n", GpuKind { model: "A100".into(), memory: 81_920 }, 8, 96_000, 1_000_000);
        for (index, gpu) in node.gpus.iter_mut().enumerate() {
            let index8 = u8::try_from(index).unwrap();
            *gpu = Gpu { island: islands[index], root: index8 / 2, numa: index8 / 4, ..Gpu::IDLE };
            if busy.contains(&index) {
                gpu.free = 0;
            }
        }
        node
    }

    const PAIRS: [u8; 8] = [0, 0, 1, 1, 2, 2, 3, 3];
    const SWITCHED: [u8; 8] = [0; 8];

    #[test]
    fn whole_gpus_come_from_the_smallest_group_that_has_enough() {
        for (busy, count, want, cost) in [
            (&[][..], 2, 0b11, 0),
            (&[0], 1, 0b10, 0),              // the rest of a broken pair
            (&[0, 2, 4], 2, 0b1100_0000, 0), // the only pair that is left
            (&[0, 2, 4, 6], 2, 0b1010, 1),   // no pair is left: near one socket
            (&[], 4, 0b1111, 1),
            (&[0], 4, 0b1111_0000, 1),
            (&[0, 4], 6, 0b1110_1110, 2),
            (&[0, 4], 5, 0b0110_1110, 2),
        ] {
            assert_eq!(whole(&server(PAIRS, busy), count, Link::Any), Some((want, cost)), "{busy:?} {count}");
        }
        assert_eq!(whole(&server(PAIRS, &[0]), 8, Link::Any), None);
    }

    #[test]
    fn who_requires_nvlink_gets_one_island_or_nothing() {
        assert_eq!(whole(&server(SWITCHED, &[0, 4]), 6, Link::Required), Some((0b1110_1110, 0)));
        assert_eq!(whole(&server(PAIRS, &[]), 2, Link::Required), Some((0b11, 0)));
        assert_eq!(whole(&server(PAIRS, &[]), 3, Link::Required), None);
        assert_eq!(
            whole(&server(PAIRS, &[]), 3, Link::Preferred),
            Some((0b111, 2)),
            "one NUMA node, and no island"
        );
    }

    #[test]
    fn what_is_taken_is_given_back_and_nothing_is_taken_twice() {
        let shape = Shape::new(1000, 1000, Ask::Whole { count: 2, memory: 0 });
        let mut node = server(PAIRS, &[]);
        let before = node.clone();
        assert!(node.take(&shape, 1000, &Devices::Whole(0b11)));
        assert!(!node.take(&shape, 1000, &Devices::Whole(0b11)), "it is taken");
        assert!(!node.take(&shape, 1000, &Devices::Whole(0b100)), "too few");
        assert!(!node.take(&shape, 1000, &Devices::Whole(1 << 63 | 0b100)), "it has no GPU 63");
        assert!(!node.give(&shape, 1000, &Devices::Whole(0b1100)), "that was not taken");
        assert!(!node.give(&shape, 1000, &Devices::None));
        assert!(node.give(&shape, 1000, &Devices::Whole(0b11)));
        assert!(!node.give(&shape, 1000, &Devices::Whole(0b11)));
        assert_eq!(node, before);
    }

    #[test]
    fn an_instance_takes_its_slices_and_no_others() {
        let mut node = server(SWITCHED, &[]);
        node.gpus[3].slots = Some(Slots::ALL);
        let shape = Shape::new(0, 0, Ask::Instance(Profile { size: 4, starts: 0b1_0001 }));
        assert!(!node.take(&shape, 500, &Devices::Instance(2, 0)), "GPU 2 is not in MIG mode");
        assert!(!node.take(&shape, 500, &Devices::Instance(3, 2)), "it may not begin there");
        assert!(node.take(&shape, 500, &Devices::Instance(3, 4)));
        assert_eq!((node.gpus[3].free, node.gpus[3].slots), (500, Some(Slots { free: 0b1111 })));
        assert!(!node.take(&shape, 500, &Devices::Instance(3, 4)));
        assert_eq!(node.count(&shape, 500, 9), 1);
        assert!(node.give(&shape, 500, &Devices::Instance(3, 4)));
        assert_eq!(node.gpus[3].free, 1000);
        let whole = Shape::new(0, 0, Ask::Whole { count: 8, memory: 0 });
        assert!(!node.fits(&whole, 1000), "a GPU in MIG mode is nobody's alone");
    }
}
