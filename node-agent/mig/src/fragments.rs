//! How broken up a GPU is by what is on it.
//!
//! Free slices are not free for everything: two 3g leave a compute slice that no instance can have, seven 1g leave a
//! memory slice. Those are *stranded*. Of the others it matters how large an instance they could still make.

use crate::{
    geometry::{Geometry, Place, Profile},
    layout::{Counts, Layout, LayoutError},
    name::ProfileName,
    occupancy::Occupancy,
};

/// What is left of a GPU, and what it is good for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fragments {
    /// Memory slices that no instance takes.
    pub free_memory: u32,
    /// Compute slices that no instance takes.
    pub free_compute: u32,
    /// Of those, compute slices that stay free however the GPU is filled up.
    pub stranded_compute: u32,
    /// Memory slices that stay free where it is filled up so that no other compute slices do, and as few as can be.
    pub stranded_memory: u32,
    /// How many of each profile there could be beside what is there, if no other were made. A profile of which there
    /// could be none is not there.
    pub possible: Counts,
    /// How broken up what is free is, in thousandths: the part of the free slices (of memory and compute together)
    /// that the largest instance which could still be made leaves free. It is 0 on an empty GPU and on a full one, and
    /// 1000 where slices are free and nothing can be made of them.
    pub broken: u32,
}

impl Fragments {
    /// Those of a GPU with `layout` on it.
    pub fn of(geometry: &Geometry, layout: &Layout) -> Result<Self, LayoutError> {
        // Whoever made the layout may have had another geometry.
        let layout = Layout::new(geometry, layout.instances().iter().copied())?;
        let occupancy = Occupancy::of(geometry, layout.instances()).unwrap_or_default();
        let (free_memory, free_compute) = (occupancy.free_memory(geometry), occupancy.free_compute(geometry));
        let (compute, memory) = fullest(geometry, &occupancy, 0);
        let possible: Counts = counts(geometry, &occupancy);
        let largest = possible.iter().filter_map(|(name, _)| geometry.profile(name)).map(weight).max();
        let free = free_memory + free_compute;
        let left = free.saturating_sub(largest.unwrap_or_default());
        Ok(Self {
            free_memory,
            free_compute,
            stranded_memory: memory,
            stranded_compute: compute,
            possible,
            broken: (left * 1000).checked_div(free).unwrap_or_default(),
        })
    }

    /// How many more of `profile` there could be.
    pub fn possible(&self, profile: ProfileName) -> u32 {
        self.possible.get(profile.gpu_instance())
    }
}

fn counts(geometry: &Geometry, occupancy: &Occupancy) -> Counts {
    let more = |(index, profile): (usize, &Profile)| {
        let places: Vec<_> = profile.starts.iter().map(|&start| Place { profile: index, start }).collect();
        (profile.name, occupancy.more(geometry, &places).into())
    };
    geometry.profiles().iter().enumerate().map(more).collect()
}

fn weight(profile: &Profile) -> u32 {
    u32::from(profile.memory_slices) + u32::from(profile.compute_slices())
}

/// The compute and the memory slices that stay free where the GPU is filled up so that the fewest do: of compute first,
/// which is what a GPU is bought for. The first `tried` of all places that profiles have are not tried any more: in
/// what order a mix is made does not matter, so each is tried once.
fn fullest(geometry: &Geometry, occupancy: &Occupancy, tried: usize) -> (u32, u32) {
    let mut best = (occupancy.free_compute(geometry), occupancy.free_memory(geometry));
    for (index, &place) in geometry.sizes().iter().flatten().enumerate().skip(tried) {
        if best == (0, 0) {
            break;
        }
        if let Some(next) = occupancy.add_at(geometry, place) {
            best = best.min(fullest(geometry, &next, index + 1));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Model, testing::layout};

    fn of(model: Model, words: &str) -> Fragments {
        let geometry = model.geometry().unwrap();
        Fragments::of(&geometry, &layout(&geometry, words)).unwrap()
    }

    #[test]
    fn slices_that_nothing_can_be_made_of_are_stranded() {
        // (layout, free memory and compute, stranded memory and compute, how broken)
        let table = [
            ("", (8, 7), (0, 0), 0),
            ("7g.80gb@0", (0, 0), (0, 0), 0),
            ("3g.40gb@0 3g.40gb@4", (0, 1), (0, 1), 1000),
            ("1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6", (1, 0), (1, 0), 1000),
            ("4g.40gb@0", (4, 3), (0, 0), 0),
            ("1g.10gb@6", (7, 6), (1, 0), 384),
            ("1g.10gb@0 1g.10gb@4", (6, 5), (0, 0), 636),
        ];
        for (words, free, stranded, broken) in table {
            let fragments = of(Model::H100_80, words);
            assert_eq!((fragments.free_memory, fragments.free_compute), free, "{words}");
            assert_eq!((fragments.stranded_memory, fragments.stranded_compute), stranded, "{words}");
            assert_eq!(fragments.broken, broken, "{words}");
        }
    }

    #[test]
    fn what_is_possible_is_told_for_each_profile_alone() {
        let beside_3g = of(Model::A100_40, "3g.20gb@0").possible;
        assert_eq!(beside_3g.to_string(), "3×1g.5gb 1×1g.5gb+me 2×1g.10gb 1×2g.10gb 1×3g.20gb");
        assert_eq!(of(Model::A30, "1g.6gb+me@0").possible.to_string(), "3×1g.6gb 1×2g.12gb");
        assert_eq!(of(Model::A30, "1g.6gb@0").possible("2g.12gb+me".parse().unwrap()), 1);
    }

    #[test]
    fn a_layout_of_another_model_is_refused() {
        let layout = layout(&Model::A30.geometry().unwrap(), "1g.6gb@0");
        assert!(Fragments::of(&Model::H200.geometry().unwrap(), &layout).is_err());
    }
}
