//! `scheduling.gen.io/v1alpha1`, one file a kind.

mod scheduling_policy;

pub use scheduling_policy::*;

use crate::definition::crd_json;

/// The definitions of every kind of this version.
pub fn crds() -> Vec<serde_json::Value> {
    vec![crd_json::<SchedulingPolicy>()]
}
