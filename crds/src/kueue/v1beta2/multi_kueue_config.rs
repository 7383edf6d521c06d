//! `MultiKueueConfig`: which clusters a ClusterQueue's workloads may be sent to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::definition::{CustomResource, Definition};
use crate::resource::resource;
use crate::schema::mark;

resource! {
    /// A MultiKueueConfig lists the clusters that workloads may be sent to. An AdmissionCheck names it as
    /// its parameters.
    MultiKueueConfig("kueue.x-k8s.io", "v1beta2", "multikueueconfigs"): ClusterResourceScope {
        /// The clusters.
        spec: MultiKueueConfigSpec,
    }
}

impl CustomResource for MultiKueueConfig {
    const DEFINITION: Definition =
        Definition { short_names: &["mkconf"], columns: &[], selectable: &[], status: false };
}

/// The clusters that workloads may be sent to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MultiKueueConfigSpec {
    /// The names of MultiKueueClusters, best first: a dispatcher that tries them in turn keeps this order.
    #[schemars(
        length(min = 1, max = 20),
        inner(length(max = 256)),
        transform = mark::atomic_list,
        transform = mark::rules(&[(
            "size(self.filter(i, size(self.filter(j, j == i)) > 1)) == 0",
            "a cluster may be named once only",
        )]),
    )]
    pub clusters: Vec<String>,

    /// Who sets the quotas of the ClusterQueues on this side. Absent means `Manual`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_management: Option<MultiKueueConfigQuotaManagementMode>,
}

/// Who sets the quotas of a managing cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum MultiKueueConfigQuotaManagementMode {
    /// People.
    Manual,
    /// The operator, from the quotas of the clusters, where that feature is on.
    Automated,
}
