//! The finalizers that keep queues, flavors and topologies while they are in use.

use kube::ResourceExt;
use whalezen_core::name::{ClusterQueueName, FlavorName, TopologyName};
use whalezen_crds::kueue::constants::RESOURCE_IN_USE_FINALIZER;

use super::{
    super::{queues, workload::version},
    Objects,
};
use crate::write::Write;

/// An object that a finalizer keeps while it is in use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Kept {
    version: u64,
    pub(super) deleting: bool,
    finalizers: Vec<String>,
}

impl Kept {
    pub(super) fn new<K: ResourceExt>(object: &K) -> Self {
        Self {
            version: version(object.resource_version().as_deref()),
            deleting: object.meta().deletion_timestamp.is_some(),
            finalizers: object.finalizers().to_vec(),
        }
    }

    /// The list of finalizers that it should have, if that is another one.
    fn finalizers(&self, in_use: bool) -> Option<Vec<String>> {
        let has = self.finalizers.iter().any(|name| name == RESOURCE_IN_USE_FINALIZER);
        let mut finalizers = self.finalizers.clone();
        if !self.deleting && !has {
            finalizers.push(RESOURCE_IN_USE_FINALIZER.to_owned());
        } else if self.deleting && has && !in_use {
            finalizers.retain(|name| name != RESOURCE_IN_USE_FINALIZER);
        } else {
            return None;
        }
        Some(finalizers)
    }
}

impl Objects {
    /// The finalizer of a ClusterQueue, if it has to come or go.
    pub fn queue_finalizer(&self, name: &ClusterQueueName) -> Option<Write> {
        let kept = self.kept_queues.get(name)?;
        let finalizers = kept.finalizers(self.state.tally(name).reserving > 0)?;
        Some(queues::finalizers("ClusterQueue", "clusterqueues", name.as_str(), kept.version, &finalizers))
    }

    /// The finalizer of a flavor, if it has to come or go.
    pub fn flavor_finalizer(&self, name: &FlavorName) -> Option<Write> {
        let kept = self.flavors.get(name)?;
        let finalizers = kept.finalizers(self.state.flavor_in_use(name))?;
        Some(queues::finalizers(
            "ResourceFlavor",
            "resourceflavors",
            name.as_str(),
            kept.version,
            &finalizers,
        ))
    }

    /// The finalizer of a topology, if it has to come or go.
    pub fn topology_finalizer(&self, name: &TopologyName) -> Option<Write> {
        let kept = self.topologies.get(name)?;
        let mut flavors = self.state.flavors().values();
        let finalizers = kept.finalizers(flavors.any(|flavor| flavor.topology.as_ref() == Some(name)))?;
        Some(queues::finalizers("Topology", "topologies", name.as_str(), kept.version, &finalizers))
    }

    /// Each may be in use no more.
    pub(super) fn all_topologies_due(&mut self) {
        self.due.topologies.extend(self.topologies.keys().cloned());
    }
}
