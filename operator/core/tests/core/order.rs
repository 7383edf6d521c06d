//! Who of one queue is looked at first, who waits behind whom, and who sleeps until when.

use whalezen_core::{
    testing::{QueueBuilder, World, flavor, local_queue, queue, workload},
    verdict::{Reason, Verdict},
    workload::Phase,
};

use crate::GPU;

fn world(gpus: i64, shape: impl Fn(QueueBuilder) -> QueueBuilder) -> World {
    let cq = shape(queue("cq").group([GPU]).flavor("f", [(GPU, gpus)]));
    World::new().with(flavor("f")).with(local_queue("ns/lq", "cq")).with(cq)
}

fn strict(queue: QueueBuilder) -> QueueBuilder {
    queue.strict()
}

fn best_effort(queue: QueueBuilder) -> QueueBuilder {
    queue
}

/// `ns/name` with this many GPUs, since `since`.
fn wants(name: &str, gpus: i64, since: i64) -> whalezen_core::testing::WorkloadBuilder {
    workload(&format!("ns/{name}")).since(since).pods("main", 1, [(GPU, gpus)])
}

fn reason(world: &World, workload: &str) -> Option<Reason> {
    world.verdict(workload).map(|verdict| verdict.reason)
}

#[test]
fn higher_priority_goes_first_then_who_waits_longer_then_by_name() {
    for shape in [strict, best_effort] {
        let mut world = world(8, shape)
            .with(wants("late", 1, 30))
            .with(wants("b", 1, 10))
            .with(wants("a", 1, 10))
            .with(wants("urgent", 1, 40).priority(1))
            .with(wants("early", 2, 5))
            .with(wants("never", 1, 1).priority(-1));
        let order = ["ns/urgent", "ns/early", "ns/a", "ns/b", "ns/late", "ns/never"];
        assert_eq!(world.run(), order);
    }
}

#[test]
fn strict_fifo_blocks_everybody_behind_a_head_that_does_not_fit() {
    let mut world =
        world(8, strict).with(wants("running", 4, 0)).with(wants("big", 8, 1)).with(wants("small", 1, 2));
    assert_eq!(world.run(), ["ns/running"]);
    assert_eq!(reason(&world, "ns/big"), Some(Reason::WaitingForQuota));
    let behind = world.verdict("ns/small").expect("it waits");
    assert_eq!(behind.reason, Reason::PendingEvaluation);
    assert_eq!(
        behind.message,
        "waits behind ns/big, the first in line in ClusterQueue cq, which is StrictFIFO"
    );
    world.finish("ns/running");
    assert_eq!(world.run(), ["ns/big"]);
    world.finish("ns/big");
    assert_eq!(world.run(), ["ns/small"]);
}

#[test]
fn best_effort_fifo_lets_those_pass_who_fit() {
    let mut world = world(8, best_effort)
        .with(wants("running", 4, 0))
        .with(wants("big", 8, 1))
        .with(wants("small", 1, 2));
    assert_eq!(world.run(), ["ns/running", "ns/small"]);
    assert_eq!(reason(&world, "ns/big"), Some(Reason::WaitingForQuota));
}

#[test]
fn a_strict_head_that_can_never_fit_blocks_until_a_person_takes_it_out() {
    for (what, take_out) in [
        ("deleted", (|world: &mut World| world.delete("ns/huge")) as fn(&mut World)),
        ("deactivated", |world| world.change("ns/huge", |workload| workload.active = false)),
        ("moved to another queue", |world| {
            world.change("ns/huge", |workload| workload.queue.name = "elsewhere".into());
        }),
        ("demoted", |world| world.change("ns/huge", |workload| workload.priority = -1)),
    ] {
        let mut world = world(8, strict).with(wants("huge", 9, 0)).with(wants("small", 1, 1));
        assert_eq!(world.run(), [""; 0], "{what}");
        assert_eq!(reason(&world, "ns/huge"), Some(Reason::ExceedsMaxQuota));
        take_out(&mut world);
        assert_eq!(world.run(), ["ns/small"], "{what}");
    }
}

