//! Faults that users met elsewhere (the issue numbers are Kueue's and Volcano's), with the right outcome.

use whalezen_core::{
    quantity::Amount,
    testing::{QueueBuilder, WorkloadBuilder, World, cohort, flavor, local_queue, queue, workload},
};

/// A queue with `nominal` cores in the cohort `all`, and a LocalQueue of its name.
fn member(nominal: i64, name: &'static str) -> (QueueBuilder, &'static str) {
    (queue(name).cohort("all").group(["cpu"]).flavor("f", [("cpu", nominal)]), name)
}

fn wants(name: &str, cores: i64, since: i64) -> WorkloadBuilder {
    workload(name).since(since).pods("main", 1, [("cpu", cores)])
}

/// What happens in this world, whose workloads are told in order.
struct Scenario {
    told: &'static str,
    queues: Vec<(QueueBuilder, &'static str)>,
    workloads: Vec<WorkloadBuilder>,
    holders: &'static [&'static str],
}

fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            told: "kueue#4809: the head of a StrictFIFO queue blocks only its own queue",
            queues: vec![(member(3, "strict").0.strict(), "strict"), member(0, "borrower")],
            workloads: vec![
                wants("strict/running", 2, 0),
                wants("strict/head", 2, 1),
                wants("strict/behind", 1, 2),
                wants("borrower/it", 1, 3),
            ],
            holders: &["borrower/it", "strict/running"],
        },
        Scenario {
            told: "kueue#3405: within nominal quota goes before borrowing, whoever came first",
            queues: vec![member(2, "a"), member(2, "b")],
            workloads: vec![
                wants("a/own", 2, 5).priority(10),
                wants("a/borrows", 2, 0).priority(9),
                wants("b/own", 2, 2),
            ],
            holders: &["a/own", "b/own"],
        },
        Scenario {
            told: "kueue#9406: a queue that borrows of another flavor is not a borrower of this one",
            queues: vec![
                (
                    queue("a")
                        .cohort("all")
                        .group(["cpu"])
                        .flavor("f", [("cpu", 2)])
                        .group(["memory"])
                        .flavor("m", [("memory", 0)]),
                    "a",
                ),
                (
                    queue("b")
                        .cohort("all")
                        .group(["cpu"])
                        .flavor("f", [("cpu", 2)])
                        .group(["memory"])
                        .flavor("m", [("memory", 4)]),
                    "b",
                ),
            ],
            workloads: vec![
                workload("a/memory").pods("main", 1, [("memory", 4)]).holding("a", "m"),
                wants("a/own", 2, 5),
                wants("b/borrows", 4, 1),
            ],
            holders: &["a/memory", "a/own"],
        },
        Scenario {
            told: "volcano#2462: of a gang of 20 with room for 8, nobody starts",
            queues: vec![member(8, "a")],
            workloads: vec![workload("a/gang").pods("main", 20, [("cpu", 1)])],
            holders: &[],
        },
        Scenario {
            told: "volcano#3373: of two gangs that fill the cluster, one runs whole and one waits",
            queues: vec![member(100, "a"), member(0, "b")],
            workloads: vec![
                workload("a/one").pods("main", 100, [("cpu", 1)]),
                workload("b/two").since(0).pods("main", 100, [("cpu", 1)]),
            ],
            holders: &["a/one"],
        },
        Scenario {
            told: "volcano#3173: a queue that nobody wrote a status for is open",
            queues: vec![member(8, "a")],
            workloads: vec![wants("a/it", 1, 0)],
            holders: &["a/it"],
        },
        Scenario {
            told: "kueue#6947: what can never fit is in nobody's way",
            queues: vec![member(3, "a"), member(0, "b")],
            workloads: vec![wants("a/impossible", 4, 1), wants("a/possible", 3, 2)],
            holders: &["a/possible"],
        },
    ]
}

