//! `whalezen-operator`: watches the cluster, plans, and writes what is planned.
//!
//! ```text
//! watch  ->  engine { dialects -> core -> plan }  ->  applier  ->  API server
//!              ^                                        |
//!              +---------------- outcome ---------------+
//! ```
//!
//! This crate is the only one with a client. It decides nothing: [`engine`] feeds events to the dialect, asks the
//! core for a plan and hands writes to [`applier`], which sends them while [`lease`] says that this replica leads.

mod access;
mod applier;
mod args;
mod engine;
mod http;
mod intake;
mod lease;
mod limiter;
mod log;
mod metrics;
mod notes;
mod questions;
mod readable;
mod retries;
mod sender;
mod served;
mod status;
mod timers;
mod watch;

use std::{io::IsTerminal, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use clap::Parser;
use mimalloc::MiMalloc;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Semaphore, watch as channel},
};
use tracing_subscriber::EnvFilter;
use whalezen_decisions::line::Mode;

use crate::{args::Args, metrics::Metrics};

/// Objects come and go in small pieces all the time; the system's allocator spent a fifth of the operator's time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

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

// One thread: the work is a stream of small turns, and a profile showed a sixth of it going to thread switches.
#[tokio::main(flavor = "current_thread")]
async fn run(args: &Args) -> anyhow::Result<()> {
    let configuration = args.configuration()?;
    for warning in &configuration.warnings {
        tracing::warn!("in the configuration: {warning}");
    }
    let mut config =
        kube::Config::infer().await.context("no cluster to talk to: neither KUBECONFIG nor in-cluster")?;
    // A silent watch is a dead one: the API server sends a bookmark every minute. One that gives up for nothing goes
    // on where it was.
    config.read_timeout = Some(Duration::from_secs(150));
    config.reset_reader_on_write = true;
    let client = kube::Client::try_from(config).context("the cluster's address or credentials")?;
    let metrics = Arc::new(Metrics::new(args.no_leader_election));
    let (log, writer) = match &args.decision_log {
        Some(folder) => {
            let mode = if args.observe { Mode::Observe } else { Mode::Decide };
            let dropped = metrics.lines_dropped.clone();
            let opened = log::DecisionLog::start(folder, args.log_limits(), mode, dropped);
            let (log, writer) = opened.with_context(|| format!("--decision-log {}", folder.display()))?;
            (Some(log), Some(writer))
        }
        None => (None, None),
    };
    let (asker, questions) = questions::channel();
    let (ready, is_ready) = channel::channel(false);
    if let Some(address) = args.metrics_address()? {
        let pages = http::Pages {
            metrics: Arc::clone(&metrics),
            asker: asker.clone(),
            access: access::Access::new(client.clone(), &http::PACE),
            ready: is_ready,
            log: args.decision_log.clone(),
            readers: Semaphore::new(1),
        };
        let server = http::serve(address, pages).await?;
        tokio::spawn(server);
    }
    if let Some(address) = args.serving_address()? {
        let server = served::serve(served::Serving {
            address,
            namespace: args.lease_namespace.clone(),
            service: args.serving_service.clone(),
            certificate_life: args.certificate_life(),
            client: client.clone(),
            asker,
        });
        tokio::spawn(server.await?);
    }
    let leadership = if args.observe {
        lease::never()
    } else if args.no_leader_election {
        lease::always()
    } else {
        lease::campaign(
            client.clone(),
            args.lease_namespace.clone(),
            args.lease_name.clone(),
            args.identity(),
        )
    };
    let watches = watch::everything(&client, &configuration.settings.frameworks, args.observe);
    let patience = Duration::from_secs(args.observe_patience.into());
    let observer = args.observe.then(|| engine::Observer::new(patience));
    let beside = engine::Beside { log, observer };
    let engine =
        engine::Engine::new(client, args.identity(), configuration, metrics, leadership.clone(), beside);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        ended = engine.run(watches, questions, ready) => ended?,
        _ = terminate.recv() => tracing::info!("told to terminate"),
        _ = interrupt.recv() => tracing::info!("interrupted"),
    }
    leadership.give_up().await;
    if let Some(writer) = writer {
        // The engine is gone, and with it whoever could hand in a line.
        writer.finish();
    }
    Ok(())
}
