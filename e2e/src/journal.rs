//! The journal of an operator, played again by the simulator that was built beside this program.

use std::path::Path;
use std::process::Command;
use std::{fs, str};

use anyhow::{Context as _, Result, bail};

use crate::replicas::built_simulator;

/// Plays the journal in the folder of a decision log again. Gives how many plans came out the same; fails if one did not,
/// if a line cannot be read, or if the journal says that lines are missing. An operator that planned nothing has kept
/// nothing.
pub fn replayed(log: &Path) -> Result<u64> {
    let mut kept = 0;
    for file in fs::read_dir(log)? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with("journal-") {
            kept += file.metadata()?.len();
        }
    }
    if kept == 0 {
        return Ok(0);
    }
    let replay = Command::new(built_simulator()?).args(["replay", "--journal"]).arg(log).output()?;
    let (said, problem) = (str::from_utf8(&replay.stdout)?, str::from_utf8(&replay.stderr)?);
    if !replay.status.success() || !said.contains(" 0 lines are missing") {
        bail!("{}: {said}{problem}", log.display());
    }
    let plans = said.split(' ').next().and_then(|plans| plans.parse().ok());
    plans.with_context(|| format!("the simulator says {said:?}"))
}
