//! `whalezen-demo`: the source document's cluster, live.
//!
//! A real control plane with eight simulated servers of eight A100s, two replicas of the operator, and the quick
//! start of `manifests/examples` with its days scaled to seconds. It prints who waits and why, who runs where and
//! who finished, and leaves nothing behind.

mod fault;
mod jobs;
mod observe;
mod play;
#[cfg(test)]
mod policies_test;
mod row;
mod score;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use whalezen_e2e::{Cluster, GpuModel, NodePool, built_operator, cache_dir};

/// Twelve training jobs of two teams on 64 GPUs, queued, admitted, run and finished under quota.
#[derive(Parser)]
struct Options {
    /// Keep the cluster, with everything in it, and print how to use it.
    #[arg(long)]
    keep: bool,
    /// Kill the replica that leads, by SIGKILL, as soon as a job runs.
    #[arg(long)]
    kill_leader: bool,
    /// Print one line a change, on a terminal too.
    #[arg(long)]
    plain: bool,
    /// The operator to run; without it the one that was built beside this program.
    #[arg(long, env = "WHALEZEN_OPERATOR", value_name = "FILE")]
    operator: Option<PathBuf>,
}

impl Options {
    fn operator(&self) -> Result<PathBuf> {
        self.operator.clone().map_or_else(built_operator, Ok)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let ending = tokio::select! {
        ending = run(&options) => ending,
        () = interrupted() => {
            // Every process and file of the cluster is its supervisor's, which hears of this process's end.
            eprintln!("\nInterrupted. The cluster ends with this program.");
            return ExitCode::from(130);
        }
    };
    match ending {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nThe demo failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<()> {
    let operator = options.operator()?;
    let start = std::time::Instant::now();
    let pool = NodePool::gpu("a100", 8, GpuModel::A100_SXM4_80GB, 8);
    let mut builder = Cluster::builder().nodes(pool);
    if options.keep {
        // Where `make cluster-down` looks. Until the end it is this program's like any other.
        let name = format!("demo-{}", std::process::id());
        builder = builder.state_dir(cache_dir()?.join("clusters").join(name));
    }
    let cluster = builder.start().await?;
    println!(
        "A Kubernetes control plane with 8 nodes x 8 A100-SXM4-80GB is ready after {:.1} s.",
        start.elapsed().as_secs_f64()
    );
    let played = play::play(&cluster, &operator, options).await;
    if options.keep {
        cluster.keep()?;
        println!("\nThe cluster stays, with both replicas of the operator:");
        println!("  export KUBECONFIG={}", cluster.kubeconfig().display());
        println!("`make cluster-down` ends it.");
        // Dropping the handle must not end what was to be kept.
        return played;
    }
    cluster.stop().await?;
    played
}

/// Ctrl-C, or SIGTERM from whoever runs this.
async fn interrupted() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
