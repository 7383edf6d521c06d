//! What happens when people change what they declared, while workloads wait and run.

use whalezen_core::{
    quantity::Amount,
    testing::{
        QueueBuilder, WorkloadBuilder, World, cohort, flavor, local_queue, namespace, queue, workload,
    },
    verdict::Reason,
};

use crate::GPU;

/// Something that a person does.
type Step = fn(&mut World);

fn cq(gpus: i64) -> QueueBuilder {
    queue("cq").group([GPU]).flavor("f", [(GPU, gpus)])
}

fn wants(name: &str, gpus: i64) -> WorkloadBuilder {
    workload(name).pods("main", 1, [(GPU, gpus)])
}

fn world(gpus: i64) -> World {
    World::new().with(flavor("f")).with(local_queue("ns/lq", "cq")).with(cq(gpus))
}

/// Why `ns/it` waits, in a settled world in which everything was tried.
fn why(world: &mut World) -> (Reason, String) {
    world.run();
    let verdict = world.verdict("ns/it").expect("it waits");
    (verdict.reason, verdict.message)
}

#[test]
fn whatever_is_missing_or_stopped_on_the_way_is_named_and_when_it_is_there_the_workload_goes_on() {
    let start = || world(8).with(wants("ns/it", 1));
    let stopped = "is inactive: Can't admit new workloads: is stopped.";
    let cases: [(Reason, &str, Step, Step); 8] = [
        (
            Reason::Suspended,
            "ClusterQueue cq is inactive: \
             Can't admit new workloads: references missing ResourceFlavor(s): f.",
            |world| world.state.delete_flavor(&"f".into()),
            |world| world.tell(flavor("f")),
        ),
        (
            Reason::Misconfigured,
            "LocalQueue lq doesn't exist",
            |world| world.state.delete_local_queue(&whalezen_core::testing::local_key("ns/lq")),
            |world| world.tell(local_queue("ns/lq", "cq")),
        ),
        (
            Reason::Misconfigured,
            "ClusterQueue cq doesn't exist",
            |world| world.state.delete_queue(&"cq".into()),
            |world| world.tell(cq(8)),
        ),
        (
            Reason::Suspended,
            "LocalQueue lq is stopped",
            |world| world.tell(local_queue("ns/lq", "cq").stopped()),
            |world| world.tell(local_queue("ns/lq", "cq")),
        ),
        (Reason::Suspended, "", |world| world.tell(cq(8).stopped()), |world| world.tell(cq(8))),
        (
            Reason::Suspended,
            "ClusterQueue cq is inactive: Can't admit new workloads; clusterQueue is terminating",
            |world| world.tell(cq(8).terminating()),
            |world| world.tell(cq(8)),
        ),
        (
            Reason::Misconfigured,
            "The workload namespace doesn't match ClusterQueue selector",
            |world| world.tell(cq(8).only_namespaces("team", "a")),
            |world| world.tell(namespace("ns").label("team", "a")),
        ),
        (
            Reason::Deactivated,
            "The workload is deactivated",
            |world| world.change("ns/it", |workload| workload.active = false),
            |world| world.change("ns/it", |workload| workload.active = true),
        ),
    ];
    for (reason, message, obstruct, clear) in cases {
        let mut world = start();
        obstruct(&mut world);
        let message =
            if message.is_empty() { format!("ClusterQueue cq {stopped}") } else { message.to_owned() };
        assert_eq!(why(&mut world), (reason, message.clone()));
        assert_eq!(world.state.audit(), Ok(()), "{message}");
        clear(&mut world);
        assert_eq!(world.run(), ["ns/it"], "{message}");
        assert_eq!(world.state.audit(), Ok(()), "{message}");
    }
}

#[test]
fn everything_that_keeps_a_queue_from_admitting_is_named_at_once() {
    let mut world = world(8)
        .with(cq(8).stopped().check("dws").invalid("is odd").group(["cpu"]).flavor("g", [("cpu", 1)]));
    world.state.settle();
    let inactive = world.state.activity(world.state.queue(&"cq".into()).unwrap()).unwrap_err();
    assert_eq!(inactive.reason, "InvalidSpec");
    assert_eq!(
        inactive.message,
        "Can't admit new workloads: is odd, is stopped, \
         references missing AdmissionCheck(s): dws."
    );
}

