//! The harness's runner: it makes the queues and the Workloads, plays the job controller, and
//! reports when no queue has anything pending or running.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use super::kueue::Kueue;
use super::summary::Summary;
use super::{generator, local};
use crate::process::Process;

/// A configuration of the harness, by the name of its folder in Kueue's module.
#[derive(Debug, Clone, Copy)]
pub struct Configuration {
    /// `baseline`, `large-scale`, ...
    pub name: &'static str,
    /// When the runner gives up.
    pub timeout: Duration,
}

/// One start of the runner.
pub struct Runner {
    generator: PathBuf,
    output: PathBuf,
    timeout: Duration,
    binary: PathBuf,
    module: PathBuf,
}

impl Runner {
    /// Prepares a run of `configuration` whose files lie in `scratch`. A `scale` other than 1
    /// makes more or fewer Workloads of it.
    pub fn new(kueue: &Kueue, configuration: Configuration, scale: f64, scratch: &Path) -> Result<Self> {
        let folder = kueue.module.join("test/performance/scheduler/configs").join(configuration.name);
        let mut config = folder.join("generator.yaml");
        if (scale - 1.0).abs() > f64::EPSILON {
            let text =
                fs::read_to_string(&config).with_context(|| format!("reading {}", config.display()))?;
            config = scratch.join("generator.json");
            fs::write(&config, generator::scaled(&text, scale)?)?;
        }
        let output = scratch.join("runner");
        fs::create_dir_all(&output)?;
        Ok(Self {
            generator: config,
            output,
            timeout: configuration.timeout,
            binary: kueue.runner.clone(),
            module: kueue.module.clone(),
        })
    }

    /// The command. It must run in the module's folder, and without `--minimalKueue` it uses the
    /// cluster of the kubeconfig.
    pub fn command(&self, kubeconfig: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .arg(format!("--generatorConfig={}", self.generator.display()))
            .arg(format!("-o={}", self.output.display()))
            .arg(format!("--qps={}", local::QPS))
            .arg(format!("--burst={}", local::BURST))
            .arg(format!("--timeout={}s", self.timeout.as_secs()))
            .current_dir(&self.module)
            .env("KUBECONFIG", kubeconfig);
        command
    }

    /// Whether it has reported; the cleaning up that follows is not measured. The last of its
    /// files is looked for, so the others are whole.
    pub fn has_reported(&self) -> bool {
        self.output.join("wlStates.csv").exists()
    }

    /// The report, and the wall time since `started`. It is an error when Workloads were left
    /// over: the runner goes by what active queues say they hold, so a manager that activates no
    /// queue, or counts wrong, ends the run at once.
    pub fn report(&self, started: SystemTime) -> Result<(Summary, Duration)> {
        let read =
            |path: &Path| fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
        let path = self.output.join("summary.yaml");
        let summary = Summary::parse(&read(&path)?)?;
        let unfinished = unfinished(&read(&self.output.join("wlStates.csv"))?);
        // The last ends may reach the runner after the queue's status that lets it go.
        let late = summary.workloads() / 100;
        if unfinished > summary.dropped_workload_events + late {
            bail!("the runner ended, but {unfinished} of {} workloads had not finished", summary.workloads());
        }
        let written = fs::metadata(&path)?.modified()?;
        let wall = written.duration_since(started).context("the clock was set back during the run")?;
        Ok((summary, wall))
    }
}

/// How many of the runner's own status applies the API server refused: each is a line of its log.
pub fn refused_writes(runner: &Process) -> Result<u64> {
    let log = fs::read_to_string(runner.log()).context("reading the runner's log")?;
    Ok(count(&log))
}

fn count(log: &str) -> u64 {
    log.lines().filter(|line| line.contains("Reconciler error")).fold(0, |sum, _| sum + 1)
}

/// Workloads whose end the runner did not see: zero in the column of milliseconds to it.
fn unfinished(states: &str) -> u64 {
    let mut lines = states.lines().map(|line| line.split(','));
    let Some(column) = lines.next().and_then(|mut header| header.position(|name| name == "ms to finish"))
    else {
        return 0;
    };
    lines
        .filter_map(|mut fields| fields.nth(column))
        .filter(|milliseconds| *milliseconds == "0")
        .fold(0, |n, _| n + 1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_workload_without_an_end_is_unfinished() {
        let states = "id,class name,namespace,name,ms to admitted,ms to finish,num evictions\n\
                      0,small,ns,small-0-0-0,4,260,0\n1,small,ns,small-0-1-0,3,0,0\n2,large,ns,large-2-0-0,0,0,1\n";
        assert_eq!(super::unfinished(states), 2);
        assert_eq!(super::unfinished(""), 0);
    }

    #[test]
    fn each_refusal_is_one_line_of_the_log() {
        let log = "t\tINFO\tx\tStart\nt\tERROR\tc.go:1\tReconciler error\t{\"error\": \"modified\"}\nframe\n\
                   t\tERROR\tc.go:1\tReconciler error\t{}\n";
        assert_eq!(super::count(log), 2);
    }
}
