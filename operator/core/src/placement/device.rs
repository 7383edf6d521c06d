//! A GPU: how much of it is free, what it is joined to, and its slots where MIG cuts it up.

use serde::{Deserialize, Serialize};

use super::WHOLE_GPU;

/// How many memory slices MIG cuts a GPU into.
const SLICES: u32 = 8;

/// A MIG profile as far as placement is concerned: how many memory slices an instance takes, and where it may begin. Two
/// instances may stand beside each other if and only if their memory slices do not overlap, on every model that has MIG.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// Memory slices, 1 to 8.
    pub size: u8,
    /// Bit `n` is set where an instance may begin at slice `n`.
    pub starts: u8,
}

impl Profile {
    /// The slices that an instance takes which begins at `start`; `None` if it may not begin there.
    pub(super) fn slices(self, start: u32) -> Option<u8> {
        let end = start.checked_add(u32::from(self.size))?;
        let may_begin = start < SLICES && self.starts >> start & 1 == 1;
        if !may_begin || self.size == 0 || end > SLICES {
            return None;
        }
        u8::try_from(((1_u32 << self.size) - 1) << start).ok()
    }
}

/// The memory slices of a GPU in MIG mode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Slots {
    /// Bit `n` is set where slice `n` is free.
    pub free: u8,
}

impl Slots {
    /// All slices free.
    pub const ALL: Self = Self { free: u8::MAX };

    /// Where an instance of this profile would begin; `None` if there is no room for it. It is put where the aligned
    /// block of twice its size is fullest, and so on with blocks of four times and more, as buddies are chosen, so that
    /// large profiles keep their room; between equals where the highest slice is, because the largest profiles may begin
    /// at slice 0 only.
    pub fn start(self, profile: Profile) -> Option<u8> {
        let fits = |start: &u32| profile.slices(*start).is_some_and(|slices| self.free & slices == slices);
        let start = (0..SLICES).filter(fits).max_by_key(|start| {
            let block = |size: u32| {
                let from = start / size * size;
                let mask = ((1_u32 << size) - 1) << from;
                std::cmp::Reverse((u32::from(self.free) & mask).count_ones())
            };
            (block(2), block(4), block(8), *start)
        })?;
        u8::try_from(start).ok()
    }

    /// How much of the GPU is free, in thousandths.
    pub fn milli(self) -> u32 {
        self.free.count_ones() * WHOLE_GPU / SLICES
    }
}

/// One GPU of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Gpu {
    /// How much of it is free, in thousandths; of a GPU in MIG mode as much as its free slots are.
    pub free: u32,
    /// Its slots, if it is in MIG mode. Then it takes instances only, and else none.
    pub slots: Option<Slots>,
    /// Which GPUs of the node it is joined to by NVLink: those of the same island.
    pub island: u8,
    /// The PCIe root that it hangs on.
    pub root: u8,
    /// The NUMA node that it is near.
    pub numa: u8,
}

impl Gpu {
    /// A GPU of which all is free, on a node where all GPUs are joined alike.
    pub const IDLE: Self = Self { free: WHOLE_GPU, slots: None, island: 0, root: 0, numa: 0 };

    /// Whether a task may have it for itself.
    pub fn is_idle(&self) -> bool {
        self.slots.is_none() && self.free == WHOLE_GPU
    }

    /// How much a task can have of it that takes a part, in thousandths.
    pub fn part(&self) -> u32 {
        if self.slots.is_some() { 0 } else { self.free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Profile = Profile { size: 1, starts: 0b0111_1111 };
    const TWO: Profile = Profile { size: 2, starts: 0b0001_0101 };
    const THREE: Profile = Profile { size: 4, starts: 0b0001_0001 };
    const FOUR: Profile = Profile { size: 4, starts: 0b0000_0001 };
    const SEVEN: Profile = Profile { size: 8, starts: 0b0000_0001 };

    fn fill(profiles: &[Profile]) -> Vec<Option<u8>> {
        let mut slots = Slots::ALL;
        let mut starts = Vec::new();
        for profile in profiles {
            let start = slots.start(*profile);
            if let Some(taken) = start.and_then(|start| profile.slices(start.into())) {
                slots.free &= !taken;
            }
            starts.push(start);
        }
        starts
    }

    #[test]
    fn small_instances_leave_the_low_slices_to_large_ones() {
        assert_eq!(fill(&[ONE, ONE, ONE, FOUR]), [Some(6), Some(5), Some(4), Some(0)]);
        assert_eq!(fill(&[THREE, FOUR]), [Some(4), Some(0)]);
        assert_eq!(
            fill(&[TWO, TWO, TWO, TWO]),
            [Some(4), Some(2), Some(0), None],
            "slices 6 and 7 are no place"
        );
        assert_eq!(fill(&[SEVEN, ONE]), [Some(0), None]);
        assert_eq!(fill(&[ONE, SEVEN]), [Some(6), None]);
    }

    #[test]
    fn seven_of_the_smallest_fit_and_an_eighth_has_no_place() {
        assert_eq!(fill(&[ONE; 8]).iter().flatten().count(), 7);
    }

    #[test]
    fn a_profile_that_makes_no_sense_fits_nowhere() {
        for profile in [
            Profile { size: 0, starts: 1 },
            Profile { size: 9, starts: 1 },
            Profile { size: 4, starts: 0b1110_0000 },
        ] {
            assert_eq!(Slots::ALL.start(profile), None, "{profile:?}");
        }
    }

    #[test]
    fn free_slots_are_eighths_of_a_gpu() {
        assert_eq!(Slots::ALL.milli(), 1000);
        assert_eq!(Slots { free: 0b1110 }.milli(), 375);
    }
}
