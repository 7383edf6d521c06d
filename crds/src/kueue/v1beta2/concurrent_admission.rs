//! Concurrent admission: one workload competing for several flavors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{mark, names};

/// How a workload that competes for several flavors at once moves between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConcurrentAdmissionPolicy {
    /// What happens after the workload got its first flavor. Each flavor is pursued by a variant of the
    /// workload; once one is admitted, variants for flavors later in the ClusterQueue's order are given up,
    /// and those for earlier, better flavors may go on and take the workload over.
    pub migration: ConcurrentAdmissionMigration,
}

/// Whether and how far an admitted workload moves to better flavors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConcurrentAdmissionMigration {
    /// Whether an admitted workload still tries for better flavors.
    pub mode: ConcurrentAdmissionMigrationMode,

    /// Limits on the flavors it may move to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraints: Option<ConcurrentAdmissionConstraints>,
}

/// Limits on the flavors that a running workload may move to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConcurrentAdmissionConstraints {
    /// The last flavor, in the ClusterQueue's order, that is worth a move. Absent, every flavor before the
    /// present one is. Only with the mode `TryPreferredFlavors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<names::Subdomain>")]
    pub last_acceptable_flavor_name: Option<String>,
}

/// Whether an admitted workload moves to a better flavor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = mark::max_length(253))]
pub enum ConcurrentAdmissionMigrationMode {
    /// It moves as soon as a flavor earlier in the order has room.
    #[default]
    TryPreferredFlavors,
    /// It stays where it was first admitted.
    RetainFirstAdmission,
}
