//! What a cluster shall be.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::cluster::Cluster;
use crate::node_pool::NodePool;
use crate::start;

/// The description of a cluster, from [`Cluster::builder`].
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each named at its call")]
pub struct ClusterBuilder {
    pub(crate) pools: Vec<NodePool>,
    pub(crate) scheduler: bool,
    pub(crate) controller_manager: bool,
    pub(crate) kwok: bool,
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
