//! Kueue's dialect: `kueue.x-k8s.io/v1beta2` and the jobs that carry a queue name.
//!
//! | module | what it does |
//! |---|---|
//! | [`quota`] | flavors, ClusterQueues, cohorts and LocalQueues as the core sees them |
//! | [`pods`] | what a pod template asks for |
//! | [`resources`] | how much it counts for, in its namespace and under the settings |
//! | [`workload`] | a Workload as the core sees it, and the slim view of it that writes need |
//! | [`conditions`] | setting a condition |
//! | [`reasons`] | the word for why a workload waits |
//! | [`configuration`] | the file in which an administrator decides all of that, as Kueue has it |
//! | [`admission`] | what the scheduler writes to a Workload's status |
//! | [`queues`] | what it writes to the status of queues |
//! | [`life`] | what befalls a Workload, whatever job it stands for |
//! | [`milestones`] | what happened to a Workload between two looks at it |
//! | [`hosts`] | nodes, and the pods on them of which nothing is heard any more |
//! | [`jobs`] | the life of a job under a queue |
//! | [`provisioning`] | the admission checks that the cluster autoscaler answers |
//! | [`mig`] | the admission check that stands before who needs MIG instances |
//! | [`settings`] | what an administrator decides for the whole cluster |
//! | [`conversion`] | objects of v1beta1 as objects of v1beta2, and back |
//! | [`visibility`] | who waits in a queue, for those who ask |
//! | [`objects`] | everything seen of all of these, and what is to be done next |

pub mod admission;
pub mod conditions;
pub mod configuration;
pub mod conversion;
pub mod hosts;
pub mod jobs;
pub mod life;
pub mod mig;
pub mod milestones;
pub mod objects;
mod owned;
pub mod pods;
mod preemption;
pub mod provisioning;
pub mod queues;
pub mod quota;
pub mod reasons;
pub mod resources;
pub mod settings;
pub mod topology;
pub mod visibility;
pub mod workload;

use crate::write::Target;

/// A Workload's address.
pub fn workload_target(namespace: &str, name: &str) -> Target {
    kueue_target("Workload", "workloads", Some(namespace), name)
}

pub(crate) fn kueue_target(
    kind: &'static str,
    plural: &'static str,
    namespace: Option<&str>,
    name: &str,
) -> Target {
    Target {
        group: "kueue.x-k8s.io",
        version: "v1beta2",
        kind,
        plural,
        namespace: namespace.map(ToOwned::to_owned),
        name: name.to_owned(),
    }
}
