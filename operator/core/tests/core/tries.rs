//! A head that is refused and has flavors left goes on behind them.

use whalezen_core::{
    brakes::Brakes,
    queue::{Fungibility, WhenCanPreempt, WithinQueue},
    testing::{
        ObligingApplier, QueueBuilder, WorkloadBuilder, World, cohort, flavor, local_queue, queue, workload,
    },
    verdict::Reason,
};

use crate::GPU;

/// Queues, each reached through the namespace and LocalQueue of its name, with the flavors `a`, `b` and `c`.
fn world<const N: usize>(queues: [(&str, QueueBuilder); N]) -> World {
    let world = ["a", "b", "c"].into_iter().fold(World::new(), |world, name| world.with(flavor(name)));
    queues
        .into_iter()
        .fold(world, |world, (name, queue)| world.with(queue).with(local_queue(&format!("{name}/lq"), name)))
}

/// A queue with this many GPUs of `a`, `b` and so on.
fn owns<const N: usize>(name: &str, gpus: [i64; N]) -> QueueBuilder {
    let named = ["a", "b", "c"].into_iter().zip(gpus);
    named.fold(queue(name).group([GPU]), |queue, (flavor, gpus)| queue.flavor(flavor, [(GPU, gpus)]))
}

/// `queue/name` waits for as many GPUs as these pod sets ask for, which are called `0`, `1` and so on.
fn wants<const N: usize>(name: &str, gpus: [i64; N]) -> WorkloadBuilder {
    let pods = gpus.into_iter().enumerate();
    pods.fold(workload(name), |it, (index, gpus)| it.pods(&index.to_string(), 1, [(GPU, gpus)]))
}

/// A flavor is taken also if others have to stop for it.
fn rather_preempts() -> Fungibility {
    Fungibility { when_can_preempt: WhenCanPreempt::StopSearch, ..Fungibility::default() }
}

/// The flavors of its pod sets, in order.
fn given(world: &World, name: &str) -> String {
    let pods = ["0", "1", "2", "3"];
    pods.into_iter().filter_map(|pods| world.flavor_of(name, pods, GPU)).collect()
}

#[test]
fn a_mix_of_flavors_is_found_of_which_the_first_choice_is_no_part() {
    for (quota, pods, want) in [
        (&[4, 4, 0][..], &[2, 4][..], "ab"),
        (&[4, 3, 0], &[2, 4], "ba"),
        (&[4, 1, 2], &[2, 4], "ca"),
        (&[4, 2, 2], &[2, 2, 4], "bca"),
        (&[4, 3, 0], &[2, 5], ""),
    ] {
        let quota = [quota[0], quota[1], quota[2]];
        let mut world = world([("q", owns("q", quota))]);
        let it = pods
            .iter()
            .enumerate()
            .fold(workload("q/it"), |it, (index, gpus)| it.pods(&index.to_string(), 1, [(GPU, *gpus)]));
        world.tell(it);
        world.run();
        assert_eq!(given(&world, "q/it"), want, "{quota:?} {pods:?}");
        assert_eq!(world.verdict("q/it").is_none(), !want.is_empty());
    }
}

#[test]
fn the_groups_of_a_pod_set_go_on_each_for_itself() {
    let q = queue("q").group(["cpu"]).flavor("a", [("cpu", 4)]).flavor("b", [("cpu", 1)]);
    let q = q.group([GPU]).flavor("c", [(GPU, 4)]);
    let mut world = world([("q", q)]);
    world.tell(workload("q/it").pods("0", 1, [("cpu", 1), (GPU, 1)]).pods("1", 1, [("cpu", 4), (GPU, 3)]));
    assert_eq!(world.run(), ["q/it"]);
    assert_eq!(
        (world.flavor_of("q/it", "0", "cpu"), world.flavor_of("q/it", "1", "cpu")),
        (Some("b"), Some("a"))
    );
    assert_eq!(given(&world, "q/it"), "cc");
}

#[test]
fn a_head_keeps_its_turn_while_it_has_flavors_left_and_costs_nobody_elses() {
    let mut world = world([("q", owns("q", [4, 3])), ("other", owns("other", [4]))])
        .with(wants("q/mix", [2, 4]))
        .with(wants("q/next", [1]).since(1))
        .with(wants("other/first", [1]).since(2))
        .with(wants("other/second", [1]).since(3))
        .with(wants("other/third", [1]).since(4));
    assert_eq!(world.run(), ["other/first", "q/mix", "other/second", "q/next", "other/third"]);
}

