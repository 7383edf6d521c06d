//! Preemption in other ClusterQueues of the cohort.

use whalezen_core::{
    preempt::Ground,
    queue::{Reclaim, WithinQueue},
    testing::{ObligingApplier, QueueBuilder, cohort, queue},
};

use super::{holds, member, names, victims, wants, world};
use crate::GPU;

#[test]
fn a_queue_takes_back_what_others_borrow_of_it_and_no_more() {
    let mut world = world([
        ("owner", member("owner", 4).reclaims(Reclaim::Any)),
        ("guest", member("guest", 4)),
        ("modest", member("modest", 4)),
    ])
    .with(holds("guest/own", 4, 0).holding_since(1))
    .with(holds("guest/extra", 2, 0).holding_since(2))
    .with(holds("modest/low", 4, -5))
    .with(wants("owner/it", 4, 0));
    assert_eq!(victims(&mut world), [("guest/extra".to_owned(), Ground::InCohortReclamation)]);
}

#[test]
fn a_queue_takes_back_what_others_were_given_earlier_in_the_same_plan() {
    let mut world =
        world([("owner", member("owner", 4).reclaims(Reclaim::Any)), ("guest", member("guest", 4))])
            .with(wants("owner/more-than-there-is", 9, 5))
            .with(wants("owner/it", 4, 0))
            .with(wants("guest/it", 6, 0));
    // Its turn comes in the second cycle, when the guest has been admitted in the first.
    let first = world.step(&mut ObligingApplier);
    assert_eq!(first.admit.len(), 1);
    assert!(first.more && first.evict.is_empty());
    assert_eq!(victims(&mut world), [("guest/it".to_owned(), Ground::InCohortReclamation)]);
}

#[test]
fn by_lower_priority_only_those_below_are_taken_back() {
    for (priority, told) in [(5, &[][..]), (0, &["guest/it".to_owned()][..])] {
        let mut world = world([
            ("owner", member("owner", 4).reclaims(Reclaim::LowerPriority)),
            ("guest", member("guest", 0)),
        ])
        .with(holds("guest/it", 4, priority))
        .with(wants("owner/it", 4, 3));
        assert_eq!(names(&mut world), told, "priority {priority}");
    }
}

#[test]
fn who_would_borrow_takes_nothing_back() {
    let mut world = world([
        ("owner", member("owner", 4).reclaims(Reclaim::Any)),
        ("guest", member("guest", 0)),
        ("third", member("third", 4)),
    ])
    .with(holds("guest/it", 6, -9))
    .with(wants("owner/more", 6, 9));
    assert_eq!(names(&mut world), [""; 0]);
}

#[test]
fn a_queue_is_taken_from_only_as_long_as_it_borrows() {
    let mut world = world([
        ("owner", member("owner", 6).reclaims(Reclaim::Any)),
        ("guest", member("guest", 4)),
        ("other", member("other", 0)),
    ])
    .with(holds("guest/a", 3, 0).holding_since(3))
    .with(holds("guest/b", 3, 0).holding_since(2))
    .with(holds("other/c", 4, 5))
    .with(wants("owner/it", 6, 0));
    // After `a` the guest holds 3 of its 4; the rest has to come from the other.
    assert_eq!(names(&mut world), ["guest/a", "other/c"]);
}

#[test]
fn nobody_is_preempted_in_a_queue_that_is_on_hold() {
    let queues = |guest: QueueBuilder| {
        world([("owner", member("owner", 2).reclaims(Reclaim::Any)), ("guest", guest)])
            .with(holds("guest/it", 6, 0))
            .with(wants("owner/it", 2, 9))
    };
    assert_eq!(names(&mut queues(member("guest", 5))), ["guest/it"]);
    let mut world = queues(member("guest", 5).stopped());
    assert_eq!(names(&mut world), [""; 0]);
    world.tell(member("guest", 5));
    assert_eq!(names(&mut world), ["guest/it"], "it is open again");
}

#[test]
fn others_come_before_the_own_queue() {
    let mut world = world([
        ("owner", member("owner", 4).reclaims(Reclaim::Any).preempts(WithinQueue::LowerPriority)),
        ("guest", member("guest", 0)),
    ])
    .with(holds("owner/low", 2, 0))
    .with(holds("guest/high", 2, 100))
    .with(wants("owner/it", 2, 9));
    assert_eq!(names(&mut world), ["guest/high"]);
}

