//! `Admission`: what a workload was given.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TopologyAssignment;
use crate::schema::{mark, names};

/// The quota that a workload holds: in which ClusterQueue, and of which flavors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Admission {
    /// The ClusterQueue whose quota is held.
    #[serde(default)]
    #[schemars(with = "names::Subdomain", transform = mark::undefaulted)]
    pub cluster_queue: String,

    /// What each of the pod sets was given.
    #[serde(default)]
    #[schemars(length(max = 18), transform = mark::map_list(&["name"]), transform = mark::undefaulted)]
    pub pod_set_assignments: Vec<PodSetAssignment>,
}

/// What a pod set was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSetAssignment {
    /// The name of the pod set.
    #[serde(default = "PodSetAssignment::name_default")]
    #[schemars(with = "names::PodSetName")]
    pub name: String,

    /// The flavor that each resource is taken from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, names::Subdomain>")]
    pub flavors: BTreeMap<String, String>,

    /// How much quota the whole set holds, with overheads and defaults as they were at admission. It stays
    /// as it is when pods give their part back early.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_usage: BTreeMap<String, Quantity>,

    /// How many pods the quota is for; less than the set's count after a partial admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub count: Option<i32>,

    /// Which topology domains the pods run in, and how many in each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_assignment: Option<TopologyAssignment>,

    /// Whether the domains are chosen later, when an admission check has brought the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delayed_topology_request: Option<DelayedTopologyRequestState>,
}

impl PodSetAssignment {
    fn name_default() -> String {
        crate::kueue::constants::DEFAULT_POD_SET.to_owned()
    }
}

impl Default for PodSetAssignment {
    fn default() -> Self {
        Self {
            name: Self::name_default(),
            flavors: BTreeMap::new(),
            resource_usage: BTreeMap::new(),
            count: None,
            topology_assignment: None,
            delayed_topology_request: None,
        }
    }
}

/// Whether a delayed choice of topology domains is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = mark::max_length(7))]
pub enum DelayedTopologyRequestState {
    /// Not yet.
    Pending,
    /// It is.
    Ready,
}
