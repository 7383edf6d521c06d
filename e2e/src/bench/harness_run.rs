//! One run of the harness with one manager, from an empty control plane to figures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use serde_json::Map;

use super::counters::{Counters, Queues};
use super::figures::Figures;
use super::kueue::Kueue;
use super::metrics::Endpoint;
use super::operator::{self, Operator};
use super::progress::Progress;
use super::runner::{self, Configuration, Runner};
use super::writes::RunnerShare;
use super::{Options, load};
use crate::Cluster;
use crate::process::Process;

/// How long a manager may take to become ready, and to end when asked.
const MANAGER_DEADLINE: Duration = Duration::from_mins(1);
/// How often the runner's end is looked for.
const POLL: Duration = Duration::from_millis(100);
/// How often the queues are asked how far they are; each asking is a list on the API server.
const LOOK: Duration = Duration::from_secs(10);

/// How long the queues may stand still before a run is given up: the runner itself would wait for
/// its whole timeout.
const STANDSTILL: Duration = Duration::from_mins(3);

/// A manager that can be started.
pub struct Launch {
    /// Its command line, with the kubeconfig set.
    pub command: Command,
    /// The page that answers once it is ready.
    pub ready: (Endpoint, &'static str),
    /// Where it serves client-go's counters, if it does.
    pub metrics: Option<Endpoint>,
}

/// What the runs of a benchmark have in common.
pub struct Run<'a> {
    /// The benchmark's name.
    pub name: &'a str,
    /// The harness's configuration.
    pub configuration: Configuration,
    /// The peer, whose module has the harness.
    pub kueue: &'a Kueue,
    /// How to run.
    pub options: &'a Options,
}

impl Run<'_> {
    /// Measures Kueue.
    pub async fn kueue(&self) -> Result<Figures> {
        let label = format!("Kueue {}", self.kueue.version);
        self.contender(&label, &self.kueue.crds(), |kubeconfig, scratch| {
            self.kueue.launch(kubeconfig, scratch, &Map::new())
        })
        .await
    }

    /// Measures our operator.
    pub async fn operator(&self, operator: &Operator) -> Result<Figures> {
        let label = concat!("WhaleZEN ", env!("CARGO_PKG_VERSION"));
        self.contender(label, &operator::crds(), |kubeconfig, scratch| {
            operator.launch(kubeconfig, scratch, &Map::new())
        })
        .await
    }

    async fn contender(
        &self,
        label: &str,
        crds: &Path,
        launch: impl FnOnce(&Path, &Path) -> Result<Launch>,
    ) -> Result<Figures> {
        let mut progress = Progress::start(&format!("{}, {label}", self.name));
        let cluster = Cluster::builder()
            .with_scheduler(false)
            .with_controller_manager(false)
            .with_kwok(false)
            .start()
            .await?;
        let result = self.measure(&cluster, label, crds, launch, &mut progress).await;
        if let Some(folder) = &self.options.keep_logs {
            let folder =
                folder.join(self.name.replace('/', "-")).join(label.replace(' ', "-").to_lowercase());
            keep_logs(&cluster, &folder)?;
            println!("logs in {}", folder.display());
        }
        // What went wrong first is what is reported.
        let stopped = cluster.stop().await;
        let figures = result.with_context(|| format!("measuring {label}"))?;
        stopped?;
        Ok(figures)
    }

    async fn measure(
        &self,
        cluster: &Cluster,
        label: &str,
        crds: &Path,
        launch: impl FnOnce(&Path, &Path) -> Result<Launch>,
        progress: &mut Progress,
    ) -> Result<Figures> {
        install_definitions(cluster, crds).await?;
        let scratch = scratch(cluster);
        fs::create_dir_all(&scratch)?;
        let launch = launch(&cluster.kubeconfig(), &scratch)?;
        let manager = cluster.spawn("manager", &launch.command)?;
        wait_until_ready(&manager, &launch.ready).await?;

        let runner = Runner::new(self.kueue, self.configuration, self.options.scale, &scratch)?;
        let before = Counters::read(cluster, launch.metrics.as_ref()).await?;
        let machine = load::Moment::now()?;
        let (used_before, server_before) = (cpu_of_all(cluster), cpu_of(cluster, "kube-apiserver"));
        let started = SystemTime::now();
        let process = cluster.spawn("runner", &runner.command(&cluster.kubeconfig()))?;
        wait_for_report(cluster, &runner, &process, &manager, progress).await?;
        let others_cores = machine.others_since(cpu_of_all(cluster) - used_before)?;
        let server_cpu_s = cpu_of(cluster, "kube-apiserver") - server_before;
        let after = Counters::read(cluster, launch.metrics.as_ref()).await?;

        // It is still deleting what it made, object by object; the cluster goes as a whole.
        process.kill()?;
        end(&manager).await?;
        let (summary, wall) = runner.report(started)?;
        let writes = after.server.since(&before.server);
        let share = RunnerShare {
            finished: summary.workloads(),
            cleared: summary.evictions(),
            refused: runner::refused_writes(&process)?,
        };
        Ok(Figures {
            contender: label.to_owned(),
            started: Timestamp::try_from(started)?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            wall_s: wall.as_secs_f64(),
            workloads: summary.workloads(),
            admission_s: summary
                .workload_classes
                .iter()
                .map(|(class, figures)| (class.clone(), figures.admission_s()))
                .collect(),
            evictions: summary.evictions(),
            unrecorded: summary.dropped_workload_events,
            usage: summary.usage(),
            cpu_s: manager.cpu_seconds(),
            rss_mb: megabytes(manager.peak_rss_bytes()),
            writes: writes.by_manager(share),
            writes_by_own_count: after
                .own
                .zip(before.own)
                .map(|(after, before)| after.saturating_sub(before)),
            events: writes.events(),
            writes_seen: writes.listed(),
            server_cpu_s,
            others_cores,
        })
    }
}

