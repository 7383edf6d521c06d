//! Workloads that hold less than they were given, or make do with less than they ask for.

use whalezen_core::{
    quantity::Amount,
    testing::{World, flavor, local_queue, queue, workload},
    workload::Phase,
};

use crate::GPU;

fn world(gpus: i64) -> World {
    let cq = queue("cq").group([GPU]).flavor("f", [(GPU, gpus)]);
    World::new().with(flavor("f")).with(local_queue("ns/lq", "cq")).with(cq)
}

fn used(world: &World) -> i64 {
    world.used("cq", "f", GPU).0
}

#[test]
fn pods_that_have_done_their_work_give_their_quota_back_at_once() {
    let mut world = world(8).with(workload("ns/it").pods("main", 4, [(GPU, 2)]).pods("other", 0, [(GPU, 1)]));
    world.tell(workload("ns/next").pods("main", 2, [(GPU, 2)]));
    assert_eq!(world.run(), ["ns/it"]);
    for (left, usage, then) in [(3, 6, &[][..]), (2, 4, &["ns/next"][..]), (1, 2, &[]), (0, 0, &[])] {
        world.change("ns/it", |workload| {
            workload.left.insert("main".into(), left);
        });
        assert_eq!(world.run(), then, "{left} left");
        let others = if left <= 2 { 4 } else { 0 };
        assert_eq!(used(&world), usage + others, "{left} left");
        assert_eq!(world.state.audit(), Ok(()));
    }
}

#[test]
fn what_was_admitted_with_fewer_pods_is_charged_for_those_until_even_fewer_are_left() {
    let mut world = world(8).with(workload("ns/it").pods("main", 4, [(GPU, 2)]).holding("cq", "f"));
    world.change("ns/it", |workload| {
        if let Phase::Reserved { admission, .. } = &mut workload.phase {
            admission.pod_sets[0].count = 2;
            admission.pod_sets[0].usage.insert(GPU.into(), Amount(4));
        }
    });
    for (left, usage) in [(9, 4), (3, 4), (2, 4), (1, 2), (0, 0), (2, 4)] {
        world.change("ns/it", |workload| {
            workload.left.insert("main".into(), left);
        });
        world.state.settle();
        assert_eq!(used(&world), usage, "{left} left");
        assert_eq!(world.state.audit(), Ok(()));
    }
}

#[test]
fn whoever_could_preempt_a_workload_is_looked_at_again_when_its_priority_falls() {
    use whalezen_core::queue::WithinQueue;
    let cq = queue("cq").group([GPU]).flavor("f", [(GPU, 2)]).preempts(WithinQueue::LowerPriority);
    let mut world = World::new().with(flavor("f")).with(local_queue("ns/lq", "cq")).with(cq);
    world.tell(workload("ns/low").priority(10).pods("main", 1, [(GPU, 2)]));
    world.run();
    world.tell(workload("ns/high").priority(5).pods("main", 1, [(GPU, 2)]));
    assert!(world.run().is_empty());
    world.change("ns/low", |workload| workload.priority = 1);
    assert_eq!(world.plan().evict.len(), 1);
}

/// A job that holds so many GPUs of 8, and the workload by which it grows to this many.
fn growing(from: u32, to: u32) -> World {
    let old = workload("ns/old").job("j").pods("main", from, [(GPU, 1)]).holding("cq", "f");
    world(8).with(old).with(workload("ns/new").job("j").replaces("ns/old").pods("main", to, [(GPU, 1)]))
}

#[test]
fn a_job_that_grows_needs_quota_only_for_what_is_new() {
    let mut world = growing(4, 8);
    assert_eq!(world.run(), ["ns/new"]);
    assert_eq!(used(&world), 8, "what both hold is charged once");
    let given = world.state.admission(&whalezen_core::testing::key("ns/new")).unwrap();
    assert_eq!((given.pod_sets[0].count, given.usage().into_values().next()), (8, Some(Amount(8))));
    assert_eq!(world.state.audit(), Ok(()));
    world.finish("ns/old");
    world.state.settle();
    assert_eq!(used(&world), 8, "and then it is all the new one's");
    assert_eq!(world.state.audit(), Ok(()));
    world.finish("ns/new");
    world.state.settle();
    assert_eq!(used(&world), 0);
}

