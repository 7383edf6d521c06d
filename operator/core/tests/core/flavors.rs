//! Which flavors a workload gets, and what it is told when it gets none.

use whalezen_core::{
    testing::{QueueBuilder, WorkloadBuilder, World, cohort, flavor, local_queue, queue, workload},
    verdict::Reason,
};

use crate::GPU;

/// A world of these flavors in which `ns/lq` leads to this queue.
fn world<const N: usize>(flavors: [&str; N], cq: QueueBuilder) -> World {
    let world = World::new().with(local_queue("ns/lq", "cq")).with(cq);
    flavors.into_iter().fold(world, |world, name| world.with(flavor(name)))
}

/// What `ns/it` gets: its flavors by pod set and resource, or its reason and what it is told.
fn outcome(mut world: World, it: WorkloadBuilder) -> String {
    world.tell(it);
    world.run();
    let key = whalezen_core::testing::key("ns/it");
    if let Some(admission) = world.state.admission(&key) {
        let given = admission.pod_sets.iter().flat_map(|set| {
            set.flavors.iter().map(move |(resource, flavor)| format!("{} {resource}={flavor}", set.name))
        });
        return given.collect::<Vec<_>>().join(", ");
    }
    let verdict = world.verdict("ns/it").expect("it waits");
    format!("{}: {}", verdict.reason, verdict.message)
}

fn it() -> WorkloadBuilder {
    workload("ns/it")
}

#[test]
fn flavors_are_tried_in_the_queues_order_and_the_first_that_fits_is_taken() {
    let two = || queue("cq").group([GPU]).flavor("h100", [(GPU, 4)]).flavor("a100", [(GPU, 8)]);
    for (gpus, want) in [(4, "main nvidia.com/gpu=h100"), (5, "main nvidia.com/gpu=a100")] {
        let got = outcome(world(["a100", "h100"], two()), it().pods("main", 1, [(GPU, gpus)]));
        assert_eq!(got, want, "{gpus}");
    }
}

#[test]
fn a_flavor_whose_nodes_would_not_take_the_pods_is_passed_over() {
    let plain = |it: WorkloadBuilder| it.pods("main", 1, [(GPU, 1)]);
    let spot = || {
        world(["b"], queue("cq").group([GPU]).flavor("a", [(GPU, 8)]).flavor("b", [(GPU, 8)]))
            .with(flavor("a").label("type", "spot").taint("spot", "true"))
    };
    for (what, workload, want) in [
        ("the taint", plain(it()), "b"),
        ("a toleration", plain(it()).tolerate("spot"), "a"),
        ("another selector", plain(it()).tolerate("spot").select("type", "reserved"), "b"),
        ("the same selector", plain(it()).tolerate("spot").select("type", "spot"), "a"),
        ("a selector that no flavor names", plain(it()).tolerate("spot").select("disk", "ssd"), "a"),
        ("another affinity", plain(it()).tolerate("spot").affinity("type", "reserved"), "b"),
        (
            "one affinity of two",
            plain(it()).tolerate("spot").affinity("type", "x").affinity("type", "spot"),
            "a",
        ),
    ] {
        assert_eq!(outcome(spot(), workload), format!("main nvidia.com/gpu={want}"), "{what}");
    }
}

#[test]
fn resources_of_a_group_come_from_one_flavor_and_groups_choose_for_themselves() {
    let cq = queue("cq")
        .group(["cpu", "memory"])
        .flavor("small", [("cpu", 2), ("memory", 100)])
        .flavor("large", [("cpu", 8), ("memory", 10)])
        .group([GPU])
        .flavor("a100", [(GPU, 8)]);
    for (cpu, memory, want) in [
        (1, 1, "main cpu=small, main memory=small, main nvidia.com/gpu=a100"),
        (4, 1, "main cpu=large, main memory=large, main nvidia.com/gpu=a100"),
        (
            4,
            50,
            "ExceedsMaxQuota: couldn't assign flavors to pod set main: \
             insufficient quota for cpu in flavor small, previously considered podsets requests (0) \
             + current podset request (4) > maximum capacity (2), \
             insufficient quota for memory in flavor large, previously considered podsets requests (0) \
             + current podset request (50) > maximum capacity (10)",
        ),
    ] {
        let workload = it().pods("main", 1, [("cpu", cpu), ("memory", memory), (GPU, 1)]);
        assert_eq!(outcome(world(["small", "large", "a100"], cq.clone()), workload), want);
    }
}

