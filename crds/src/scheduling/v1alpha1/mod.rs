//! `scheduling.gen.io/v1alpha1`, one file a kind.

mod gpu_device;
mod gpu_node;
mod gpu_node_status;
pub mod mig_names;
mod mig_policy;
mod scheduling_policy;

pub use gpu_device::*;
pub use gpu_node::*;
pub use gpu_node_status::*;
pub use mig_policy::*;
pub use scheduling_policy::*;

use crate::definition::crd_json;

/// The definitions of every kind of this version.
pub fn crds() -> Vec<serde_json::Value> {
    vec![crd_json::<GPUNode>(), crd_json::<MIGPolicy>(), crd_json::<SchedulingPolicy>()]
}
