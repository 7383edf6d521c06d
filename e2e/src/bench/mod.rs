//! Benchmarks against the peers, on the peers' own terms.
//!
//! A benchmark has a stable name, runs `WhaleZEN` and a peer one after the other on the same kind
//! of fresh control plane, prints both beside each other, and gives measurements for
//! `target/bench/results.json`. Where no peer does the same, it is measured against an aim. A new one is a value in
//! [`all`].

mod agent;
mod counters;
mod differential;
mod figures;
mod gap;
mod generator;
mod harness;
mod harness_run;
mod kueue;
mod load;
mod local;
mod metrics;
mod mig;
mod openb;
mod operator;
mod progress;
mod results;
mod runner;
mod simulated;
mod summary;
mod writes;

use std::path::PathBuf;

use anyhow::{Result, bail};
use futures::future::BoxFuture;

pub(crate) use harness_run::{Launch, install_definitions, wait_until_ready};
pub(crate) use kueue::Kueue;
pub(crate) use operator::{Operator, crds as definitions};
pub use results::Measurement;

use crate::differential::Seed;

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contender {
    /// This project's operator.
    Ours,
    /// Kueue.
    Kueue,
}

/// How a run is done; the same for every benchmark.
#[derive(Debug, Clone)]
pub struct Options {
    /// Measures one contender alone. Where that is ours, the peer's figures of an earlier run are
    /// shown beside it.
    pub only: Option<Contender>,
    /// A factor on the number of workloads. What is not 1 is not recorded.
    pub scale: f64,
    /// A folder for the logs of every process and the harness's files.
    pub keep_logs: Option<PathBuf>,
    /// The operator's binary, where it is not the release build beside this program.
    pub operator: Option<PathBuf>,
    /// How many problems of each family the differential benchmarks play; their own number without it.
    pub problems: Option<u64>,
    /// Of the differential benchmarks, the one problem to show.
    pub problem: Option<Seed>,
}

impl Options {
    /// Whether the benchmark runs with as many workloads as it has.
    fn is_full(&self) -> bool {
        (self.scale - 1.0).abs() < f64::EPSILON
    }
}

/// One benchmark.
pub trait Benchmark {
    /// Its name, `group/case`, which never changes.
    fn name(&self) -> &str;

    /// What it shows, in a line.
    fn about(&self) -> &str;

    /// Whether it takes so long that it runs only when its whole name is given.
    fn only_by_name(&self) -> bool {
        false
    }

    /// Runs it, prints its table, and gives what is to be recorded.
    fn run<'a>(&'a self, options: &'a Options) -> BoxFuture<'a, Result<Vec<Measurement>>>;
}

/// Every benchmark, in the order in which they run.
pub fn all() -> Vec<Box<dyn Benchmark>> {
    let mut all: Vec<Box<dyn Benchmark>> = vec![
        Box::new(harness::Harness::baseline()),
        Box::new(harness::Harness::tas()),
        Box::new(harness::Harness::large_scale()),
        Box::new(agent::Agent),
        Box::new(mig::Transitions),
        Box::new(openb::Openb),
        Box::new(gap::MilpGap),
    ];
    all.extend(differential::Differential::all().map(|benchmark| Box::new(benchmark) as Box<dyn Benchmark>));
    all.extend(simulated::Simulated::all().map(|benchmark| Box::new(benchmark) as Box<dyn Benchmark>));
    all
}

/// Runs the benchmarks whose name is `name` or begins with it as a folder (`harness` runs
/// `harness/baseline`), or all, and records what they measured. Those that take an hour run by their whole name only.
pub async fn run(name: Option<&str>, options: &Options) -> Result<()> {
    let all = all();
    let is_meant = |benchmark: &dyn Benchmark| {
        is_chosen(benchmark.name(), name) && (!benchmark.only_by_name() || Some(benchmark.name()) == name)
    };
    let chosen: Vec<_> = all.iter().map(AsRef::as_ref).filter(|&benchmark| is_meant(benchmark)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = all.iter().map(|benchmark| benchmark.name()).collect();
        bail!("there is no benchmark {}; there are: {}", name.unwrap_or_default(), names.join(", "));
    }
    let results = operator::target()?.join("bench/results.json");
    for benchmark in chosen {
        println!("{}: {}", benchmark.name(), benchmark.about());
        let measurements = benchmark.run(options).await?;
        if !measurements.is_empty() {
            results::merge_into(&results, &measurements)?;
            println!("recorded in {}", results.display());
        }
    }
    Ok(())
}

fn is_chosen(benchmark: &str, name: Option<&str>) -> bool {
    name.is_none_or(|name| {
        benchmark
            .strip_prefix(name.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_chooses_one_benchmark_or_a_folder_of_them() {
        assert!(is_chosen("harness/baseline", None));
        assert!(is_chosen("harness/baseline", Some("harness/baseline")));
        assert!(is_chosen("harness/baseline", Some("harness")));
        assert!(is_chosen("harness/baseline", Some("harness/")));
        assert!(!is_chosen("harness/baseline", Some("harness/base")));
        assert!(!is_chosen("harness/baseline", Some("baseline")));
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all().iter().map(|benchmark| benchmark.name().to_owned()).collect();
        names.sort();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
    }
}
