//! From the instances that a GPU has to those that it should have.
//!
//! Nothing that is busy is touched, and nothing that is right already: what a plan destroys is what cannot stay. Where
//! only the numbers of instances are given, it is put where the most of what is there can stay, which makes the plan the
//! shortest there is; among equals the [better arrangement](crate::preference) wins. Everything is destroyed first and
//! created then, so what is there in between is a part of what was there or of what will be, and can exist.

use std::fmt;

use thiserror::Error;

use crate::{
    geometry::Geometry,
    layout::{Counts, Instance, Layout, LayoutError},
    name::ProfileName,
    occupancy::Occupancy,
    search::{Search, subsets},
};

/// An instance that a GPU has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Existing {
    /// What and where it is.
    pub instance: Instance,
    /// Whether somebody uses it or has it promised: it stays.
    pub busy: bool,
}

/// What a GPU should have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// These instances, each at its place.
    Placed(Vec<Instance>),
    /// So many of each profile, wherever they are.
    Counts(Counts),
}

/// One thing to do to a GPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// Destroy the instance that is there.
    Destroy(Instance),
    /// Create the instance there.
    Create(Instance),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Destroy(instance) => write!(f, "destroy {instance}"),
            Self::Create(instance) => write!(f, "create {instance}"),
        }
    }
}

/// What to do, in order, and what there will be then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transition {
    /// The steps. There are none where all is as it should be.
    pub steps: Vec<Step>,
    /// What there will be.
    pub layout: Layout,
    /// Of that, what is not wanted and stays because it is busy: when it is free, there is more to do.
    pub lingering: Vec<Instance>,
}