#[test]
fn each_pod_set_comes_on_top_of_those_before_it() {
    let cq = || queue("cq").group([GPU]).flavor("h100", [(GPU, 8)]).flavor("a100", [(GPU, 8)]);
    for (workers, want) in [
        (4, "driver nvidia.com/gpu=h100, worker nvidia.com/gpu=h100"),
        (5, "driver nvidia.com/gpu=h100, worker nvidia.com/gpu=a100"),
        (
            9,
            "ExceedsMaxQuota: couldn't assign flavors to pod set worker: \
             insufficient quota for nvidia.com/gpu in flavor a100, previously considered podsets requests (4) \
             + current podset request (9) > maximum capacity (8), \
             insufficient quota for nvidia.com/gpu in flavor h100, previously considered podsets requests (0) \
             + current podset request (9) > maximum capacity (8)",
        ),
    ] {
        let workload = it().pods("driver", 1, [(GPU, 4)]).pods("worker", workers, [(GPU, 1)]);
        assert_eq!(outcome(world(["h100", "a100"], cq()), workload), want);
    }
}

#[test]
fn quota_for_pods_is_taken_by_every_pod_whatever_it_requests() {
    let cq = || queue("cq").group(["cpu", "pods"]).flavor("f", [("cpu", 8), ("pods", 3)]);
    let got = outcome(world(["f"], cq()), it().pods("main", 3, [("cpu", 1)]));
    assert_eq!(got, "main cpu=f, main pods=f");
    let got = outcome(world(["f"], cq()), it().pods("a", 2, []).pods("b", 2, []));
    assert_eq!(
        got,
        "ExceedsMaxQuota: couldn't assign flavors to pod set b: insufficient quota for pods in flavor f, \
         previously considered podsets requests (2) + current podset request (2) > maximum capacity (3)"
    );
}

#[test]
fn a_request_for_nothing_needs_no_quota_and_one_for_something_does() {
    let cq = || queue("cq").group(["cpu"]).flavor("f", [("cpu", 8)]);
    let mut world_of_zero =
        world(["f"], cq()).with(it().pods("main", 2, [("cpu", 1), (GPU, 0)]).pods("none", 0, [("cpu", 9)]));
    world_of_zero.run();
    let admission = world_of_zero.state.admission(&whalezen_core::testing::key("ns/it")).expect("admitted");
    let given: Vec<_> =
        admission.pod_sets.iter().map(|set| (&*set.name, set.count, set.usage.len())).collect();
    assert_eq!(given, [("main", 2, 1), ("none", 0, 1)], "what was not asked for is not given");
    assert_eq!(
        outcome(world(["f"], cq()), it().pods("main", 1, [("cpu", 1), (GPU, 1)])),
        "NoMatchingFlavor: couldn't assign flavors to pod set main: \
         resource nvidia.com/gpu unavailable in ClusterQueue"
    );
}

#[test]
fn borrowing_from_near_is_taken_at_once_or_after_all_other_flavors() {
    // Of the first flavor the queue owns nothing, of the second some, of the third plenty.
    let cq = || {
        let cq = queue("cq").cohort("all").group([GPU]);
        cq.flavor("a", [(GPU, 0)]).flavor("b", [(GPU, 2)]).flavor("c", [(GPU, 4)])
    };
    let lender =
        || queue("lender").cohort("all").group([GPU]).flavor("a", [(GPU, 8)]).flavor("b", [(GPU, 8)]);
    for (gpus, at_once, patient) in [(1, "a", "b"), (4, "a", "c"), (8, "a", "a"), (10, "b", "b")] {
        for (cq, want) in [(cq(), at_once), (cq().rather_next_flavor(), patient)] {
            let got = outcome(world(["a", "b", "c"], cq).with(lender()), it().pods("main", 1, [(GPU, gpus)]));
            assert_eq!(got, format!("main nvidia.com/gpu={want}"), "{gpus}");
        }
    }
}

