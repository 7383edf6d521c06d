//! `ProvisioningRequestConfig`: how to ask the cluster autoscaler for nodes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::definition::{CustomResource, Definition};
use crate::resource::resource;
use crate::schema::{mark, names};

resource! {
    /// A ProvisioningRequestConfig says how to ask the cluster autoscaler for the nodes of a workload. An
    /// AdmissionCheck names it as its parameters.
    ProvisioningRequestConfig("kueue.x-k8s.io", "v1beta2", "provisioningrequestconfigs"): ClusterResourceScope {
        /// What to ask for, and how often.
        spec: ProvisioningRequestConfigSpec,
    }
}

impl CustomResource for ProvisioningRequestConfig {
    const DEFINITION: Definition =
        Definition { short_names: &["prc"], columns: &[], selectable: &[], status: false };
}

/// What to ask of the cluster autoscaler, and how often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningRequestConfigSpec {
    /// The class of the ProvisioningRequests to make, which says how the autoscaler treats them.
    #[schemars(with = "names::RequiredSubdomain")]
    pub provisioning_class_name: String,

    /// Parameters that the class understands. At most 100, of 255 characters each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, names::Parameter>", transform = mark::max_properties(100))]
    pub parameters: BTreeMap<String, String>,

    /// The resources that the autoscaler provides. Pod sets that request none of them are left out of the
    /// request, and a workload of which nothing is left passes at once. Empty means every resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), transform = mark::set_list)]
    pub managed_resources: Vec<String>,

    /// How often to ask again after a failure, and how long to wait in between.
    #[serde(default)]
    pub retry_strategy: ProvisioningRequestRetryStrategy,

    /// What to add to pod sets so that they run on the nodes that were provided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_set_updates: Option<ProvisioningRequestPodSetUpdates>,

    /// Which pod sets are put together in one request. Absent, none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_set_merge_policy: Option<ProvisioningRequestConfigPodSetMergePolicy>,
}

/// How often to ask again, and how long to wait in between.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisioningRequestRetryStrategy {
    /// How many times to ask again before the workload is deactivated. Zero: never.
    pub backoff_limit_count: i32,

    /// How many seconds to wait before the first new attempt. The wait doubles each time, with some random
    /// jitter, and the workload's quota is free for others meanwhile.
    pub backoff_base_seconds: i32,

    /// The longest wait, in seconds.
    pub backoff_max_seconds: i32,
}

impl Default for ProvisioningRequestRetryStrategy {
    fn default() -> Self {
        Self { backoff_limit_count: 3, backoff_base_seconds: 60, backoff_max_seconds: 1800 }
    }
}

/// What to add to pod sets so that they run on provided nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningRequestPodSetUpdates {
    /// Node selector entries whose values come from the answer of the autoscaler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), transform = mark::map_list(&["key"]))]
    pub node_selector: Vec<ProvisioningRequestPodSetUpdatesNodeSelector>,
}

/// A node selector entry whose value comes from the answer of the autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningRequestPodSetUpdatesNodeSelector {
    /// The node label.
    #[schemars(length(min = 1, max = 317), regex(pattern = names::QUALIFIED))]
    pub key: String,

    /// The entry of the ProvisioningRequest's `status.provisioningClassDetails` that holds the value.
    #[schemars(length(min = 1, max = 32768))]
    pub value_from_provisioning_class_detail: String,
}

/// Which pod sets are put together in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ProvisioningRequestConfigPodSetMergePolicy {
    /// Those with equal pod templates.
    IdenticalPodTemplates,
    /// Those whose pod templates agree in everything that matters to a scheduler.
    IdenticalWorkloadSchedulingRequirements,
}
