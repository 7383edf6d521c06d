//! `whalezen-sim train`: searches for weights, or judges some.

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use whalezen_core::placement::Weights;

use crate::{
    fgd::{
        command::read_weights,
        policy::Mix,
        trace::{MIXES, Trace},
    },
    progress::Progress,
    traces::Traces,
};

use super::{
    judge::{are_better, judge, table},
    search::Search,
    worth::{self, Worth},
};

/// The options of `whalezen-sim train`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    traces: Traces,
    /// Where the weights are written if they are better than the default ones
    #[arg(long, value_name = "FILE", required_unless_present = "check")]
    out: Option<PathBuf>,
    /// Train nothing, and judge the weights in this file
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    check: Option<PathBuf>,
    /// Begin at the weights in this file and not at the default ones; the new ones are its next version
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// What the weights are called
    #[arg(long, default_value = "learned")]
    name: String,
    /// How many generations are searched
    #[arg(long, default_value_t = 60)]
    generations: u32,
    /// How many candidates are tried in each
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(4..=1000))]
    population: u16,
    /// How long the first steps are
    #[arg(long, default_value_t = 0.05)]
    step: f64,
    /// The seed of the search
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The mixes that are trained on: some of each family. The others are seen by the judge only.
const MIXTURE: [&str; 8] =
    ["default", "cpu100", "cpu250", "gpushare60", "gpushare100", "gpuspec10", "gpuspec33", "multigpu30"];

/// The seeds of the judge; training begins far from them.
const JUDGED: std::ops::Range<u64> = 42..52;
const TRAINED: u64 = 1_000_000;

/// Trains or judges.
pub fn run(options: &Options) -> Result<()> {
    let Some(trace) = Trace::find(options.traces.folder()) else {
        println!("skipped: there is no openb trace; {}", options.traces.how());
        return Ok(());
    };
    let nodes = trace.nodes()?;
    let mixes = |names: &[&str]| {
        names
            .iter()
            .map(|name| Ok(Mix::new(name, nodes.clone(), trace.tasks(name)?)))
            .collect::<Result<Vec<_>>>()
    };
    let weights = match &options.check {
        Some(path) => read_weights(path)?,
        None => search(options, &mixes(&MIXTURE)?)?,
    };
    let seeds: Vec<_> = JUDGED.collect();
    let progress = Progress::new("judging", MIXES.len() * seeds.len() * 3);
    let verdicts = judge(&weights, &mixes(&MIXES)?, &seeds, || progress.step())?;
    drop(progress);
    println!("{}", table(&verdicts));
    are_better(&verdicts).map_err(|why| anyhow!("these weights are not to be used: {why}"))?;
    if let Some(path) = &options.out {
        fs::write(path, serde_json::to_string_pretty(&weights)? + "\n")
            .with_context(|| format!("writing {}", path.display()))?;
        println!("{} {} is in {}", weights.name, weights.version, path.display());
    }
    Ok(())
}

/// Searches from the default weights on, or from others.
fn search(options: &Options, mixes: &[Mix]) -> Result<Weights> {
    let start = options.from.as_ref().map(read_weights).transpose()?;
    let version = start.as_ref().map_or(1, |start| start.version + 1);
    let start = worth::point(&start.unwrap_or_default());
    let population = usize::from(options.population);
    let mut search = Search::new(start, options.step, population, options.seed);
    let worth = Worth::new(mixes, &[TRAINED - 2, TRAINED - 1])?;
    let runs = usize::try_from(options.generations).unwrap_or_default() * population * mixes.len();
    let progress = Progress::new("training", runs);
    for generation in 0..options.generations {
        let points = search.ask();
        let seed = TRAINED + options.seed * 1000 + u64::from(generation);
        let candidate = |point: &Vec<f64>| Ok(Arc::new(worth::weights(point, &options.name, version)?));
        let candidates = points.iter().map(candidate).collect::<Result<Vec<_>>>()?;
        let worths = worth.of(&candidates, seed, || progress.step())?;
        search.tell(&points, &worths);
        let best = worths.iter().copied().fold(f64::MIN, f64::max);
        eprintln!("generation {generation}: the best is worth {best:.3}, steps are {:.4}", search.step());
        // What was found so far is not lost with the process.
        if let Some(path) = &options.out {
            let so_far = worth::weights(search.mean(), &options.name, version)?;
            fs::write(path.with_extension("partial.json"), serde_json::to_string_pretty(&so_far)? + "\n")?;
        }
    }
    if let Some(path) = &options.out {
        let _ = fs::remove_file(path.with_extension("partial.json"));
    }
    Ok(worth::weights(search.mean(), &options.name, version)?)
}