#[test]
fn the_nearer_lender_is_preferred_by_a_queue_that_looks_at_every_flavor() {
    let world = world(["far", "near"], {
        let cq = queue("cq").cohort("team").group([GPU]).rather_next_flavor();
        cq.flavor("far", [(GPU, 0)]).flavor("near", [(GPU, 0)])
    })
    .with(cohort("team").parent("org").quota("near", GPU, 4))
    .with(cohort("org").quota("far", GPU, 4));
    assert_eq!(outcome(world, it().pods("main", 1, [(GPU, 2)])), "main nvidia.com/gpu=near");
}

#[test]
fn the_mildest_reason_of_all_flavors_is_given_with_every_flavors_words() {
    let cq = || {
        let cq = queue("cq").group([GPU]);
        cq.flavor("spot", [(GPU, 8)]).flavor("small", [(GPU, 1)]).flavor("full", [(GPU, 4)])
    };
    let full = || {
        let world = world(["small", "full"], cq()).with(flavor("spot").taint("spot", ""));
        world.with(workload("ns/other").pods("main", 1, [(GPU, 3)]).holding("cq", "full"))
    };
    assert_eq!(
        outcome(full(), it().pods("main", 1, [(GPU, 2)])),
        "WaitingForQuota: couldn't assign flavors to pod set main: \
         insufficient quota for nvidia.com/gpu in flavor small, previously considered podsets requests (0) \
         + current podset request (2) > maximum capacity (1), \
         insufficient unused quota for nvidia.com/gpu in flavor full, 1 more needed, \
         untolerated taint {spot  NoSchedule <nil>} in flavor spot"
    );
    let words = outcome(full(), it().pods("main", 1, [(GPU, 5)]));
    assert!(words.starts_with("ExceedsMaxQuota: "), "{words}");
    let selective = it().pods("main", 1, [(GPU, 1)]).select("gpu", "b200");
    let tainted_only = World::new()
        .with(local_queue("ns/lq", "cq"))
        .with(queue("cq").group([GPU]).flavor("f", [(GPU, 8)]))
        .with(flavor("f").label("gpu", "a100"));
    assert_eq!(
        outcome(tainted_only, selective),
        "NoMatchingFlavor: couldn't assign flavors to pod set main: flavor f doesn't match node affinity"
    );
}

#[test]
fn every_resource_and_pod_set_that_has_to_wait_is_named() {
    let cq = queue("cq").group(["cpu", "memory"]).flavor("f", [("cpu", 4), ("memory", 1 << 30)]);
    let world = world(["f"], cq)
        .with(workload("ns/other").pods("main", 1, [("cpu", 4), ("memory", 1 << 29)]).holding("cq", "f"));
    assert_eq!(
        outcome(
            world,
            it().pods("a", 1, [("cpu", 1), ("memory", 3 << 28)]).pods("b", 1, [("cpu", 1), ("memory", 1)])
        ),
        "WaitingForQuota: couldn't assign flavors to pod set a: \
         insufficient unused quota for cpu in flavor f, 1 more needed, \
         insufficient unused quota for memory in flavor f, 256Mi more needed; \
         couldn't assign flavors to pod set b: \
         insufficient unused quota for cpu in flavor f, 2 more needed, \
         insufficient unused quota for memory in flavor f, 268435457 more needed"
    );
}

