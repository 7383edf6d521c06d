//! What a cluster shall be.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::cluster::Cluster;
use crate::components::Nodes;
use crate::node_pool::NodePool;
use crate::start;

/// Each has its own addresses in the cluster's network, and takes some hundred MiB.
const MOST_REAL_NODES: u8 = 50;

/// The description of a cluster, from [`Cluster::builder`].
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each named at its call")]
pub struct ClusterBuilder {
    pub(crate) pools: Vec<NodePool>,
    pub(crate) scheduler: bool,
    pub(crate) controller_manager: bool,
    pub(crate) kwok: bool,
    pub(crate) real_nodes: u8,
    pub(crate) state_dir: Option<PathBuf>,
    pub(crate) keep: bool,
    pub(crate) apiserver_flags: Vec<String>,
    pub(crate) controller_manager_flags: Vec<String>,
}

impl Default for ClusterBuilder {
    fn default() -> Self {
        Self {
            pools: Vec::new(),
            scheduler: true,
            controller_manager: true,
            kwok: true,
            real_nodes: 0,
            state_dir: None,
            keep: false,
            apiserver_flags: Vec::new(),
            controller_manager_flags: Vec::new(),
        }
    }
}

impl ClusterBuilder {
    /// Adds a pool of nodes.
    pub fn nodes(mut self, pool: NodePool) -> Self {
        self.pools.push(pool);
        self
    }

    /// Whether kube-scheduler runs; it does without this call.
    pub fn with_scheduler(mut self, runs: bool) -> Self {
        self.scheduler = runs;
        self
    }

    /// Whether kube-controller-manager runs; it does without this call. Without it Jobs make
    /// no pods and deleted namespaces stay.
    pub fn with_controller_manager(mut self, runs: bool) -> Self {
        self.controller_manager = runs;
        self
    }

    /// Whether nodes and pods are simulated; they are without this call.
    pub fn with_kwok(mut self, runs: bool) -> Self {
        self.kwok = runs;
        self
    }

    /// So many real nodes, and none that are simulated: kubelets with containerd and runc, named `node-1` and so on, see
    /// [`Cluster::real_nodes`]. They need root and some of the machine's programs: [`crate::real::passed_over`] says
    /// whether they are there.
    pub fn real_nodes(mut self, nodes: u8) -> Self {
        self.real_nodes = nodes;
        self
    }

    /// What nodes the cluster has.
    pub(crate) fn kind_of_nodes(&self) -> Nodes {
        match (self.real_nodes, self.kwok) {
            (0, false) => Nodes::None,
            (0, true) => Nodes::Simulated,
            _ => Nodes::Real,
        }
    }

    /// The folder for everything the cluster writes, removed when it stops. It must not exist
    /// or be empty. Without this call it is a new one in the folder for temporary files.
    pub fn state_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(dir.into());
        self
    }

    /// Lets the cluster live on once it has started, however this process ends. It is then
    /// ended by [`Cluster::stop`], by [`crate::kept::stop`] or by `whalezen-cluster down`.
    pub fn keep(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }

    /// Adds a flag to the API server, for example `--max-requests-inflight=2000`.
    pub fn apiserver_flag(mut self, flag: impl Into<String>) -> Self {
        self.apiserver_flags.push(flag.into());
        self
    }

    /// Adds a flag to kube-controller-manager, for example `--node-monitor-grace-period=10s`.
    pub fn controller_manager_flag(mut self, flag: impl Into<String>) -> Self {
        self.controller_manager_flags.push(flag.into());
        self
    }

    /// Starts the cluster: when this returns, the API server is ready and every node exists.
    ///
    /// The first time on a machine this builds the binaries, which takes minutes and shows its
    /// progress. An error names the component that failed and ends with the end of its log.
    pub async fn start(self) -> Result<Cluster> {
        if self.real_nodes > MOST_REAL_NODES {
            bail!("one machine has room for {MOST_REAL_NODES} real nodes, not for {}", self.real_nodes);
        }
        if self.real_nodes > 0 && !self.pools.is_empty() {
            bail!("a cluster has real nodes or simulated ones: it cannot have both");
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = self.pools.iter().find(|pool| !names.insert(&pool.name)) {
            bail!(
                "two node pools are named {}: name one, as in 'other: {} nodes x ...'",
                twice.name,
                twice.nodes
            );
        }
        start::start(&self).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nodes_that_cannot_be_are_refused_before_anything_starts() {
        let both = Cluster::builder().real_nodes(1).nodes("2 nodes x 4 T4".parse().unwrap());
        for (builder, says) in [(both, "cannot have both"), (Cluster::builder().real_nodes(51), "not for 51")]
        {
            let error = builder.start().await.err().unwrap().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
