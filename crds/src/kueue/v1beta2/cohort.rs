//! `Cohort`: a group of ClusterQueues and cohorts that share quota.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FairSharing, FairSharingStatus, ResourceGroup};
use crate::definition::{CustomResource, Definition};
use crate::resource::resource;
use crate::schema::{mark, names};

resource! {
    /// A Cohort is a group of ClusterQueues, and of other cohorts, that lend each other unused quota. The
    /// object is needed only to give the group a parent, quota of its own, limits or a weight; a name in
    /// `spec.cohortName` of ClusterQueues is enough for a flat group.
    Cohort("kueue.x-k8s.io", "v1beta2", "cohorts"): ClusterResourceScope {
        /// The place of this cohort in the tree, and its own quota.
        spec: CohortSpec,
        /// Where the cohort stands in fair sharing.
        status: CohortStatus,
    }
}

impl CustomResource for Cohort {
    const DEFINITION: Definition =
        Definition { short_names: &["co"], columns: &[], selectable: &[], status: true };
}

/// The place of a Cohort in the tree, and its own quota.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CohortSpec {
    /// The cohort above this one. Absent, this is the root of a tree. A parent that does not exist as an
    /// object counts as a root without quota and limits. While parents form a cycle, nothing is admitted in
    /// any queue below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<names::Subdomain>")]
    pub parent_name: Option<String>,

    /// Quota that belongs to the group as a whole, on top of the quotas of its members: a pool that each of
    /// them may borrow from. `borrowingLimit` and `lendingLimit` limit what the whole subtree borrows from
    /// and lends to the rest of the tree, and need a parent. At most 16 groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), transform = mark::atomic_list)]
    pub resource_groups: Vec<ResourceGroup>,

    /// The weight of this cohort among its siblings. Used only where fair sharing is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharing>,
}

/// The state of a Cohort.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CohortStatus {
    /// Where the cohort stands in fair sharing. Absent where that is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharingStatus>,
}