/// Installs the CRDs of `folder` and waits until the API server serves them.
pub async fn install_definitions(cluster: &Cluster, folder: &Path) -> Result<()> {
    cluster.apply_dir(folder).await?;
    // As Kueue's own are before they are packaged: no webhook is asked what an object of v1beta1 is.
    let unconverted = r#"{"spec":{"conversion":{"strategy":"None","webhook":null}}}"#;
    let names = cluster.kubectl(&["get", "crd", "--output=name"]).await?;
    for name in names.lines().filter(|name| name.ends_with(".kueue.x-k8s.io")) {
        cluster.kubectl(&["patch", name, "--type=merge", "--patch", unconverted]).await?;
    }
    let started = Instant::now();
    // kubectl fails on a definition that has no conditions yet.
    while let Err(error) = cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).await {
        if started.elapsed() > MANAGER_DEADLINE {
            return Err(error);
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Waits until a manager that was just started answers at its page.
pub async fn wait_until_ready(manager: &Process, (endpoint, page): &(Endpoint, &str)) -> Result<()> {
    let deadline = Instant::now() + MANAGER_DEADLINE;
    while let Err(error) = endpoint.page(page).await {
        must_run(manager)?;
        if Instant::now() > deadline {
            return Err(error.context(format!("the manager was not ready in {MANAGER_DEADLINE:?}")));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

async fn wait_for_report(
    cluster: &Cluster,
    runner: &Runner,
    process: &Process,
    manager: &Process,
    progress: &mut Progress,
) -> Result<()> {
    let queues = Queues::of(cluster);
    let mut looked = Instant::now();
    let mut moved = (Instant::now(), None);
    while !runner.has_reported() {
        must_run(process)?;
        must_run(manager)?;
        cluster.check()?;
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            // A list that fails is asked for again.
            let standing = queues.standing().await.ok().or(moved.1);
            if standing != moved.1 {
                moved = (Instant::now(), standing);
            }
            let words = standing.map_or("no queue seen".to_owned(), |standing| standing.to_string());
            progress.at(&words);
            if moved.0.elapsed() > STANDSTILL {
                bail!(
                    "nothing moved for {STANDSTILL:?} ({words}); the manager's last lines:\n{}",
                    manager.log_tail(15)
                );
            }
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Fails when the process has ended, with what it said last.
fn must_run(process: &Process) -> Result<()> {
    match process.exit() {
        None => Ok(()),
        Some(exit) => {
            bail!(
                "the {} ended too early ({exit:?}); its last lines:\n{}",
                process.name(),
                process.log_tail(15)
            )
        }
    }
}

/// Asks the manager to end, and sees to it: its CPU time and memory are known then.
async fn end(manager: &Process) -> Result<()> {
    manager.terminate()?;
    if tokio::time::timeout(MANAGER_DEADLINE, manager.wait()).await.is_err() {
        manager.kill()?;
        manager.wait().await?;
    }
    Ok(())
}

/// CPU seconds so far of everything that the cluster runs.
fn cpu_of_all(cluster: &Cluster) -> f64 {
    ["etcd", "kube-apiserver", "manager", "runner"].iter().map(|name| cpu_of(cluster, name)).sum()
}

fn cpu_of(cluster: &Cluster, process: &str) -> f64 {
    cluster.process(process).map_or(0.0, |process| process.cpu_seconds())
}

fn scratch(cluster: &Cluster) -> PathBuf {
    cluster.state_dir().join("bench")
}

/// Copies every log, the runner's report and the managers' configuration.
fn keep_logs(cluster: &Cluster, folder: &Path) -> Result<()> {
    for source in [cluster.log_dir(), scratch(cluster), scratch(cluster).join("runner")] {
        // A run that failed early has not made all of them.
        let Ok(entries) = fs::read_dir(&source) else { continue };
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if let (true, Some(name)) = (path.is_file(), path.file_name()) {
                fs::copy(&path, folder.join(name)).with_context(|| format!("copying {}", path.display()))?;
            }
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "memory of one process is far below 2^53 bytes")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
