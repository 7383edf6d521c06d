//! The places that there would be with no workload anywhere, once they were looked for.
//!
//! Whoever lacks quota is asked again and again whether the nodes would have a place, and the answer is the same until the
//! nodes change or a pod that no placement accounts for comes or goes.

use std::{collections::BTreeMap, sync::Mutex};

use super::{Ask, Misfit, Placement, Profile};

/// How many domains all places together may have before they are forgotten.
const MOST_SPOTS: usize = 1 << 16;

type Found = Result<Vec<Placement>, Misfit>;

/// What was found. It follows from the trees, so it is no part of what they are: a clone knows nothing yet, and all are
/// equal.
#[derive(Debug, Default)]
pub(super) struct Alone(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    found: BTreeMap<Profile, BTreeMap<Vec<Ask>, Found>>,
    /// How many domains they have, and one more each.
    spots: usize,
}

impl Alone {
    /// What is found for these, if need be by looking.
    pub(super) fn find(&self, asks: &[Ask], profile: Profile, look: impl FnOnce() -> Found) -> Found {
        let known = self.0.lock().ok();
        if let Some(found) = known.as_ref().and_then(|known| known.found.get(&profile)?.get(asks)) {
            return found.clone();
        }
        drop(known);
        let found = look();
        if let Ok(mut known) = self.0.lock() {
            let spots = found.iter().flatten().map(|placement| placement.spots.len()).sum::<usize>() + 1;
            if known.spots + spots > MOST_SPOTS {
                *known = Known::default();
            }
            known.spots += spots;
            known.found.entry(profile).or_default().insert(asks.to_vec(), found.clone());
        }
        found
    }

    /// The trees are others now.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether `look` finds the same for all that is known.
    pub(super) fn holds(&self, look: impl Fn(&[Ask], Profile) -> Found) -> bool {
        let known = self.0.lock().ok();
        let all = known.iter().flat_map(|known| &known.found);
        all.flat_map(|(profile, of)| of.iter().map(move |(asks, found)| (asks, *profile, found)))
            .all(|(asks, profile, found)| look(asks, profile) == *found)
    }
}

impl Clone for Alone {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Alone {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Alone {}
