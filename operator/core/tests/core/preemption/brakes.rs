//! What holds back preemption, and nothing else.

use whalezen_core::{
    brakes::{Brakes, Limit, Past},
    queue::WithinQueue,
    testing::World,
    verdict::Reason,
    workload::Timestamp,
};

use super::{holds, member, names, wants, world};

fn braked(brakes: Brakes) -> World {
    let queue = |name: &str| member(name, 2).preempts(WithinQueue::LowerPriority);
    let mut world = world([("a", queue("a")), ("b", queue("b"))])
        .with(holds("a/low-1", 1, 0))
        .with(holds("a/low-2", 1, 0))
        .with(holds("b/low", 2, 0));
    world.policy.brakes = brakes;
    world.now = Timestamp(1_000);
    world
}

fn limit(evictions: u32, by_queue: bool) -> Brakes {
    Brakes {
        frozen: None,
        limits: vec![Limit { policy: "p".into(), by_queue, evictions, within: 60_000, since: None }],
    }
}

fn message(world: &World, workload: &str) -> String {
    let verdict = world.verdict(workload).expect("it waits");
    assert_eq!(verdict.reason, Reason::WaitingForQuota);
    verdict.message
}

#[test]
fn in_a_freeze_nobody_is_evicted_and_whoever_fits_is_admitted() {
    let mut world = braked(Brakes { frozen: Some("SchedulingPolicy p freezes".into()), limits: vec![] })
        .with(wants("a/high", 1, 9));
    assert_eq!(names(&mut world), [""; 0]);
    assert!(message(&world, "a/high").ends_with("Nobody is preempted: SchedulingPolicy p freezes"));
    world.finish("a/low-1");
    assert_eq!(world.run(), ["a/high"]);
}

#[test]
fn after_a_freeze_those_are_looked_at_who_were_held_back() {
    let mut world =
        braked(Brakes { frozen: Some("frozen".into()), limits: vec![] }).with(wants("a/high", 1, 9));
    assert_eq!(names(&mut world), [""; 0]);
    world.policy.brakes = Brakes::default();
    assert!(world.plan().is_empty(), "nobody knows yet");
    world.state.release_brakes();
    assert_eq!(names(&mut world).len(), 1);
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn no_more_are_evicted_in_a_time_than_a_limit_allows() {
    let mut world = braked(limit(1, false)).with(wants("a/high", 1, 9)).with(wants("b/high", 2, 9));
    assert_eq!(names(&mut world).len(), 1, "one of the two");
    let held_back = if world.evicted() == ["b/low"] { "a/high" } else { "b/high" };
    assert!(
        message(&world, held_back)
            .ends_with("SchedulingPolicy p allows 1 evictions in 60 s, and there were 1")
    );
    world.now = Timestamp(60_999);
    world.state.release_brakes();
    assert_eq!(names(&mut world), [""; 0]);
    world.now = Timestamp(61_000);
    world.state.release_brakes();
    assert_eq!(names(&mut world).len(), 1);
}

#[test]
fn a_limit_by_queue_counts_each_queue_for_itself() {
    let mut world = braked(limit(1, true)).with(wants("a/high", 2, 9)).with(wants("b/high", 2, 9));
    assert_eq!(names(&mut world), ["b/low"], "the other would need two victims of one queue");
    assert!(message(&world, "a/high").contains("of ClusterQueue a in 60 s"));
}

#[test]
fn who_stops_already_counts_once() {
    let mut world = braked(limit(1, false)).with(wants("b/high", 2, 9));
    assert_eq!(names(&mut world), ["b/low"]);
    world.tell(wants("b/higher", 2, 10));
    assert_eq!(names(&mut world), [""; 0]);
    world.stop();
    assert_eq!(world.run(), ["b/higher"], "it takes what was freed without another eviction");
}

#[test]
fn a_new_leader_goes_on_counting_where_the_last_one_ended_and_counts_nothing_twice() {
    let past = |queue: &str, at| Past { at: Timestamp(at), queue: queue.into() };
    let mut world = braked(limit(1, true)).with(wants("a/high", 1, 9));
    world.state.recall_evictions(vec![past("a", 500)]);
    assert_eq!(names(&mut world), [""; 0]);
    assert!(message(&world, "a/high").ends_with("and there were 1"));
    let known = |world: &World| -> Vec<Past> { world.state.past_evictions().cloned().collect() };
    world.state.recall_evictions(vec![past("a", 700)]);
    assert_eq!(known(&world), [past("a", 500)], "the same one, by another clock");
    world.state.recall_evictions(vec![past("b", 300), past("a", 400), past("a", 600)]);
    assert_eq!(known(&world), [past("b", 300), past("a", 400), past("a", 600)]);
    world.now = Timestamp(61_000);
    world.state.release_brakes();
    assert_eq!(names(&mut world).len(), 1);
}
