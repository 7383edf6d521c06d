//! The pods of one host get another, and the others stay.

use whalezen_core::{
    testing::{NodeBuilder, WorkloadBuilder, node, workload},
    topology::{HOST, Placement, Profile, Spot, Stay, Stays, Trees},
};

use super::{asks, trees};

fn host(rack: &str, name: &str, cores: i64) -> NodeBuilder {
    node(name).label("block", "b").label("rack", rack).has("cpu", cores)
}

/// Two racks of three hosts with four cores each.
fn racks() -> Trees {
    trees(["a", "b", "c", "x", "y", "z"].map(|name| host(if name < "m" { "r1" } else { "r2" }, name, 4)))
}

fn gang(pods: u32) -> WorkloadBuilder {
    workload("ns/it").pods("main", pods, [("cpu", 1)])
}

/// Hosts with so many pods of the set each.
fn on(spots: &[(&str, u32)]) -> Placement {
    let spot = |(host, count): &(&str, u32)| Spot { values: vec![(*host).into()], count: *count };
    Placement { levels: vec![HOST.into()], spots: spots.iter().map(spot).collect() }
}

/// Where the pods are once they are on host `a` no more.
fn without_a(it: WorkloadBuilder, spots: &[(&str, u32)]) -> String {
    let trees = racks();
    let (ask, placement) = (asks(it).remove(0), on(spots));
    let mut taken = trees.untaken();
    let kept: Vec<(&str, u32)> = spots.iter().copied().filter(|(host, _)| *host != "a").collect();
    let own = Stay {
        flavors: [ask.flavor.clone()].into(),
        placement: on(&kept),
        per_pod: ask.pod_set.per_pod.clone(),
    };
    trees.charge(&mut taken, &Stays(vec![own]));
    match trees.replace(&ask, &placement, "a", &mut taken, Profile::default()) {
        Ok(placement) => {
            let told = placement.spots.iter().map(|spot| format!("{}:{}", spot.values[0], spot.count));
            told.collect::<Vec<_>>().join(" ")
        }
        Err(why) => why,
    }
}

#[test]
fn what_has_to_be_together_stays_together() {
    for (what, it, spots, want) in [
        ("in its rack", gang(6).required("rack"), &[("a", 4), ("b", 2)][..], "b:2 c:4"),
        ("it may share a host", gang(3).required("rack"), &[("a", 1), ("b", 2)], "b:3"),
        ("its rack is full", gang(9).required("rack"), &[("a", 4), ("b", 4), ("c", 1)], "none"),
        ("all of it may go", gang(4).required("rack"), &[("a", 4)], "b:4"),
        ("anywhere", gang(9).preferred("rack"), &[("a", 4), ("b", 4), ("c", 1)], "b:4 c:1 x:4"),
        ("a slice by its rest", gang(8).slices(4, "rack"), &[("a", 2), ("b", 2), ("x", 4)], "b:4 x:4"),
        ("a whole slice anywhere", gang(8).slices(4, "rack"), &[("a", 4), ("b", 4)], "b:4 c:4"),
        ("a stale host", gang(2).required("rack"), &[("a", 1), ("gone", 1)], "stale"),
    ] {
        let told = without_a(it, spots);
        match want {
            "none" => assert!(told.contains("allows to fit only 3 out of 4 pod(s)"), "{what}: {told}"),
            "stale" => assert!(told.contains("it contains the stale domain gone"), "{what}: {told}"),
            want => assert_eq!(told, want, "{what}"),
        }
    }
}
