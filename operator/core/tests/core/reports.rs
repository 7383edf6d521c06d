//! Which conditions are due, and when.

use whalezen_core::{
    name::LocalQueueKey,
    testing::{QueueBuilder, WorkloadBuilder, World, flavor, key, local_queue, queue, workload},
    verdict::Reason,
};

use crate::GPU;

fn wants(name: &str, gpus: i64, since: i64) -> WorkloadBuilder {
    workload(&format!("ns/{name}")).since(since).pods("main", 1, [(GPU, gpus)])
}

fn world(shape: impl Fn(QueueBuilder) -> QueueBuilder) -> World {
    let cq = shape(queue("cq").group([GPU]).flavor("f", [(GPU, 8)]));
    World::new().with(flavor("f")).with(local_queue("ns/lq", "cq")).with(cq)
}

fn reports(world: &mut World) -> Vec<String> {
    world.run();
    world.reports()
}

#[test]
fn a_reason_to_wait_is_reported_once_and_who_need_not_wait_hears_nothing() {
    let mut world =
        world(|cq| cq).with(wants("runs", 8, 0)).with(wants("waits", 1, 1)).with(wants("huge", 9, 2));
    assert_eq!(reports(&mut world), ["ns/huge: ExceedsMaxQuota", "ns/waits: WaitingForQuota"]);
    assert_eq!(reports(&mut world), [""; 0]);
}

#[test]
fn nothing_is_reported_before_somebody_looked() {
    let mut world = world(|cq| cq).with(wants("runs", 8, 0)).with(wants("waits", 1, 1));
    world.state.settle();
    assert_eq!(world.reports(), [""; 0]);
    assert_eq!(world.verdict("ns/waits"), None);
    assert_eq!(reports(&mut world), ["ns/waits: WaitingForQuota"]);
}

#[test]
fn a_newcomer_of_a_sleeping_class_is_told_without_being_looked_at() {
    let mut world = world(|cq| cq).with(wants("runs", 8, 0)).with(wants("waits", 1, 1));
    reports(&mut world);
    world.tell(wants("new", 1, 2));
    assert_eq!(reports(&mut world), ["ns/new: WaitingForQuota"]);
}

#[test]
fn a_reason_is_reported_again_when_it_changes_and_not_when_the_numbers_do() {
    let mut world = world(|cq| cq).with(wants("a", 4, 0)).with(wants("b", 4, 0)).with(wants("it", 8, 1));
    assert_eq!(reports(&mut world), ["ns/it: WaitingForQuota"]);
    let needed = |world: &World| world.verdict("ns/it").unwrap().message.contains("8 more needed");
    assert!(needed(&world));
    world.finish("ns/a");
    assert_eq!(reports(&mut world), [""; 0]);
    assert!(!needed(&world), "whoever asks is told the numbers of now");
    world.tell(queue("cq").group([GPU]).flavor("f", [(GPU, 4)]));
    assert_eq!(reports(&mut world), ["ns/it: ExceedsMaxQuota"]);
}

#[test]
fn who_misses_one_thing_after_another_is_told_each_although_the_reason_is_one() {
    let mut it: whalezen_core::workload::Workload = wants("it", 1, 0).into();
    it.queue = LocalQueueKey::new("ns", "other");
    let mut world = world(|cq| cq).with(it);
    assert_eq!(reports(&mut world), ["ns/it: Misconfigured"]);
    assert_eq!(reports(&mut world), [""; 0]);
    world.tell(local_queue("ns/other", "missing"));
    assert_eq!(reports(&mut world), ["ns/it: Misconfigured"]);
    assert_eq!(world.verdict("ns/it").unwrap().message, "ClusterQueue missing doesn't exist");
    assert_eq!(reports(&mut world), [""; 0]);
}

