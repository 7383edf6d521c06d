//! What is freed for somebody is kept for it.

use whalezen_core::{
    plan::{Admit, Evict},
    queue::{Fungibility, Reclaim, WhenCanPreempt, WithinQueue},
    testing::{
        Answer, Applier, ObligingApplier, WorkloadBuilder, World, flavor, local_queue, namespace, queue,
        workload,
    },
    verdict::Reason,
    workload::Eviction,
};

use super::{holds, member, names, wants, world};
use crate::GPU;

#[test]
fn kueue_13662_a_victim_that_is_gone_first_does_not_take_its_place_back() {
    let mut world = world([
        ("owner", member("owner", 4).reclaims(Reclaim::Any)),
        ("a", member("a", 0)),
        ("b", member("b", 0)),
    ])
    .with(holds("a/it", 2, 0))
    .with(holds("b/it", 2, 0))
    .with(wants("owner/it", 4, 0));
    assert_eq!(names(&mut world), ["a/it", "b/it"]);
    world.requeue("a/it");
    assert_eq!(world.run(), [""; 0], "half of it is free, and spoken for");
    assert_eq!(world.evicted(), ["b/it"]);
    world.requeue("b/it");
    assert_eq!(world.run(), ["owner/it"]);
    assert!(world.comes_to_rest());
    assert_eq!(world.holders(), ["owner/it"]);
}

#[test]
fn nobody_else_gets_what_is_kept_whatever_its_priority_in_another_queue() {
    let mut world =
        world([("q", member("q", 4).preempts(WithinQueue::LowerPriority)), ("other", member("other", 0))])
            .with(holds("q/low", 4, 0))
            .with(wants("q/high", 4, 5));
    names(&mut world);
    world.tell(wants("other/urgent", 1, 100));
    world.stop();
    assert_eq!(world.run(), ["q/high"]);
}

#[test]
fn who_comes_after_in_the_same_queue_waits_behind_the_preemptor() {
    let mut world = world([("q", member("q", 6).preempts(WithinQueue::LowerPriority))])
        .with(holds("q/low", 4, 0))
        .with(wants("q/high", 5, 5))
        .with(wants("q/small", 1, 1));
    assert_eq!(names(&mut world), ["q/low"]);
    assert_eq!(world.run(), [""; 0], "it would fit, and does not pass");
    world.stop();
    assert_eq!(world.run(), ["q/high", "q/small"]);
}

