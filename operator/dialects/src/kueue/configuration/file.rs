//! The file as it is written: the fields that mean something here, of both versions, nothing checked yet. The others
//! are known to [`fields`](super::fields) only.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector};
use serde::Deserialize;

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct File {
    pub namespace: Option<String>,
    pub metrics: Option<Metrics>,
    pub managed_jobs_namespace_selector: Option<LabelSelector>,
    pub wait_for_pods_ready: Option<WaitForPodsReady>,
    pub client_connection: Option<ClientConnection>,
    pub integrations: Option<Integrations>,
    pub fair_sharing: Option<FairSharing>,
    pub admission_fair_sharing: Option<AdmissionFairSharing>,
    pub resources: Option<Resources>,
    pub feature_gates: Option<BTreeMap<String, bool>>,
    pub object_retention_policies: Option<ObjectRetentionPolicies>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metrics {
    pub enable_cluster_queue_resources: Option<bool>,
    pub local_queue_metrics: Option<LocalQueueMetrics>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LocalQueueMetrics {
    pub enable: Option<bool>,
    pub local_queue_selector: Option<LabelSelector>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WaitForPodsReady {
    /// v1beta1.
    pub enable: Option<bool>,
    pub timeout: Option<String>,
    pub block_admission: Option<bool>,
    pub requeuing_strategy: Option<RequeuingStrategy>,
    pub recovery_timeout: Option<String>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RequeuingStrategy {
    pub timestamp: Option<String>,
    pub backoff_limit_count: Option<i32>,
    pub backoff_base_seconds: Option<i32>,
    pub backoff_max_seconds: Option<i32>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClientConnection {
    pub qps: Option<f32>,
    pub burst: Option<i32>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Integrations {
    pub frameworks: Option<Vec<String>>,
    pub external_frameworks: Option<Vec<String>>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FairSharing {
    /// v1beta1.
    pub enable: Option<bool>,
    pub preemption_strategies: Option<Vec<String>>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AdmissionFairSharing {
    pub usage_half_life_time: Option<String>,
    pub usage_sampling_interval: Option<String>,
    pub resource_weights: Option<BTreeMap<String, f64>>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Resources {
    pub quota_check_strategy: Option<String>,
    pub exclude_resource_prefixes: Option<Vec<String>>,
    pub transformations: Option<Vec<Transformation>>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Transformation {
    pub input: String,
    pub strategy: Option<String>,
    pub multiply_by: Option<String>,
    pub outputs: Option<BTreeMap<String, Quantity>>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ObjectRetentionPolicies {
    pub workloads: Option<WorkloadRetention>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WorkloadRetention {
    pub after_finished: Option<String>,
}
