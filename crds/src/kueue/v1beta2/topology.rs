//! `Topology`: how the nodes of a cluster are nested.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::definition::{CustomResource, Definition};
use crate::resource::resource;
use crate::schema::{mark, names};

resource! {
    /// A Topology names the levels at which nodes stand together, from the widest to the narrowest, such as
    /// block, rack and host, by the node labels that say which domain a node is in.
    Topology("kueue.x-k8s.io", "v1beta2", "topologies"): ClusterResourceScope {
        /// The levels.
        spec: TopologySpec,
    }
}

impl CustomResource for Topology {
    const DEFINITION: Definition =
        Definition { short_names: &["topo"], columns: &[], selectable: &[], status: false };
}

/// The levels of a Topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpec {
    /// The levels, from the widest to the narrowest. They cannot be changed.
    #[schemars(length(min = 1, max = 16), transform = mark::atomic_list, transform = mark::rules(LEVELS))]
    pub levels: Vec<TopologyLevel>,
}

const LEVELS: &[(&str, &str)] = &[
    ("self == oldSelf", "the levels cannot be changed"),
    (
        "size(self.filter(i, size(self.filter(j, j == i)) > 1)) == 0",
        "each level must have a label of its own",
    ),
    (
        "size(self.filter(i, i.nodeLabel == 'kubernetes.io/hostname')) == 0 || self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'",
        "kubernetes.io/hostname can only be the last level: nothing is nested in a host",
    ),
];

/// One level of a Topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyLevel {
    /// The node label whose value names the domain that a node belongs to, such as
    /// `topology.kubernetes.io/zone` or `kubernetes.io/hostname`.
    #[schemars(length(min = 1, max = 316), regex(pattern = names::QUALIFIED))]
    pub node_label: String,
}
