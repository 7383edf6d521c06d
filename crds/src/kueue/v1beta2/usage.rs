//! Usage: what a ClusterQueue reports of each resource, by flavor.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{mark, names};

/// What is in use of one flavor's quota in a ClusterQueue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlavorUsage {
    /// The flavor.
    #[schemars(with = "names::Subdomain")]
    pub name: String,

    /// What is in use of each of its resources.
    #[schemars(length(max = 64), transform = mark::map_list(&["name"]))]
    pub resources: Vec<ResourceUsage>,
}

/// What is in use of one resource's quota in a ClusterQueue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// The resource.
    pub name: String,

    /// How much is in use, borrowed quota included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Quantity>,

    /// How much of the total is borrowed: what exceeds the nominal quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrowed: Option<Quantity>,
}

/// What the workloads of one LocalQueue use of one flavor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueFlavorUsage {
    /// The flavor.
    #[schemars(with = "names::Subdomain")]
    pub name: String,

    /// What is in use of each of its resources.
    #[schemars(length(max = 64), transform = mark::map_list(&["name"]))]
    pub resources: Vec<LocalQueueResourceUsage>,
}

/// What the workloads of one LocalQueue use of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueResourceUsage {
    /// The resource.
    pub name: String,

    /// How much is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Quantity>,
}
