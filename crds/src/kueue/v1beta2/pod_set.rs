//! `PodSet`: equal pods of a workload.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PodSetTopologyRequest;
use crate::schema::{mark, names};

/// Pods of a workload that are all alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[(
    "has(self.minCount) ? self.minCount <= self.count : true",
    "minCount cannot be more than count",
)]))]
pub struct PodSet {
    /// The name of the set, unique in the workload.
    #[serde(default = "PodSet::name_default")]
    #[schemars(with = "names::PodSetName")]
    pub name: String,

    /// What each pod looks like. Of the metadata, only labels and annotations count. A container without
    /// requests requests its limits. The node selector and the required node affinity rule out flavors whose
    /// labels disagree with them.
    pub template: PodTemplateSpec,

    /// How many pods there are.
    #[serde(default = "PodSet::count_default")]
    #[schemars(range(min = 0))]
    pub count: i32,

    /// With how few pods the workload can do, where partial admission is on. Absent, it needs all of them.
    /// At most one set of a workload may have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_count: Option<i32>,

    /// How near to each other the pods must run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_request: Option<PodSetTopologyRequest>,
}

impl PodSet {
    fn name_default() -> String {
        crate::kueue::constants::DEFAULT_POD_SET.to_owned()
    }

    const fn count_default() -> i32 {
        1
    }
}

impl Default for PodSet {
    fn default() -> Self {
        Self {
            name: Self::name_default(),
            template: PodTemplateSpec::default(),
            count: Self::count_default(),
            min_count: None,
            topology_request: None,
        }
    }
}