#[test]
fn a_job_that_cannot_grow_waits_and_keeps_what_it_has() {
    let mut world = growing(4, 9);
    assert!(world.run().is_empty());
    let verdict = world.verdict("ns/new").unwrap();
    assert!(verdict.message.contains("insufficient unused quota"), "{verdict:?}");
    assert_eq!(used(&world), 4);
    world.tell(workload("ns/other").pods("main", 4, [(GPU, 1)]));
    assert_eq!(world.run(), ["ns/other"], "whoever waits takes nothing from others");
    world.finish("ns/other");
    world.change("ns/old", |workload| {
        workload.left.insert("main".into(), 3);
    });
    assert!(world.run().is_empty(), "9 are too many however they are counted");
    world.change("ns/old", |workload| workload.phase = Phase::Finished);
    assert!(world.run().is_empty());
    assert_eq!(world.verdict("ns/new").unwrap().reason, whalezen_core::verdict::Reason::ExceedsMaxQuota);
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn it_grows_when_room_for_the_rest_is_given_back() {
    let mut world = growing(2, 6).with(workload("ns/other").pods("main", 6, [(GPU, 1)]).holding("cq", "f"));
    assert!(world.run().is_empty());
    world.change("ns/other", |workload| {
        workload.left.insert("main".into(), 2);
    });
    assert_eq!(world.run(), ["ns/new"]);
    assert_eq!(used(&world), 8);
}

#[test]
fn it_grows_where_it_is() {
    let two = queue("cq").group([GPU]).flavor("f", [(GPU, 8)]).flavor("g", [(GPU, 8)]);
    let mut world = World::new()
        .with(flavor("f"))
        .with(flavor("g"))
        .with(local_queue("ns/lq", "cq"))
        .with(two)
        .with(workload("ns/old").job("j").pods("main", 2, [(GPU, 1)]).holding("cq", "g"))
        .with(workload("ns/new").job("j").replaces("ns/old").pods("main", 4, [(GPU, 1)]))
        .with(workload("ns/full").pods("main", 6, [(GPU, 1)]).holding("cq", "g"));
    assert!(world.run().is_empty());
    let message = world.verdict("ns/new").unwrap().message;
    assert!(
        message.contains("could not assign f flavor since the original workload is assigned: g"),
        "{message}"
    );
    world.finish("ns/full");
    assert_eq!(world.run(), ["ns/new"]);
    assert_eq!(world.flavor_of("ns/new", "main", GPU), Some("g"));
}

#[test]
fn only_a_workload_of_the_same_job_that_holds_quota_can_be_replaced() {
    for (what, old, new) in [
        ("another job", workload("ns/old").job("other"), workload("ns/new").job("j").replaces("ns/old")),
        ("no job", workload("ns/old"), workload("ns/new").replaces("ns/old")),
        ("nobody", workload("ns/old").job("j"), workload("ns/new").job("j").replaces("ns/nobody")),
        ("itself", workload("ns/old").job("j"), workload("ns/new").job("j").replaces("ns/new")),
    ] {
        let old = old.pods("main", 4, [(GPU, 1)]).holding("cq", "f");
        let mut world = world(8).with(old).with(new.pods("main", 8, [(GPU, 1)]));
        assert!(world.run().is_empty(), "{what}");
        assert_eq!(world.state.audit(), Ok(()));
    }
    let mut world = growing(4, 8);
    world.change("ns/old", |workload| {
        if let Phase::Reserved { evicted, .. } = &mut workload.phase {
            *evicted = Some(whalezen_core::workload::Eviction::Otherwise);
        }
    });
    assert!(world.run().is_empty(), "who is told to stop hands nothing on");
    world.finish("ns/old");
    assert_eq!(world.run(), ["ns/new"], "and afterwards it is one that wants eight");
}

/// How many pods `ns/it` was given of the eight that it would like.
fn given(world: &World) -> Option<u32> {
    Some(world.state.admission(&whalezen_core::testing::key("ns/it"))?.pod_sets[0].count)
}

#[test]
fn a_workload_that_makes_do_with_fewer_pods_gets_as_many_as_there_is_room_for() {
    for (taken, least, want) in
        [(0, 3, Some(8)), (1, 3, Some(7)), (5, 3, Some(3)), (6, 3, None), (6, 8, None)]
    {
        let mut world =
            world(8).with(workload("ns/other").pods("main", taken, [(GPU, 1)]).holding("cq", "f"));
        world.tell(workload("ns/it").pods("main", 8, [(GPU, 1)]).at_least(least));
        world.run();
        assert_eq!(given(&world), want, "{taken} are taken, {least} are enough");
        assert_eq!(used(&world), i64::from(taken + want.unwrap_or_default()));
        assert_eq!(world.state.audit(), Ok(()));
    }
}

#[test]
fn it_is_looked_at_again_as_soon_as_the_fewest_fit() {
    for wants in [8, 99] {
        let mut world = world(8).with(workload("ns/other").pods("main", 7, [(GPU, 1)]).holding("cq", "f"));
        world.tell(workload("ns/it").pods("main", wants, [(GPU, 1)]).at_least(3));
        assert!(world.run().is_empty());
        for (left, want) in [(6, None), (4, Some(4))] {
            world.change("ns/other", |workload| {
                workload.left.insert("main".into(), left);
            });
            world.run();
            assert_eq!(given(&world), want, "{left} left");
        }
    }
}

#[test]
fn it_preempts_for_all_of_its_pods_if_it_can_and_for_fewer_if_that_is_all_it_can() {
    use whalezen_core::queue::WithinQueue;
    let cq = queue("cq").group([GPU]).flavor("f", [(GPU, 8)]).preempts(WithinQueue::LowerPriority);
    let basis = World::new().with(flavor("f")).with(local_queue("ns/lq", "cq")).with(cq);
    let low = |name: &str, gpus, priority| {
        workload(name).priority(priority).pods("main", gpus, [(GPU, 1)]).holding("cq", "f")
    };
    let it = || workload("ns/it").priority(5).pods("main", 8, [(GPU, 1)]).at_least(2);
    let mut all = basis.clone().with(low("ns/a", 4, 1)).with(low("ns/b", 4, 1)).with(it());
    assert_eq!(all.plan().evict.len(), 2);
    let mut some = basis.with(low("ns/a", 4, 1)).with(low("ns/b", 4, 9)).with(it());
    let plan = some.plan();
    assert_eq!(plan.evict.iter().map(|evict| evict.workload.to_string()).collect::<Vec<_>>(), ["ns/a"]);
}
