//! `visibility.kueue.x-k8s.io`: who waits, as the operator answers when it is asked. Nothing of it is stored. Both
//! versions look the same.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// The group.
pub const GROUP: &str = "visibility.kueue.x-k8s.io";

/// Its versions, the preferred one first.
pub const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// A Workload that waits, and its places.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingWorkload {
    /// Its name, namespace, owner and age.
    pub metadata: ObjectMeta,
    /// Its priority.
    pub priority: i32,
    /// The LocalQueue that it was submitted to.
    pub local_queue_name: String,
    /// How many of the ClusterQueue go before it.
    pub position_in_cluster_queue: i32,
    /// How many of the LocalQueue go before it.
    pub position_in_local_queue: i32,
}