#[test]
fn a_newcomer_at_the_front_of_a_blocked_strict_queue_is_looked_at_and_one_behind_is_not() {
    let mut world = world(8, strict).with(wants("running", 4, 0)).with(wants("big", 8, 5));
    world.run();
    world.tell(wants("behind", 1, 9));
    assert_eq!(world.plan().park.len() + world.plan().admit.len(), 0, "nobody is looked at");
    world.tell(wants("urgent", 2, 9).priority(1));
    assert_eq!(world.run(), ["ns/urgent"]);
    world.tell(wants("older", 3, 1));
    world.run();
    assert_eq!(reason(&world, "ns/older"), Some(Reason::WaitingForQuota), "it is the head now");
    assert_eq!(reason(&world, "ns/big"), Some(Reason::PendingEvaluation));
}

#[test]
fn equal_workloads_are_parked_together_and_looked_at_once() {
    let mut world = world(1, best_effort).with(wants("running", 1, 0));
    for index in 0..50 {
        world.tell(wants(&format!("equal-{index:02}"), 1, 100 - index));
        world.tell(wants(&format!("other-{index:02}"), 1, 0).priority(1));
    }
    let plan = world.step(&mut whalezen_core::testing::ObligingApplier);
    assert_eq!((plan.admit.len(), plan.park.len()), (1, 2), "one verdict for each class");
    assert_eq!(world.holders(), ["ns/other-00"], "the higher priority goes first");
    world.tell(wants("equal-50", 1, 1));
    assert_eq!(world.plan().park.len(), 0, "a newcomer of a sleeping class is not looked at");
    assert_eq!(reason(&world, "ns/equal-50"), Some(Reason::WaitingForQuota), "and knows why it waits");
}

#[test]
fn whoever_missed_something_wakes_when_enough_of_it_is_there_and_not_before() {
    let mut world = world(8, best_effort)
        .with(wants("one", 1, 0))
        .with(wants("three", 3, 0))
        .with(wants("four", 4, 0))
        .with(wants("six", 6, 1))
        .with(wants("two", 2, 2));
    world.run();
    assert_eq!(world.holders(), ["ns/four", "ns/one", "ns/three"]);
    world.finish("ns/one");
    assert_eq!(world.plan().park.len(), 0, "one is too little for either");
    world.finish("ns/three");
    assert_eq!(world.run(), ["ns/two"], "four are enough for two and not for six");
    world.finish("ns/four");
    assert_eq!(world.run(), ["ns/six"]);
}

#[test]
fn whoever_asks_for_too_much_sleeps_until_quota_is_declared() {
    let mut world = world(8, best_effort).with(wants("running", 8, 0)).with(wants("huge", 9, 1));
    world.run();
    world.finish("ns/running");
    assert_eq!(world.plan().park.len(), 0, "what is given back cannot help");
    world.tell(queue("cq").group([GPU]).flavor("f", [(GPU, 9)]));
    assert_eq!(world.run(), ["ns/huge"]);
}

#[test]
fn whoever_lacks_one_thing_for_now_and_another_for_ever_sleeps_until_quota_is_declared() {
    let one_group = queue("cq").group(["cpu", GPU]).flavor("f", [("cpu", 2), (GPU, 8)]);
    let two_groups =
        queue("cq").group(["cpu"]).flavor("f", [("cpu", 2)]).group([GPU]).flavor("g", [(GPU, 8)]);
    for cq in [one_group, two_groups] {
        for lacking_for_ever in [("cpu", 3), ("memory", 1), ("rdma/hca", 1)] {
            let mut world = World::new().with(flavor("f")).with(flavor("g")).with(local_queue("ns/lq", "cq"));
            world.tell(cq.clone());
            world.tell(wants("running", 8, 0));
            world.tell(workload("ns/it").since(1).pods("main", 1, [(GPU, 1), lacking_for_ever]));
            world.run();
            assert!(world.verdict("ns/it").is_some());
            world.finish("ns/running");
            assert_eq!(world.plan().park.len(), 0, "{lacking_for_ever:?}");
        }
    }
}

