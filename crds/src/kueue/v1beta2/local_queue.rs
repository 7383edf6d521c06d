//! `LocalQueue`: a namespace's door to a ClusterQueue.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FairSharing, LocalQueueFlavorUsage, StopPolicy};
use crate::definition::{Column, CustomResource, Definition};
use crate::resource::resource;
use crate::schema::{mark, names};

resource! {
    /// A LocalQueue is where the workloads of a namespace are submitted: jobs name it in the label
    /// `kueue.x-k8s.io/queue-name`, and it passes them to a ClusterQueue that has the quota.
    LocalQueue("kueue.x-k8s.io", "v1beta2", "localqueues"): NamespaceResourceScope {
        /// The ClusterQueue behind this queue.
        spec: LocalQueueSpec,
        /// How many workloads of this queue wait and run, and what they use.
        status: LocalQueueStatus,
    }
}

impl CustomResource for LocalQueue {
    const DEFINITION: Definition = Definition {
        short_names: &["queue", "queues", "lq"],
        columns: &[
            Column::new(
                "ClusterQueue",
                "string",
                ".spec.clusterQueue",
                "The ClusterQueue that has the quota",
            ),
            Column::new(
                "Pending Workloads",
                "integer",
                ".status.pendingWorkloads",
                "How many workloads wait for admission",
            ),
            Column::new(
                "Admitted Workloads",
                "integer",
                ".status.admittedWorkloads",
                "How many workloads are admitted and have not finished",
            ),
        ],
        selectable: &[],
        status: true,
    };
}

/// The ClusterQueue behind a LocalQueue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueSpec {
    /// The ClusterQueue that admits the workloads of this queue. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<names::Subdomain>", transform = mark::immutable)]
    pub cluster_queue: Option<String>,

    /// Stops this queue alone, while the ClusterQueue goes on serving others. Anything but `None` makes it
    /// inactive.
    #[serde(default)]
    pub stop_policy: StopPolicy,

    /// The weight of this queue among the LocalQueues of its ClusterQueue. Used only where admission fair
    /// sharing is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharing>,
}

/// How many workloads of a LocalQueue wait and run, and what they use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueStatus {
    /// What was last observed about the queue. `Active` says whether workloads sent here can be admitted,
    /// and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), transform = mark::map_list(&["type"]))]
    pub conditions: Vec<Condition>,

    /// How many workloads of this queue wait to be admitted.
    #[serde(default)]
    #[schemars(transform = mark::undefaulted)]
    pub pending_workloads: i32,

    /// How many workloads of this queue hold quota and have not finished.
    #[serde(default)]
    #[schemars(transform = mark::undefaulted)]
    pub reserving_workloads: i32,

    /// How many workloads of this queue are admitted and have not finished.
    #[serde(default)]
    #[schemars(transform = mark::undefaulted)]
    pub admitted_workloads: i32,

    /// Quota held by the workloads of this queue, by flavor, admitted or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), transform = mark::map_list(&["name"]))]
    pub flavors_reservation: Vec<LocalQueueFlavorUsage>,

    /// Quota held by the admitted workloads of this queue, by flavor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), transform = mark::map_list(&["name"]))]
    pub flavors_usage: Vec<LocalQueueFlavorUsage>,

    /// Where the queue stands in fair sharing. Absent where that is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<LocalQueueFairSharingStatus>,
}

/// Where a LocalQueue stands in fair sharing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueFairSharingStatus {
    /// The queue's share, computed as for a ClusterQueue.
    pub weighted_share: i64,

    /// What usage-based admission remembers of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission_fair_sharing_status: Option<LocalQueueAdmissionFairSharingStatus>,
}

/// What usage-based admission remembers of a LocalQueue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueAdmissionFairSharingStatus {
    /// Past usage of each resource; older usage counts less and less.
    pub consumed_resources: BTreeMap<String, Quantity>,

    /// The moment for which the numbers hold.
    pub last_update: Time,
}
