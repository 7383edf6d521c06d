//! `whalezen-cluster up` and `down`: a cluster to try things on by hand.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use whalezen_e2e::{Binaries, Cluster, ClusterBuilder, NodePool, kept, real};

/// A real Kubernetes control plane on this machine, with simulated GPU nodes or with real ones.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Starts a cluster that stays, and prints how to use it.
    Up {
        /// A pool of nodes; may be given several times.
        #[arg(long, value_name = "POOL", default_value = "8 nodes x 8 A100-SXM4-80GB")]
        nodes: Vec<NodePool>,
        /// So many real nodes in place of simulated ones: kubelets with containerd and runc; needs root.
        #[arg(long, value_name = "NUMBER", conflicts_with = "nodes")]
        real_nodes: Option<u8>,
    },
    /// Builds what clusters consist of, where it is not in the cache; the others do so too.
    Build,
    /// Ends clusters that stayed, with everything that runs in them.
    Down {
        /// The state folders of those to end, as `up` names them; without any, all.
        clusters: Vec<PathBuf>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Action::Up { real_nodes: Some(nodes), .. } => up(Cluster::builder().real_nodes(nodes)).await,
        Action::Up { nodes, real_nodes: None } => {
            up(nodes.into_iter().fold(Cluster::builder(), ClusterBuilder::nodes)).await
        }
        Action::Build => Binaries::ensure().and_then(|_| real::build()),
        Action::Down { clusters } => down(clusters),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn up(builder: ClusterBuilder) -> Result<()> {
    let cluster = builder.keep(true).start().await?;
    eprintln!("The cluster is ready at {}; it lives in {}.", cluster.url(), cluster.state_dir().display());
    eprintln!("kubectl is {}.", cluster.binaries().control_plane("kubectl").display());
    println!("export KUBECONFIG={}", cluster.kubeconfig().display());
    Ok(())
}

fn down(chosen: Vec<PathBuf>) -> Result<()> {
    let kept = kept::list()?;
    let ending = if chosen.is_empty() { kept.clone() } else { chosen };
    for state in &ending {
        // Only what a cluster lives in: its folder is removed.
        if !kept.contains(state) {
            bail!("{} is not a cluster that stayed", state.display());
        }
        kept::stop(state)?;
        eprintln!("Ended the cluster in {}.", state.display());
    }
    if ending.is_empty() {
        eprintln!("No cluster was running.");
    }
    Ok(())
}
