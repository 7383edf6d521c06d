use whalezen_core::{
    testing::{NodeBuilder, WorkloadBuilder, foreign_pod, node, workload},
    topology::{HOST, Profile},
};

use super::{asks, place, told, trees, trees_by};
use crate::GPU;

fn host(block: &str, rack: &str, name: &str, cores: i64) -> NodeBuilder {
    node(name).label("block", block).label("rack", rack).has("cpu", cores)
}

/// Racks of 8, 4, 5 and 8 cores, two in each block.
fn nodes() -> Vec<NodeBuilder> {
    vec![
        host("b1", "r1", "h1", 4),
        host("b1", "r1", "h2", 4),
        host("b1", "r2", "h3", 2),
        host("b1", "r2", "h4", 2),
        host("b2", "r3", "h5", 4),
        host("b2", "r3", "h6", 1),
        host("b2", "r4", "h7", 8),
    ]
}

/// Pods of a core each.
fn gang(pods: u32) -> WorkloadBuilder {
    workload("ns/it").pods("main", pods, [("cpu", 1)])
}

/// Workers of a core each, and a leader that asks for this many.
fn led(workers: u32, leader: i64, near: impl Fn(WorkloadBuilder) -> WorkloadBuilder) -> WorkloadBuilder {
    let it = near(workload("ns/it").pods("leader", 1, [("cpu", leader)])).placed_with("g");
    near(it.pods("workers", workers, [("cpu", 1)])).placed_with("g")
}

#[test]
fn pods_are_placed_in_the_domain_that_fits_best() {
    for (what, it, want) in [
        ("the smallest rack that takes all", gang(4).required("rack"), "h3:2 h4:2"),
        ("the smallest host that does", gang(4).required(HOST), "h1:4"),
        ("only one does", gang(5).required(HOST), "h7:5"),
        ("the smaller block", gang(12).required("block"), "h1:4 h2:4 h3:2 h4:2"),
        ("the last host is the one that fits best", gang(9).required("block"), "h1:4 h2:4 h3:1"),
        (
            "no rack takes all",
            gang(9).required("rack"),
            "topology \"t\" allows to fit only 8 out of 9 pod(s)",
        ),
        ("then a block does", gang(9).preferred("rack"), "h1:4 h2:4 h3:1"),
        ("or two", gang(14).preferred("rack"), "h1:4 h2:2 h7:8"),
        ("a level that is preferred and fits", gang(5).preferred(HOST), "h7:5"),
        (
            "more than there is",
            gang(26).preferred(HOST),
            "topology \"t\" allows to fit only 25 out of 26 pod(s)",
        ),
        ("one that takes all, where the least room is", gang(3).unconstrained(), "h1:3"),
        ("several, the least room first", gang(9).unconstrained(), "h1:4 h3:2 h4:2 h6:1"),
        ("nothing is asked", gang(2), "h3:2"),
        ("no such level", gang(1).required("row"), "no requested topology level: row"),
    ] {
        assert_eq!(told(place(&trees(nodes()), it)), want, "{what}");
    }
}

#[test]
fn room_is_filled_up_by_those_that_may_be_anywhere_unless_the_rules_say_otherwise() {
    let trees = trees(nodes());
    let profile = Profile { fills_up_the_unconstrained: false, ..Profile::default() };
    let placed = trees.place(&asks(gang(9).unconstrained()), &trees.untaken(), profile);
    assert_eq!(told(placed), "h6:1 h7:8");
}

#[test]
fn who_prefers_to_be_near_each_other_is_spread_evenly_where_that_is_the_profile() {
    let trees = trees(nodes());
    let even = Profile { balances: true, ..Profile::default() };
    for (what, it, uneven, want) in [
        ("one host takes more than each of two", gang(6).preferred("rack"), "h1:4 h2:2", "h7:6"),
        ("two hosts take more than each of three", gang(10).preferred("rack"), "h1:4 h2:4 h3:2", "h5:4 h7:6"),
        ("what is required stays as it is", gang(6).required("rack"), "h1:4 h2:2", "h1:4 h2:2"),
    ] {
        assert_eq!(told(place(&trees, it.clone())), uneven, "{what}");
        assert_eq!(told(trees.place(&asks(it), &trees.untaken(), even)), want, "{what}");
    }
}

#[test]
fn a_slice_is_never_broken() {
    for (what, it, want) in [
        ("two slices in a rack", gang(4).required("block").slices(2, "rack"), "h3:2 h4:2"),
        ("one in each of two racks", gang(8).required("block").slices(4, "rack"), "h1:4 h2:4"),
        ("hosts with half a slice are left out", gang(4).required("rack").slices(2, HOST), "h3:2 h4:2"),
        ("as many as there are", gang(12).preferred("block").slices(4, HOST), "h5:4 h7:8"),
        ("slices alone may be anywhere", gang(4).slices(4, "rack"), "h3:2 h4:2"),
        (
            "too many",
            gang(24).required("block").slices(4, HOST),
            "topology \"t\" allows to fit only 3 out of 6 slice(s)",
        ),
        ("half a slice", gang(3).slices(2, "rack"), "the 3 pods are no whole number of slices of 2"),
        (
            "a slice is wider than all",
            gang(4).required("rack").slices(2, "block"),
            "podset slice topology block is above the podset topology rack",
        ),
        ("slices in slices", gang(4).required("block").slices(4, "rack").slices(2, HOST), "h3:2 h4:2"),
        (
            "not enough of the outer ones",
            gang(24).required("block").slices(4, "rack").slices(4, HOST),
            "topology \"t\" doesn't allow to fit; 3/6 slice(s) fit on level rack; \
             3/6 slice(s) fit on level kubernetes.io/hostname",
        ),
        (
            "the inner ones do not divide the outer ones",
            gang(4).slices(4, "rack").slices(3, HOST),
            "additional slice layer size 3 must evenly divide parent layer size 4",
        ),
    ] {
        assert_eq!(told(place(&trees(nodes()), it)), want, "{what}");
    }
}

