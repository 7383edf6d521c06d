//! Which nodes the pods of a workload get: topology-aware scheduling (KEP-2724).
//!
//! A [`Topology`] names the levels at which nodes stand together. The nodes of each flavor that has one form a
//! [tree](tree) of domains; its leaves have [room](Trees) for what neither other pods nor admitted workloads take. A pod
//! set is placed in two phases: [how many](capacity) of its pods each domain could take, from the leaves up, and then,
//! from the [lowest level that takes all](choice) of them [down](spread), which domains they are spread over. The domains
//! that are chosen, and their order, are Kueue's.
//!
//! ```text
//!            level: block        counts up            choice            spread down
//!              /      \        /                                    \
//!          rack        rack   (what fits in each)  -> (one domain or several)
//!         /    \      /    \  /                                      \
//!       host  host  host  host                                        placement
//! ```

mod alone;
mod balanced;
mod capacity;
mod choice;
mod misfit;
mod replace;
mod shape;
mod spread;
mod stay;
mod tree;
mod trees;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::{
    misfit::Misfit,
    stay::{Stay, Stays},
    tree::Tree,
    trees::{Taken, Trees},
};
use crate::{
    flavor::Taint,
    labels::Labels,
    name::{FlavorName, HostName, PodKey, TopologyName},
    quantity::Amounts,
    workload::PodSet,
};

/// The label that names a node itself. Where it is the lowest level, each leaf is one node, and what pods demand of their
/// nodes is asked of each.
pub const HOST: &str = "kubernetes.io/hostname";

/// The levels at which nodes stand together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Topology {
    /// Its name.
    pub name: TopologyName,
    /// The node labels that say which domain a node is in, the widest level first.
    pub levels: Vec<Arc<str>>,
}

/// A node that pods can be bound to: it is ready and schedulable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: HostName,
    /// Its labels.
    pub labels: Labels,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// What its pods may request together.
    pub allocatable: Amounts,
}

/// A pod that takes room of a node and that no placement accounts for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pod {
    /// Its namespace and name.
    pub key: PodKey,
    /// The node that it is bound to.
    pub node: HostName,
    /// What it requests.
    pub requests: Amounts,
}

/// How near to each other the pods of a set have to be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Nearness {
    /// All in one domain of this level.
    Required(Arc<str>),
    /// In one domain of this level if that can be, else of a wider one, else in as few as can be.
    Preferred(Arc<str>),
    /// Anywhere, as long as each has a node.
    Unconstrained,
}

/// Slices of a pod set, each of which has to be in one domain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Layer {
    /// The level of that domain.
    pub level: Arc<str>,
    /// How many pods make a slice.
    pub size: u32,
}

/// What a pod set asks of its place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct TopologyRequest {
    /// How near all of its pods have to be, if it says so.
    pub nearness: Option<Nearness>,
    /// Its slices, and slices within those, the widest first.
    pub layers: Vec<Layer>,
    /// Pod sets of the same group are placed together: one of them is the leader of the others.
    pub group: Option<Arc<str>>,
}

impl TopologyRequest {
    /// Whether it asks for a place at all. Else its pod set gets one only in a queue that has nothing but flavors with a
    /// topology.
    pub fn is_explicit(&self) -> bool {
        self.nearness.is_some() || !self.layers.is_empty()
    }
}

/// How many pods are in one domain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Spot {
    /// The values of the [levels](Placement::levels) that name the domain.
    pub values: Vec<Arc<str>>,
    /// How many.
    pub count: u32,
}

/// Where the pods of a set are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Placement {
    /// The node labels that name the domains. Where hosts are a level, they are the only one here: that says everything.
    pub levels: Vec<Arc<str>>,
    /// The domains, in order.
    pub spots: Vec<Spot>,
}

impl Placement {
    /// Whether each of its domains is one node.
    pub fn is_on_hosts(&self) -> bool {
        self.levels.last().is_some_and(|level| **level == *HOST)
    }

    /// The names of the hosts, where each of its domains is one.
    pub fn hosts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.spots.iter().filter(|_| self.is_on_hosts()).filter_map(|spot| spot.values.last())
    }

    /// Whether pods are on this host.
    pub fn has(&self, host: &str) -> bool {
        self.hosts().any(|name| **name == *host)
    }
}

/// A pod set that is to be placed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ask {
    /// It, with as many pods as are to be placed.
    pub pod_set: PodSet,
    /// The flavor on whose nodes.
    pub flavor: FlavorName,
    /// Whether it does not ask itself, but its queue places everything.
    pub implied: bool,
}

/// How placements are chosen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// Whether pods that may be anywhere go where the least room is, and not where it fits best.
    pub fills_up_the_unconstrained: bool,
    /// Whether pods that prefer to be near each other are spread over domains in about equal parts.
    #[serde(default)]
    pub balances: bool,
}

impl Default for Profile {
    fn default() -> Self {
        Self { fills_up_the_unconstrained: true, balances: false }
    }
}
