//! `whalezen-bench`: `WhaleZEN` beside its peers. See [`whalezen_e2e::bench`].

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use whalezen_e2e::bench::{self, Contender, Options};
use whalezen_e2e::differential::Seed;

/// Runs `WhaleZEN` and a peer on the same kind of fresh control plane and prints both beside each
/// other.
#[derive(Parser)]
#[command(name = "whalezen-bench", version)]
struct Arguments {
    /// The benchmark, or the folder of benchmarks, to run; all without it
    name: Option<String>,
    /// Name the benchmarks and run none
    #[arg(long)]
    list: bool,
    /// Measure one alone; beside ours, the peer's figures of an earlier run are shown
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// A factor on the number of workloads, for a quick look that is not recorded
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    workloads_scale: f64,
    /// Keep every process's log and the harness's files in this folder
    #[arg(long, value_name = "DIR")]
    keep_logs: Option<PathBuf>,
    /// The operator to measure; without it the release build
    #[arg(long, value_name = "PATH")]
    operator: Option<PathBuf>,
    /// Of the differential benchmarks, play so many problems of each family
    #[arg(long, value_name = "NUMBER")]
    problems: Option<u64>,
    /// Of the differential benchmarks, play one problem, such as preemption-17, and show it whole
    #[arg(long, value_name = "PROBLEM")]
    problem: Option<Seed>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Only {
    Ours,
    Kueue,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.list {
        for benchmark in bench::all() {
            println!("{}: {}", benchmark.name(), benchmark.about());
        }
        return Ok(());
    }
    let options = Options {
        only: arguments.only.map(|only| match only {
            Only::Ours => Contender::Ours,
            Only::Kueue => Contender::Kueue,
        }),
        scale: arguments.workloads_scale,
        keep_logs: arguments.keep_logs,
        operator: arguments.operator,
        problems: arguments.problems,
        problem: arguments.problem,
    };
    bench::run(arguments.name.as_deref(), &options).await
}
