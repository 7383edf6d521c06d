//! `whalezen-sim run`: a trace under policies, to numbers, a CSV of jobs and a page to look at.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::{
    engine::{Costs, Millis, Outcome, Pool, SECOND, simulate},
    figures::in_seconds,
    policy::Kind,
    progress::Progress,
    report,
    summary::Summary,
    table::Table,
    trace::{self, Shape, Trace},
};

/// What is asked of `whalezen-sim run`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The trace: Philly CSV, Gavel, openb, or our own CSV or JSON lines. Without it one is made up
    trace: Option<PathBuf>,
    /// Only the jobs of this queue or virtual cluster
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// The policies, with commas between them
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Kind::Fcfs, Kind::Easy, Kind::Srsf, Kind::Las])]
    policies: Vec<Kind>,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Of a made-up trace, how many jobs it has
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    jobs: u32,
    /// Of a made-up trace, the seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write summary.json, jobs.csv and report.html into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The cluster that is simulated.
#[derive(Args, Debug)]
pub struct ClusterArguments {
    /// How many GPUs it has; without it as many as are busy for 85 % of the time if the jobs were spread evenly
    #[arg(long, value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    gpus: Option<i64>,
    /// For how many seconds a stopped job holds its GPUs to save its state
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..=1_000_000))]
    save: i64,
    /// For how many seconds it holds them to restore it
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..=1_000_000))]
    restore: i64,
}

/// The load for which a pool is sized, in thousandths.
pub const USUAL_LOAD: i64 = 850;

impl ClusterArguments {
    /// The pool for a trace.
    pub fn pool(&self, trace: &Trace) -> Pool {
        let costs = Costs { save: self.save * SECOND, restore: self.restore * SECOND, resize: 0 };
        Pool::of(self.gpus.unwrap_or_else(|| trace.gpus_for_load(USUAL_LOAD))).with_costs(costs)
    }

    /// How many GPUs a made-up trace is for.
    pub fn gpus_or(&self, usual: i64) -> i64 {
        self.gpus.unwrap_or(usual)
    }
}

/// A policy and what came of it.
#[derive(Debug)]
pub struct Run {
    /// What it is called.
    pub policy: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// Plays the trace under every policy, prints a table, and writes what is asked for.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let trace = match &arguments.trace {
        Some(file) => trace::read(file).with_context(|| format!("reading {}", file.display()))?,
        None => trace::generate(
            Shape { jobs: usize::try_from(arguments.jobs)?, gpus: arguments.cluster.gpus_or(64), load: 0.85 },
            arguments.seed,
        ),
    };
    let trace = match &arguments.queue {
        Some(queue) => trace.of_queue(queue)?,
        None => trace,
    };
    let pool = arguments.cluster.pool(&trace);
    let runs = play(&trace, pool, &arguments.policies)?;
    let summaries: Vec<_> = runs.iter().map(|run| Summary::of(&run.policy, &run.outcome)).collect();
    println!("{} jobs on {} GPUs\n{}", trace.jobs().len(), pool.gpus, render(&summaries));
    if let Some(folder) = &arguments.out {
        write(folder, &trace, &runs, &summaries)?;
        println!("written to {}", folder.display());
    }
    Ok(())
}

/// Plays a trace under policies, one after another.
pub fn play(trace: &Trace, pool: Pool, policies: &[Kind]) -> Result<Vec<Run>> {
    if policies.is_empty() {
        bail!("there is no policy to play");
    }
    let progress = Progress::new("jobs", trace.jobs().len() * policies.len());
    let mut runs = Vec::new();
    for (number, kind) in policies.iter().enumerate() {
        let mut policy = kind.policy(pool);
        let before = number * trace.jobs().len();
        let outcome = simulate(trace, pool, policy.as_mut(), &mut |jobs| progress.at(before + jobs))?;
        runs.push(Run { policy: policy.name().to_owned(), outcome });
    }
    Ok(runs)
}

fn render(summaries: &[Summary]) -> String {
    let columns =
        ["policy", "mean JCT h", "median", "p95", "p99", "mean wait h", "makespan h", "utilisation", "stops"];
    let mut table = Table::new(columns);
    for summary in summaries {
        let hours = |value: f64| format!("{value:.2}");
        table.row([
            summary.policy.clone(),
            hours(summary.mean_jct_h),
            hours(summary.median_jct_h),
            hours(summary.p95_jct_h),
            hours(summary.p99_jct_h),
            hours(summary.mean_wait_h),
            hours(summary.makespan_h),
            format!("{:.3}", summary.utilisation),
            summary.stops.to_string(),
        ]);
    }
    table.to_string()
}

fn write(folder: &Path, trace: &Trace, runs: &[Run], summaries: &[Summary]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let put = |name: &str, text: String| {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
    };
    put("summary.json", serde_json::to_string_pretty(summaries)? + "\n")?;
    put("jobs.csv", jobs_csv(trace, runs))?;
    put("report.html", report::page(trace, runs, summaries))
}

fn jobs_csv(trace: &Trace, runs: &[Run]) -> String {
    let mut text = "policy,name,user,queue,gpus,submit_s,start_s,end_s,run_s,wait_s,jct_s,stops\n".to_owned();
    for Run { policy, outcome } in runs {
        let mut finished: Vec<_> = outcome.finished.iter().collect();
        finished.sort_by_key(|job| job.index);
        for job in finished {
            let Some(of) = trace.jobs().get(job.index.0) else { continue };
            let seconds = |time: Millis| in_seconds(time);
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{},{}",
                plain(policy),
                plain(&of.name),
                plain(&of.user),
                plain(&of.queue),
                job.gpus,
                seconds(job.submit),
                seconds(job.start),
                seconds(job.end),
                seconds(job.run),
                seconds(job.wait()),
                seconds(job.completion()),
                job.stops
            );
        }
    }
    text
}

/// A name without what would end a field or a line.
fn plain(name: &str) -> String {
    name.chars().map(|letter| if matches!(letter, ',' | '"' | '\n' | '\r') { ' ' } else { letter }).collect()
}
