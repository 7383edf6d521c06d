//! How far a search for flavors has come, so that the next one can go on behind it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{name::ResourceName, queue::FlavorQuotas};

/// Of each pod set and each resource group in which the search ended before the last flavor, how many flavors are left.
/// Where none is, the next search begins with the first again, and so it does for the pod set for which nothing was
/// found and for those after that (KEP-582).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress(BTreeMap<usize, BTreeMap<ResourceName, usize>>);

impl Progress {
    /// Whether no pod set has flavors left: the next search begins anew.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Those flavors of a group that are looked at for a pod set, which asks for this resource of it first.
    pub(super) fn left<'a>(
        &self,
        pod_set: usize,
        resource: &ResourceName,
        flavors: &'a [FlavorQuotas],
    ) -> &'a [FlavorQuotas] {
        let left = self.0.get(&pod_set).and_then(|left| left.get(resource)).copied();
        let behind = left.map_or(0, |left| flavors.len().saturating_sub(left));
        flavors.get(behind..).unwrap_or_default()
    }

    /// Notes that so many flavors are left.
    pub(super) fn note(&mut self, pod_set: usize, resource: &ResourceName, left: usize) {
        if left > 0 {
            self.0.entry(pod_set).or_default().insert(resource.clone(), left);
        }
    }

    /// Nothing was found for a pod set.
    pub(super) fn forget(&mut self, pod_set: usize) {
        self.0.remove(&pod_set);
    }
}
