//! Kueue's own performance harness as a benchmark: its runner, unmodified, first with Kueue's
//! manager and then with our operator, each on a fresh etcd and API server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::figures::{Figures, table};
use super::harness_run::Run;
use super::kueue::Kueue;
use super::operator::Operator;
use super::runner::Configuration;
use super::{Benchmark, Contender, Measurement, Options};
use crate::cache::cache_dir;

/// One configuration of the harness.
pub struct Harness {
    name: &'static str,
    about: &'static str,
    configuration: Configuration,
}

impl Harness {
    /// 30 `ClusterQueues` in 5 cohorts, 15,000 Workloads.
    pub fn baseline() -> Self {
        Self {
            name: "harness/baseline",
            about: "Kueue's performance harness, 5 cohorts of 6 queues, 15,000 workloads",
            // It takes Kueue 5 minutes on two idle cores, and three times that on busy ones.
            configuration: Configuration { name: "baseline", timeout: Duration::from_mins(30) },
        }
    }

    /// 640 nodes in 10 racks and, in the queues of the baseline, 15,000 gangs that are placed on them.
    pub fn tas() -> Self {
        Self {
            name: "harness/tas",
            about: "Kueue's performance harness, 15,000 gangs on 640 nodes by topology",
            // Kueue's own range for it is 8 minutes, on more cores than two.
            configuration: Configuration { name: "tas", timeout: Duration::from_mins(40) },
        }
    }

    /// 1,000 `ClusterQueues` in 10 cohorts, 50,000 Workloads.
    pub fn large_scale() -> Self {
        Self {
            name: "harness/large-scale",
            about: "Kueue's performance harness, 10 cohorts of 100 queues, 50,000 workloads",
            // Kueue's own range for it is 24 minutes, on more cores than two.
            configuration: Configuration { name: "large-scale", timeout: Duration::from_hours(3) },
        }
    }

    async fn measure(&self, options: &Options) -> Result<Vec<Measurement>> {
        if options.only != Some(Contender::Kueue) {
            // Before minutes are spent on the peer.
            Operator::find(options.operator.as_deref())?;
        }
        let kueue = tokio::task::spawn_blocking(Kueue::build).await??;
        let run = Run { name: self.name, configuration: self.configuration, kueue: &kueue, options };

        let kept = self.kept(&kueue, options)?;
        let theirs = if options.only == Some(Contender::Ours) {
            let kept = Figures::kept(&kept)?;
            match &kept {
                Some(figures) => println!("{}: figures of the run on {}", figures.contender, figures.started),
                None => println!("Kueue has not been measured here yet"),
            }
            kept
        } else {
            let figures = run.kueue().await?;
            figures.keep(&kept)?;
            Some(figures)
        };
        let ours = match options.only {
            Some(Contender::Kueue) => None,
            _ => Some(run.operator(&Operator::find(options.operator.as_deref())?).await?),
        };

        println!("{}", table(ours.as_ref(), theirs.as_ref()));
        for remark in ours.iter().chain(&theirs).flat_map(Figures::remarks) {
            println!("{remark}");
        }
        let Some(ours) = ours else { return Ok(Vec::new()) };
        if !options.is_full() {
            println!("not recorded: {} times the workloads", options.scale);
            return Ok(Vec::new());
        }
        Ok(ours.measurements(self.name, theirs.as_ref()))
    }

    /// Where the peer's figures are kept between runs.
    fn kept(&self, kueue: &Kueue, options: &Options) -> Result<PathBuf> {
        if !(options.scale > 0.0 && options.scale.is_finite()) {
            bail!("a scale is a number above zero, not {}", options.scale);
        }
        let scale = if options.is_full() { String::new() } else { format!("-x{}", options.scale) };
        let file = format!("{}{scale}-kueue-{}.json", self.name.replace('/', "-"), kueue.version);
        Ok(cache_dir()?.join("bench").join(file))
    }
}

impl Benchmark for Harness {
    fn name(&self) -> &str {
        self.name
    }

    fn about(&self) -> &str {
        self.about
    }

    fn only_by_name(&self) -> bool {
        self.configuration.timeout > Duration::from_hours(1)
    }

    fn run<'a>(&'a self, options: &'a Options) -> BoxFuture<'a, Result<Vec<Measurement>>> {
        self.measure(options).boxed()
    }
}
