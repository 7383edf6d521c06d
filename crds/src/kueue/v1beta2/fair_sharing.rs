//! Fair sharing: weights, shares and the usage-based order of LocalQueues.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The weight of a queue or a cohort among its siblings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FairSharing {
    /// How large a part of the unused quota this member may claim, relative to its siblings. A member's
    /// share is what it uses beyond its nominal quota, of the resource where that is most, divided by this
    /// weight; those with the smallest share are served first and those with the largest are preempted
    /// first. Zero means an infinite share: always last. Otherwise more than 10^-9.
    #[serde(default = "FairSharing::unit")]
    #[schemars(transform = default_one)]
    pub weight: Quantity,
}

impl FairSharing {
    fn unit() -> Quantity {
        Quantity("1".to_owned())
    }
}

impl Default for FairSharing {
    fn default() -> Self {
        Self { weight: Self::unit() }
    }
}

/// Kueue writes this default as a number, which is the same quantity.
fn default_one(schema: &mut schemars::Schema) {
    schema.insert("default".into(), 1.into());
}

/// Where a ClusterQueue or a Cohort stands in fair sharing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FairSharingStatus {
    /// The member's share: the largest, over all resources, of its usage beyond nominal quota relative to
    /// what the cohort can lend, divided by the weight. Zero: no more than nominal quota is used.
    /// 9223372036854775807: something is borrowed at weight zero.
    pub weighted_share: i64,
}

/// Which order among LocalQueues a ClusterQueue keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionScope {
    /// Whether past usage counts.
    pub admission_mode: AdmissionMode,
}

/// Whether a LocalQueue's past usage puts its workloads back in the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AdmissionMode {
    /// Workloads of LocalQueues that used less lately go first; the queueing strategy decides the rest.
    #[default]
    UsageBasedAdmissionFairSharing,
    /// Past usage does not count.
    NoAdmissionFairSharing,
}
