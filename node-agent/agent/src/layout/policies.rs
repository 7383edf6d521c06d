//! Which MIGPolicy is about a GPU.

use std::{cmp::Reverse, collections::BTreeMap};

use kube::core::{Selector, SelectorExt as _};
use whalezen_crds::scheduling::v1alpha1::{LayoutPin, MIGPolicy, MIGPolicySpec};

use crate::device::Gpu;

/// The node that the agent is on, as far as layouts depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether it takes no new pods.
    pub cordoned: bool,
}

/// A policy that can be read.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    nodes: Selector,
    /// What it says.
    pub spec: MIGPolicySpec,
}

impl Policy {
    fn is_about(&self, node: &Node, gpu: &Gpu) -> bool {
        let model = self.spec.models.is_empty() || self.spec.models.contains(&gpu.model);
        model && self.nodes.matches(&node.labels)
    }

    /// The pin of that GPU. The last one that is about it counts, as with layouts.
    pub fn pin(&self, node: &Node, gpu: &Gpu) -> Option<&LayoutPin> {
        self.spec.pins.iter().rfind(|pin| {
            let named = pin.uuid.as_ref().is_none_or(|uuid| uuid == gpu.uuid.as_str());
            let here = pin.node.as_ref().is_none_or(|name| *name == node.name);
            let indexed = pin.devices.is_empty()
                || pin.devices.iter().any(|&index| u32::try_from(index) == Ok(gpu.index));
            // Without either it would pin every GPU of the cluster; the API server takes no such pin.
            (pin.uuid.is_some() || pin.node.is_some()) && named && here && indexed
        })
    }
}

/// All policies of the cluster, in the order in which they decide.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    ordered: Vec<Policy>,
    /// What cannot be read, for people. Such a policy is about nothing.
    pub broken: Vec<String>,
}

impl Policies {
    /// Reads policies.
    pub fn read<'a>(policies: impl IntoIterator<Item = &'a MIGPolicy>) -> Self {
        let mut read = Self::default();
        for policy in policies {
            let name = policy.metadata.name.clone().unwrap_or_default();
            let selector = policy.spec.node_selector.clone().unwrap_or_default();
            match Selector::try_from(selector) {
                Ok(nodes) => read.ordered.push(Policy { name, nodes, spec: policy.spec.clone() }),
                Err(error) => read.broken.push(format!("MIGPolicy {name}, nodeSelector: {error}")),
            }
        }
        read.ordered
            .sort_by(|a, b| (Reverse(a.spec.priority), &a.name).cmp(&(Reverse(b.spec.priority), &b.name)));
        read.broken.sort();
        read
    }

    /// Those about a GPU, the one that decides first.
    pub fn about<'a>(&'a self, node: &'a Node, gpu: &'a Gpu) -> impl Iterator<Item = &'a Policy> {
        self.ordered.iter().filter(move |policy| policy.is_about(node, gpu))
    }
}
