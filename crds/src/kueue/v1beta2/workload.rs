//! `Workload`: the unit of admission.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workload_rules::RULES;
use super::{PodSet, WorkloadStatus};
use crate::definition::{Column, CustomResource, Definition};
use crate::resource::resource;
use crate::schema::{mark, names};

resource! {
    /// A Workload is something that is admitted whole or not at all: all the pods of one job. It is made for
    /// a job by the operator, which reports in its status whether the job may start, and if not, why.
    #[schemars(transform = mark::rules(RULES))]
    Workload("kueue.x-k8s.io", "v1beta2", "workloads"): NamespaceResourceScope {
        /// What the workload needs, and where it queues for it.
        spec: WorkloadSpec,
        /// Whether the workload has quota, may run, runs, or is finished.
        status: WorkloadStatus,
    }
}

impl CustomResource for Workload {
    const DEFINITION: Definition = Definition {
        short_names: &["kwl", "kueueworkload", "kueueworkloads"],
        columns: &[
            Column::new("Queue", "string", ".spec.queueName", "The LocalQueue that the workload was sent to"),
            Column::new(
                "Reserved in",
                "string",
                ".status.admission.clusterQueue",
                "The ClusterQueue in which the workload holds quota",
            ),
            Column::new(
                "Admitted",
                "string",
                ".status.conditions[?(@.type=='Admitted')].status",
                "Whether the workload may run",
            ),
            Column::new(
                "Finished",
                "string",
                ".status.conditions[?(@.type=='Finished')].status",
                "Whether the workload has finished",
            ),
            Column::new("Age", "date", ".metadata.creationTimestamp", "When the workload was created"),
        ],
        selectable: &[".status.admission.clusterQueue"],
        status: true,
    };
}

/// What a Workload needs, and where it queues for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[(
    "!has(self.priorityClassRef) || has(self.priority)",
    "a workload with a priorityClassRef needs the priority that it stands for",
)]))]
pub struct WorkloadSpec {
    /// The pods, in sets of equal ones. Between 1 and 18 sets; they cannot be changed while the workload
    /// holds quota.
    #[serde(default)]
    #[schemars(
        length(min = 1, max = 18),
        transform = mark::map_list(&["name"]),
        transform = mark::undefaulted,
    )]
    pub pod_sets: Vec<PodSet>,

    /// The LocalQueue, in the same namespace. Cannot be changed while the workload holds quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<names::Subdomain>")]
    pub queue_name: Option<String>,

    /// The class that the priority comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_ref: Option<PriorityClassRef>,

    /// The priority; higher goes first. Absent means 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,

    /// Whether the workload may be admitted. Setting it to false evicts a running workload and keeps it out
    /// until it is true again.
    #[serde(default = "WorkloadSpec::active_default")]
    pub active: bool,

    /// How many seconds the workload may stay admitted, over all its admissions, before it is deactivated.
    /// Absent, there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub maximum_execution_time_seconds: Option<i32>,

    /// Gates that each must be opened, in the status, before the workload may preempt others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), transform = mark::map_list(&["name"]))]
    pub preemption_gates: Vec<PreemptionGate>,
}

impl WorkloadSpec {
    const fn active_default() -> bool {
        true
    }
}

impl Default for WorkloadSpec {
    fn default() -> Self {
        Self {
            pod_sets: Vec::new(),
            queue_name: None,
            priority_class_ref: None,
            priority: None,
            active: Self::active_default(),
            maximum_execution_time_seconds: None,
            preemption_gates: Vec::new(),
        }
    }
}

/// The class that a Workload's priority comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = mark::rules(&[
    (
        "(self.group == 'scheduling.k8s.io') ? self.kind == 'PriorityClass' : true",
        "in the group scheduling.k8s.io the kind must be PriorityClass",
    ),
    (
        "(self.group == 'kueue.x-k8s.io') ? self.kind == 'WorkloadPriorityClass' : true",
        "in the group kueue.x-k8s.io the kind must be WorkloadPriorityClass",
    ),
]))]
pub struct PriorityClassRef {
    /// The API group of the class.
    pub group: PriorityClassGroup,

    /// The kind of the class.
    pub kind: PriorityClassKind,

    /// The name of the class.
    #[schemars(with = "names::RequiredSubdomain")]
    pub name: String,
}

impl PriorityClassRef {
    /// A reference to a class of workload priorities.
    pub fn workload(name: impl Into<String>) -> Self {
        Self {
            group: PriorityClassGroup::Kueue,
            kind: PriorityClassKind::WorkloadPriorityClass,
            name: name.into(),
        }
    }

    /// A reference to a class of pod priorities.
    pub fn pod(name: impl Into<String>) -> Self {
        Self {
            group: PriorityClassGroup::Scheduling,
            kind: PriorityClassKind::PriorityClass,
            name: name.into(),
        }
    }
}

/// The API group of a priority class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PriorityClassGroup {
    /// Classes of workload priorities.
    #[default]
    #[serde(rename = "kueue.x-k8s.io")]
    Kueue,
    /// Kubernetes' classes of pod priorities.
    #[serde(rename = "scheduling.k8s.io")]
    Scheduling,
}

/// The kind of a priority class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PriorityClassKind {
    /// A priority of workloads.
    #[default]
    WorkloadPriorityClass,
    /// A priority of pods, which the workload takes over.
    PriorityClass,
}

/// A gate that keeps a workload from preempting others until it is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionGate {
    /// The name of the gate.
    #[schemars(with = "names::GateName")]
    pub name: String,
}
