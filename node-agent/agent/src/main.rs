//! `whalezen-agent`: see the library. Here it is put together.

mod args;

use std::{io::IsTerminal, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Parser as _;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::timeout,
};
use tracing_subscriber::EnvFilter;
use whalezen_agent::{
    agent::{Agent, Config, Lock},
    claims::{ClaimSource, NobodyHandsOut},
    device::Lanes,
    nvml::Waiting,
    plugin::given::Given,
    serving::{Parts, Serving},
    view::View,
};

use crate::args::Args;

/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let args = Args::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&args.log_level))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            tracing::error!("{problem:#}");
            ExitCode::FAILURE
        }
    }
}

// One thread: there is little to do, and it is to be done in little memory.
#[tokio::main(flavor = "current_thread")]
async fn run(args: &Args) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let configurations = args.configurations()?;
    let _lock = tokio::select! {
        lock = Lock::wait(&args.lock_file) => lock?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let mut config =
        kube::Config::infer().await.context("no cluster to talk to: neither KUBECONFIG nor in-cluster")?;
    // A silent watch is a dead one: the API server sends a bookmark every minute.
    config.read_timeout = Some(Duration::from_secs(150));
    let client = kube::Client::try_from(config).context("the cluster's address or credentials")?;
    let lanes = Arc::new(Lanes::new(Arc::new(Waiting::for_library(args.nvml_library.clone()))));
    let (view, seen) = watch::channel(View::default());
    let given = Arc::new(Given::new(args.serving.pod_resources(), seen.clone()));
    let claims: Arc<dyn ClaimSource> =
        if args.no_kubelet { Arc::new(NobodyHandsOut) } else { Arc::<Given>::clone(&given) };
    let config = Config {
        node: args.node_name.clone(),
        interval: args.look_interval(),
        patience: args.nvml_patience(),
        configurations,
    };
    let mut agent = Agent::new(config, client.clone(), Arc::clone(&lanes), claims, view);
    let parts = Parts { client, lanes, view: seen, xids: agent.xids(), given };
    let serving = Serving::start(args.serving.config(&args.node_name, !args.no_kubelet)?, parts);
    tokio::select! {
        () = agent.run() => {}
        _ = terminate.recv() => tracing::info!("told to terminate"),
        _ = interrupt.recv() => tracing::info!("interrupted"),
    }
    if timeout(FAREWELL, agent.finish()).await.is_err() {
        tracing::warn!("the API server does not answer: the node's labels are as they were");
    }
    drop(agent);
    serving.end().await;
    Ok(())
}
