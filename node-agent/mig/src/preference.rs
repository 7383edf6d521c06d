//! Which of two arrangements is the better one, where both serve.
//!
//! The better one leaves room for more instances of the largest size; then for more of the next size, and so on. Where
//! that does not decide, 1g and 3g go to high places and 2g and 4g to low ones, so that a 4g, which can only begin at 0,
//! stays possible beside a 3g or single slices.

use crate::{geometry::Geometry, layout::Instance, occupancy::Occupancy};

/// How good an arrangement is: the greater the better. Comparable among arrangements of the same profiles.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Preference {
    /// How many more there could be of each size, the largest first.
    room: Vec<u32>,
    /// For each instance, the largest first, its place, counted from where its profile would rather be.
    places: Vec<i16>,
}

impl Preference {
    /// That of `instances`, which take `occupancy`.
    pub(crate) fn of(geometry: &Geometry, occupancy: &Occupancy, instances: &[Instance]) -> Self {
        let mut sizes: Vec<u8> = geometry.profiles().iter().map(|profile| profile.memory_slices).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.dedup();
        let room = sizes.into_iter().map(|size| more(geometry, occupancy, size)).collect();
        let mut sorted: Vec<_> =
            instances.iter().map(|instance| (instance.profile, instance.start)).collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let towards = |slices: u8, start: u8| if slices % 2 == 1 { start.into() } else { -i16::from(start) };
        let places = sorted.into_iter().map(|(profile, start)| towards(profile.slices(), start)).collect();
        Self { room, places }
    }
}

/// How many more instances with `size` memory slices there could be, of whichever profiles.
fn more(geometry: &Geometry, occupancy: &Occupancy, size: u8) -> u32 {
    let alike = geometry.profiles().iter().filter(|profile| profile.memory_slices == size);
    let mut places: Vec<_> = alike
        .flat_map(|profile| {
            profile.starts.iter().map(|&start| (start, profile.compute_slices(), profile.name))
        })
        .collect();
    // At each place the one that needs the least compute.
    places.sort_unstable();
    let (mut occupancy, mut count) = (*occupancy, 0);
    for (start, _, profile) in places {
        if let Some(next) = occupancy.add(geometry, Instance::new(profile, start)) {
            occupancy = next;
            count += 1;
        }
    }
    count
}
