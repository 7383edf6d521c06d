//! `whalezen-sim`: the scheduler on a laptop.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use whalezen_simulator::replay;

/// Plays decisions of the operator again, away from the cluster.
#[derive(Parser)]
#[command(name = "whalezen-sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Prints the plan that the operator made from the state in a snapshot.
    Replay {
        /// The snapshot.
        file: PathBuf,
        /// Print nothing, and fail unless the plan is the one in this file, byte for byte.
        #[arg(long, value_name = "PLAN")]
        check: Option<PathBuf>,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Action::Replay { file, check } => {
            let snapshot = replay::read(&text(&file)?)?;
            let plan = replay::replay(&snapshot)?;
            if let Some(expected) = check {
                return replay::check(&plan, &text(&expected)?);
            }
            print!("{plan}");
            Ok(())
        }
    }
}

fn text(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}
