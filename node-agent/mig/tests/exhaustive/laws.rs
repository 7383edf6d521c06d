//! What holds from every layout, with any of it busy.

use std::collections::BTreeSet;

use whalezen_mig::{Model, Profile, Refusal, Wanted, layouts, name::Extension, transition};

use crate::world::{World, subsets};

fn base(model: Model) -> World {
    let plain = |profile: &Profile| profile.name.extension() == Extension::Plain;
    // The double-memory profile has NVML's index 9.
    World::of(model.geometry().unwrap().restricted(|profile| plain(profile) && profile.slot != 9))
}

fn with_double_memory(model: Model) -> World {
    World::of(model.geometry().unwrap().restricted(|profile| profile.name.extension() == Extension::Plain))
}

#[test]
fn there_are_as_many_layouts_as_on_the_hardware() {
    for model in Model::ALL {
        if model == Model::A30 {
            assert_eq!(base(model).numbers(), [26, 5, 10, 4]);
        } else {
            assert_eq!(base(model).numbers(), [298, 19, 38, 14], "{model}");
            assert_eq!(with_double_memory(model).numbers(), [723, 78, 78, 38], "{model}");
        }
    }
}

#[test]
fn the_list_of_all_layouts_is_complete() {
    for model in Model::ALL {
        let world = World::of(model.geometry().unwrap());
        let all: BTreeSet<_> =
            layouts(&world.geometry).iter().map(|layout| world.set(layout.instances())).collect();
        assert_eq!((all.len(), &all), (layouts(&world.geometry).len(), &world.states), "{model}");
    }
}

#[test]
fn from_every_layout_with_any_of_it_busy_every_other_is_reached_in_the_fewest_steps() {
    for world in [base(Model::H100_80), World::of(Model::A30.geometry().unwrap())] {
        for &state in &world.states {
            for busy in subsets(state) {
                for wanted in world.by_counts.keys() {
                    world.try_counts(state, busy, wanted);
                }
            }
        }
    }
}

#[test]
fn with_every_profile_there_is_plans_are_the_shortest_as_well() {
    let world = World::of(Model::H200.geometry().unwrap());
    // One in so many, which has no divisor in common with anything here.
    let mut turn = 0_usize..;
    for &state in &world.states {
        for busy in subsets(state) {
            for wanted in world.by_counts.keys().filter(|_| turn.next().is_some_and(|turn| turn % 1009 == 0))
            {
                world.try_counts(state, busy, wanted);
            }
        }
    }
}

#[test]
fn what_is_wanted_in_its_place_is_put_there_or_something_busy_is_in_the_way() {
    let world = base(Model::H100_80);
    let mut turn = 0_usize..;
    for &state in &world.states {
        for busy in subsets(state) {
            for &wanted in world.states.iter().filter(|_| turn.next().is_some_and(|turn| turn % 53 == 0)) {
                let placed = Wanted::Placed(world.instances(wanted));
                let end = busy | wanted;
                match transition(&world.geometry, &world.existing(state, busy), &placed) {
                    Ok(plan) => {
                        assert_eq!(world.carry_out(state, busy, &plan.steps), end);
                        assert_eq!(u32::try_from(plan.steps.len()).ok(), Some((state ^ end).count_ones()));
                        assert_eq!(world.set(&plan.lingering), busy & !wanted);
                    }
                    Err(Refusal::InTheWay(blocking)) => {
                        assert!(!world.states.contains(&end));
                        assert!(world.states.contains(&(end & !world.set(&blocking))));
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
}

#[test]
fn room_for_one_more_costs_as_little_as_can_be() {
    for world in [base(Model::H100_80), World::of(Model::A30.geometry().unwrap())] {
        for &state in &world.states {
            for busy in subsets(state) {
                world.try_room(state, busy);
            }
        }
    }
}
