//! How much is available where: the algebra of quota, level by level.

use whalezen_core::{
    quantity::Amount,
    testing::{QueueBuilder, World, cohort, flavor, queue, workload},
};

use crate::GPU;

fn gpus(name: &str, nominal: i64) -> QueueBuilder {
    queue(name).cohort("all").group([GPU]).flavor("f", [(GPU, nominal)])
}

/// The world after these queues hold this much.
fn with_usage<const N: usize>(mut world: World, held: [(&str, i64); N]) -> World {
    world.tell(flavor("f"));
    for (queue, gpus) in held {
        world.tell(workload(&format!("ns/{queue}")).pods("main", 1, [(GPU, gpus)]).holding(queue, "f"));
    }
    world.state.settle();
    world
}

fn available<const N: usize>(world: &World, queues: [&str; N]) -> [i64; N] {
    queues.map(|queue| world.available(queue, "f", GPU).0)
}

#[test]
fn unused_quota_is_shared_in_a_cohort_within_limits() {
    for (what, a, b, held, want) in [
        ("nothing used", gpus("a", 4), gpus("b", 6), [0, 0], [10, 10]),
        ("own use", gpus("a", 4), gpus("b", 6), [3, 0], [7, 7]),
        ("borrowed", gpus("a", 4), gpus("b", 6), [9, 0], [1, 1]),
        ("a borrows no more than 2", gpus("a", 4).borrow("f", GPU, 2), gpus("b", 6), [5, 0], [1, 5]),
        ("a may not borrow", gpus("a", 4).borrow("f", GPU, 0), gpus("b", 6), [4, 0], [0, 6]),
        ("the limit is not reached", gpus("a", 4).borrow("f", GPU, 5), gpus("b", 6), [5, 4], [1, 1]),
        ("b lends no more than 1", gpus("a", 4), gpus("b", 6).lend("f", GPU, 1), [0, 0], [5, 10]),
        ("b lends nothing", gpus("a", 4), gpus("b", 6).lend("f", GPU, 0), [4, 0], [0, 6]),
        ("what b keeps is used first", gpus("a", 4), gpus("b", 6).lend("f", GPU, 2), [0, 4], [6, 6]),
        ("then what it lends", gpus("a", 4), gpus("b", 6).lend("f", GPU, 2), [0, 5], [5, 5]),
        ("a lending limit above the quota", gpus("a", 4), gpus("b", 6).lend("f", GPU, 9), [0, 0], [10, 10]),
    ] {
        let world = with_usage(World::new().with(a).with(b), [("a", held[0]), ("b", held[1])]);
        assert_eq!(available(&world, ["a", "b"]), want, "{what}");
    }
}

#[test]
fn without_a_cohort_limits_mean_nothing() {
    let alone = queue("a").group([GPU]).flavor("f", [(GPU, 4)]).borrow("f", GPU, 9).lend("f", GPU, 0);
    let world = with_usage(World::new().with(alone).with(gpus("b", 6)), [("a", 1)]);
    assert_eq!(available(&world, ["a", "b"]), [3, 6]);
}

#[test]
fn over_admission_is_shown_as_less_than_nothing_available() {
    let world = with_usage(World::new().with(gpus("a", 4)).with(gpus("b", 2)), [("a", 9)]);
    assert_eq!(available(&world, ["a", "b"]), [-3, -3]);
    let kept = with_usage(World::new().with(gpus("a", 4)).with(gpus("b", 2).lend("f", GPU, 0)), [("a", 9)]);
    assert_eq!(available(&kept, ["a", "b"]), [-5, -3], "b's own 2 count against what is missing in common");
}

/// org(4) over team(8) over a(2) and b(2); and c(6) directly below org.
fn hierarchy() -> World {
    World::new()
        .with(cohort("org").quota("f", GPU, 4))
        .with(cohort("team").parent("org").quota("f", GPU, 8))
        .with(queue("a").cohort("team").group([GPU]).flavor("f", [(GPU, 2)]))
        .with(queue("b").cohort("team").group([GPU]).flavor("f", [(GPU, 2)]))
        .with(queue("c").cohort("org").group([GPU]).flavor("f", [(GPU, 6)]))
}

