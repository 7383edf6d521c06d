//! How one more instance gets onto a GPU: which place it has, and which idle instances go for it.

use crate::{
    geometry::Geometry,
    layout::{Counts, Instance, Layout, LayoutError},
    name::ProfileName,
    occupancy::Occupancy,
    preference::Preference,
    search::subsets,
    transition::{Existing, Refusal, Step},
};

/// A place for one more instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Room {
    /// The instance.
    pub instance: Instance,
    /// Whether it is there already and idle, so that nothing needs to be done.
    pub exists: bool,
    /// The idle instances that go for it.
    pub destroyed: Vec<Instance>,
}

impl Room {
    /// What to do, in order.
    pub fn steps(&self) -> Vec<Step> {
        let created = (!self.exists).then_some(Step::Create(self.instance));
        self.destroyed.iter().copied().map(Step::Destroy).chain(created).collect()
    }
}

/// The cheapest room for one more of `profile` beside what is busy. An idle one that is there is taken as it is. Else as
/// few idle instances go as can be, of those the ones with the fewest memory slices, and of such places the one that
/// leaves the [better arrangement](crate::preference).
pub fn make_room(geometry: &Geometry, existing: &[Existing], profile: ProfileName) -> Result<Room, Refusal> {
    let asked = geometry.profile(profile).ok_or_else(|| {
        let has = geometry.profiles().iter().map(|profile| profile.name).collect();
        Refusal::Impossible(LayoutError::UnknownProfile { profile, has })
    })?;
    let before = Layout::new(geometry, existing.iter().map(|e| e.instance)).map_err(Refusal::Unlike)?;
    let idle = |instance: &Instance| existing.iter().any(|e| e.instance == *instance && !e.busy);
    let (idle, busy): (Vec<_>, Vec<_>) = before.instances().iter().copied().partition(idle);

    let there = idle.iter().filter(|instance| instance.profile == profile);
    let taken = there.filter_map(|&instance| {
        // Which of them is taken matters when the others go.
        let stays: Vec<_> = busy.iter().chain([&instance]).copied().collect();
        Some((Preference::of(geometry, &Occupancy::of(geometry, &stays)?, &stays), instance))
    });
    if let Some((_, instance)) = taken.max() {
        return Ok(Room { instance, exists: true, destroyed: Vec::new() });
    }

    let candidates = asked.starts.iter().map(|&start| Instance::new(profile, start));
    let rooms = candidates.filter_map(|instance| cheapest(geometry, instance, &busy, &idle));
    let best = rooms.min_by(|a, b| a.cost.cmp(&b.cost).then_with(|| b.preference.cmp(&a.preference)));
    best.map(|best| best.room).ok_or_else(|| in_the_way(geometry, profile, &busy))
}

/// A place with what it costs.
struct Candidate {
    cost: (usize, u32),
    preference: Preference,
    room: Room,
}

/// The cheapest way to have `instance` beside what is busy.
fn cheapest(
    geometry: &Geometry,
    instance: Instance,
    busy: &[Instance],
    idle: &[Instance],
) -> Option<Candidate> {
    let beside = Occupancy::of(geometry, busy)?.add(geometry, instance)?;
    let memory = |gone: &[Instance]| -> u32 {
        gone.iter()
            .filter_map(|gone| geometry.profile(gone.profile))
            .map(|p| u32::from(p.memory_slices))
            .sum()
    };
    let candidates = subsets(idle).filter_map(|(destroyed, kept)| {
        let occupancy = kept.iter().try_fold(beside, |occupancy, &kept| occupancy.add(geometry, kept))?;
        let cost = (destroyed.len(), memory(&destroyed));
        let all: Vec<_> = busy.iter().chain(&kept).chain([&instance]).copied().collect();
        let preference = Preference::of(geometry, &occupancy, &all);
        Some(Candidate { cost, preference, room: Room { instance, exists: false, destroyed } })
    });
    candidates.min_by(|a, b| a.cost.cmp(&b.cost).then_with(|| b.preference.cmp(&a.preference)))
}

