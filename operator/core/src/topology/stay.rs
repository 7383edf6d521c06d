//! What placements take of the nodes.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Placement;
use crate::{
    name::FlavorName,
    quantity::Amounts,
    workload::{PodSet, PodSetAssignment},
};

/// The pods of one set where they are placed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stay {
    /// The flavors that it was given.
    pub flavors: BTreeSet<FlavorName>,
    /// Where they are.
    pub placement: Placement,
    /// What one of them requests of its node.
    pub per_pod: Amounts,
}

/// All that a workload takes of the nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stays(pub Vec<Stay>);

impl Stays {
    /// What pod sets take that were given this. Pods that have done their work keep their place until all have.
    pub fn of(pod_sets: &[PodSet], given: &[PodSetAssignment]) -> Self {
        let stays = given.iter().filter_map(|given| {
            let placement = given.placement.clone()?;
            let pod_set = pod_sets.iter().find(|pod_set| pod_set.name == given.name)?;
            let flavors = given.flavors.values().cloned().collect();
            Some(Stay { flavors, placement, per_pod: pod_set.of_its_node().clone() })
        });
        Self(stays.collect())
    }

    /// Whether nothing is taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