#[test]
fn a_leader_is_placed_with_its_workers() {
    let rack = |it: WorkloadBuilder| it.required("rack");
    for (what, it, want) in [
        ("the rack that takes both", led(4, 1, rack), "h5:1; h5:3 h6:1"),
        (
            "a leader that takes a whole host",
            led(2, 8, rack),
            "topology \"t\" allows to fit only 8 out of 2 pod(s)",
        ),
        ("in a block", led(8, 4, |it| it.required("block")), "h1:1; h2:4 h3:2 h4:2"),
    ] {
        assert_eq!(told(place(&trees(nodes()), it)), want, "{what}");
    }
}

#[test]
fn pod_sets_that_are_no_group_do_not_get_the_same_room() {
    let it = gang(8).required("rack").pods("more", 8, [("cpu", 1)]).required("rack");
    assert_eq!(told(place(&trees(nodes()), it)), "h1:4 h2:4; h7:8");
    let it = gang(8).required("rack").pods("more", 8, [("cpu", 1)]).required("rack");
    let it = it.pods("most", 8, [("cpu", 1)]).required("rack");
    assert_eq!(
        told(place(&trees(nodes()), it)),
        "topology \"t\" allows to fit only 5 out of 8 pod(s). Total nodes: 7; excluded: resource \"cpu\": 3"
    );
}

#[test]
fn what_pods_demand_of_their_nodes_is_asked_of_each_host() {
    let node = |name: &str| host("b", "r", name, 4);
    let nodes = [
        node("bare"),
        node("ssd").label("disk", "ssd"),
        node("tainted").label("disk", "ssd").taint("gpu", "yes"),
        node("small").label("disk", "ssd").has("cpu", 0),
    ];
    for (what, it, want) in [
        ("none", gang(4).required(HOST), "bare:4"),
        ("a selector", gang(4).required(HOST).select("disk", "ssd"), "ssd:4"),
        ("an affinity", gang(4).required(HOST).affinity("disk", "ssd"), "ssd:4"),
        ("a toleration", gang(8).required("rack").select("disk", "ssd").tolerate("gpu"), "ssd:4 tainted:4"),
        (
            "none meets it",
            gang(1).required(HOST).select("disk", "tape"),
            "topology \"t\" doesn't allow to fit any of 1 pod(s). Total nodes: 4; \
             excluded: nodeSelector: 3, taint \"gpu=yes:NoSchedule\": 1",
        ),
        (
            "none has it",
            workload("ns/it").pods("main", 1, [(GPU, 1)]).required(HOST),
            "topology \"t\" doesn't allow to fit any of 1 pod(s). Total nodes: 4; \
             excluded: resource \"nvidia.com/gpu\": 3, taint \"gpu=yes:NoSchedule\": 1",
        ),
    ] {
        assert_eq!(told(place(&trees(nodes.clone()), it)), want, "{what}");
    }
}

#[test]
fn where_hosts_are_no_level_a_rack_is_named_by_all_levels_and_has_the_room_of_its_nodes() {
    let trees = trees_by(&["block", "rack"], nodes());
    assert_eq!(told(place(&trees, gang(5).required("rack"))), "b2/r3:5");
    assert_eq!(told(place(&trees, gang(13).preferred("rack"))), "b2/r3:5 b2/r4:8");
}

#[test]
fn a_node_without_all_levels_is_in_no_tree() {
    let trees = trees([host("b", "r", "h", 1), node("stray").has("cpu", 9).label("block", "b")]);
    assert_eq!(
        told(place(&trees, gang(2).required("block"))),
        "topology \"t\" allows to fit only 1 out of 2 pod(s)"
    );
}

#[test]
fn pods_of_others_leave_less_room_while_they_are_there() {
    let mut trees = trees(nodes());
    let pod = foreign_pod("ns/daemon", "h7", [("cpu", 5)]);
    trees.crowd(&pod, 1);
    let want = "topology \"t\" allows to fit only 4 out of 5 pod(s)";
    assert_eq!(told(place(&trees, gang(5).required(HOST))), want);
    trees.crowd(&pod, -1);
    assert_eq!(told(place(&trees, gang(5).required(HOST))), "h7:5");
}

#[test]
fn a_host_takes_no_more_pods_than_it_says() {
    let trees = trees([host("b", "r", "few", 8).has("pods", 2), host("b", "r", "many", 8)]);
    assert_eq!(told(place(&trees, gang(9).required("rack"))), "few:1 many:8");
    assert_eq!(told(place(&trees, gang(11).required("rack"))).split(" allows").count(), 2);
}
