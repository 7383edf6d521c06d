//! `kueue.x-k8s.io/v1beta2`, one file a kind.

mod admission;
mod admission_check;
mod cluster_queue;
mod cohort;
mod concurrent_admission;
mod fair_sharing;
mod local_queue;
mod multi_kueue_cluster;
mod multi_kueue_config;
mod pod_set;
mod preemption;
mod priority_class;
mod provisioning_request_config;
mod quota;
mod resource_flavor;
mod stop_policy;
mod topology;
mod topology_assignment;
mod topology_request;
mod usage;
mod workload;
mod workload_checks;
mod workload_rules;
mod workload_status;

pub use admission::*;
pub use admission_check::*;
pub use cluster_queue::*;
pub use cohort::*;
pub use concurrent_admission::*;
pub use fair_sharing::*;
pub use local_queue::*;
pub use multi_kueue_cluster::*;
pub use multi_kueue_config::*;
pub use pod_set::*;
pub use preemption::*;
pub use priority_class::*;
pub use provisioning_request_config::*;
pub use quota::*;
pub use resource_flavor::*;
pub use stop_policy::*;
pub use topology::*;
pub use topology_assignment::*;
pub use topology_request::*;
pub use usage::*;
pub use workload::*;
pub use workload_checks::*;
pub(crate) use workload_rules::has_condition;
pub use workload_status::*;

use crate::definition::crd_json;

/// The definitions of every kind of this version.
pub fn crds() -> Vec<serde_json::Value> {
    vec![
        crd_json::<AdmissionCheck>(),
        crd_json::<ClusterQueue>(),
        crd_json::<Cohort>(),
        crd_json::<LocalQueue>(),
        crd_json::<MultiKueueCluster>(),
        crd_json::<MultiKueueConfig>(),
        crd_json::<ProvisioningRequestConfig>(),
        crd_json::<ResourceFlavor>(),
        crd_json::<Topology>(),
        crd_json::<Workload>(),
        crd_json::<WorkloadPriorityClass>(),
    ]
}
