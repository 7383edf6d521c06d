//! Pools of equal nodes, declared in code or in words: `8 nodes x 8 A100-SXM4-80GB`.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context, Error, Result, anyhow, bail};
use k8s_openapi::api::core::v1::Taint;

use crate::gpu_model::GpuModel;

/// Some nodes that are alike but for their name, rack and zone.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePool {
    pub(crate) name: String,
    pub(crate) nodes: u32,
    pub(crate) gpus: Option<(GpuModel, u32)>,
    pub(crate) cpus: u32,
    pub(crate) memory: String,
    pub(crate) zones: u32,
    pub(crate) nodes_per_rack: u32,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
}

impl NodePool {
    /// `nodes` machines called `name-0`, `name-1`, ... with `gpus` GPUs each. CPUs and memory
    /// are the model's usual machine's, in proportion to the GPUs.
    pub fn gpu(name: &str, nodes: u32, model: GpuModel, gpus: u32) -> Self {
        let eighths = |of_eight: u32| (of_eight * gpus / 8).max(1);
        let memory = format!("{}Gi", eighths(model.machine_memory_gib));
        let pool = Self::cpu(name, nodes, eighths(model.machine_cpus), &memory);
        Self { gpus: Some((model, gpus)), ..pool }
    }

    /// `nodes` machines without GPUs; `memory` is a Kubernetes quantity such as `64Gi`.
    pub fn cpu(name: &str, nodes: u32, cpus: u32, memory: &str) -> Self {
        Self {
            name: name.to_owned(),
            nodes,
            gpus: None,
            cpus,
            memory: memory.to_owned(),
            zones: 1,
            nodes_per_rack: 4,
            labels: BTreeMap::new(),
            taints: Vec::new(),
        }
    }

    /// Spreads the pool over `zones` zones in contiguous runs; without it, it is in one.
    pub fn zones(mut self, zones: u32) -> Self {
        self.zones = zones.max(1);
        self
    }

    /// How many nodes share a rack; four without it, as in NVIDIA's reference racks.
    pub fn nodes_per_rack(mut self, nodes: u32) -> Self {
        self.nodes_per_rack = nodes.max(1);
        self
    }

    /// Adds or replaces a label on every node.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a taint to every node.
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints.push(Taint {
            key: key.to_owned(),
            value: Some(value.to_owned()),
            effect: effect.to_owned(),
            time_added: None,
        });
        self
    }

    /// The names of the pool's nodes.
    pub fn node_names(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.nodes).map(|index| format!("{}-{index}", self.name))
    }
}

impl FromStr for NodePool {
    type Err = Error;

    /// `8 nodes x 8 A100-SXM4-80GB`, `1 node x 4 T4`, or without GPUs `3 nodes x 16 cpu 64Gi`,
    /// each optionally named first: `batch: 8 nodes x 8 T4`. Unnamed pools are called after
    /// their model.
    fn from_str(text: &str) -> Result<Self, Error> {
        let form = "write a pool as '8 nodes x 8 A100-SXM4-80GB' or '3 nodes x 16 cpu 64Gi'";
        parse(text).map_err(|error| anyhow!("'{text}' is not a node pool: {error:#}; {form}"))
    }
}

fn parse(text: &str) -> Result<NodePool> {
    let (name, pool) = match text.split_once(':') {
        Some((name, pool)) => (Some(name.trim()), pool),
        None => (None, text),
    };
    if let Some(name) = name
        && !is_dns_label(name)
    {
        bail!("'{name}' cannot start a node's name");
    }
    let words: Vec<&str> = pool.split_whitespace().collect();
    let [nodes, "nodes" | "node", "x" | "X" | "×", each, what @ ..] = words.as_slice() else {
        bail!("its shape is another");
    };
    let nodes: u32 = nodes.parse().with_context(|| format!("'{nodes}' is not a number of nodes"))?;
    let each: u32 = each.parse().with_context(|| format!("'{each}' is not a number"))?;
    if nodes == 0 || each == 0 {
        bail!("a pool has at least one node, and a node at least one of its kind");
    }
    match what {
        ["cpu" | "cpus" | "CPU" | "CPUs", memory] => {
            Ok(NodePool::cpu(name.unwrap_or("cpu"), nodes, each, memory))
        }
        [model] => {
            let model: GpuModel = model.parse()?;
            let default_name = model.name.to_lowercase();
            Ok(NodePool::gpu(name.unwrap_or(&default_name), nodes, model, each))
        }
        _ => bail!("what a node has is not one model, nor CPUs and memory"),
    }
}

/// A DNS label with room for the node's number.
fn is_dns_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 50
        && name.starts_with(inner)
        && name.ends_with(inner)
        && name.chars().all(|c| inner(c) || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_declared_in_words() {
        let pool: NodePool = "8 nodes x 8 A100-SXM4-80GB".parse().unwrap();
        assert_eq!(pool, NodePool::gpu("a100-sxm4-80gb", 8, GpuModel::A100_SXM4_80GB, 8));
        let pool: NodePool = "infer: 1 node x 4 tesla-t4".parse().unwrap();
        assert_eq!(pool, NodePool::gpu("infer", 1, GpuModel::T4, 4));
        let pool: NodePool = "3 nodes x 16 cpu 64Gi".parse().unwrap();
        assert_eq!(pool, NodePool::cpu("cpu", 3, 16, "64Gi"));
    }

    #[test]
    fn what_is_no_pool_is_refused_with_the_reason_and_the_form() {
        for (text, reason) in [
            ("8 x A100", "its shape is another"),
            ("0 nodes x 8 T4", "at least one node"),
            ("8 nodes x 8 B900", "known are A100-SXM4-40GB"),
            ("-8 nodes x 8 T4", "not a number of nodes"),
            ("No: 8 nodes x 8 T4", "cannot start a node's name"),
        ] {
            let error = format!("{:#}", text.parse::<NodePool>().unwrap_err());
            assert!(error.contains(reason), "{text}: {error}");
            assert!(error.contains("write a pool as"), "{text}: {error}");
        }
    }

    #[test]
    fn a_smaller_node_has_a_proportional_share_of_the_machine() {
        let pool = NodePool::gpu("half", 1, GpuModel::A100_SXM4_80GB, 4);
        assert_eq!((pool.cpus, pool.memory.as_str()), (128, "1024Gi"));
    }
}
