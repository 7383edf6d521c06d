//! Which topology domains the pods of a set run in.
//!
//! The assignment is a table with a row for each domain and a column for each level, written column by
//! column because neighbouring values have much in common. Two pods on each of the hosts `r1-n1` to `r1-n3`:
//!
//! ```yaml
//! levels: [kubernetes.io/hostname]
//! slices:
//! - domainCount: 3
//!   valuesPerLevel:
//!   - individual: { prefix: r1-n, roots: ["1", "2", "3"] }
//!   podCounts: { universal: 2 }
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::mark;

/// Which topology domains the pods of a set run in, and how many in each.
///
/// The domains come in slices. A slice holds, for each level, either one value that all its domains share or
/// one value for each domain, of which a common prefix and suffix are written once; and likewise one pod
/// count for all domains or one for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[(
    "self.slices.all(x, size(x.valuesPerLevel) == size(self.levels))",
    "each slice must have one entry in valuesPerLevel for each of the levels",
)]))]
pub struct TopologyAssignment {
    /// The node labels that name the domains, from the widest level to the narrowest. Where the host is a
    /// level, it is the only one here: it says everything.
    #[schemars(length(min = 1, max = 16), inner(length(max = 317)), transform = mark::atomic_list)]
    pub levels: Vec<String>,

    /// The domains, in one or more slices; together they are the whole assignment.
    #[schemars(length(max = 1000), transform = mark::atomic_list)]
    pub slices: Vec<TopologyAssignmentSlice>,
}

/// Some of the domains of an assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[
    (
        "!has(self.podCounts.individual) || size(self.podCounts.individual) == self.domainCount",
        "podCounts.individual must have one number for each domain of the slice",
    ),
    (
        "self.valuesPerLevel.all(x, !has(x.individual) || size(x.individual.roots) == self.domainCount)",
        "individual.roots must have one value for each domain of the slice",
    ),
]))]
pub struct TopologyAssignmentSlice {
    /// How many domains the slice has.
    #[schemars(range(min = 1))]
    pub domain_count: i32,

    /// The domains' values at each level, in the order of the levels.
    #[schemars(length(min = 1, max = 16), transform = mark::atomic_list)]
    pub values_per_level: Vec<TopologyAssignmentSliceLevelValues>,

    /// How many pods run in each domain.
    pub pod_counts: TopologyAssignmentSlicePodCounts,
}

/// The values of a slice's domains at one level: exactly one of the two forms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[(
    "has(self.universal) != has(self.individual)",
    "exactly one of universal and individual must be set",
)]))]
pub struct TopologyAssignmentSliceLevelValues {
    /// The value that all domains of the slice share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub universal: Option<String>,

    /// One value for each domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub individual: Option<TopologyAssignmentSliceLevelIndividualValues>,
}

/// One value for each domain, with what they have in common written once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyAssignmentSliceLevelIndividualValues {
    /// What all values begin with. Absent rather than empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub prefix: Option<String>,

    /// What all values end with. Absent rather than empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub suffix: Option<String>,

    /// What stands between prefix and suffix, one for each domain.
    #[schemars(length(min = 1, max = 100_000), inner(length(max = 63)), transform = mark::atomic_list)]
    pub roots: Vec<String>,
}

/// How many pods run in each domain of a slice: exactly one of the two forms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::exactly_one_of(&["universal", "individual"]))]
pub struct TopologyAssignmentSlicePodCounts {
    /// The number that is the same in every domain of the slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub universal: Option<i32>,

    /// One number for each domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100_000), inner(range(min = 1)), transform = mark::atomic_list)]
    pub individual: Vec<i32>,
}