/// Why there is no way.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// What is wanted cannot exist on such a GPU.
    #[error("the wanted layout cannot be: {0}")]
    Impossible(#[source] LayoutError),
    /// Each of the profiles exists, but so many of them have no room together.
    #[error("the wanted layout cannot be: there is no room for {0} on one GPU of this model")]
    NoRoom(Counts),
    /// Busy instances are where the wanted ones would have to be.
    #[error("in use and in the way of the wanted layout: {}", list(.0))]
    InTheWay(Vec<Instance>),
    /// What is said to exist cannot exist on such a GPU: it is another GPU, or its geometry is not what it was.
    #[error("what exists does not fit this GPU: {0}")]
    Unlike(#[source] LayoutError),
}

fn list(instances: &[Instance]) -> String {
    instances.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The shortest way from `existing` to `wanted`.
pub fn transition(
    geometry: &Geometry,
    existing: &[Existing],
    wanted: &Wanted,
) -> Result<Transition, Refusal> {
    let before = Layout::new(geometry, existing.iter().map(|e| e.instance)).map_err(Refusal::Unlike)?;
    let mut busy: Vec<_> = existing.iter().filter(|e| e.busy).map(|e| e.instance).collect();
    busy.sort_unstable();
    let (after, lingering) = match wanted {
        Wanted::Placed(instances) => placed(geometry, &busy, instances)?,
        Wanted::Counts(counts) => counted(geometry, before.instances(), &busy, counts)?,
    };
    let (old, new) = (before.instances(), after.instances());
    let destroyed = old.iter().filter(|instance| !new.contains(instance)).copied().map(Step::Destroy);
    let created = new.iter().filter(|instance| !old.contains(instance)).copied().map(Step::Create);
    Ok(Transition { steps: destroyed.chain(created).collect(), layout: after, lingering })
}

/// `wanted` and what is busy beside it.
fn placed(
    geometry: &Geometry,
    busy: &[Instance],
    wanted: &[Instance],
) -> Result<(Layout, Vec<Instance>), Refusal> {
    let wanted = Layout::new(geometry, wanted.iter().copied()).map_err(Refusal::Impossible)?;
    let others: Vec<_> =
        busy.iter().filter(|instance| !wanted.instances().contains(instance)).copied().collect();
    let beside =
        |others: &[Instance]| Occupancy::of(geometry, wanted.instances().iter().chain(others)).is_some();
    if !beside(&others) {
        return Err(Refusal::InTheWay(fewest(&others, beside)));
    }
    let all = wanted.instances().iter().chain(&others).copied().collect();
    Ok((Layout::of_fitting(all), others))
}

/// An arrangement with `wanted` that keeps what is busy, and as much as can be of what exists.
fn counted(
    geometry: &Geometry,
    existing: &[Instance],
    busy: &[Instance],
    wanted: &Counts,
) -> Result<(Layout, Vec<Instance>), Refusal> {
    for (name, asked) in wanted.iter() {
        possible(geometry, name, asked).map_err(Refusal::Impossible)?;
    }
    let arranged =
        |busy: &[Instance]| Search::new(geometry, &[], busy, wanted).and_then(Search::any).is_some();
    if !arranged(&[]) {
        return Err(Refusal::NoRoom(wanted.clone()));
    }
    let best = Search::new(geometry, existing, busy, wanted).and_then(Search::best);
    let Some(instances) = best else {
        return Err(Refusal::InTheWay(fewest(busy, arranged)));
    };
    let mut left = wanted.clone();
    let lingering = busy.iter().filter(|instance| !left.take(instance.profile)).copied().collect();
    Ok((Layout::of_fitting(instances), lingering))
}

/// Whether the GPU has so many of a profile, were nothing else on it.
fn possible(geometry: &Geometry, name: ProfileName, asked: u32) -> Result<(), LayoutError> {
    let profile = geometry.profile(name).ok_or_else(|| LayoutError::UnknownProfile {
        profile: name,
        has: geometry.profiles().iter().map(|profile| profile.name).collect(),
    })?;
    let compute = asked.saturating_mul(profile.compute_slices().into());
    if asked > u32::from(profile.max) {
        return Err(LayoutError::TooMany { profile: name, asked, max: profile.max });
    }
    if compute > u32::from(geometry.compute_slices()) {
        return Err(LayoutError::TooMuchCompute { asked: compute, has: geometry.compute_slices() });
    }
    Ok(())
}

/// The fewest of `instances` without which the rest is as it should be; all of them if no fewer do. Among as few, the
/// first.
fn fewest(instances: &[Instance], serves: impl Fn(&[Instance]) -> bool) -> Vec<Instance> {
    let without = subsets(instances).find(|(_, rest)| serves(rest));
    without.map_or_else(|| instances.to_vec(), |(out, _)| out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::Model,
        testing::{counts, existing, instances},
    };

    fn plan(model: Model, there: &str, wanted: &Wanted) -> Result<Transition, Refusal> {
        transition(&model.geometry().unwrap(), &existing(there), wanted)
    }

    fn steps(there: &str, wanted: &Wanted) -> String {
        let plan = plan(Model::H100_80, there, wanted).unwrap();
        plan.steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn what_is_right_already_stays() {
        assert_eq!(steps("3g.40gb@0! 3g.40gb@4", &Wanted::Counts(counts("3g.40gb 3g.40gb"))), "");
        assert_eq!(steps("3g.40gb@0", &Wanted::Placed(instances("3g.40gb@0"))), "");
        let more = Wanted::Counts(counts("3g.40gb 1g.10gb 2g.20gb"));
        assert_eq!(
            steps("3g.40gb@0 3g.40gb@4!", &more),
            "destroy 3g.40gb@0, create 2g.20gb@0, create 1g.10gb@3"
        );
    }

    #[test]
    fn new_instances_leave_room_for_large_ones() {
        let table = [
            ("", "1g.10gb", "create 1g.10gb@6"),
            ("", "2g.20gb", "create 2g.20gb@0"),
            ("", "3g.40gb", "create 3g.40gb@4"),
            ("", "4g.40gb", "create 4g.40gb@0"),
            ("", "1g.10gb 1g.10gb", "create 1g.10gb@4, create 1g.10gb@5"),
            ("", "1g.10gb 2g.20gb", "create 2g.20gb@0, create 1g.10gb@3"),
            ("1g.10gb@1!", "1g.10gb 1g.10gb", "create 1g.10gb@0"),
        ];
        for (there, wanted, words) in table {
            assert_eq!(steps(there, &Wanted::Counts(counts(wanted))), words, "{there} -> {wanted}");
        }
    }

    #[test]
    fn what_is_busy_and_not_wanted_lingers() {
        let there = "1g.10gb@6! 2g.20gb@0";
        let counted = plan(Model::H100_80, there, &Wanted::Counts(counts("3g.40gb"))).unwrap();
        assert_eq!(counted.lingering, instances("1g.10gb@6"));
        assert_eq!(counted.layout.to_string(), "3g.40gb@0 1g.10gb@6");
        let placed = plan(Model::H100_80, there, &Wanted::Placed(instances("4g.40gb@0"))).unwrap();
        assert_eq!(placed.lingering, instances("1g.10gb@6"));
        assert_eq!(placed.layout.to_string(), "4g.40gb@0 1g.10gb@6");
        let nothing = plan(Model::H100_80, there, &Wanted::Counts(Counts::default())).unwrap();
        assert_eq!((nothing.layout.to_string(), nothing.steps.len()), ("1g.10gb@6".to_owned(), 1));
        // Two are wanted and three are busy: it does not matter which of them is too much, but one is.
        let three = "1g.10gb@4! 1g.10gb@5! 1g.10gb@6!";
        let fewer = plan(Model::H100_80, three, &Wanted::Counts(counts("1g.10gb 1g.10gb"))).unwrap();
        assert_eq!((fewer.steps.len(), fewer.lingering), (0, instances("1g.10gb@6")));
    }

    #[test]
    fn part_of_an_instances_compute_is_another_profile_in_the_same_place() {
        let part = Wanted::Counts(counts("1c.3g.40gb"));
        assert_eq!(steps("3g.40gb@0", &part), "destroy 3g.40gb@0, create 1c.3g.40gb@4");
        assert_eq!(steps("1c.3g.40gb@0", &part), "");
    }

    #[test]
    fn a_refusal_says_why() {
        let table = [
            (
                "",
                "3g.71gb",
                "the wanted layout cannot be: this GPU has no MIG profile 3g.71gb; it has 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb",
            ),
            (
                "",
                "3g.40gb 3g.40gb 3g.40gb",
                "the wanted layout cannot be: 3 of 3g.40gb are asked for and there can be 2",
            ),
            (
                "",
                "7g.80gb 1g.10gb",
                "the wanted layout cannot be: there is no room for 1×1g.10gb 1×7g.80gb on one GPU of this model",
            ),
            ("1g.10gb@0!", "7g.80gb", "in use and in the way of the wanted layout: 1g.10gb@0"),
            (
                "1g.10gb@0! 1g.10gb@4! 1g.10gb@5!",
                "3g.40gb 3g.40gb",
                "in use and in the way of the wanted layout: 1g.10gb@0, 1g.10gb@4, 1g.10gb@5",
            ),
            (
                "1g.10gb@0! 1g.10gb@4! 1g.10gb@5!",
                "3g.40gb",
                "in use and in the way of the wanted layout: 1g.10gb@0",
            ),
            (
                "1g.10gb@7",
                "1g.10gb",
                "what exists does not fit this GPU: 1g.10gb@7 cannot be: 1g.10gb begins at one of 0, 1, 2, 3, 4, 5, 6",
            ),
        ];
        for (there, wanted, message) in table {
            let refusal = plan(Model::H100_80, there, &Wanted::Counts(counts(wanted))).unwrap_err();
            assert_eq!(refusal.to_string(), message, "{there} -> {wanted}");
        }
        let many: Counts = [("1g.10gb".parse().unwrap(), u32::MAX)].into_iter().collect();
        let refusal = plan(Model::H100_80, "", &Wanted::Counts(many)).unwrap_err();
        assert!(matches!(refusal, Refusal::Impossible(LayoutError::TooMany { .. })), "{refusal}");
        let table = [
            ("", "4g.40gb@4", "the wanted layout cannot be: 4g.40gb@4 cannot be: 4g.40gb begins at one of 0"),
            (
                "2g.20gb@4! 1g.10gb@6!",
                "4g.40gb@0 3g.40gb@4",
                "in use and in the way of the wanted layout: 2g.20gb@4, 1g.10gb@6",
            ),
        ];
        for (there, wanted, message) in table {
            let refusal = plan(Model::H100_80, there, &Wanted::Placed(instances(wanted))).unwrap_err();
            assert_eq!(refusal.to_string(), message, "{there} -> {wanted}");
        }
    }
}
