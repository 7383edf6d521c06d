//! Builders of what stands on the ground: topologies, nodes and pods that nobody placed.

use super::build::amount;
use crate::{
    flavor::{Taint, TaintEffect},
    labels::Labels,
    name::{PodKey, ResourceName},
    quantity::Amounts,
    topology::{HOST, Node, Pod, Topology},
};

/// The topology of these levels, the widest first.
pub fn topology<const N: usize>(name: &str, levels: [&str; N]) -> Topology {
    Topology { name: name.into(), levels: levels.into_iter().map(Into::into).collect() }
}

/// A node in the making.
#[derive(Clone, Debug)]
pub struct NodeBuilder(Node);

/// A node that has room for 110 pods and for nothing that they request. Its host label is its name.
pub fn node(name: &str) -> NodeBuilder {
    let labels = Labels::from([(HOST.into(), name.into())]);
    let allocatable = Amounts::from([(ResourceName::PODS.into(), amount(ResourceName::PODS, 110))]);
    NodeBuilder(Node { name: name.into(), labels, taints: Vec::new(), allocatable })
}

impl NodeBuilder {
    /// It carries this label.
    pub fn label(mut self, label: &str, value: &str) -> Self {
        self.0.labels.insert(label.into(), value.into());
        self
    }

    /// It carries this `NoSchedule` taint.
    pub fn taint(mut self, taint: &str, value: &str) -> Self {
        self.0.taints.push(Taint { key: taint.into(), value: value.into(), effect: TaintEffect::NoSchedule });
        self
    }

    /// It has this much of a resource.
    pub fn has(mut self, resource: &str, units: i64) -> Self {
        self.0.allocatable.insert(resource.into(), amount(resource, units));
        self
    }
}

impl From<NodeBuilder> for Node {
    fn from(NodeBuilder(node): NodeBuilder) -> Self {
        node
    }
}

/// The pod `namespace/name`, bound to a node by somebody else, that requests this much.
pub fn foreign_pod<const N: usize>(text: &str, node: &str, requests: [(&str, i64); N]) -> Pod {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    let requests = requests.into_iter().map(|(name, units)| (name.into(), amount(name, units))).collect();
    Pod { key: PodKey::new(namespace, name), node: node.into(), requests }
}
