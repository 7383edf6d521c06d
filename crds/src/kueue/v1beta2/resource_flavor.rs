//! `ResourceFlavor`: a kind of node that quota is given for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Taint, Toleration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::definition::{CustomResource, Definition};
use crate::resource::resource;
use crate::schema::{mark, names};

resource! {
    /// A ResourceFlavor names a kind of node, such as one GPU model or spot machines, by its labels and
    /// taints. ClusterQueues give quota by flavor. One without a spec stands for any node.
    ResourceFlavor("kueue.x-k8s.io", "v1beta2", "resourceflavors"): ClusterResourceScope {
        /// Which nodes belong to the flavor, and what pods need to run on them.
        spec: ResourceFlavorSpec,
    }
}

impl CustomResource for ResourceFlavor {
    const DEFINITION: Definition = Definition {
        short_names: &["flavor", "flavors", "rf"],
        columns: &[],
        selectable: &[],
        status: false,
    };
}

/// Which nodes belong to a ResourceFlavor, and what pods need to run on them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[
    (
        "!has(self.topologyName) || self.nodeLabels.size() >= 1",
        "a flavor with a topologyName needs at least one of the nodeLabels, to find its nodes",
    ),
    (
        "!has(oldSelf.topologyName) || (has(self.nodeLabels) == has(oldSelf.nodeLabels) && (!has(self.nodeLabels) || self.nodeLabels == oldSelf.nodeLabels))",
        "nodeLabels cannot be changed once topologyName is set",
    ),
    (
        "!has(oldSelf.topologyName) || (has(self.tolerations) == has(oldSelf.tolerations) && (!has(self.tolerations) || self.tolerations == oldSelf.tolerations))",
        "tolerations cannot be changed once topologyName is set",
    ),
    (
        "!has(oldSelf.topologyName) || (has(self.topologyName) && self.topologyName == oldSelf.topologyName)",
        "topologyName cannot be changed once it is set",
    ),
]))]
pub struct ResourceFlavorSpec {
    /// The labels that the flavor's nodes have. A workload can get the flavor only if its node selector and
    /// required node affinity agree with them, and its pods are then bound to such nodes by a node selector
    /// with these labels. At most 8.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = mark::max_properties(8), transform = mark::atomic_map)]
    pub node_labels: BTreeMap<String, String>,

    /// The taints that the flavor's nodes have. A workload can get the flavor only if it tolerates them, by
    /// itself or by the `tolerations` below. `PreferNoSchedule` does not count. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), transform = mark::atomic_list, transform = mark::rules(&[TAINT_EFFECT]))]
    pub node_taints: Vec<Taint>,

    /// Tolerations that admitted pods are given on top of their own. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), transform = mark::atomic_list, transform = mark::rules(TOLERATIONS))]
    pub tolerations: Vec<Toleration>,

    /// The Topology of the flavor's nodes. With it, pods are placed on topology domains that have room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<names::Subdomain>")]
    pub topology_name: Option<String>,
}

/// What a list of taints must satisfy.
const TAINT_EFFECT: (&str, &str) = (
    "self.all(x, x.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
    "a taint's effect must be NoSchedule, PreferNoSchedule or NoExecute",
);

/// What a list of tolerations must satisfy: the rules of the pod API.
pub(super) const TOLERATIONS: &[(&str, &str)] = &[
    (
        "self.all(x, !has(x.key) ? x.operator == 'Exists' : true)",
        "a toleration without a key matches every taint and needs the operator Exists",
    ),
    (
        "self.all(x, has(x.tolerationSeconds) ? x.effect == 'NoExecute' : true)",
        "tolerationSeconds needs the effect NoExecute",
    ),
    (
        "self.all(x, !has(x.operator) || x.operator in ['Equal', 'Exists'])",
        "a toleration's operator must be Equal (the default) or Exists",
    ),
    (
        "self.all(x, has(x.operator) && x.operator == 'Exists' ? !has(x.value) : true)",
        "a toleration with the operator Exists has no value",
    ),
    (
        "self.all(x, !has(x.effect) || x.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
        "a toleration's effect must be NoSchedule, PreferNoSchedule or NoExecute",
    ),
];