#[test]
fn a_running_workload_keeps_its_quota_whatever_happens_to_its_queues() {
    let cases: [(&str, Step, i64); 8] = [
        ("the ClusterQueue is stopped", |world| world.tell(cq(8).stopped()), 4),
        ("the LocalQueue is stopped", |world| world.tell(local_queue("ns/lq", "cq").stopped()), 4),
        (
            "the LocalQueue is deleted",
            |world| {
                world.state.delete_local_queue(&whalezen_core::testing::local_key("ns/lq"));
            },
            4,
        ),
        ("the LocalQueue leads elsewhere", |world| world.tell(local_queue("ns/lq", "other")), 4),
        ("the flavor is deleted", |world| world.state.delete_flavor(&"f".into()), 4),
        ("the namespace no longer matches", |world| world.tell(cq(8).only_namespaces("team", "a")), 4),
        ("the declaration became invalid", |world| world.tell(queue("cq").invalid("is odd")), 4),
        (
            "the ClusterQueue is deleted and made again",
            |world| {
                world.state.delete_queue(&"cq".into());
                world.state.settle();
                world.tell(cq(8));
            },
            4,
        ),
    ];
    for (what, change, held) in cases {
        let mut world = world(8).with(wants("ns/running", 4));
        world.run();
        change(&mut world);
        world.run();
        assert_eq!(world.used("cq", "f", GPU), Amount(held), "{what}");
        assert_eq!(world.tally("cq").reserving, 1, "{what}");
        assert_eq!(world.state.audit(), Ok(()), "{what}");
        world.finish("ns/running");
        world.run();
        assert_eq!(world.used("cq", "f", GPU), Amount(0), "{what}");
        assert_eq!(world.tally("cq").reserving, 0, "{what}");
    }
}

#[test]
fn more_quota_admits_at_once() {
    let mut world = world(2).with(wants("ns/running", 2)).with(wants("ns/waiting", 2));
    assert_eq!(world.run(), ["ns/running"]);
    world.tell(cq(4));
    assert_eq!(world.run(), ["ns/waiting"]);
}

#[test]
fn less_quota_takes_nothing_from_those_who_run_and_admits_nobody_until_there_is_room() {
    let mut world = world(8).with(wants("ns/a", 4)).with(wants("ns/b", 4)).with(wants("ns/c", 1));
    assert_eq!(world.run(), ["ns/a", "ns/b"]);
    world.tell(cq(4));
    world.run();
    assert_eq!(world.available("cq", "f", GPU), Amount(-4));
    assert_eq!(world.holders(), ["ns/a", "ns/b"]);
    world.finish("ns/a");
    assert_eq!(world.run(), [""; 0], "four of four are in use");
    world.finish("ns/b");
    assert_eq!(world.run(), ["ns/c"]);
}

#[test]
fn a_request_for_nothing_waits_for_nobody_even_while_more_is_used_than_there_is() {
    let mut world =
        world(4).with(wants("ns/a", 8).holding("cq", "f")).with(wants("ns/it", 1)).with(wants("ns/zero", 0));
    assert_eq!(world.run(), ["ns/zero"]);
    assert_eq!(world.available("cq", "f", GPU), Amount(-4));
    let needed = "insufficient unused quota for nvidia.com/gpu in flavor f, 1 more needed";
    assert_eq!(why(&mut world).1, format!("couldn't assign flavors to pod set main: {needed}"));
}