#[test]
fn while_borrowing_those_below_the_threshold_are_preempted() {
    for (threshold, priority, told) in [
        (None, 3, &["guest/it".to_owned()][..]),
        (Some(3), 3, &["guest/it".to_owned()][..]),
        (Some(2), 3, &[][..]),
        (None, 5, &[][..]),
    ] {
        let mut world = world([
            ("q", member("q", 0).reclaims(Reclaim::LowerPriority).borrows_by_priority(threshold)),
            ("guest", member("guest", 0)),
            ("lender", member("lender", 4)),
        ])
        .with(holds("guest/it", 4, priority))
        .with(wants("q/it", 4, 5));
        assert_eq!(names(&mut world), told, "threshold {threshold:?}, priority {priority}");
    }
}

#[test]
fn the_ground_tells_reclaiming_from_borrowing() {
    let mut world = world([
        ("q", member("q", 0).reclaims(Reclaim::LowerPriority).borrows_by_priority(None)),
        ("guest", member("guest", 0)),
        ("lender", member("lender", 4)),
    ])
    .with(holds("guest/it", 4, 0))
    .with(wants("q/it", 4, 5));
    assert_eq!(victims(&mut world), [("guest/it".to_owned(), Ground::InCohortReclaimWhileBorrowing)]);
}

#[test]
fn a_subtree_takes_back_its_own_quota_from_outside_it() {
    // The team owns 4 through its cohort; the guest is outside it and borrows them.
    let team = |name: &str| queue(name).cohort("team").group([GPU]).flavor("f", [(GPU, 0)]);
    let mut world = world([
        ("mate", team("mate").reclaims(Reclaim::Any)),
        ("guest", queue("guest").cohort("root").group([GPU]).flavor("f", [(GPU, 0)])),
    ])
    .with(cohort("root"))
    .with(cohort("team").parent("root").quota("f", GPU, 4))
    .with(holds("guest/it", 4, 9))
    .with(wants("mate/it", 4, 0));
    assert_eq!(victims(&mut world), [("guest/it".to_owned(), Ground::InCohortReclamation)]);
}

#[test]
fn what_is_not_lent_cannot_be_asked_back_by_others() {
    let mut world = world([
        ("owner", member("owner", 4).lend("f", GPU, 0)),
        ("asker", member("asker", 2).reclaims(Reclaim::Any)),
    ])
    .with(holds("owner/it", 4, 0))
    .with(wants("asker/it", 4, 9));
    assert_eq!(names(&mut world), [""; 0]);
}

#[test]
fn kueue_6947_what_can_never_fit_evicts_nobody_and_others_are_preempted_once() {
    let mut world = world([("a", member("a", 3).reclaims(Reclaim::Any)), ("b", member("b", 0))])
        .with(wants("b/one", 1, 0));
    assert_eq!(world.run(), ["b/one"]);
    world.tell(wants("a/impossible", 4, 0).since(1));
    assert_eq!(names(&mut world), [""; 0]);
    world.tell(wants("a/three", 3, 0).since(2));
    assert_eq!(names(&mut world), ["b/one"]);
    world.run();
    assert_eq!(world.evicted(), ["b/one"]);
    world.stop();
    assert_eq!(world.run(), ["a/three"]);
    assert!(world.comes_to_rest());
    assert_eq!(world.holders(), ["a/three"]);
}

#[test]
fn kueue_2821_a_victim_that_waited_longer_does_not_get_ahead_of_its_preemptor() {
    let mut world = world([
        ("lender", member("lender", 4)),
        ("guest", member("guest", 0).reclaims(Reclaim::LowerPriority).borrows_by_priority(None)),
        ("other", member("other", 0)),
    ])
    .with(holds("other/low", 4, 0).since(1))
    .with(wants("guest/high", 4, 5).since(9));
    assert_eq!(names(&mut world), ["other/low"]);
    world.stop();
    assert_eq!(world.run(), ["guest/high"]);
    assert!(world.comes_to_rest());
    assert_eq!(world.holders(), ["guest/high"]);
}
