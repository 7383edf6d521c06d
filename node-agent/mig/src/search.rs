//! Where instances could be put, tried one after the other. A GPU has so few places that trying them all is quick.

use crate::{
    geometry::{Geometry, MOST_SLICES, Place},
    layout::{Counts, Instance, Layout},
    name::ProfileName,
    occupancy::Occupancy,
    preference::Preference,
};

/// Every way to take some of `instances` out, with what remains: none first, then one, and so on.
pub(crate) fn subsets(instances: &[Instance]) -> impl Iterator<Item = (Vec<Instance>, Vec<Instance>)> {
    let count = instances.len().min(MOST_SLICES.into());
    let mut sets: Vec<u32> = (0..1_u32 << count).collect();
    sets.sort_by_key(|set| set.count_ones());
    sets.into_iter().map(move |set| {
        let bits = (0..u32::BITS).map(|bit| set & (1 << bit) != 0);
        let (out, rest): (Vec<_>, Vec<_>) = instances.iter().zip(bits).partition(|(_, out)| *out);
        let plain =
            |these: Vec<(&Instance, bool)>| these.into_iter().map(|(&instance, _)| instance).collect();
        (plain(out), plain(rest))
    })
}

/// Every layout that a GPU can have, that with nothing first. There are a few hundred for a GPU of today.
pub fn layouts(geometry: &Geometry) -> Vec<Layout> {
    let profiles = geometry.profiles().iter();
    let places: Vec<_> =
        profiles.flat_map(|p| p.starts.iter().map(|&start| Instance::new(p.name, start))).collect();
    let mut all = vec![(Vec::new(), Occupancy::default())];
    for place in places {
        let with = |(instances, occupancy): &(Vec<Instance>, Occupancy)| {
            let occupancy = occupancy.add(geometry, place)?;
            Some((instances.iter().copied().chain([place]).collect(), occupancy))
        };
        let more: Vec<_> = all.iter().filter_map(with).collect();
        all.extend(more);
    }
    all.into_iter().map(|(instances, _)| Layout::of_fitting(instances)).collect()
}

/// The search for an arrangement: what is busy stands, the rest is put in every place it can have.
pub(crate) struct Search<'a> {
    geometry: &'a Geometry,
    existing: &'a [Instance],
    occupancy: Occupancy,
    instances: Vec<Instance>,
    /// How many of them are busy; the others were put there by the search.
    standing: usize,
    /// What is still to be put somewhere, the largest last.
    left: Vec<ProfileName>,
}

/// The best arrangement so far.
struct Best {
    kept: usize,
    preference: Preference,
    instances: Vec<Instance>,
}

impl<'a> Search<'a> {
    /// `None` if what is busy cannot exist together.
    pub(crate) fn new(
        geometry: &'a Geometry,
        existing: &'a [Instance],
        busy: &[Instance],
        wanted: &Counts,
    ) -> Option<Self> {
        let occupancy = Occupancy::of(geometry, busy)?;
        let mut left = Vec::new();
        for (name, count) in wanted.iter() {
            let there = busy.iter().filter(|instance| instance.profile == name).count();
            left.extend((there..count as usize).map(|_| name));
        }
        Some(Self { geometry, existing, occupancy, instances: busy.to_vec(), standing: busy.len(), left })
    }

    /// Any arrangement at all.
    pub(crate) fn any(mut self) -> Option<Vec<Instance>> {
        self.visit(&mut |_| true).then_some(self.instances)
    }

    /// The arrangement that keeps the most of what exists, and the better one of those.
    pub(crate) fn best(mut self) -> Option<Vec<Instance>> {
        let mut best: Option<Best> = None;
        self.visit(&mut |search| {
            let kept = search.instances.iter().filter(|instance| search.existing.contains(instance)).count();
            if best.as_ref().is_some_and(|best| best.kept > kept) {
                return false;
            }
            let preference = Preference::of(search.geometry, &search.occupancy, &search.instances);
            if best.as_ref().is_none_or(|best| (best.kept, &best.preference) < (kept, &preference)) {
                best = Some(Best { kept, preference, instances: search.instances.clone() });
            }
            false
        });
        best.map(|best| best.instances)
    }

    /// Shows `visit` every arrangement until it says that it has seen enough; gives whether it did.
    fn visit(&mut self, visit: &mut impl FnMut(&Self) -> bool) -> bool {
        let Some(name) = self.left.pop() else { return visit(self) };
        let Some(index) = self.geometry.index(name) else { return false };
        // Of one profile the next comes after the one before, so that each arrangement is seen once.
        let put = self.instances.get(self.standing..).and_then(<[Instance]>::last);
        let after = put.filter(|put| put.profile == name).map(|put| put.start);
        let starts =
            self.geometry.profiles().get(index).map(|profile| profile.starts.as_slice()).unwrap_or_default();
        let before = self.occupancy;
        for &start in starts.iter().filter(|&&start| after.is_none_or(|after| start > after)) {
            let place = Place { profile: index, start };
            let Some(occupancy) = before.add_at(self.geometry, place) else { continue };
            self.occupancy = occupancy;
            self.instances.push(Instance::new(name, start));
            if self.visit(visit) {
                return true;
            }
            self.instances.pop();
        }
        self.occupancy = before;
        self.left.push(name);
        false
    }
}
