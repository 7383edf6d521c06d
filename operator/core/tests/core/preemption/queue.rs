//! Preemption within a ClusterQueue.

use whalezen_core::{
    preempt::Ground,
    queue::WithinQueue::{LowerOrNewerEqualPriority, LowerPriority},
    testing::{World, local_queue, queue},
    verdict::Reason,
    workload::Eviction,
};

use super::{holds, member, names, victims, wants, world};
use crate::GPU;

fn own(gpus: i64) -> World {
    world([("q", member("q", gpus).preempts(LowerPriority))])
}

#[test]
fn nobody_is_preempted_where_the_queue_does_not_allow_it() {
    let mut world = world([("q", member("q", 4))]).with(holds("q/low", 4, 0)).with(wants("q/high", 4, 9));
    assert_eq!(names(&mut world), [""; 0]);
    assert_eq!(world.verdict("q/high").map(|v| v.reason), Some(Reason::WaitingForQuota));
}

#[test]
fn whoever_has_a_lower_priority_makes_room_and_then_the_preemptor_is_admitted() {
    let mut world = own(4).with(holds("q/low", 4, 0)).with(wants("q/high", 4, 9));
    assert_eq!(victims(&mut world), [("q/low".to_owned(), Ground::InClusterQueue)]);
    let verdict = world.verdict("q/high").expect("it waits");
    assert_eq!(verdict.reason, Reason::WaitingForPreemptedWorkloads);
    assert_eq!(
        verdict.message,
        "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor f, 4 \
         more needed. Pending the preemption of 1 workload(s)"
    );
    assert_eq!(world.holders(), ["q/low"], "it is charged until its pods are gone");
    world.stop();
    assert_eq!(world.run(), ["q/high"]);
    assert_eq!(world.run(), [""; 0], "the victim waits");
}

#[test]
fn an_equal_is_not_preempted_unless_it_is_newer_and_the_queue_says_so() {
    for (within, told) in [(LowerPriority, &[][..]), (LowerOrNewerEqualPriority, &["q/newer".to_owned()][..])]
    {
        let mut world = world([("q", member("q", 4).preempts(within))])
            .with(holds("q/older", 2, 5).since(1))
            .with(holds("q/newer", 2, 5).since(9))
            .with(wants("q/it", 2, 5).since(4));
        assert_eq!(names(&mut world), told, "{within:?}");
    }
}

#[test]
fn the_lowest_priority_goes_first_and_of_equals_who_was_admitted_last() {
    let mut world = own(6)
        .with(holds("q/middle", 2, 3))
        .with(holds("q/low-early", 2, 1).holding_since(10))
        .with(holds("q/low-late", 2, 1).holding_since(20))
        .with(wants("q/it", 2, 9));
    assert_eq!(names(&mut world), ["q/low-late"]);
}

#[test]
fn those_are_spared_without_whom_it_fits_as_well() {
    // In order the two small ones come first; with the big one, they are not needed.
    let mut world = own(8)
        .with(holds("q/a-small", 2, 1))
        .with(holds("q/b-small", 2, 2))
        .with(holds("q/big", 4, 3))
        .with(wants("q/it", 4, 9));
    assert_eq!(names(&mut world), ["q/a-small", "q/b-small"]);
    let mut world = own(8)
        .with(holds("q/a-small", 1, 1))
        .with(holds("q/b-small", 2, 2))
        .with(holds("q/big", 5, 3))
        .with(wants("q/it", 5, 9));
    assert_eq!(names(&mut world), ["q/big"]);
}

#[test]
fn nobody_is_evicted_for_who_would_not_fit_even_then() {
    let mut world = own(4).with(holds("q/low", 2, 0)).with(holds("q/high", 2, 9)).with(wants("q/it", 4, 5));
    assert_eq!(names(&mut world), [""; 0]);
    let mut world = own(4).with(holds("q/low", 4, 0)).with(wants("q/huge", 5, 9));
    assert_eq!(names(&mut world), [""; 0]);
    assert_eq!(world.verdict("q/huge").map(|v| v.reason), Some(Reason::ExceedsMaxQuota));
}

#[test]
fn only_those_are_preempted_who_hold_what_is_missing() {
    let cq = queue("q")
        .group([GPU])
        .flavor("f", [(GPU, 4)])
        .group(["cpu"])
        .flavor("c", [("cpu", 4)])
        .preempts(LowerPriority);
    let mut world = World::new()
        .with(whalezen_core::testing::flavor("f"))
        .with(whalezen_core::testing::flavor("c"))
        .with(cq)
        .with(local_queue("q/lq", "q"))
        .with(whalezen_core::testing::workload("q/cpu").pods("main", 1, [("cpu", 4)]).holding("q", "c"))
        .with(holds("q/gpu", 4, 1))
        .with(wants("q/it", 2, 9));
    assert_eq!(names(&mut world), ["q/gpu"]);
}

#[test]
fn who_is_on_the_way_out_for_another_reason_comes_first_and_is_not_told_again() {
    let mut world =
        own(4).with(holds("q/leaving", 2, 3)).with(holds("q/low", 2, 0)).with(wants("q/it", 2, 9));
    world.tell_to_stop("q/leaving", Eviction::Otherwise);
    assert_eq!(names(&mut world), [""; 0]);
    assert_eq!(world.verdict("q/it").map(|v| v.reason), Some(Reason::WaitingForPreemptedWorkloads));
    world.requeue("q/leaving");
    assert_eq!(world.run(), ["q/it"]);
}

#[test]
fn kueue_534_a_stream_of_small_equals_does_not_starve_a_big_one() {
    let mut world = world([("q", member("q", 8).preempts(LowerOrNewerEqualPriority))]);
    for index in 0..8 {
        world.tell(wants(&format!("q/small-{index}"), 1, 0).since(index));
    }
    world.run();
    world.tell(wants("q/big", 8, 0).since(100));
    for index in 8..40 {
        world.tell(wants(&format!("q/small-{index:02}"), 1, 0).since(101 + index));
        if index < 16 {
            world.finish(&format!("q/small-{}", index - 8));
        }
        world.run();
        world.stop();
        world.run();
    }
    assert!(world.holders().contains(&"q/big".to_owned()), "{:?}", world.holders());
}
