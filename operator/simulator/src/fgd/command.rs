//! `whalezen-sim fgd`: the experiment from the command line.

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Serialize;
use whalezen_core::placement::Weights;

use crate::{progress::Progress, traces::Traces};

use super::{
    experiment,
    policy::{Mix, Policy},
    published::Published,
    reference::Reference,
    report::{self, Row},
    timing::{self, Timing},
    trace::{MIXES, Trace},
};

/// The options of `whalezen-sim fgd`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    traces: Traces,
    /// Only this mix of tasks, such as `default` or `gpushare40`; may be given several times. All 17 without it
    #[arg(long, value_name = "MIX")]
    mix: Vec<String>,
    /// How many seeds, from 42 on
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// A file with weights of which the figures are shown as well; may be given several times
    #[arg(long, value_name = "FILE")]
    weights: Vec<PathBuf>,
    /// Leave the published policies out
    #[arg(long)]
    ours: bool,
    /// Time decisions as well, on the nodes of the trace and on eight times as many
    #[arg(long)]
    timing: bool,
    /// Write all figures, run by run, into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The first seed, as in the paper.
const FIRST_SEED: u64 = 42;

/// Reads a file of weights.
pub fn read_weights(path: &PathBuf) -> Result<Weights> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} has no weights for this program", path.display()))
}

/// The weights that were learned on the openb trace and passed the judge.
pub fn learned() -> Result<Weights> {
    serde_json::from_str(include_str!("../../weights/openb.json"))
        .context("the learned weights of this program")
}

/// All that is written down.
#[derive(Serialize)]
struct Figures {
    rows: Vec<Row>,
    timings: Vec<Timing>,
}

/// Runs the experiment and prints its tables.
pub fn run(options: &Options) -> Result<()> {
    let mixes: Vec<&str> = if options.mix.is_empty() {
        MIXES.to_vec()
    } else {
        options.mix.iter().map(String::as_str).collect()
    };
    if let Some(unknown) = mixes.iter().find(|mix| !MIXES.contains(mix)) {
        bail!("there is no mix {unknown}; there are: {}", MIXES.join(", "));
    }
    let mut policies = Vec::new();
    if !options.ours {
        policies.extend(Published::ALL.map(Policy::Published));
    }
    policies.push(Policy::Ours(Arc::new(Weights::default())));
    policies.push(Policy::Ours(Arc::new(learned()?)));
    for path in &options.weights {
        policies.push(Policy::Ours(Arc::new(read_weights(path)?)));
    }
    let Some(trace) = Trace::find(options.traces.folder()) else {
        println!("skipped: there is no openb trace; {}", options.traces.how());
        return Ok(());
    };
    let reference = Reference::read(options.traces.folder())?;
    let nodes = trace.nodes()?;
    let mixes = mixes
        .into_iter()
        .map(|name| Ok(Mix::new(name, nodes.clone(), trace.tasks(name)?)))
        .collect::<Result<Vec<_>>>()?;
    let seeds = FIRST_SEED..FIRST_SEED + options.seeds;
    let mut jobs = Vec::new();
    for mix in &mixes {
        for policy in &policies {
            jobs.extend(seeds.clone().map(|seed| (mix, policy, seed)));
        }
    }
    let progress = Progress::new("openb", jobs.len());
    let runs = experiment::all(
        &jobs,
        |(mix, policy, seed)| experiment::run(policy, mix, *seed),
        || progress.step(),
    )?;
    drop(progress);
    let mut runs = runs.into_iter();
    let mut rows = Vec::new();
    for mix in &mixes {
        for policy in &policies {
            rows.push(Row::new(
                &mix.name,
                &policy.name(),
                runs.by_ref().take(seeds.clone().count()).collect(),
                &reference,
            ));
        }
    }
    print(&rows, &reference, options.seeds);
    let mut figures = Figures { rows, timings: Vec::new() };
    if options.timing {
        let ours = Policy::Ours(Arc::new(learned()?));
        for copies in [1, 8] {
            figures.timings.push(timing::time(&ours, &nodes, trace.tasks("default")?, copies)?);
        }
        println!(
            "\nOne decision with the learned weights, in time of a processor:\n{}",
            timing::table(&figures.timings)
        );
    }
    if let Some(path) = &options.json {
        fs::write(path, serde_json::to_string_pretty(&figures)? + "\n")
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn print(rows: &[Row], reference: &Reference, seeds: u64) {
    println!("Allocated GPUs in percent, mean of {seeds} seeds; in brackets the published figure.");
    let first = rows.first().map(|row| row.mix.clone()).unwrap_or_default();
    let of_first: Vec<_> = rows.iter().filter(|row| row.mix == first).cloned().collect();
    println!(
        "\n{first}, by how much of all GPUs had been asked for:\n{}",
        report::by_arrivals(&of_first, reference)
    );
    if rows.iter().any(|row| row.mix != first) {
        println!("\nAll mixes, when 130 % had been asked for:\n{}", report::by_mix(rows));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_learned_weights_are_weights() {
        let learned = super::learned().unwrap();
        assert_eq!(learned.name, "openb");
        assert_ne!(learned, whalezen_core::placement::Weights::default().named("openb", learned.version));
    }
}