#[test]
fn a_queue_that_moves_to_another_cohort_takes_its_usage_along() {
    let gpus = |name, cohort, gpus| queue(name).cohort(cohort).group([GPU]).flavor("f", [(GPU, gpus)]);
    let mut world = world(0)
        .with(gpus("cq", "old", 4))
        .with(gpus("left-behind", "old", 4))
        .with(gpus("found", "new", 2))
        .with(local_queue("left/lq", "left-behind"))
        .with(local_queue("found/lq", "found"))
        .with(wants("ns/borrows", 6))
        .with(wants("left/waits", 4))
        .with(wants("found/waits", 2).since(1));
    world.run();
    assert_eq!(world.holders(), ["found/waits", "left/waits"], "within nominal first");
    world.finish("left/waits");
    world.finish("found/waits");
    assert_eq!(world.run(), ["ns/borrows"]);
    world.tell(wants("left/again", 4));
    world.tell(wants("found/again", 1));
    assert_eq!(world.run(), ["found/again"], "two of the four were lent");
    world.tell(gpus("cq", "new", 4));
    assert_eq!(world.run(), ["left/again"], "its cohort has its own back");
    assert_eq!(
        world.available("found", "f", GPU),
        Amount(-1),
        "the new one is over by what is used above 4 + 2"
    );
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn a_queue_that_is_deleted_and_made_again_is_charged_for_those_who_still_hold_it() {
    let mut world = world(8).with(wants("ns/running", 6));
    world.run();
    world.state.delete_queue(&"cq".into());
    world.tell(wants("ns/waiting", 4));
    assert_eq!(world.run(), [""; 0]);
    assert_eq!(world.holders(), ["ns/running"]);
    world.tell(cq(8));
    assert_eq!(world.run(), [""; 0]);
    assert_eq!(world.available("cq", "f", GPU), Amount(2));
    world.finish("ns/running");
    assert_eq!(world.run(), ["ns/waiting"]);
}

#[test]
fn one_that_finishes_while_its_queue_is_away_is_not_charged_when_it_returns() {
    let mut world = world(8).with(wants("ns/running", 6));
    world.run();
    world.state.delete_queue(&"cq".into());
    world.state.settle();
    world.finish("ns/running");
    world.tell(cq(8));
    world.run();
    assert_eq!(world.available("cq", "f", GPU), Amount(8));
}

#[test]
fn a_queue_that_became_invalid_admits_nobody_and_others_may_still_borrow_from_it() {
    let member = |name, gpus| queue(name).cohort("all").group([GPU]).flavor("f", [(GPU, gpus)]);
    let mut world = world(0)
        .with(member("cq", 8))
        .with(member("other", 1))
        .with(local_queue("other/lq", "other"))
        .with(wants("ns/running", 4));
    world.run();
    world.tell(queue("cq").cohort("all").invalid("nominalQuota: \"x\" is not a quantity"));
    world.tell(wants("ns/waiting", 1));
    world.tell(wants("other/borrows", 5));
    assert_eq!(world.run(), ["other/borrows"]);
    world.tell(member("cq", 9));
    assert_eq!(world.run(), ["ns/waiting"]);
}

#[test]
fn an_invalid_cohort_stops_what_is_below_it_and_says_why_on_every_queue() {
    let mut world = world(0)
        .with(cohort("org"))
        .with(cohort("team").parent("org").invalid("is odd"))
        .with(queue("cq").cohort("team").group([GPU]).flavor("f", [(GPU, 8)]))
        .with(queue("free").cohort("org").group([GPU]).flavor("f", [(GPU, 1)]))
        .with(local_queue("free/lq", "free"))
        .with(wants("ns/it", 1))
        .with(wants("free/it", 1));
    assert_eq!(world.run(), ["free/it"]);
    assert_eq!(
        world.verdict("ns/it").expect("it waits").message,
        "ClusterQueue cq is inactive: Can't admit new workloads: cohort team: is odd."
    );
    world.tell(cohort("team").parent("org"));
    assert_eq!(world.run(), ["ns/it"]);
}

#[test]
fn new_labels_of_a_flavor_are_in_force_at_once() {
    let mut world = world(8).with(wants("ns/it", 1).select("gpu", "a100"));
    world.tell(flavor("f").label("gpu", "h100"));
    assert_eq!(why(&mut world).0, Reason::NoMatchingFlavor);
    world.tell(flavor("f").label("gpu", "a100"));
    assert_eq!(world.run(), ["ns/it"]);
}

#[test]
fn a_changed_strategy_is_in_force_at_once() {
    let mut world =
        world(8).with(cq(8).strict()).with(wants("ns/huge", 9)).with(wants("ns/small", 1).since(1));
    assert_eq!(world.run(), [""; 0]);
    world.tell(cq(8));
    assert_eq!(world.run(), ["ns/small"]);
}

#[test]
fn what_is_declared_again_as_it_was_changes_nothing() {
    let mut world = world(1).with(wants("ns/running", 1)).with(wants("ns/it", 1));
    world.run();
    world.tell(flavor("f"));
    world.tell(cq(1));
    world.tell(local_queue("ns/lq", "cq"));
    world.tell(namespace("ns"));
    let plan = world.plan();
    assert_eq!(plan.park.len(), 0, "nobody had to be looked at again");
}

#[test]
fn a_declaration_in_one_namespace_leaves_others_asleep() {
    let mut world = world(1).with(wants("ns/running", 1)).with(wants("ns/it", 1));
    world.run();
    world.tell(local_queue("elsewhere/lq", "cq"));
    world.tell(namespace("elsewhere").label("team", "b"));
    assert_eq!(world.plan().park.len(), 0);
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn counts_follow_every_step_of_a_workload() {
    let mut world = world(4).with(wants("ns/a", 3)).with(wants("ns/b", 3).since(1));
    let counts = |world: &World| {
        let (all, local) = (world.tally("cq"), world.local_tally("ns/lq"));
        assert_eq!(all, local, "one LocalQueue leads here");
        (
            all.pending,
            all.reserving,
            all.admitted,
            all.reserved.values().map(|a| a.0).sum::<i64>(),
            all.used.len(),
        )
    };
    world.state.settle();
    assert_eq!(counts(&world), (2, 0, 0, 0, 0));
    world.run();
    assert_eq!(counts(&world), (1, 1, 1, 3, 1));
    world.change("ns/a", |workload| {
        if let whalezen_core::workload::Phase::Reserved { admitted, .. } = &mut workload.phase {
            *admitted = false;
        }
    });
    assert_eq!(counts(&world), (1, 1, 0, 3, 0), "it holds quota and may not run");
    world.requeue("ns/a");
    assert_eq!(counts(&world), (2, 0, 0, 0, 0));
    world.delete("ns/a");
    assert_eq!(counts(&world), (1, 0, 0, 0, 0));
    world.run();
    world.finish("ns/b");
    assert_eq!(counts(&world), (0, 0, 0, 0, 0));
}

#[test]
fn who_was_taken_out_by_a_person_is_counted_as_waiting_nowhere() {
    let pending = |world: &World| (world.tally("cq").pending, world.local_tally("ns/lq").pending);
    let mut world = world(4).with(wants("ns/it", 9)).with(wants("ns/out", 1).inactive());
    world.run();
    assert_eq!(pending(&world), (1, 1));
    world.tell(local_queue("ns/lq", "cq").stopped());
    world.run();
    assert_eq!(pending(&world), (0, 0));
    world.tell(local_queue("ns/lq", "nowhere"));
    world.run();
    assert_eq!(pending(&world), (0, 1), "its LocalQueue still has it");
    world.tell(local_queue("ns/lq", "cq"));
    world.tell(cq(4).stopped());
    world.run();
    assert_eq!(pending(&world), (1, 1), "and so has a stopped ClusterQueue");
}

#[test]
fn queues_whose_counts_or_conditions_may_have_changed_are_handed_out_once() {
    let mut world = world(4);
    world.state.settle();
    let changed = world.state.take_changed();
    assert_eq!((changed.queues.len(), changed.local_queues.len()), (1, 1));
    assert_eq!(world.state.take_changed(), whalezen_core::state::Changed::default());
    world.tell(wants("ns/it", 1));
    world.run();
    let changed = world.state.take_changed();
    assert_eq!((changed.queues.len(), changed.local_queues.len()), (1, 1));
}
