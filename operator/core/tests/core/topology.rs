//! Which nodes the pods of a set get: the tables are of what KEP-2724 says, the laws of what holds of every placement.

mod histories;
mod laws;
mod plans;
mod replace;
mod table;

use std::collections::BTreeMap;

use whalezen_core::{
    flavor::Flavor,
    testing::{WorkloadBuilder, flavor, topology},
    topology::{Ask, HOST, Misfit, Node, Placement, Profile, Trees},
    workload::Workload,
};

/// The trees of the flavor `f`, of these nodes, by block, rack and host.
fn trees(nodes: impl IntoIterator<Item = impl Into<Node>>) -> Trees {
    trees_by(&["block", "rack", HOST], nodes)
}

fn trees_by(levels: &[&str], nodes: impl IntoIterator<Item = impl Into<Node>>) -> Trees {
    let mut of = topology("t", []);
    of.levels = levels.iter().map(|level| (*level).into()).collect();
    let flavor = Flavor::from(flavor("f").topology("t"));
    let nodes = nodes.into_iter().map(Into::into).map(|node: Node| (node.name.clone(), node));
    Trees::new(
        &BTreeMap::from([(flavor.name.clone(), flavor)]),
        &BTreeMap::from([(of.name.clone(), of)]),
        &nodes.collect(),
        &BTreeMap::new(),
    )
}

/// Its pod sets, all to be placed on the nodes of `f`.
fn asks(of: WorkloadBuilder) -> Vec<Ask> {
    let pod_sets = Workload::from(of).pod_sets.unwrap();
    let ask = |pod_set: &whalezen_core::workload::PodSet| Ask {
        implied: !pod_set.asks_for_a_place(),
        pod_set: pod_set.clone(),
        flavor: "f".into(),
    };
    pod_sets.iter().map(ask).collect()
}

fn place(trees: &Trees, of: WorkloadBuilder) -> Result<Vec<Placement>, Misfit> {
    trees.place(&asks(of), &trees.untaken(), Profile::default())
}

/// Where the pods of each set are, as `host:pods host:pods; …`, or why there is no place.
fn told(placed: Result<Vec<Placement>, Misfit>) -> String {
    let spots = |placement: &Placement| {
        let spots = placement.spots.iter();
        spots.map(|spot| format!("{}:{}", spot.values.join("/"), spot.count)).collect::<Vec<_>>().join(" ")
    };
    match placed {
        Ok(placements) => placements.iter().map(spots).collect::<Vec<_>>().join("; "),
        Err(misfit) => misfit.message,
    }
}