#[test]
fn faults_of_others_end_well() {
    for Scenario { told, queues, workloads, holders } in scenarios() {
        let mut world = World::new().with(flavor("f")).with(flavor("m"));
        for (queue, name) in queues {
            world.tell(queue);
            world.tell(local_queue(&format!("{name}/lq"), name));
        }
        for workload in workloads {
            world.tell(workload);
            world.state.settle();
        }
        world.run();
        assert_eq!(world.holders(), holders, "{told}");
        assert_eq!(world.state.audit(), Ok(()), "{told}");
    }
}

#[test]
fn kueue_13688_an_edited_flavor_is_tried_at_once() {
    let mut world = World::new()
        .with(flavor("f").label("zone", "a").taint("spot", "true"))
        .with(queue("cq").group(["cpu"]).flavor("f", [("cpu", 4)]))
        .with(local_queue("ns/lq", "cq"))
        .with(wants("ns/zone-b", 1, 0).select("zone", "b"))
        .with(wants("ns/plain", 1, 1));
    assert_eq!(world.run(), [""; 0]);
    world.tell(flavor("f").label("zone", "a"));
    assert_eq!(world.run(), ["ns/plain"], "without its taint");
    world.tell(flavor("f").label("zone", "b"));
    assert_eq!(world.run(), ["ns/zone-b"], "with the right label");
}

#[test]
fn kueue_13391_no_request_is_a_credit() {
    // Requests are refused below zero where they are read; here, past the range of what is counted.
    let mut world = World::new()
        .with(flavor("f"))
        .with(queue("cq").cohort("all").group(["cpu"]).flavor("f", [("cpu", 4)]))
        .with(local_queue("ns/lq", "cq"))
        .with(cohort("all").quota("f", "cpu", i64::MAX / 1000))
        .with(workload("ns/big").pods("a", 1, [("cpu", i64::MAX / 1000)]).pods(
            "b",
            u32::MAX,
            [("cpu", i64::MAX / 1000)],
        ))
        .with(wants("ns/small", 4, 1));
    assert_eq!(world.run(), ["ns/small"]);
    assert_eq!(world.used("cq", "f", "cpu"), Amount(4000));
}

#[test]
fn volcano_921_no_more_run_than_there_is_room_for_while_one_stops() {
    let mut world = World::new()
        .with(flavor("f"))
        .with(queue("cq").group(["cpu"]).flavor("f", [("cpu", 2)]))
        .with(local_queue("ns/lq", "cq"));
    for name in ["a", "b", "c", "d"] {
        world.tell(wants(&format!("ns/{name}"), 1, 0));
    }
    world.run();
    assert_eq!(world.holders(), ["ns/a", "ns/b"]);
    world.change("ns/a", |workload| {
        if let whalezen_core::workload::Phase::Reserved { evicted, .. } = &mut workload.phase {
            *evicted = Some(whalezen_core::workload::Eviction::Otherwise);
        }
    });
    world.run();
    assert_eq!(world.holders(), ["ns/a", "ns/b"], "one is told to stop and has not");
    world.finish("ns/a");
    world.run();
    assert_eq!(world.holders(), ["ns/b", "ns/c"]);
}

#[test]
fn kueue_1654_after_a_restart_as_much_is_used_as_before_and_what_is_over_stays_over() {
    use whalezen_core::{state::State, workload::Eviction};
    let mut world = World::new()
        .with(flavor("f"))
        .with(queue("cq").group(["cpu"]).flavor("f", [("cpu", 4)]))
        .with(local_queue("ns/lq", "cq"))
        .with(wants("ns/over", 4, 0))
        .with(wants("ns/stops", 3, 1))
        .with(wants("ns/runs", 1, 2))
        .with(wants("ns/waits", 2, 3));
    world.run();
    world.finish("ns/over");
    world.run();
    world.tell_to_stop("ns/stops", Eviction::Otherwise);
    world.change("ns/runs", |workload| {
        workload.left.insert("main".into(), 0);
    });
    world.state.settle();
    assert_eq!(world.used("cq", "f", "cpu"), Amount(3000));
    world.state = State::from_snapshot(world.state.snapshot().clone());
    assert_eq!(world.used("cq", "f", "cpu"), Amount(3000));
    assert_eq!(world.run(), [""; 0], "1 is free");
    world.finish("ns/stops");
    assert_eq!(world.run(), ["ns/waits"]);
}
