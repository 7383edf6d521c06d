//! Events of what stands on the ground: topologies, nodes, and pods that no placement accounts for.

use k8s_openapi::api::core::v1;
use kube::ResourceExt;
use whalezen_core::name::{HostName, PodKey, TopologyName};
use whalezen_crds::kueue::v1beta2 as kueue;

use super::{super::topology, Objects, kept::Kept};

impl Objects {
    /// A `Topology` was seen.
    pub fn apply_topology(&mut self, object: &kueue::Topology) {
        let name = TopologyName::from(object.name_any());
        self.topologies.insert(name.clone(), Kept::new(object));
        self.due.topologies.insert(name);
        self.state.apply_topology(topology::topology(object));
    }

    /// A `Topology` is gone.
    pub fn delete_topology(&mut self, name: &TopologyName) {
        self.topologies.remove(name);
        self.state.delete_topology(name);
    }

    /// A node was seen. One that takes no pods now is as good as gone.
    pub fn apply_node(&mut self, object: &v1::Node) {
        if self.hosts.see_node(object) {
            let name = object.name_any().into();
            self.ending_on_due(&name);
            self.host_due(&name);
        }
        let name = object.name_any();
        let node = topology::node(object);
        let changed = self.state.node(&name.as_str().into()) != node.as_ref();
        match node {
            Some(node) => self.state.apply_node(node),
            None => self.state.delete_node(&name.as_str().into()),
        }
        if changed {
            self.layout_may_be_shown(&name);
        }
    }

    /// A node is gone.
    pub fn delete_node(&mut self, name: &HostName) {
        self.ending_on_due(name);
        self.host_due(name);
        self.hosts.lose_node(name);
        self.state.delete_node(name);
    }

    /// A pod was seen. One that takes no room, or whose placement accounts for it, is as good as gone.
    pub fn apply_pod(&mut self, object: &v1::Pod) {
        let key = PodKey::new(object.namespace().unwrap_or_default(), object.name_any());
        if let Some(job) = self.hosts.see_pod(&key, object) {
            self.pod_due(&key, &job);
        }
        match topology::pod(object) {
            Some(pod) => self.state.apply_pod(pod),
            None => self.state.delete_pod(&key),
        }
    }

    /// A pod is gone.
    pub fn delete_pod(&mut self, key: &PodKey) {
        if let Some(job) = self.hosts.lose_pod(key) {
            self.pod_due(key, &job);
        }
        self.state.delete_pod(key);
    }
}