#[test]
fn who_goes_before_the_preemptor_takes_what_is_kept_for_it() {
    let mut world = world([("q", member("q", 4).preempts(WithinQueue::LowerPriority))])
        .with(holds("q/low", 4, 0))
        .with(wants("q/high", 4, 5));
    names(&mut world);
    world.tell(wants("q/highest", 4, 9));
    assert_eq!(names(&mut world), [""; 0], "what is on its way is enough");
    world.stop();
    assert_eq!(world.run(), ["q/highest"]);
    assert_eq!(world.verdict("q/high").map(|v| v.reason), Some(Reason::WaitingForQuota));
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn what_is_kept_is_free_when_the_preemptor_leaves() {
    for leave in [
        (|world: &mut World| world.delete("q/high")) as fn(&mut World),
        |world| world.change("q/high", |workload| workload.active = false),
        |world| world.change("q/high", |workload| workload.queue.name = "elsewhere".into()),
    ] {
        let mut world = world([
            ("q", member("q", 4).preempts(WithinQueue::LowerPriority)),
            ("other", member("other", 0)),
        ])
        .with(local_queue("q/another", "other"))
        .with(holds("q/low", 4, 0))
        .with(wants("q/high", 4, 5))
        .with(wants("other/it", 4, 0));
        assert_eq!(names(&mut world), ["q/low"]);
        leave(&mut world);
        world.finish("q/low");
        assert_eq!(world.run(), ["other/it"]);
        assert_eq!(world.state.reservations().count(), 0);
        assert_eq!(world.state.audit(), Ok(()));
    }
}

#[test]
fn two_preemptors_share_no_victim() {
    let mut world = world([
        ("a", member("a", 2).reclaims(Reclaim::Any)),
        ("b", member("b", 2).reclaims(Reclaim::Any)),
        ("guest", member("guest", 0)),
    ])
    .with(holds("guest/one", 2, 1))
    .with(holds("guest/two", 2, 0))
    .with(wants("a/it", 2, 0))
    .with(wants("b/it", 2, 0));
    assert_eq!(names(&mut world), ["guest/one", "guest/two"]);
    world.stop();
    assert_eq!(world.run(), ["a/it", "b/it"]);
}

#[test]
fn what_a_victim_holds_beyond_what_is_needed_serves_the_next_without_another_victim() {
    let mut world = world([
        ("a", member("a", 1).reclaims(Reclaim::Any)),
        ("b", member("b", 1).reclaims(Reclaim::Any)),
        ("guest", member("guest", 0)),
    ])
    .with(holds("guest/big", 2, 0))
    .with(wants("a/it", 1, 0))
    .with(wants("b/it", 1, 0));
    assert_eq!(names(&mut world), ["guest/big"]);
    world.stop();
    assert_eq!(world.run(), ["a/it", "b/it"]);
}

struct Spares;

impl Applier for Spares {
    fn write(&mut self, _: &Admit) -> Answer {
        Answer::Accepted
    }

    fn evict(&mut self, _: &Evict) -> Answer {
        Answer::Refused
    }
}

#[test]
fn an_eviction_that_is_refused_is_planned_again() {
    let low = || -> WorkloadBuilder { holds("q/low", 4, 0) };
    let mut world = world([("q", member("q", 4).preempts(WithinQueue::LowerPriority))])
        .with(low())
        .with(wants("q/high", 4, 5));
    assert_eq!(world.step(&mut Spares).evict.len(), 1);
    assert_eq!(world.evicted(), [""; 0]);
    assert_eq!(names(&mut world), ["q/low"]);
    world.stop();
    assert_eq!(world.run(), ["q/high"]);
}

#[test]
fn nobody_is_told_to_stop_twice_while_the_first_order_is_being_written() {
    let mut world = world([("q", member("q", 4).preempts(WithinQueue::LowerPriority))])
        .with(holds("q/low", 4, 0))
        .with(wants("q/high", 4, 5));
    let plan = world.plan();
    world.state.follow(&plan, world.now, &world.policy);
    assert_eq!(world.plan().evict.len(), 0);
    world.tell(wants("q/higher", 2, 9));
    assert_eq!(world.plan().evict.len(), 0, "it takes what is on its way");
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn an_eviction_survives_a_restart_by_the_object_alone() {
    let mut world = world([("q", member("q", 4).preempts(WithinQueue::LowerPriority))])
        .with(holds("q/low", 4, 0))
        .with(wants("q/high", 4, 5));
    assert_eq!(names(&mut world), ["q/low"]);
    // A new process sees the objects and knows nothing else.
    let mut anew = super::world([("q", member("q", 4).preempts(WithinQueue::LowerPriority))]);
    for key in world.state.workloads() {
        anew.tell(world.state.workload(key).cloned().expect("it is there"));
    }
    assert_eq!(names(&mut anew), [""; 0]);
    assert_eq!(anew.verdict("q/high").map(|v| v.reason), Some(Reason::WaitingForPreemptedWorkloads));
    anew.stop();
    assert_eq!(anew.run(), ["q/high"]);
}

#[test]
fn in_a_strict_queue_some_may_be_admitted_and_the_next_held_by_the_same_plan() {
    let mut world = world([("q", member("q", 4).strict().preempts(WithinQueue::LowerPriority))])
        .with(holds("q/low", 2, 0))
        .with(wants("q/first", 1, 10))
        .with(wants("q/first-too", 1, 9))
        .with(wants("q/second", 2, 5))
        .with(wants("q/third", 1, 1));
    let plan = world.step(&mut ObligingApplier);
    assert_eq!((plan.admit.len(), plan.hold.len(), plan.evict.len()), (2, 1, 1));
    world.state.settle();
    assert_eq!(world.state.audit(), Ok(()));
    assert!(world.plan().is_empty(), "nobody is looked at until somebody stopped");
    world.stop();
    assert_eq!(world.run(), ["q/second"]);
}

#[test]
fn who_counted_on_what_another_would_free_looks_again_when_nobody_stops_after_all() {
    let mut world = world([
        ("a", member("a", 1).reclaims(Reclaim::Any)),
        ("b", member("b", 1).reclaims(Reclaim::Any)),
        ("guest", member("guest", 0)),
    ])
    .with(holds("guest/big", 2, 0))
    .with(wants("a/it", 1, 0))
    .with(wants("b/it", 1, 0));
    let plan = world.plan();
    world.state.follow(&plan, world.now, &world.policy);
    assert_eq!((plan.evict.len(), plan.hold.len()), (1, 2), "one eviction serves both");
    world.delete(&plan.evict[0].preemptor.to_string());
    assert_eq!(names(&mut world), ["guest/big"], "the other has it evicted for itself");
    world.stop();
    assert_eq!(world.run().len(), 1);
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn a_change_in_the_namespace_of_a_preemptor_takes_nothing_from_it() {
    for stop_is_written in [false, true] {
        let mut world = world([("q", member("q", 4).preempts(WithinQueue::LowerPriority))])
            .with(holds("q/low", 4, 0))
            .with(wants("q/high", 4, 5));
        let plan = world.plan();
        world.state.follow(&plan, world.now, &world.policy);
        if stop_is_written {
            world.tell_to_stop("q/low", Eviction::Preempted);
        }
        world.tell(namespace("q").label("team", "a"));
        world.state.settle();
        assert_eq!(world.state.audit(), Ok(()), "stop is written: {stop_is_written}");
        assert_eq!(world.used("q", "f", GPU).0, 4);
        assert_eq!(world.state.reservations().count(), 1);
        assert_eq!(world.state.leaving().count(), 1);
        assert_eq!(names(&mut world), [""; 0], "nobody is told twice");
    }
}

#[test]
fn a_preemptor_whose_queue_is_stopped_lets_those_go_on_who_were_not_told() {
    let mut world = world([("q", member("q", 4).preempts(WithinQueue::LowerPriority))])
        .with(holds("q/low", 4, 0))
        .with(wants("q/high", 4, 5));
    let plan = world.plan();
    world.state.follow(&plan, world.now, &world.policy);
    world.tell(local_queue("q/lq", "q").stopped());
    world.state.settle();
    assert_eq!(world.state.audit(), Ok(()));
    assert_eq!((world.state.reservations().count(), world.state.leaving().count()), (0, 0));
}

#[test]
fn who_others_stopped_for_gets_the_flavors_that_were_planned_where_a_new_search_would_end_elsewhere() {
    let fungibility =
        Fungibility { when_can_preempt: WhenCanPreempt::TryNextFlavor, ..Fungibility::default() };
    let q = queue("q")
        .group([GPU])
        .flavor("f", [(GPU, 4)])
        .flavor("g", [(GPU, 3)])
        .fungibility(fungibility)
        .preempts(WithinQueue::LowerPriority);
    let mut world = world([("q", q)])
        .with(flavor("g"))
        .with(holds("q/low", 4, 0))
        .with(workload("q/high").priority(5).pods("a", 1, [(GPU, 2)]).pods("b", 1, [(GPU, 4)]));
    assert_eq!(names(&mut world), ["q/low"]);
    world.stop();
    // Now the first pods would fit on the first flavor, and leave nothing for the second.
    assert_eq!(world.run(), ["q/high"]);
    let of = |pods| world.flavor_of("q/high", pods, GPU);
    assert_eq!((of("a"), of("b")), (Some("g"), Some("f")));
    assert!(world.comes_to_rest());
}
