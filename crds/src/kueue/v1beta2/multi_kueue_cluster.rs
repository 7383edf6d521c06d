//! `MultiKueueCluster`: another cluster that workloads may be sent to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::definition::{Column, CustomResource, Definition};
use crate::resource::resource;
use crate::schema::mark;

resource! {
    /// A MultiKueueCluster says how to reach another cluster that may run workloads of this one.
    MultiKueueCluster("kueue.x-k8s.io", "v1beta2", "multikueueclusters"): ClusterResourceScope {
        /// How to reach the cluster.
        spec: MultiKueueClusterSpec,
        /// Whether the cluster is reached.
        status: MultiKueueClusterStatus,
    }
}

impl CustomResource for MultiKueueCluster {
    const DEFINITION: Definition = Definition {
        short_names: &["mkc"],
        columns: &[
            Column::new(
                "Connected",
                "string",
                ".status.conditions[?(@.type=='Active')].status",
                "Whether the cluster is reached",
            ),
            Column::new("Age", "date", ".metadata.creationTimestamp", "When the object was created"),
        ],
        selectable: &[],
        status: true,
    };
}

/// How to reach another cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MultiKueueClusterSpec {
    /// Where the credentials come from.
    pub cluster_source: ClusterSource,
}

/// Where the credentials for a cluster come from: exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::exactly_one_of(&["kubeConfig", "clusterProfileRef"]))]
pub struct ClusterSource {
    /// A kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KubeConfig>,

    /// A ClusterProfile of the cluster inventory API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_profile_ref: Option<ClusterProfileReference>,
}

/// Where a kubeconfig lies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeConfig {
    /// The name of a Secret in the operator's namespace, with the kubeconfig under the key `kubeconfig`; or
    /// a file path that the operator can read.
    #[schemars(length(min = 1, max = 256))]
    pub location: String,

    /// What `location` names.
    #[serde(default)]
    pub location_type: LocationType,
}

/// What the location of a kubeconfig names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum LocationType {
    /// A Secret.
    #[default]
    Secret,
    /// A file.
    Path,
}

/// A ClusterProfile object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileReference {
    /// The object's name.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
}

/// Whether another cluster is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MultiKueueClusterStatus {
    /// What was last observed about the cluster. `Active` says whether it is reached, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), transform = mark::map_list(&["type"]))]
    pub conditions: Vec<Condition>,
}
