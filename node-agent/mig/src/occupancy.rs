//! What of a GPU is taken: the sum of the instances on it, quick to extend and to ask.

use crate::{
    geometry::{Geometry, MOST_PROFILES, Place},
    layout::Instance,
};

/// What instances take together. One that is there can exist: what does not fit cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Occupancy {
    /// The memory slices, a bit each.
    memory: u16,
    /// How many compute slices.
    compute: u16,
    /// Whether the engines for media are claimed.
    media: bool,
    /// How many there are of each profile of the geometry.
    counts: [u8; MOST_PROFILES],
}

impl Occupancy {
    /// What `instances` take; `None` if they cannot exist together.
    pub(crate) fn of<'a>(
        geometry: &Geometry,
        instances: impl IntoIterator<Item = &'a Instance>,
    ) -> Option<Self> {
        instances
            .into_iter()
            .try_fold(Self::default(), |occupancy, &instance| occupancy.add(geometry, instance))
    }

    /// With `instance` as well, if it fits.
    pub(crate) fn add(&self, geometry: &Geometry, instance: Instance) -> Option<Self> {
        let profile = geometry.index(instance.profile)?;
        let starts = &geometry.profiles().get(profile)?.starts;
        let place = Place { profile, start: instance.start };
        if starts.contains(&instance.start) { self.add_at(geometry, place) } else { None }
    }

    /// With an instance at `place` as well, which is one of the geometry's, if it fits.
    pub(crate) fn add_at(&self, geometry: &Geometry, place: Place) -> Option<Self> {
        let profile = geometry.profiles().get(place.profile)?;
        let (memory, media) = (profile.mask(place.start), profile.name.extension().claims_media());
        let compute = self.compute + u16::from(profile.compute_slices());
        let enough = compute <= geometry.compute_slices().into();
        if self.memory & memory != 0 || !enough || self.media && media {
            return None;
        }
        let mut next = Self { memory: self.memory | memory, compute, media: self.media || media, ..*self };
        let count = next.counts.get_mut(place.profile)?;
        *count += 1;
        if *count > profile.max { None } else { Some(next) }
    }

    /// How many more instances there could be if `places` were taken in order.
    pub(crate) fn more(&self, geometry: &Geometry, places: &[Place]) -> u8 {
        let (mut occupancy, mut count) = (*self, 0);
        for &place in places {
            if let Some(next) = occupancy.add_at(geometry, place) {
                occupancy = next;
                count += 1;
            }
        }
        count
    }

    /// How many memory slices are free.
    pub(crate) fn free_memory(&self, geometry: &Geometry) -> u32 {
        u32::from(geometry.memory_slices()).saturating_sub(self.memory.count_ones())
    }

    /// How many compute slices are free.
    pub(crate) fn free_compute(&self, geometry: &Geometry) -> u32 {
        u32::from(geometry.compute_slices()).saturating_sub(self.compute.into())
    }
}
