//! Which of two arrangements is the better one, where both serve.
//!
//! The better one leaves room for more instances of the largest size; then for more of the next size, and so on. Where
//! that does not decide, 1g and 3g go to high places and 2g and 4g to low ones, so that a 4g, which can only begin at 0,
//! stays possible beside a 3g or single slices.

use crate::{
    geometry::{Geometry, MOST_SLICES},
    layout::Instance,
    name::ProfileName,
    occupancy::Occupancy,
};

/// There are no more instances than memory slices, and no more sizes.
const MOST: usize = MOST_SLICES as usize;

/// How good an arrangement is: the greater the better. Comparable among arrangements of the same profiles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Preference {
    /// How many more there could be of each size, the largest first.
    room: [u8; MOST],
    /// For each instance, the largest first, its place, counted from where its profile would rather be.
    places: [i16; MOST],
}

impl Preference {
    /// That of `instances`, which take `occupancy`.
    pub(crate) fn of(geometry: &Geometry, occupancy: &Occupancy, instances: &[Instance]) -> Self {
        let mut room = [0; MOST];
        for (more, places) in room.iter_mut().zip(geometry.sizes()) {
            *more = occupancy.more(geometry, places);
        }
        let mut sorted: [Option<(ProfileName, u8)>; MOST] = [None; MOST];
        for (slot, instance) in sorted.iter_mut().zip(instances) {
            *slot = Some((instance.profile, instance.start));
        }
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let towards = |slices: u8, start: u8| if slices % 2 == 1 { start.into() } else { -i16::from(start) };
        let place = |(profile, start): (ProfileName, u8)| towards(profile.slices(), start);
        Self { room, places: sorted.map(|one| one.map(place).unwrap_or_default()) }
    }
}
