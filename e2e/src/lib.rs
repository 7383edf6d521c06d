//! Real Kubernetes clusters for the demo, the tests and the benchmarks.
//!
//! A [`Cluster`] is etcd, kube-apiserver, kube-controller-manager and kube-scheduler, built
//! from their Go modules, with nodes and pods simulated by KWOK from this repository's own
//! stage files. It starts in seconds, needs no privilege and no container engine, and leaves
//! nothing behind however its owner ends. As root it can have [real] nodes in their place.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use whalezen_e2e::{Cluster, GpuModel, NodePool};
//!
//! let cluster = Cluster::builder()
//!     .nodes(NodePool::gpu("a100", 8, GpuModel::A100_SXM4_80GB, 8))
//!     .nodes("2 nodes x 16 cpu 64Gi".parse()?)
//!     .start()
//!     .await?;
//! println!("{}", cluster.kubectl(&["get", "nodes"]).await?);
//! cluster.stop().await
//! # }
//! ```
//!
//! What a pod does is written in its annotations; see [`DURATION_ANNOTATION`].

pub mod bench;
pub mod beside;
mod binaries;
mod builder;
mod cache;
mod cluster;
mod components;
mod credentials;
pub mod differential;
mod go_build;
mod go_module;
mod gpu_model;
mod install;
mod journal;
pub mod kept;
mod kubectl;
mod kueuectl;
mod node_object;
mod node_pool;
mod ports;
mod process;
mod progress;
pub mod real;
mod replicas;
mod service_account;
mod start;
mod supervisor;

pub use binaries::Binaries;
pub use builder::ClusterBuilder;
pub use cache::cache_dir;
pub use cluster::Cluster;
pub use go_module::{GoModule, build_go_module};
pub use gpu_model::GpuModel;
pub use install::manifests;
pub use journal::replayed;
pub use node_object::{POOL_LABEL, RACK_LABEL};
pub use node_pool::NodePool;
pub use process::Process;
pub use real::{Image, RealNode};
pub use replicas::{Replicas, built_operator};
pub use service_account::Bound;
pub use supervisor::Exit;

/// The annotation of a node that is dead, and of the pods on it: nobody makes that ready or ends these.
pub const DEAD_ANNOTATION: &str = "whalezen.dev/dead";
/// How long a pod runs before it ends, for example `90s`; without it, until it is deleted.
pub const DURATION_ANNOTATION: &str = "whalezen.dev/duration";
/// The code a pod ends with after its duration; 0 without it.
pub const EXIT_CODE_ANNOTATION: &str = "whalezen.dev/exit-code";
/// The code a pod ends with when it is deleted while it runs: 143 without it, as by SIGTERM;
/// 0 for one that saves its state and leaves in good order.
pub const EXIT_CODE_ON_DELETE_ANNOTATION: &str = "whalezen.dev/exit-code-on-delete";
