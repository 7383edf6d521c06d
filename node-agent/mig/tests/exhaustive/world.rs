//! All layouts of a geometry, found by trying: every set of instances is put before [`Layout::new`], which knows nothing
//! of how the planner searches.

use std::collections::{BTreeMap, BTreeSet};

use whalezen_mig::{
    Counts, Existing, Geometry, Instance, Layout, Refusal, Step, Wanted, make_room, transition,
};

/// A set of places, a bit for each of [`World::places`].
pub(crate) type Set = u32;

/// All layouts of a geometry.
pub(crate) struct World {
    pub(crate) geometry: Geometry,
    places: Vec<Instance>,
    pub(crate) states: BTreeSet<Set>,
    pub(crate) by_counts: BTreeMap<Counts, Vec<Set>>,
}

impl World {
    pub(crate) fn of(geometry: Geometry) -> Self {
        let mut places: Vec<_> = geometry
            .profiles()
            .iter()
            .flat_map(|profile| profile.starts.iter().map(|&start| Instance::new(profile.name, start)))
            .collect();
        places.sort_unstable();
        let mut world = Self { geometry, places, states: BTreeSet::new(), by_counts: BTreeMap::new() };
        world.grow(0, 0);
        for &state in &world.states {
            let counts = world.counts(state);
            world.by_counts.entry(counts).or_default().push(state);
        }
        world
    }

    fn grow(&mut self, state: Set, from: usize) {
        self.states.insert(state);
        for index in from..self.places.len() {
            let next = state | 1 << index;
            if Layout::new(&self.geometry, self.instances(next)).is_ok() {
                self.grow(next, index + 1);
            }
        }
    }

    pub(crate) fn instances(&self, set: Set) -> Vec<Instance> {
        self.places.iter().enumerate().filter(|(index, _)| set & 1 << index != 0).map(|(_, &i)| i).collect()
    }

    pub(crate) fn set(&self, instances: &[Instance]) -> Set {
        instances.iter().map(|instance| 1 << self.places.binary_search(instance).unwrap()).sum()
    }

    fn counts(&self, set: Set) -> Counts {
        self.instances(set).into_iter().map(|instance| (instance.profile, 1)).collect()
    }

    pub(crate) fn existing(&self, state: Set, busy: Set) -> Vec<Existing> {
        let existing = |instance| Existing { instance, busy: busy & self.set(&[instance]) != 0 };
        self.instances(state).into_iter().map(existing).collect()
    }

    fn maximal(&self) -> Vec<Set> {
        let grows = |state: Set| {
            (0..self.places.len()).any(|i| state & 1 << i == 0 && self.states.contains(&(state | 1 << i)))
        };
        self.states.iter().copied().filter(|&state| !grows(state)).collect()
    }

    /// States, maximal layouts, multisets, and multisets of maximal layouts.
    pub(crate) fn numbers(&self) -> [usize; 4] {
        let maximal = self.maximal();
        let multisets: BTreeSet<_> = maximal.iter().map(|&state| self.counts(state)).collect();
        [self.states.len(), maximal.len(), self.by_counts.len(), multisets.len()]
    }

    /// The layouts that a plan for `wanted` may end in: busy instances stay, and beyond what is wanted of their profile
    /// they are extra.
    fn ends(&self, busy: Set, wanted: &Counts) -> Vec<Set> {
        let held = self.counts(busy);
        let mut all = wanted.clone();
        for (profile, count) in held.iter() {
            all.add(profile, count.saturating_sub(wanted.get(profile)));
        }
        let ends = self.by_counts.get(&all).into_iter().flatten().copied();
        ends.filter(|end| end & busy == busy).collect()
    }

    /// Carries `steps` out, with a look at each state in between.
    pub(crate) fn carry_out(&self, state: Set, busy: Set, steps: &[Step]) -> Set {
        let mut now = state;
        for step in steps {
            match step {
                Step::Destroy(instance) => {
                    let gone = self.set(&[*instance]);
                    assert!(now & gone != 0, "{step}, which is not there");
                    assert!(busy & gone == 0, "{step}, which is busy");
                    now &= !gone;
                }
                Step::Create(instance) => {
                    let new = self.set(&[*instance]);
                    assert!(now & new == 0, "{step}, which is there");
                    now |= new;
                }
            }
            assert!(self.states.contains(&now), "{step} makes what cannot be");
        }
        now
    }

    /// Holds a plan for `wanted` against all there could be.
    pub(crate) fn try_counts(&self, state: Set, busy: Set, wanted: &Counts) {
        let ends = self.ends(busy, wanted);
        let shortest = ends.iter().map(|end| (end ^ state).count_ones()).min();
        let said =
            || format!("{:?}, busy {:?}, wanted {wanted}", self.instances(state), self.instances(busy));
        match transition(&self.geometry, &self.existing(state, busy), &Wanted::Counts(wanted.clone())) {
            Ok(plan) => {
                let end = self.carry_out(state, busy, &plan.steps);
                assert_eq!(self.set(plan.layout.instances()), end, "{}", said());
                assert!(ends.contains(&end), "{}", said());
                assert_eq!(u32::try_from(plan.steps.len()).ok(), shortest, "{}", said());
                assert_eq!(self.counts(end & !self.set(&plan.lingering)), *wanted, "{}", said());
                assert_eq!(self.set(&plan.lingering) & !busy, 0, "{}", said());
            }
            Err(Refusal::InTheWay(blocking)) => {
                assert_eq!(shortest, None, "{}", said());
                let blocking = self.set(&blocking);
                assert!(blocking != 0 && blocking & !busy == 0, "{}", said());
                assert!(!self.ends(busy & !blocking, wanted).is_empty(), "{}: not only {blocking:b}", said());
            }
            Err(other) => panic!("{}: {other}", said()),
        }
    }

    /// Holds room for one more against all there could be.
    pub(crate) fn try_room(&self, state: Set, busy: Set) {
        let idle = state & !busy;
        for profile in self.geometry.profiles().iter().map(|profile| profile.name) {
            let places: Vec<Set> =
                self.places.iter().filter(|p| p.profile == profile).map(|p| self.set(&[*p])).collect();
            let existing = self.existing(state, busy);
            let cost = |place: Set| {
                let kept = subsets(idle & !place).filter(|kept| self.states.contains(&(busy | place | kept)));
                kept.map(|kept| (idle & !place & !kept).count_ones()).min()
            };
            let free = places.iter().filter(|&&place| busy & place == 0);
            let cheapest = if places.iter().any(|place| idle & place != 0) {
                Some(0)
            } else {
                free.filter_map(|&place| cost(place)).min()
            };
            match make_room(&self.geometry, &existing, profile) {
                Ok(room) => {
                    let end = self.carry_out(state, busy, &room.steps());
                    assert_eq!(end & self.set(&[room.instance]), self.set(&[room.instance]));
                    assert_eq!(u32::try_from(room.destroyed.len()).ok(), cheapest);
                }
                Err(Refusal::InTheWay(blocking)) => {
                    assert_eq!(cheapest, None);
                    let rest = busy & !self.set(&blocking);
                    assert!(places.iter().any(|place| self.states.contains(&(rest | place))));
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// Every subset of `set`, itself and nothing included.
pub(crate) fn subsets(set: Set) -> impl Iterator<Item = Set> {
    std::iter::successors(Some(set), move |&subset| (subset != 0).then(|| (subset - 1) & set))
}
