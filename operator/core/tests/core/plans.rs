//! What one plan decides among queues.

use whalezen_core::{
    plan::{Plan, Policy},
    quantity::Amount,
    state::Snapshot,
    testing::{
        ObligingApplier, QueueBuilder, WorkloadBuilder, World, cohort, flavor, local_queue, queue, workload,
    },
};

use crate::GPU;

/// A ClusterQueue in the cohort `all`, reached through the namespace and LocalQueue of its name.
fn member(world: World, queue: QueueBuilder, name: &str) -> World {
    world.with(queue).with(local_queue(&format!("{name}/lq"), name))
}

fn gpus(name: &str, nominal: i64) -> QueueBuilder {
    queue(name).cohort("all").group([GPU]).flavor("f", [(GPU, nominal)])
}

fn pair(a: i64, b: i64) -> World {
    member(member(World::new().with(flavor("f")), gpus("a", a), "a"), gpus("b", b), "b")
}

fn wants(name: &str, gpus: i64, since: i64) -> WorkloadBuilder {
    workload(name).since(since).pods("main", 1, [(GPU, gpus)])
}

#[test]
fn within_nominal_comes_before_borrowing_whatever_the_priority() {
    let mut world = pair(4, 4).with(wants("a/borrows", 6, 0).priority(9)).with(wants("b/own", 4, 5));
    assert_eq!(world.run(), ["b/own"]);
}

#[test]
fn less_borrowing_comes_before_more() {
    let world = World::new()
        .with(flavor("f"))
        .with(cohort("team").parent("all"))
        .with(queue("near").cohort("team").group([GPU]).flavor("f", [(GPU, 0)]))
        .with(queue("lender").cohort("team").group([GPU]).flavor("f", [(GPU, 4)]))
        .with(local_queue("near/lq", "near"));
    let mut world = member(world, gpus("far", 0), "far")
        .with(wants("far/it", 4, 0).priority(9))
        .with(wants("near/it", 4, 5));
    assert_eq!(
        world.run(),
        ["near/it"],
        "the lender is in the cohort of one and only in the tree of the other"
    );
}

#[test]
fn whoever_borrows_for_any_of_its_pods_borrows() {
    let member = |name: &str, cpus, gpus| {
        queue(name)
            .cohort("all")
            .group([GPU])
            .flavor("f", [(GPU, gpus)])
            .group(["cpu"])
            .flavor("g", [("cpu", cpus)])
    };
    let mut world = World::new()
        .with(flavor("f"))
        .with(flavor("g"))
        .with(member("a", 4, 0))
        .with(member("b", 0, 4))
        .with(local_queue("a/lq", "a"))
        .with(local_queue("b/lq", "b"))
        .with(workload("a/it").pods("first", 1, [(GPU, 1)]).pods("last", 1, [("cpu", 1)]))
        .with(workload("b/it").since(1).pods("main", 1, [(GPU, 4)]));
    assert_eq!(world.run(), ["b/it"], "a's last pod set is within its quota and its first is not");
}

#[test]
fn among_equals_in_a_cohort_priority_decides_then_time_then_name() {
    let mut world = pair(0, 0)
        .with(cohort("all").quota("f", GPU, 3))
        .with(wants("a/young", 1, 9))
        .with(wants("b/old", 1, 1))
        .with(wants("a/urgent", 1, 20).priority(1))
        .with(wants("b/same", 1, 9));
    assert_eq!(world.run(), ["a/urgent", "b/old", "a/young"]);
    assert!(world.verdict("b/same").is_some());
}

#[test]
fn each_queue_offers_one_head_a_cycle_as_kueue_does() {
    // Those of b who fit come to be looked at only after those before them, one cycle later each.
    let mut world = pair(4, 4)
        .with(wants("a/running", 4, 0))
        .with(wants("a/borrows", 4, 1))
        .with(wants("b/huge", 9, 2))
        .with(wants("b/large", 7, 3))
        .with(wants("b/own", 4, 4));
    assert_eq!(world.run(), ["a/running", "a/borrows"]);
}

#[test]
fn who_no_longer_fits_after_others_took_their_share_waits() {
    let mut world = pair(4, 4).with(wants("a/it", 6, 0)).with(wants("b/it", 6, 1));
    assert_eq!(world.run(), ["a/it"]);
    let verdict = world.verdict("b/it").expect("it waits");
    assert_eq!(
        verdict.message,
        "couldn't assign flavors to pod set main: \
         insufficient unused quota for nvidia.com/gpu in flavor f, 4 more needed"
    );
}

