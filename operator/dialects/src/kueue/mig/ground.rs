//! Where instances could be: the nodes with their GPUs, worked out once for all that look for some in a turn.
//!
//! Workloads that need the same are told the same: what had no room has none a moment later.

use std::collections::{BTreeMap, BTreeSet};

use whalezen_core::{
    flavor::{Flavor, NodeDemand},
    mig::{GpuNode, choose, has_the_rest, may_be_on},
    name::{FlavorName, HostName},
    quantity::{Amount, Amounts},
    state::State,
    topology::Node,
};
use whalezen_mig::Counts;

use super::{
    super::jobs::Of,
    Need, Step,
    claims::{claiming, layout},
    known::Known,
    note,
};

/// What is known where instances are looked for.
#[derive(Debug)]
pub struct Ground<'a> {
    pub(super) known: &'a Known,
    pub(super) state: &'a State,
    nodes: Option<Nodes<'a>>,
    /// What had no room.
    hopeless: BTreeSet<Sought>,
}

/// Nodes whose agents say what GPUs they have.
#[derive(Debug)]
struct Nodes<'a> {
    gpus: Vec<(&'a Node, GpuNode)>,
    /// What the pods on a node request there.
    taken: BTreeMap<&'a HostName, Amounts>,
}

/// What a Workload looks for: where it is the same, so is the answer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Sought {
    instances: Counts,
    amounts: Amounts,
    demands: Vec<(NodeDemand, BTreeSet<FlavorName>)>,
}

impl<'a> Ground<'a> {
    /// That of now.
    pub fn new(known: &'a Known, state: &'a State) -> Self {
        Self { known, state, nodes: None, hopeless: BTreeSet::new() }
    }

    /// Where the instances of a Workload are to be; `None` if they have room nowhere.
    pub(super) fn place(&mut self, of: Of<'_>, need: &Need<'_>) -> Option<Step> {
        let demand = |(pods, given): &(
            &whalezen_core::workload::PodSet,
            &whalezen_core::workload::PodSetAssignment,
        )| { (pods.demand.clone(), given.flavors.values().cloned().collect()) };
        let sought = Sought {
            instances: need.instances.clone(),
            amounts: need.amounts.clone(),
            demands: need.sets.iter().map(demand).collect(),
        };
        if self.hopeless.contains(&sought) {
            return None;
        }
        let (known, state) = (self.known, self.state);
        let nodes = self.nodes.get_or_insert_with(|| Nodes::of(known, state));
        let able =
            nodes.gpus.iter().filter(|(node, _)| nodes.takes(node, &sought, state)).map(|(_, gpus)| gpus);
        let Ok((chosen, fit)) = choose(able, &need.instances) else {
            self.hopeless.insert(sought);
            return None;
        };
        let view = known.node(chosen.name.as_str())?;
        let message = format!("{} on node {} reserved", need.instances, view.name);
        let write = Box::new(layout(view, &claiming(view, &fit, of)));
        Some(Step::Layout { node: view.name.clone(), write, note: note(of, "MIGReserved", message) })
    }
}

impl<'a> Nodes<'a> {
    fn of(known: &Known, state: &'a State) -> Self {
        let ready = known.nodes().filter(|view| view.ready);
        let gpus = ready.filter_map(|view| {
            let node = state.node(&HostName::from(view.name.as_str()))?;
            Some((node, known.gpus(view, node)))
        });
        let gpus: Vec<_> = gpus.collect();
        let mut taken: BTreeMap<&HostName, Amounts> =
            gpus.iter().map(|(node, _)| (&node.name, Amounts::new())).collect();
        for pod in state.pods() {
            let Some(taken) = taken.get_mut(&pod.node) else { continue };
            for (resource, amount) in &pod.requests {
                *taken.entry(resource.clone()).or_insert(Amount::ZERO) += *amount;
            }
        }
        Self { gpus, taken }
    }

    /// Whether a node takes such pods, but for the instances.
    fn takes(&self, node: &Node, sought: &Sought, state: &State) -> bool {
        let has_room =
            self.taken.get(&node.name).is_some_and(|taken| has_the_rest(node, &sought.amounts, taken));
        has_room
            && sought.demands.iter().all(|(demand, used)| {
                let flavors: Vec<&Flavor> =
                    used.iter().filter_map(|name| state.flavors().get(name)).collect();
                may_be_on(node, demand, &flavors)
            })
    }
}
