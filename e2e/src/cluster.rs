//! A running cluster.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube::{Api, Client, Config};

use crate::binaries::Binaries;
use crate::builder::ClusterBuilder;
use crate::components::Layout;
use crate::node_object;
use crate::node_pool::NodePool;
use crate::process::Process;
use crate::real::{Image, RealNode};
use crate::start::failure;
use crate::supervisor::Supervisor;

/// A real control plane with simulated nodes, or with real ones. It ends, with everything that was started in
/// it, when it is stopped or dropped, and when the process that owns it ends in any way.
pub struct Cluster {
    pub(crate) binaries: Binaries,
    pub(crate) layout: Layout,
    pub(crate) token: String,
    pub(crate) config: Config,
    pub(crate) client: Client,
    pub(crate) processes: Mutex<Vec<Process>>,
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) kept: AtomicBool,
    pub(crate) nodes_made: AtomicU32,
    pub(crate) real_nodes: Vec<RealNode>,
}

impl Cluster {
    /// Describes a cluster with every component and without nodes.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }

    /// A new client as administrator, without a limit of its own on requests.
    ///
    /// A client's connections live in the runtime that made it: each test takes its own.
    pub fn client(&self) -> Client {
        // What made the first client makes another; were it ever not so, the first still works.
        Client::try_from(self.config.clone()).unwrap_or_else(|_| self.client.clone())
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig()
    }

    /// The API server's URL.
    pub fn url(&self) -> String {
        self.layout.url()
    }

    /// The administrator's bearer token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The API server's certificate and its authority's, in PEM.
    pub fn authority(&self) -> PathBuf {
        self.layout.authority()
    }

    /// The folder that holds all of the cluster's files and is removed with it.
    pub fn state_dir(&self) -> &Path {
        &self.layout.state
    }

    /// The folder with one log a process.
    pub fn log_dir(&self) -> PathBuf {
        self.layout.state.join("logs")
    }

    /// The programs this cluster runs.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Starts a further process, which will not outlive the cluster. Its output goes to
    /// `<name>.log` in the log folder.
    pub fn spawn(&self, name: &str, command: &Command) -> Result<Process> {
        let process = Process::spawn(&self.supervisor, name, self.layout.log(name), command)?;
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).push(process.clone());
        Ok(process)
    }

    /// The process last started under this name, a component's or one of [`Self::spawn`].
    pub fn process(&self, name: &str) -> Option<Process> {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.iter().rev().find(|process| process.name() == name).cloned()
    }

    /// Fails when a component has ended, with the end of its log.
    pub fn check(&self) -> Result<()> {
        let components = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"];
        match components.iter().filter_map(|name| self.process(name)).find(|p| !p.is_running()) {
            Some(ended) => Err(failure(&ended)),
            None => self.real_nodes.iter().try_for_each(RealNode::check),
        }
    }

    /// The real nodes, in the order of their numbers; none unless the cluster was built with them.
    pub fn real_nodes(&self) -> &[RealNode] {
        &self.real_nodes
    }

    /// The real node with this name.
    pub fn real_node(&self, name: &str) -> Result<&RealNode> {
        let found = self.real_nodes.iter().find(|node| node.name() == name);
        found.with_context(|| format!("the cluster has no real node {name}"))
    }

    /// Gives every real node an image.
    pub async fn load_image(&self, image: &Image) -> Result<()> {
        futures::future::try_join_all(self.real_nodes.iter().map(|node| node.load(image))).await?;
        Ok(())
    }

    /// Adds a pool of nodes; they are Ready when this returns.
    pub async fn add_nodes(&self, pool: &NodePool) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client());
        let now = Time(jiff::Timestamp::now());
        let create = |node: Node| {
            let nodes = nodes.clone();
            async move { nodes.create(&PostParams::default(), &node).await.map(|_| ()) }
        };
        let before = self.nodes_made.fetch_add(pool.nodes, Ordering::Relaxed);
        let created = stream::iter(node_object::nodes(pool, before, &now)).map(create).buffer_unordered(16);
        created.try_collect::<()>().await.with_context(|| format!("cannot create the nodes of {}", pool.name))
    }

    /// Lets the cluster live on when this process ends.
    pub fn keep(&self) -> Result<()> {
        self.supervisor.detach()?;
        self.kept.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends every process and removes the state folder. What is left to clean up after a crash
    /// is nothing, so this is only for those who want to see it done.
    pub async fn stop(self) -> Result<()> {
        let supervisor = Arc::clone(&self.supervisor);
        tokio::task::spawn_blocking(move || supervisor.stop()).await?
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Relaxed) {
            // After `stop` this finds it done. Nobody is there to hear of an error; the supervisor's
            // pipe closes in any case.
            let _ = self.supervisor.stop();
        }
    }
}