#[test]
fn a_head_that_lost_its_flavor_in_a_cycle_goes_on_behind_it() {
    let member = |name, gpus| owns(name, gpus).cohort("all").preempts(WithinQueue::LowerPriority);
    for (b, given_to_it, victims) in [(4, "b", &[""; 0][..]), (0, "", &["q/low"])] {
        let mut world = world([
            ("q", member("q", [4, b]).fungibility(rather_preempts())),
            ("other", member("other", [0, 0])),
        ])
        .with(cohort("all").quota("a", GPU, 4))
        .with(wants("q/low", [4]).priority(-1).holding("q", "a"))
        .with(wants("q/it", [4]))
        .with(wants("other/urgent", [4]).priority(9));
        let plan = world.step(&mut ObligingApplier);
        assert_eq!(plan.admit[0].workload.to_string(), "other/urgent");
        assert_eq!(given(&world, "q/it"), given_to_it);
        assert_eq!(world.evicted(), victims, "where nothing fits behind it, it begins anew");
    }
}

#[test]
fn whoever_would_go_on_without_end_is_tried_as_often_as_it_has_pod_sets_and_flavors() {
    // Of the first two pods one always has a flavor left.
    let mut world =
        world([("q", owns("q", [4, 4]))]).with(wants("q/it", [3, 3, 5])).with(wants("q/next", [1]).since(1));
    assert_eq!(world.run(), ["q/next"]);
    assert_eq!(world.verdict("q/it").map(|verdict| verdict.reason), Some(Reason::ExceedsMaxQuota));
    assert!(world.comes_to_rest());
}

#[test]
fn it_is_told_of_its_last_try_with_the_numbers_of_now() {
    let mut world = world([("q", owns("q", [4, 8]))])
        .with(wants("q/on-a", [1]).holding("q", "a"))
        .with(wants("q/on-b", [5]).holding("q", "b"))
        .with(wants("q/it", [2, 4]));
    let told = |a, b| {
        let words = format!(
            "couldn't assign flavors to pod set 1: \
             insufficient unused quota for nvidia.com/gpu in flavor a, {a} more needed, \
             insufficient unused quota for nvidia.com/gpu in flavor b, {b} more needed"
        );
        Some(words)
    };
    world.run();
    assert_eq!(world.verdict("q/it").map(|verdict| verdict.message), told(1, 3), "its first pods on b");
    world.tell(wants("q/on-b-too", [1]).holding("q", "b"));
    assert_eq!(world.verdict("q/it").map(|verdict| verdict.message), told(1, 4));
}

#[test]
fn what_could_help_any_of_its_tries_wakes_it() {
    let q = || owns("q", [4, 4]).preempts(WithinQueue::LowerPriority).fungibility(rather_preempts());
    let braked = || {
        let mut world = world([("q", q())])
            .with(wants("q/low", [4]).priority(-1).holding("q", "a"))
            .with(wants("q/high", [4]).priority(9).holding("q", "b"))
            .with(wants("q/it", [4]));
        world.policy.brakes = Brakes { frozen: Some("frozen".into()), limits: vec![] };
        assert_eq!(world.run(), [""; 0]);
        assert_eq!(world.evicted(), [""; 0]);
        world
    };
    let mut world = braked();
    world.finish("q/high");
    assert_eq!(world.run(), ["q/it"], "behind the flavor that the brakes keep from it");
    assert_eq!(given(&world, "q/it"), "b");
    let mut world = braked();
    world.policy.brakes = Brakes::default();
    world.state.release_brakes();
    world.run();
    assert_eq!(world.evicted(), ["q/low"]);
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn a_plan_over_its_budget_runs_on_until_no_head_is_midway() {
    let mut world = world([("q", owns("q", [4, 3])), ("other", owns("other", [4]))])
        .with(wants("q/mix", [2, 4]))
        .with(wants("other/first", [1]))
        .with(wants("other/second", [1]).since(1))
        .with(wants("other/third", [1]).since(2));
    world.policy.budget = 1;
    let plan = world.plan();
    assert_eq!((plan.admit.len(), plan.more), (3, true));
}
