//! What is kept for one who borrows is no safer from those who may take it back than what it would hold.

use whalezen_core::{
    queue::{Reclaim, WithinQueue},
    testing::{ObligingApplier, QueueBuilder, World},
};

use super::{holds, member, names, wants, world};

/// A queue whose workloads may have others of it stop although they borrow.
fn borrower(name: &str, gpus: i64) -> QueueBuilder {
    member(name, gpus)
        .preempts(WithinQueue::LowerPriority)
        .reclaims(Reclaim::LowerPriority)
        .borrows_by_priority(None)
}

/// `b` owns 5 of 12 GPUs. All are held there by two workloads, who stop for a third that wants all of them.
fn borrowed(reclaim: Reclaim) -> World {
    let mut world = world([("a", member("a", 7).reclaims(reclaim)), ("b", borrower("b", 5))])
        .with(holds("b/low", 7, 0))
        .with(holds("b/lower", 5, -1))
        .with(wants("b/high", 12, 9));
    assert_eq!(names(&mut world), ["b/low", "b/lower"]);
    world
}

#[test]
fn what_is_kept_yields_to_who_could_take_it_back_from_its_owner_alone() {
    for (reclaim, gpus, priority, admitted) in [
        (Reclaim::Any, 7, 0, "a/it"),
        (Reclaim::LowerPriority, 7, 10, "a/it"),
        (Reclaim::LowerPriority, 7, 9, "b/high"),
        (Reclaim::Never, 7, 10, "b/high"),
        // It would borrow itself, and has no right to that.
        (Reclaim::Any, 8, 10, "b/high"),
    ] {
        let mut world = borrowed(reclaim);
        world.tell(wants("a/it", gpus, priority));
        assert_eq!(names(&mut world), [""; 0], "there is no room yet");
        world.stop();
        assert_eq!(world.run()[0], admitted, "{reclaim:?} {gpus} {priority}");
        assert_eq!(world.evicted(), [""; 0], "nobody is admitted to be told to stop at once");
        assert_eq!(world.state.reservations().count(), 0);
        assert_eq!(world.state.audit(), Ok(()));
    }
}

#[test]
fn whoever_gets_nothing_kept_any_more_is_tried_again_at_once() {
    let mut world = borrowed(Reclaim::Any).with(wants("b/small", 1, 8));
    world.requeue("b/lower");
    assert_eq!(world.run(), [""; 0], "the other has not stopped");
    world.tell(wants("a/it", 4, 0));
    let plan = world.step(&mut ObligingApplier);
    assert_eq!((plan.admit.len(), plan.yielded.len()), (1, 1));
    world.state.settle();
    assert_eq!(world.state.audit(), Ok(()));
    assert_eq!(world.run(), ["b/small"], "what is left is not enough for all that it wants");
    world.requeue("b/low");
    assert_eq!(world.run(), ["b/low"]);
    assert!(world.comes_to_rest());
}

#[test]
fn what_is_kept_anew_in_a_plan_does_not_yield_in_the_same() {
    let mut world = borrowed(Reclaim::Any);
    world.requeue("b/low");
    assert_eq!(world.run(), [""; 0]);
    // The owner is looked at again after one that goes before it, and `a/it` after two that can never fit.
    for (name, gpus, priority) in [("b/huge", 99, 10), ("a/huge", 99, 9), ("a/larger", 98, 9), ("a/it", 4, 0)]
    {
        world.tell(wants(name, gpus, priority));
    }
    let plan = world.step(&mut ObligingApplier);
    assert_eq!((plan.admit.len(), plan.hold.len(), plan.yielded.len()), (0, 1, 0));
    assert!(!plan.more, "it does not ask again and again");
    world.stop();
    assert_eq!(world.run()[0], "a/it");
    assert!(world.comes_to_rest());
}

#[test]
fn nothing_yields_to_who_would_need_more_than_one_to_yield() {
    for (gpus, admitted) in [(6, &["a/it", "c/high"]), (7, &["b/high", "c/high"])] {
        let owner = member("a", 12).reclaims(Reclaim::Any);
        let mut world = world([("a", owner), ("b", borrower("b", 0)), ("c", borrower("c", 0))])
            .with(holds("b/low", 6, 0))
            .with(holds("c/low", 6, 0))
            .with(wants("b/high", 6, 5))
            .with(wants("c/high", 6, 6));
        assert_eq!(names(&mut world), ["b/low", "c/low"]);
        world.tell(wants("a/it", gpus, 9));
        world.stop();
        let plan = world.step(&mut ObligingApplier);
        let mut names: Vec<_> = plan.admit.iter().map(|admit| admit.workload.to_string()).collect();
        names.sort();
        assert_eq!(names, admitted);
    }
}
