//! What a node agent costs its node and the API server while nothing happens: eight GPUs that it reads every second and
//! looks at every five, with a kubelet that does not answer, for a minute.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::future::BoxFuture;
use tokio::time::sleep;

use super::local;
use super::metrics::Endpoint;
use super::writes::Writes;
use super::{Benchmark, Measurement, Options, definitions, install_definitions, operator, wait_until_ready};
use crate::ports::free_ports;
use crate::{Cluster, GpuModel, NodePool, Process};

/// How long the agent may settle: what it finds first it writes.
const SETTLE: Duration = Duration::from_secs(45);

/// How long it is measured.
const MEASURED: Duration = Duration::from_mins(1);

/// The machine. Its load goes up and down, as on a node that is used.
const MACHINE: &str = r#"
require_root = false
[[gpus]]
model = "H200"
count = 8
[gpus.load]
utilization = { shape = "triangle", low = 10, high = 90, period_ms = 7000 }
memory_bandwidth = 30
memory_mib = 40000
nvlink_tx_kib = 4096
"#;

/// The benchmark.
pub struct Agent;

impl Benchmark for Agent {
    fn name(&self) -> &'static str {
        "agent/idle"
    }

    fn about(&self) -> &'static str {
        "a node agent with eight GPUs, read every second, for a minute"
    }

    fn run<'a>(&'a self, options: &'a Options) -> BoxFuture<'a, Result<Vec<Measurement>>> {
        Box::pin(measure(options))
    }
}

async fn measure(options: &Options) -> Result<Vec<Measurement>> {
    let mut builder = Cluster::builder()
        .with_scheduler(false)
        .with_controller_manager(false)
        .nodes(NodePool::gpu("gpu", 1, GpuModel::H200, 8));
    if let Some(folder) = &options.keep_logs {
        builder = builder.state_dir(folder.join("agent"));
    }
    let cluster = builder.start().await?;
    install_definitions(&cluster, &definitions()).await?;
    let [port] = free_ports()?;
    let address = local::address(port);
    let agent = cluster.spawn("whalezen-agent", &command(&cluster, &address)?)?;
    let metrics = Endpoint::local(&address)?;
    wait_until_ready(&agent, &(metrics.clone(), "healthz")).await?;
    sleep(SETTLE).await;
    if metrics.samples().await?.of("DCGM_FI_PROF_SM_ACTIVE").count() != 8 {
        bail!("the agent does not show eight GPUs:\n{}", agent.log_tail(20));
    }

    let server = Endpoint::of(cluster.client());
    let (cpu, began) = (agent.cpu_seconds(), Instant::now());
    let writes = Writes::of(&server.samples().await?);
    sleep(MEASURED).await;
    let share = 100.0 * (agent.cpu_seconds() - cpu) / began.elapsed().as_secs_f64();
    let writes = Writes::of(&server.samples().await?).since(&writes);
    let ours =
        writes.listed().iter().filter(|(write, _)| is_agents(write)).map(|(_, count)| count).sum::<u64>();
    Ok(report(&agent, share, ours))
}

/// Whether a kind of write is one of the agent's: nobody else is there but the simulator of nodes, which keeps leases and
/// the status of nodes.
fn is_agents(write: &str) -> bool {
    write.contains(" gpunodes") || write.ends_with(" nodes")
}

#[expect(clippy::cast_precision_loss, reason = "what is measured is small")]
fn report(agent: &Process, cpu: f64, writes: u64) -> Vec<Measurement> {
    let rss = agent.peak_rss_bytes() as f64 / 1e6;
    let measured =
        [("cpu", cpu, "% of a core"), ("peak_rss", rss, "MB"), ("writes", writes as f64, "writes/min")];
    for (name, value, unit) in measured {
        println!("  {name}: {value:.2} {unit}");
    }
    let measurement = |(name, value, unit): (&str, f64, &str)| Measurement {
        name: format!("agent/idle/{name}"),
        value,
        unit: unit.to_owned(),
        reference: None,
        reference_name: None,
    };
    measured.map(measurement).to_vec()
}

fn command(cluster: &Cluster, metrics: &str) -> Result<Command> {
    let folder = cluster.state_dir().join("agent");
    fs::create_dir_all(folder.join("kubelet"))?;
    let machine = folder.join("machine.toml");
    fs::write(&machine, MACHINE).with_context(|| format!("writing {}", machine.display()))?;
    let node =
        NodePool::gpu("gpu", 1, GpuModel::H200, 8).node_names().next().context("the pool has a node")?;
    let mut command = Command::new(built("whalezen-agent")?);
    command
        .args(["--node-name", &node])
        .arg("--nvml-library")
        .arg(built("deps/libwhalezen_mock_nvml.so")?)
        .arg("--lock-file")
        .arg(folder.join("lock"))
        .arg("--kubelet-dir")
        .arg(folder.join("kubelet"))
        .arg("--cdi-dir")
        .arg(folder.join("cdi"))
        .args(["--metrics-address", metrics])
        .env("WHALEZEN_MOCK_NVML", machine)
        .env("KUBECONFIG", cluster.kubeconfig());
    Ok(command)
}

/// A file of the release build.
fn built(name: &str) -> Result<PathBuf> {
    let path = operator::target()?.join(Path::new("release")).join(name);
    if !path.is_file() {
        bail!("{} is not there: `cargo build --release --workspace` makes it", path.display());
    }
    Ok(path)
}