#[test]
fn a_gang_gets_all_of_its_quota_or_nothing() {
    let mut world =
        pair(8, 0).with(workload("a/gang").pods("driver", 1, [(GPU, 1)]).pods("worker", 8, [(GPU, 1)]));
    assert_eq!(world.run(), [""; 0]);
    assert_eq!(world.used("a", "f", GPU), Amount(0));
    let mut world =
        pair(9, 0).with(workload("a/gang").pods("driver", 1, [(GPU, 1)]).pods("worker", 8, [(GPU, 1)]));
    assert_eq!(world.run(), ["a/gang"]);
    assert_eq!(world.used("a", "f", GPU), Amount(9));
}

#[test]
fn trees_do_not_disturb_each_other() {
    let world = member(pair(4, 4), queue("c").group([GPU]).flavor("f", [(GPU, 4)]), "c");
    let mut world = world.with(wants("a/it", 8, 0)).with(wants("c/it", 4, 1)).with(wants("c/more", 1, 2));
    let mut admitted = world.run();
    admitted.sort();
    assert_eq!(admitted, ["a/it", "c/it"]);
}

fn crowd() -> World {
    let mut world = pair(10, 6);
    for index in 0..40 {
        let (queue, gpus) = if index % 3 == 0 { ("a", 1 + index % 4) } else { ("b", 1 + index % 5) };
        world.tell(
            wants(&format!("{queue}/{index:02}"), gpus, index * 7 % 11).priority(i32::from(index % 4 == 0)),
        );
    }
    world
}

#[test]
fn the_same_input_gives_the_same_plan() {
    assert_eq!(crowd().plan(), crowd().plan());
    let mut world = crowd();
    assert_eq!(world.plan(), world.plan(), "planning changes nothing");
}

#[test]
fn a_plan_that_ends_with_its_budget_says_so_and_those_after_it_reach_the_same_end() {
    let end = |budget| {
        let mut world = crowd();
        world.policy = Policy { budget, ..Policy::default() };
        let plans: Vec<Plan> = std::iter::from_fn(|| {
            let plan = world.step(&mut ObligingApplier);
            (plan.more || !plan.admit.is_empty()).then_some(plan)
        })
        .collect();
        let admitted: Vec<_> =
            plans.iter().flat_map(|plan| &plan.admit).map(|a| a.workload.clone()).collect();
        (admitted, plans.iter().filter(|plan| plan.more).count())
    };
    let (whole, cut) = end(u32::MAX);
    assert_eq!(cut, 0);
    for budget in [0, 1, 2, 3, 5, 8, 13] {
        let (admitted, cut) = end(budget);
        assert_eq!(admitted, whole, "budget {budget}");
        assert!(cut > 0, "budget {budget}");
    }
}

#[test]
fn an_empty_state_has_an_empty_plan() {
    assert_eq!(World::new().plan(), Plan::default());
}

#[test]
fn an_admission_names_the_version_it_was_decided_on_and_the_moment() {
    let mut world = pair(4, 0).with(wants("a/it", 1, 0).version(17));
    world.now = whalezen_core::workload::Timestamp(99);
    let plan = world.plan();
    assert_eq!((plan.admit[0].version, plan.admit[0].at.0), (17, 99));
    assert_eq!(plan.admitted().len(), 1);
}

#[test]
fn a_snapshot_knows_of_a_class_that_sleeps_also_when_the_one_that_was_looked_at_has_left_it() {
    let gpus = |name: &str, gpus| workload(name).pods("main", 1, [(GPU, gpus)]);
    let mut world = World::new()
        .with(flavor("f"))
        .with(queue("cq").group([GPU]).flavor("f", [(GPU, 4)]))
        .with(local_queue("ns/lq", "cq"))
        .with(gpus("ns/first", 9))
        .with(gpus("ns/second", 9));
    world.run();
    world.tell(gpus("ns/first", 4));
    let planned = world.plan();
    assert_eq!(planned.admit.len(), 1);
    let snapshot = Snapshot::of(&world.state, world.now, &world.policy);
    assert_eq!(snapshot.plan(), planned);
    assert_eq!(Snapshot::of(&snapshot.state(), world.now, &world.policy), snapshot);
}
