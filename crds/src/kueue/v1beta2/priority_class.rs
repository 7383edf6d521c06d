//! `WorkloadPriorityClass`: a named priority for workloads, apart from that of their pods.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::definition::{Column, CustomResource, Definition};
use crate::resource::served;

/// A WorkloadPriorityClass names a priority that decides the order in the queue and who preempts whom, and
/// leaves the priority of the pods alone. Jobs name it in the label `kueue.x-k8s.io/priority-class`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadPriorityClass {
    /// Name, labels, annotations and the other fields that every Kubernetes object has.
    #[serde(default)]
    #[schemars(skip)]
    pub metadata: ObjectMeta,

    /// The priority; higher goes first. Workloads keep the value that they were created with.
    pub value: i32,

    /// When to use the class, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub description: Option<String>,
}

impl Serialize for WorkloadPriorityClass {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            api_version: &'static str,
            kind: &'static str,
            metadata: &'a ObjectMeta,
            value: i32,
            #[serde(skip_serializing_if = "Option::is_none")]
            description: Option<&'a str>,
        }

        Wire {
            api_version: "kueue.x-k8s.io/v1beta2",
            kind: "WorkloadPriorityClass",
            metadata: &self.metadata,
            value: self.value,
            description: self.description.as_deref(),
        }
        .serialize(serializer)
    }
}

served!(WorkloadPriorityClass ("kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses"): ClusterResourceScope);

impl CustomResource for WorkloadPriorityClass {
    const DEFINITION: Definition = Definition {
        short_names: &["wpc"],
        columns: &[Column::new("Value", "integer", ".value", "The priority of workloads of this class")],
        selectable: &[],
        status: false,
    };
}