#[test]
fn a_cohorts_own_quota_and_limits_hold_at_every_level() {
    let team = || cohort("team").parent("org").quota("f", GPU, 8);
    for (what, world, held, want) in [
        ("everything is common", hierarchy(), [0, 0], [22, 22, 22]),
        ("use below counts above", hierarchy(), [15, 3], [4, 4, 4]),
        (
            "the team borrows no more than 1",
            hierarchy().with(team().borrow("f", GPU, 1)),
            [0, 0],
            [13, 13, 22],
        ),
        ("its borrowing is used up", hierarchy().with(team().borrow("f", GPU, 1)), [13, 0], [0, 0, 9]),
        ("the team lends no more than 3", hierarchy().with(team().lend("f", GPU, 3)), [0, 0], [22, 22, 13]),
        ("it uses what it keeps", hierarchy().with(team().lend("f", GPU, 3)), [9, 0], [13, 13, 13]),
        ("then what it lends", hierarchy().with(team().lend("f", GPU, 3)), [11, 0], [11, 11, 11]),
        ("it lends nothing", hierarchy().with(team().lend("f", GPU, 0)), [0, 0], [22, 22, 10]),
        ("what it borrowed is missed", hierarchy().with(team().lend("f", GPU, 0)), [15, 0], [7, 7, 7]),
    ] {
        let world = with_usage(world, [("a", held[0]), ("c", held[1])]);
        assert_eq!(available(&world, ["a", "b", "c"]), want, "{what}");
    }
}

#[test]
fn capacity_is_what_is_available_when_nothing_is_used() {
    let worlds = [
        hierarchy(),
        hierarchy()
            .with(cohort("team").parent("org").quota("f", GPU, 8).borrow("f", GPU, 1).lend("f", GPU, 3)),
        World::new().with(gpus("a", 4).borrow("f", GPU, 1)).with(gpus("b", 6).lend("f", GPU, 2)),
    ];
    for world in worlds {
        let mut world = with_usage(world, []);
        let before: Vec<_> = ["a", "b"].map(|queue| capacity(&world, queue)).into();
        assert_eq!(before, available(&world, ["a", "b"]).map(Amount));
        world = with_usage(world, [("a", 3), ("b", 1)]);
        assert_eq!(before, ["a", "b"].map(|queue| capacity(&world, queue)), "use changes no capacity");
    }
}

fn capacity(world: &World, queue: &str) -> Amount {
    let forest = world.state.forest();
    let leaf = forest.leaf(&queue.into()).expect("a queue with a place");
    forest.capacity(leaf, &whalezen_core::name::FlavorResource::new("f", GPU))
}

#[test]
fn how_far_up_is_borrowed_is_the_height_of_the_lowest_cohort_with_room() {
    for (held, amount, want) in
        [([0, 0], 2, 0), ([0, 0], 3, 1), ([0, 0], 12, 1), ([0, 0], 13, 2), ([2, 8], 2, 1), ([2, 9], 2, 2)]
    {
        let world = with_usage(hierarchy(), [("a", held[0]), ("b", held[1])]);
        let (forest, used) = (world.state.forest(), world.state.used());
        let leaf = forest.leaf(&"a".into()).expect("a queue with a place");
        let key = whalezen_core::name::FlavorResource::new("f", GPU);
        assert_eq!(forest.borrowing_level(used, leaf, &key, Amount(amount)), want, "{held:?} {amount}");
    }
}

#[test]
fn a_cohort_needs_no_object_and_one_without_queues_lends_its_own() {
    let world = with_usage(World::new().with(gpus("a", 1)).with(gpus("b", 2)), []);
    assert_eq!(available(&world, ["a", "b"]), [3, 3]);
    let world = World::new().with(cohort("pool").parent("all").quota("f", GPU, 5)).with(gpus("a", 1));
    assert_eq!(available(&with_usage(world, []), ["a"]), [6]);
}

#[test]
fn a_cycle_leaves_out_its_subtree_and_the_rest_goes_on() {
    let world = World::new()
        .with(cohort("x").parent("y"))
        .with(cohort("y").parent("x"))
        .with(cohort("below").parent("x"))
        .with(queue("in").cohort("x").group([GPU]).flavor("f", [(GPU, 4)]))
        .with(queue("under").cohort("below").group([GPU]).flavor("f", [(GPU, 4)]))
        .with(gpus("a", 1))
        .with(gpus("b", 2));
    let mut world = with_usage(world, [("a", 1), ("in", 4)]);
    assert_eq!(available(&world, ["in", "under", "a", "b"]), [0, 0, 2, 2]);
    for (name, cohort) in [("in", "x"), ("under", "below")] {
        let inactive = world.state.activity(world.state.queue(&name.into()).unwrap()).unwrap_err();
        assert_eq!(inactive.reason, "CohortCycle");
        let words = format!("cohort {cohort} is its own ancestor, or below one that is");
        assert_eq!(inactive.message, format!("Can't admit new workloads: {words}."));
    }
    // The person who made the cycle takes it back.
    world.tell(cohort("y"));
    world.state.settle();
    assert_eq!(available(&world, ["in", "under", "a"]), [4, 4, 2]);
    let own = world.state.activity(world.state.queue(&"in".into()).unwrap());
    assert_eq!(own, Ok(()));
}

#[test]
fn a_cohort_that_is_its_own_parent_is_a_cycle() {
    let world = World::new().with(cohort("all").parent("all")).with(gpus("a", 1));
    assert_eq!(available(&with_usage(world, []), ["a"]), [0]);
}