/// The fewest of what is busy without which there would be room.
fn in_the_way(geometry: &Geometry, profile: ProfileName, busy: &[Instance]) -> Refusal {
    let starts = geometry.profile(profile).map(|profile| profile.starts.as_slice()).unwrap_or_default();
    let fits = |rest: &[Instance]| {
        let occupancy = Occupancy::of(geometry, rest);
        let fit =
            |start: &u8| occupancy.is_some_and(|o| o.add(geometry, Instance::new(profile, *start)).is_some());
        starts.iter().any(fit)
    };
    let blocking = subsets(busy).find(|(_, rest)| fits(rest)).map(|(out, _)| out);
    blocking.map_or_else(|| Refusal::NoRoom(Counts::from_iter([(profile, 1)])), Refusal::InTheWay)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::Model,
        testing::{existing, instances},
    };

    fn room(model: Model, there: &str, profile: &str) -> Result<Room, Refusal> {
        make_room(&model.geometry().unwrap(), &existing(there), profile.parse().unwrap())
    }

    fn words(room: &Room) -> String {
        room.steps().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn an_idle_instance_that_is_there_is_taken() {
        let taken = room(Model::H100_80, "3g.40gb@0 3g.40gb@4!", "3g.40gb").unwrap();
        assert_eq!(taken, Room { instance: instances("3g.40gb@0")[0], exists: true, destroyed: vec![] });
        assert!(taken.steps().is_empty());
        assert_eq!(room(Model::H100_80, "3g.40gb@0 3g.40gb@4", "3g.40gb").unwrap().instance.start, 4);
    }

    #[test]
    fn as_little_as_can_be_goes_for_another() {
        let table = [
            ("", "1g.10gb", "create 1g.10gb@6"),
            ("", "2g.20gb", "create 2g.20gb@0"),
            ("", "3g.40gb", "create 3g.40gb@4"),
            ("", "7g.80gb", "create 7g.80gb@0"),
            ("1g.10gb@6!", "2g.20gb", "create 2g.20gb@4"),
            ("1g.10gb@0!", "1g.10gb", "create 1g.10gb@1"),
            ("1g.10gb@0 3g.40gb@4", "4g.40gb", "destroy 1g.10gb@0, create 4g.40gb@0"),
            (
                "1g.10gb@0 1g.10gb@1 1g.10gb@4!",
                "3g.40gb",
                "destroy 1g.10gb@0, destroy 1g.10gb@1, create 3g.40gb@0",
            ),
            ("2g.20gb@0 1g.10gb@4", "3g.40gb", "destroy 1g.10gb@4, create 3g.40gb@4"),
            ("3g.40gb@0 3g.40gb@4", "1g.10gb", "destroy 3g.40gb@0, create 1g.10gb@3"),
            ("1g.10gb+me@0", "1g.10gb", "create 1g.10gb@1"),
            ("1g.10gb@0 1g.10gb@1! 1g.10gb@2! 1g.10gb@3!", "1g.10gb+me", "create 1g.10gb+me@6"),
        ];
        for (there, profile, steps) in table {
            assert_eq!(words(&room(Model::H100_80, there, profile).unwrap()), steps, "{there} + {profile}");
        }
        let media = room(Model::A30, "1g.6gb+me@0", "2g.12gb+me").unwrap();
        assert_eq!(words(&media), "destroy 1g.6gb+me@0, create 2g.12gb+me@0");
    }

    #[test]
    fn what_is_in_use_and_in_the_way_is_named() {
        let refused = |there, profile| room(Model::H100_80, there, profile).unwrap_err().to_string();
        let message = "in use and in the way of the wanted layout: ";
        assert_eq!(refused("1g.10gb@0!", "7g.80gb"), format!("{message}1g.10gb@0"));
        assert_eq!(refused("1g.10gb@0! 1g.10gb@4! 1g.10gb@5!", "3g.40gb"), format!("{message}1g.10gb@0"));
        assert!(refused("", "3g.71gb").contains("this GPU has no MIG profile 3g.71gb; it has 1g.10gb,"));
        assert!(refused("3g.20gb@0", "1g.10gb").starts_with("what exists does not fit this GPU: "));
    }
}
