//! Fair sharing: who goes first, and who gives back.

use whalezen_core::{
    plan::{FairStrategy, Policy},
    preempt::Ground,
    queue::Reclaim,
    testing::{World, cohort, queue},
};

use super::{holds, member, names, victims, wants, world};
use crate::GPU;

fn fairly(mut world: World, strategies: &[FairStrategy]) -> World {
    world.policy = Policy { fair_sharing: Some(strategies.to_vec()), ..Policy::default() };
    world
}

const BOTH: [FairStrategy; 2] =
    [FairStrategy::LessThanOrEqualToFinalShare, FairStrategy::LessThanInitialShare];

#[test]
fn the_queue_with_the_smaller_share_goes_first_whatever_the_priority() {
    let mut world = fairly(
        world([("a", member("a", 0)), ("b", member("b", 0)), ("lender", member("lender", 6))])
            .with(holds("a/has", 3, 0))
            .with(wants("a/it", 3, 100))
            .with(wants("b/it", 3, 0)),
        &BOTH,
    );
    assert_eq!(world.run(), ["b/it"]);
}

#[test]
fn a_weight_of_two_is_worth_twice_the_share_and_one_of_nothing_comes_last() {
    let with_weight = |weight| {
        let mut world = fairly(
            world([
                ("a", member("a", 0).weight(weight)),
                ("b", member("b", 0)),
                ("lender", member("lender", 12)),
            ])
            .with(wants("a/it", 10, 0).since(9))
            .with(wants("b/it", 6, 0)),
            &BOTH,
        );
        world.run()
    };
    assert_eq!(with_weight(1_000_000_000), ["b/it"]);
    assert_eq!(with_weight(2_000_000_000), ["a/it"]);
    assert_eq!(with_weight(0), ["b/it"]);
}

#[test]
fn who_borrows_nothing_goes_before_who_borrows() {
    let mut world = fairly(
        world([("a", member("a", 4)), ("b", member("b", 0)), ("lender", member("lender", 0))])
            .with(wants("a/own", 4, 0).since(9))
            .with(wants("b/borrows", 1, 9)),
        &BOTH,
    );
    assert_eq!(world.run(), ["a/own"]);
}

#[test]
fn the_larger_share_gives_back_until_both_are_even() {
    let mut world = fairly(
        world([
            ("a", member("a", 0).reclaims(Reclaim::Any)),
            ("b", member("b", 0)),
            ("lender", member("lender", 8)),
        ]),
        &BOTH,
    );
    for index in 0..8 {
        world.tell(holds(&format!("b/{index}"), 1, 0).holding_since(index));
    }
    for index in 0..8 {
        world.tell(wants(&format!("a/{index}"), 1, 0).since(index));
    }
    assert_eq!(victims(&mut world), [("b/7".to_owned(), Ground::InCohortFairSharing)]);
    assert!(world.comes_to_rest());
    let share = |of: &str| world.holders().iter().filter(|name| name.starts_with(of)).count();
    assert_eq!((share("a/"), share("b/")), (4, 4));
}

#[test]
fn a_final_share_spares_whom_an_initial_share_takes() {
    // After the loss of its only workload, b has nothing: a would be above it.
    for (strategies, told) in [
        (&[FairStrategy::LessThanOrEqualToFinalShare][..], &[][..]),
        (&[FairStrategy::LessThanInitialShare][..], &["b/big".to_owned()][..]),
        (&BOTH[..], &["b/big".to_owned()][..]),
    ] {
        let mut world = fairly(
            world([
                ("a", member("a", 0).reclaims(Reclaim::Any)),
                ("b", member("b", 0)),
                ("lender", member("lender", 8)),
            ])
            .with(holds("b/big", 8, 0))
            .with(wants("a/it", 4, 0)),
            strategies,
        );
        assert_eq!(names(&mut world), told, "{strategies:?}");
    }
}

#[test]
fn within_nominal_quota_no_strategy_is_asked() {
    let mut world = fairly(
        world([("owner", member("owner", 4).reclaims(Reclaim::Any)), ("guest", member("guest", 0))])
            .with(holds("guest/it", 4, 9))
            .with(wants("owner/it", 4, 0)),
        &[FairStrategy::LessThanOrEqualToFinalShare],
    );
    assert_eq!(victims(&mut world), [("guest/it".to_owned(), Ground::InCohortReclamation)]);
}

#[test]
fn shares_are_compared_where_the_cohorts_part() {
    // Both teams borrow from the root; within the second, one queue has everything.
    let of = |name: &str, team: &str| queue(name).cohort(team).group([GPU]).flavor("f", [(GPU, 0)]);
    let mut world = fairly(
        world([("a", of("a", "one").reclaims(Reclaim::Any)), ("b", of("b", "two")), ("c", of("c", "two"))])
            .with(cohort("root").quota("f", GPU, 8))
            .with(cohort("one").parent("root"))
            .with(cohort("two").parent("root"))
            .with(holds("b/low", 6, 0))
            .with(holds("c/low", 2, 0))
            .with(wants("a/it", 2, 0)),
        &BOTH,
    );
    assert_eq!(names(&mut world), ["b/low"]);
}
