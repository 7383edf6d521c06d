//! Quota: what a ClusterQueue or a Cohort owns of each resource, by flavor.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{mark, names};

/// Resources that are always taken from the same flavor, and the quota of each flavor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[(
    "self.flavors.all(x, size(x.resources) == size(self.coveredResources))",
    "each flavor must give a quota for each of the coveredResources, and for no other",
)]))]
pub struct ResourceGroup {
    /// The resources of this group, such as cpu, memory and nvidia.com/gpu.
    #[schemars(length(min = 1, max = 64), transform = mark::atomic_list)]
    pub covered_resources: Vec<String>,

    /// The flavors that provide them, in the order in which they are tried. They usually differ in hardware
    /// (GPU models) or price (on demand, spot).
    #[schemars(length(min = 1, max = 64), transform = mark::map_list(&["name"]))]
    pub flavors: Vec<FlavorQuotas>,
}

/// The quota of one flavor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlavorQuotas {
    /// The name of a ResourceFlavor. While it does not exist, the ClusterQueue is inactive.
    #[schemars(with = "names::Subdomain")]
    pub name: String,

    /// The quota of each of the group's resources, in the order of `coveredResources`.
    #[schemars(length(min = 1, max = 64), transform = mark::map_list(&["name"]))]
    pub resources: Vec<ResourceQuota>,
}

/// The quota of one resource in one flavor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQuota {
    /// The name of the resource.
    pub name: String,

    /// How much the workloads of this queue may use at a time without borrowing. It should be what the
    /// cluster really has for jobs, after system pods and whatever is not managed here; with an autoscaler,
    /// what it may provide. Not negative. In a cohort, the quotas of all members add up to what they share.
    pub nominal_quota: Quantity,

    /// How much may be borrowed, beyond the nominal quota, of what others in the cohort leave unused. Not
    /// negative; zero forbids borrowing; absent, there is no limit. Needs a cohort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrowing_limit: Option<Quantity>,

    /// How much of the nominal quota others in the cohort may borrow while it is unused; the rest stays
    /// reserved for this queue. Not negative; absent, all of it. Needs a cohort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lending_limit: Option<Quantity>,
}
