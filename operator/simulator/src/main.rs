//! `whalezen-sim`: the scheduler on a laptop.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use whalezen_simulator::{compare, elastic_memory, fgd, journal, philly, replay, run, sharing, train, whale};

/// Plays decisions of the operator again, and tries policies in virtual time.
#[derive(Parser)]
#[command(name = "whalezen-sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Prints the plan that the operator made from the state in a snapshot, or makes all plans of a journal again.
    Replay {
        /// The snapshot.
        #[arg(required_unless_present = "journal")]
        file: Option<PathBuf>,
        /// Print nothing, and fail unless the plan is the one in this file, byte for byte.
        #[arg(long, value_name = "PLAN", requires = "file")]
        check: Option<PathBuf>,
        /// The folder of an operator's decision log. Say how many of its plans come out the same again, and fail at the
        /// first that does not.
        #[arg(long, value_name = "DIR", conflicts_with = "file")]
        journal: Option<PathBuf>,
    },
    /// Plays a trace under policies, to a table, JSON, CSV and a page with plots
    Run(run::Arguments),
    /// Compares policies on the same made-up traces, with confidence intervals
    Compare(compare::Arguments),
    /// Plays the experiment of the document on the market for GPU memory, beside reference answers
    Gen(elastic_memory::Arguments),
    /// Plays three virtual clusters of the Philly trace under every policy, beside reference answers
    Philly(philly::Arguments),
    /// Plays the worked example of the document on Whale, beside reference answers
    Whale(whale::Arguments),
    /// Fills the cluster of the openb trace under the published placement policies and ours, beside reference answers
    Fgd(fgd::command::Options),
    /// Searches for placement weights on a mixture of workloads, and keeps them if they beat the default on others
    Train(train::command::Options),
    /// Counts the gangs that a tenant loses by sharing a cluster, under three kinds of quota
    Sharing(sharing::Arguments),
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Action::Run(arguments) => run::execute(&arguments),
        Action::Compare(arguments) => compare::execute(&arguments),
        Action::Gen(arguments) => elastic_memory::execute(&arguments),
        Action::Philly(arguments) => philly::execute(&arguments),
        Action::Whale(arguments) => whale::execute(&arguments),
        Action::Fgd(options) => fgd::command::run(&options),
        Action::Train(options) => train::command::run(&options),
        Action::Sharing(arguments) => sharing::execute(&arguments),
        Action::Replay { file, check, journal } => {
            if let Some(folder) = journal {
                let outcome = journal::replay(&folder)?;
                println!("{outcome}");
                outcome.check()?;
            }
            file.map_or(Ok(()), |file| replay_file(&file, check.as_deref()))
        }
    }
}

fn replay_file(file: &Path, check: Option<&Path>) -> Result<()> {
    let plan = replay::replay(&replay::read(&text(file)?)?)?;
    if let Some(expected) = check {
        return replay::check(&plan, &text(expected)?);
    }
    print!("{plan}");
    Ok(())
}

fn text(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}