#[test]
fn a_search_ends_with_the_first_pod_set_that_has_no_right_to_what_it_lacks() {
    // More than the queue's own share, and the whole cohort is full: nobody owes it anything.
    let cq = queue("cq").cohort("all").group([GPU]).flavor("f", [(GPU, 2)]);
    let world = world(["f"], cq)
        .with(queue("lender").cohort("all").group([GPU]).flavor("f", [(GPU, 4)]))
        .with(workload("ns/other").pods("main", 1, [(GPU, 4)]).holding("lender", "f"));
    assert_eq!(
        outcome(world, it().pods("a", 1, [(GPU, 3)]).pods("b", 1, [(GPU, 9)])),
        "WaitingForQuota: couldn't assign flavors to pod set a: \
         insufficient unused quota for nvidia.com/gpu in flavor f, 1 more needed"
    );
}

#[test]
fn a_search_goes_on_while_a_cohort_below_the_root_owes_what_is_lacking() {
    // The team owns six; what others borrowed of them they have to give back.
    let cq = queue("cq").cohort("team").group([GPU]).flavor("f", [(GPU, 2)]);
    let world = world(["f"], cq)
        .with(cohort("team").parent("org").quota("f", GPU, 4))
        .with(queue("other").cohort("org").group([GPU]).flavor("f", [(GPU, 4)]))
        .with(workload("ns/other").pods("main", 1, [(GPU, 8)]).holding("other", "f"));
    assert_eq!(
        outcome(world, it().pods("a", 1, [(GPU, 5)]).pods("b", 1, [(GPU, 3)])),
        "WaitingForQuota: couldn't assign flavors to pod set a: \
         insufficient unused quota for nvidia.com/gpu in flavor f, 3 more needed; \
         couldn't assign flavors to pod set b: \
         insufficient unused quota for nvidia.com/gpu in flavor f, 6 more needed"
    );
}

#[test]
fn a_flavor_that_is_full_for_one_resource_is_full_for_the_group() {
    let cq = queue("cq")
        .group(["cpu", GPU])
        .flavor("first", [("cpu", 4), (GPU, 4)])
        .flavor("second", [("cpu", 4), (GPU, 4)]);
    let world = world(["first", "second"], cq)
        .with(workload("ns/other").pods("main", 1, [("cpu", 1), (GPU, 4)]).holding("cq", "first"));
    let got = outcome(world, it().pods("main", 1, [("cpu", 1), (GPU, 1)]));
    assert_eq!(got, "main cpu=second, main nvidia.com/gpu=second");
}

#[test]
fn amounts_in_messages_are_written_as_people_write_them() {
    let cq = queue("cq").group(["cpu", "memory"]).flavor("f", [("cpu", 1), ("memory", 1 << 20)]);
    let mut world = world(["f"], cq);
    world.tell(it().pods("main", 3, [("cpu", 0), ("memory", 1 << 30)]));
    world.run();
    let verdict = world.verdict("ns/it").expect("it waits");
    assert_eq!(verdict.reason, Reason::ExceedsMaxQuota);
    assert!(
        verdict.message.ends_with("current podset request (3Gi) > maximum capacity (1Mi)"),
        "{}",
        verdict.message
    );
}

#[test]
fn what_a_queue_has_no_quota_for_stops_a_workload_or_does_not_count_as_the_policy_says() {
    for (ignored, want) in [(false, &[][..]), (true, &["ns/it"][..])] {
        let mut world = World::new()
            .with(flavor("f"))
            .with(local_queue("ns/lq", "cq"))
            .with(queue("cq").group([GPU]).flavor("f", [(GPU, 8)]))
            .with(workload("ns/it").pods("main", 2, [(GPU, 1), ("cpu", 4)]));
        world.policy.ignore_undeclared = ignored;
        assert_eq!(world.run(), want);
        if ignored {
            let admission = world.state.admission(&whalezen_core::testing::key("ns/it")).unwrap();
            assert_eq!(admission.usage().len(), 1, "and is not charged: {admission:?}");
        }
    }
}
