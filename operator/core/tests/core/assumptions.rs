//! What is believed about a write before the API server has answered, and what the answers do to it.

use whalezen_core::{
    plan::Admit,
    quantity::Amount,
    testing::{Answer, RefusingApplier, WorkloadBuilder, World, flavor, key, local_queue, queue, workload},
    verdict::Reason,
};

use crate::GPU;

/// Something that happens meanwhile.
type Step = fn(&mut World);

fn wants(name: &str, gpus: i64) -> WorkloadBuilder {
    workload(name).pods("main", 1, [(GPU, gpus)])
}

fn world() -> World {
    let cq = queue("cq").group([GPU]).flavor("f", [(GPU, 8)]);
    World::new().with(flavor("f")).with(local_queue("ns/lq", "cq")).with(cq)
}

fn used(world: &World) -> i64 {
    world.used("cq", "f", GPU).0
}

/// A world in which the admission of `ns/it` (6 of 8 GPUs) was planned and is believed.
fn assumed() -> (World, Admit) {
    let mut world = world().with(wants("ns/it", 6).uid("first"));
    let admit = world.plan().admit.remove(0);
    assert!(world.state.assume(&admit));
    assert_eq!((used(&world), world.tally("cq").admitted), (6, 1));
    (world, admit)
}

fn settled_and_sound(world: &mut World) {
    world.state.settle();
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn what_is_believed_is_charged_at_once_and_planned_once() {
    let (mut world, _) = assumed();
    assert!(world.plan().admit.is_empty());
    world.tell(wants("ns/other", 3));
    assert_eq!(world.run(), [""; 0], "there is no room beside what is believed");
    settled_and_sound(&mut world);
}

#[test]
fn an_answer_makes_it_a_fact() {
    let (mut world, admit) = assumed();
    let answer = world.accepted(&admit).unwrap();
    world.state.confirm(answer);
    assert_eq!(used(&world), 6);
    world.state.forget(&key("ns/it"));
    assert_eq!(used(&world), 6, "there is nothing left to forget");
    settled_and_sound(&mut world);
}

#[test]
fn the_watch_may_be_faster_than_the_answer_or_slower() {
    let (mut world, admit) = assumed();
    let answer = world.accepted(&admit).unwrap();
    world.state.apply_workload(answer.clone());
    world.state.confirm(answer.clone());
    assert_eq!(used(&world), 6);
    world.state.apply_workload(answer);
    assert_eq!(used(&world), 6);
    settled_and_sound(&mut world);
}

#[test]
fn an_answer_that_comes_after_later_events_changes_nothing() {
    let (mut world, admit) = assumed();
    let answer = world.accepted(&admit).unwrap();
    world.state.apply_workload(answer.clone());
    world.finish("ns/it");
    world.state.confirm(answer.clone());
    assert_eq!(used(&world), 0);
    // And if the watch skipped the event in between: evicted already, while the answer is still on its way.
    let (mut world, _) = assumed();
    world.next_version();
    world.requeue("ns/it");
    assert_eq!(used(&world), 6, "the write is still believed");
    world.state.confirm(answer);
    assert_eq!(used(&world), 0, "what is newer is true");
    assert_eq!(world.run(), ["ns/it"]);
    settled_and_sound(&mut world);
}

#[test]
fn an_answer_after_deletion_brings_nothing_back() {
    let (mut world, admit) = assumed();
    let answer = world.accepted(&admit).unwrap();
    world.delete("ns/it");
    assert_eq!(used(&world), 0);
    world.state.confirm(answer);
    assert_eq!((used(&world), world.tally("cq").reserving), (0, 0));
    assert!(world.state.workload(&key("ns/it")).is_none());
    settled_and_sound(&mut world);
}

#[test]
fn a_workload_made_anew_under_the_same_name_is_another_one() {
    let (mut world, admit) = assumed();
    let answer = world.accepted(&admit).unwrap();
    world.tell(wants("ns/it", 7).uid("second"));
    assert_eq!(used(&world), 0, "what was believed of the first is not true of the second");
    world.state.confirm(answer.clone());
    assert_eq!(used(&world), 0);
    world.state.apply_workload(answer);
    assert_eq!(used(&world), 0, "an event about the first that comes late is ignored");
    assert_eq!(world.run(), ["ns/it"]);
    assert_eq!(used(&world), 7);
    settled_and_sound(&mut world);
}

#[test]
fn events_that_are_not_newer_are_ignored() {
    let mut world = world().with(wants("ns/it", 6).version(10));
    world.run();
    for version in [0, 9, 10] {
        let mut old: whalezen_core::workload::Workload = wants("ns/it", 1).into();
        old.version = version;
        world.state.apply_workload(old);
        assert_eq!(used(&world), 6, "version {version}");
    }
}

#[test]
fn a_conflict_takes_the_belief_back_and_the_next_plan_decides_again() {
    let mut world = world().with(wants("ns/it", 6)).with(wants("ns/other", 6));
    let plan = world.step(&mut RefusingApplier { times: 1, with: Answer::Conflict });
    assert_eq!(plan.admit.len(), 1);
    assert_eq!((used(&world), world.holders()), (0, vec![]));
    assert_eq!(world.run(), ["ns/it"]);
    settled_and_sound(&mut world);
}

#[test]
fn what_a_refusal_gives_back_wakes_those_who_waited_for_it() {
    let mut world = world().with(wants("ns/it", 6)).with(wants("ns/other", 6).since(1));
    world.run_with(&mut RefusingApplier { times: 1, with: Answer::Refused });
    assert_eq!(world.holders(), ["ns/other"]);
    let verdict = world.verdict("ns/it").expect("it waits");
    assert_eq!(verdict.reason, Reason::PendingEvaluation);
    assert_eq!(verdict.message, "The admission was refused and will be tried again: no");
    world.finish("ns/other");
    assert_eq!(world.run(), [""; 0], "it was refused");
    world.state.try_again(&key("ns/it"));
    assert_eq!(world.run(), ["ns/it"]);
    settled_and_sound(&mut world);
}

#[test]
fn a_refused_workload_is_tried_again_when_its_object_changes() {
    let mut world = world().with(wants("ns/it", 6));
    world.run_with(&mut RefusingApplier { times: 1, with: Answer::Refused });
    world.change("ns/it", |workload| workload.priority = 1);
    assert_eq!(world.run(), ["ns/it"]);
}

#[test]
fn nothing_is_believed_of_a_workload_that_is_not_what_was_planned_for() {
    let stale: [(&str, Step); 5] = [
        ("it changed", |world| world.change("ns/it", |workload| workload.priority = 1)),
        ("it finished", |world| world.finish("ns/it")),
        ("it is gone", |world| world.delete("ns/it")),
        ("it was deactivated", |world| world.change("ns/it", |workload| workload.active = false)),
        ("it holds quota already", |world| {
            let plan = world.plan();
            world.apply(&plan, &mut whalezen_core::testing::ObligingApplier);
        }),
    ];
    for (what, change) in stale {
        let mut world = world().with(wants("ns/it", 6));
        let admit = world.plan().admit.remove(0);
        change(&mut world);
        let before = used(&world);
        assert!(!world.state.assume(&admit), "{what}");
        assert_eq!(used(&world), before, "{what}");
        settled_and_sound(&mut world);
    }
    let mut world = world().with(wants("ns/it", 6));
    let admit = world.plan().admit.remove(0);
    world.delete("ns/it");
    world.state.assume(&admit);
    world.tell(wants("ns/it", 8).uid("again"));
    assert_eq!(world.run(), ["ns/it"], "nothing believed of the first hangs over its successor");
    assert_eq!(used(&world), 8);
}

#[test]
fn nothing_is_believed_of_a_workload_that_has_left_its_queue() {
    let mut world = world().with(wants("ns/it", 6));
    let admit = world.plan().admit.remove(0);
    world.tell(queue("cq").group([GPU]).flavor("f", [(GPU, 8)]).stopped());
    world.state.settle();
    assert!(!world.state.assume(&admit), "its queue was stopped");
    assert_eq!(used(&world), 0);
}

#[test]
fn a_workload_that_now_holds_quota_elsewhere_lets_others_in() {
    let mut world = world()
        .with(queue("other").group([GPU]).flavor("f", [(GPU, 8)]))
        .with(wants("ns/it", 6))
        .with(wants("ns/waits", 6).since(1));
    assert_eq!(world.run(), ["ns/it"]);
    world.tell(wants("ns/it", 6).holding("other", "f"));
    assert_eq!(world.run(), ["ns/waits"]);
}

#[test]
fn one_plan_is_believed_once() {
    let mut world = world().with(wants("ns/it", 6));
    let admit = world.plan().admit.remove(0);
    assert!(world.state.assume(&admit));
    assert!(!world.state.assume(&admit));
    assert_eq!(used(&world), 6);
}

#[test]
fn an_evicted_workload_is_charged_until_its_quota_is_taken_back() {
    let mut world = world().with(wants("ns/it", 6));
    world.run();
    world.change("ns/it", |workload| {
        if let whalezen_core::workload::Phase::Reserved { evicted, .. } = &mut workload.phase {
            *evicted = Some(whalezen_core::workload::Eviction::Otherwise);
        }
        workload.active = false;
    });
    assert_eq!(used(&world), 6);
    world.requeue("ns/it");
    assert_eq!(used(&world), 0);
    assert_eq!(world.run(), [""; 0], "it is deactivated");
}

#[test]
fn a_workload_that_gives_back_a_part_lets_others_in() {
    let mut world = world().with(workload("ns/it").pods("main", 8, [(GPU, 1)])).with(wants("ns/other", 3));
    world.run();
    world.change("ns/it", |workload| {
        if let whalezen_core::workload::Phase::Reserved { admission, .. } = &mut workload.phase {
            admission.pod_sets[0].count = 5;
            admission.pod_sets[0].usage.insert(GPU.into(), Amount(5));
        }
    });
    assert_eq!(world.run(), ["ns/other"]);
    settled_and_sound(&mut world);
}