#[test]
fn a_verdict_stands_until_what_speaks_against_it_is_in_force() {
    let mut world = world(|cq| cq).with(wants("a", 8, 0)).with(wants("it", 8, 1));
    reports(&mut world);
    world.state.delete_flavor(&"f".into());
    let reason = |world: &World| world.verdict("ns/it").map(|verdict| verdict.reason);
    assert_eq!(reason(&world), Some(Reason::WaitingForQuota));
    world.run();
    assert_eq!(reason(&world), Some(Reason::Suspended));
}

#[test]
fn what_the_object_shows_already_is_not_reported() {
    let mut before = world(|cq| cq).with(wants("it", 90, 0));
    before.run();
    let mut it: whalezen_core::workload::Workload = wants("it", 9, 0).into();
    it.reported = before.verdict("ns/it").map(|shown| shown.told());
    let mut world = world(|cq| cq).with(it);
    assert_eq!(reports(&mut world), [""; 0]);
    // Somebody else overwrites it.
    world.change("ns/it", |workload| workload.reported = None);
    assert_eq!(reports(&mut world), ["ns/it: ExceedsMaxQuota"]);
}

#[test]
fn a_report_that_could_not_be_written_is_due_again() {
    let mut world = world(|cq| cq).with(wants("it", 9, 0));
    assert_eq!(reports(&mut world).len(), 1);
    world.state.report_again(&key("ns/it"));
    assert_eq!(reports(&mut world), ["ns/it: ExceedsMaxQuota"]);
    world.state.report_again(&key("ns/gone"));
    assert_eq!(reports(&mut world), [""; 0]);
}

#[test]
fn reports_come_in_portions() {
    let mut world = world(|cq| cq);
    for index in 0..5 {
        world.tell(wants(&format!("it-{index}"), 9, 0));
    }
    world.run();
    let portions = [2, 2, 2, 2].map(|limit| world.state.take_reports(limit).len());
    assert_eq!(portions, [2, 2, 1, 0]);
}

#[test]
fn who_stops_waiting_before_it_is_reported_is_not_reported() {
    let mut world = world(|cq| cq)
        .with(wants("runs", 8, 0))
        .with(wants("deleted", 1, 1))
        .with(wants("finished", 1, 1))
        .with(wants("admitted", 1, 1).priority(-1));
    world.run();
    world.delete("ns/deleted");
    world.finish("ns/finished");
    world.finish("ns/runs");
    world.run();
    assert_eq!(world.holders(), ["ns/admitted"]);
    assert_eq!(world.reports(), [""; 0]);
}

#[test]
fn a_strict_queue_tells_its_head_what_it_lacks_and_the_others_that_they_stand_behind_it() {
    let mut world =
        world(QueueBuilder::strict).with(wants("runs", 8, 0)).with(wants("b", 1, 2)).with(wants("c", 1, 3));
    assert_eq!(reports(&mut world), ["ns/b: WaitingForQuota", "ns/c: PendingEvaluation"]);
    // Somebody goes before them.
    world.tell(wants("a", 1, 1));
    assert_eq!(reports(&mut world), ["ns/a: WaitingForQuota", "ns/b: PendingEvaluation"]);
    // The head leaves, and the next one is told that it is its turn.
    world.delete("ns/a");
    assert_eq!(reports(&mut world), ["ns/b: WaitingForQuota"]);
    world.delete("ns/b");
    assert_eq!(reports(&mut world), ["ns/c: WaitingForQuota"]);
}

#[test]
fn a_blocked_workload_is_told_what_blocks_it() {
    let mut world =
        world(QueueBuilder::stopped).with(wants("it", 1, 0)).with(wants("lost", 1, 0).queue("none"));
    assert_eq!(reports(&mut world), ["ns/it: Suspended", "ns/lost: Misconfigured"]);
    world.tell(queue("cq").group([GPU]).flavor("f", [(GPU, 0)]));
    assert_eq!(reports(&mut world), ["ns/it: ExceedsMaxQuota"]);
}