#[test]
fn a_pod_set_that_is_too_large_only_beside_another_wakes_when_that_one_can_move() {
    // The first pod set takes `b` because `a` is full; then the second, which must have `b`, is too large for it.
    let cq = queue("cq").group([GPU]).flavor("a", [(GPU, 4)]).flavor("b", [(GPU, 4)]);
    let mut world = World::new()
        .with(flavor("a").label("kind", "a"))
        .with(flavor("b").label("kind", "b"))
        .with(local_queue("ns/lq", "cq"))
        .with(cq)
        .with(wants("running", 4, 0).select("kind", "a"))
        .with(wants("it", 4, 1).pods("picky", 1, [(GPU, 4)]).select("kind", "b"));
    assert_eq!(world.run(), ["ns/running"]);
    assert_eq!(reason(&world, "ns/it"), Some(Reason::ExceedsMaxQuota));
    world.change("ns/running", |workload| {
        if let Phase::Reserved { admitted, .. } = &mut workload.phase {
            *admitted = false;
        }
    });
    assert_eq!(world.plan().park.len(), 0, "nothing was given back");
    world.finish("ns/running");
    assert_eq!(world.run(), ["ns/it"]);
    assert_eq!(world.flavor_of("ns/it", "main", GPU), Some("a"));
}

#[test]
fn a_workload_that_changes_while_it_sleeps_is_looked_at_as_what_it_is_now() {
    let mut world = world(4, best_effort).with(wants("running", 3, 0)).with(wants("it", 2, 1));
    world.run();
    world.change("ns/it", |workload| {
        let mut sets = workload.pod_sets.clone().unwrap().to_vec();
        sets[0].per_pod.insert(GPU.into(), whalezen_core::quantity::Amount(1));
        workload.pod_sets = Ok(sets.into());
    });
    assert_eq!(world.run(), ["ns/it"]);
}

#[test]
fn an_event_that_changes_nothing_about_a_workload_wakes_nobody() {
    for shape in [strict, best_effort] {
        let mut world = world(4, shape).with(wants("running", 4, 0)).with(wants("it", 2, 1));
        world.run();
        world.change("ns/it", |workload| {
            workload.reported = Some(Verdict::new(Reason::WaitingForQuota, "").told());
        });
        world.change("ns/running", |_| {});
        let plan = world.plan();
        assert_eq!(plan.park.len() + plan.admit.len(), 0);
    }
}

fn line(world: &World) -> Vec<String> {
    let waiting = world.state.waiting(&"cq".into()).unwrap();
    waiting.into_iter().map(|workload| workload.key.to_string()).collect()
}

#[test]
fn who_waits_is_listed_in_the_order_of_trying_asleep_or_not() {
    for shape in [strict, best_effort] {
        let mut world = world(1, shape)
            .with(wants("late", 2, 30))
            .with(wants("b", 2, 10))
            .with(wants("urgent", 3, 40).priority(1))
            .with(wants("a", 2, 10));
        let order = ["ns/urgent", "ns/a", "ns/b", "ns/late"];
        world.state.settle();
        assert_eq!(line(&world), order);
        assert_eq!(world.run(), [""; 0]);
        assert_eq!(line(&world), order);
    }
    assert!(world(1, strict).state.waiting(&"other".into()).is_none());
}

#[test]
fn who_waits_for_a_stopped_queue_is_listed_too() {
    let mut world = world(1, QueueBuilder::stopped).with(wants("late", 1, 30)).with(wants("early", 1, 10));
    world.run();
    assert_eq!(line(&world), ["ns/early", "ns/late"]);
}
