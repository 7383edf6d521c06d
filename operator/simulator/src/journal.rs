//! The journal of an operator, played again from the oldest file that is left.

use std::{
    fmt,
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use whalezen_core::plan::Plan;
use whalezen_decisions::{
    file::Kind,
    journal::{Difference, Entry, Replay, Stopped, Unreadable},
};

use crate::replay;

/// A line of a file.
#[derive(Clone, Debug)]
pub struct Place {
    file: PathBuf,
    line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// What came of a journal.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was played again.
    pub replay: Replay,
    /// The ends of processes that were killed.
    pub torn: u64,
    /// The lines that cannot be read, and why.
    pub unreadable: Vec<(Place, String)>,
}

impl Outcome {
    /// Fails if not every line could be read, or there was nothing to play.
    pub fn check(&self) -> Result<()> {
        if !self.unreadable.is_empty() {
            bail!("{} lines cannot be read; what follows each was left out up to the next snapshot", {
                self.unreadable.len()
            });
        }
        if self.replay.snapshots == 0 {
            bail!("there is no snapshot to begin with");
        }
        Ok(())
    }
}

/// In one paragraph.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, problem) in &self.unreadable {
            writeln!(f, "{place}: {problem}")?;
        }
        let Replay { plans, snapshots, checked, missing, skipped, .. } = &self.replay;
        write!(
            f,
            "{plans} plans agree, byte for byte; {snapshots} snapshots, {checked} of which follow from the one "
        )?;
        write!(f, "before; {missing} lines are missing, {} torn, {skipped} passed over", self.torn)
    }
}

/// Plays a folder's journal again, in the order in which it was written. Fails at the first plan that comes out
/// differently.
pub fn replay(folder: &Path) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut torn: Option<Place> = None;
    for file in files(folder)? {
        let mut lines = BufReader::new(File::open(&file).with_context(|| reading(&file))?);
        for number in 1.. {
            let mut line = Vec::new();
            if lines.read_until(b'\n', &mut line).with_context(|| reading(&file))? == 0 {
                break;
            }
            let place = Place { file: file.clone(), line: number };
            let read = Entry::read(line.trim_ascii());
            // Whoever is killed leaves half a line, and the next begins with a snapshot.
            if let Some(place) = torn.take() {
                if read.as_ref().is_ok_and(Entry::is_snapshot) {
                    outcome.torn += 1;
                } else {
                    outcome.unreadable.push((place, "it ends too early".to_owned()));
                }
            }
            match read {
                Ok(entry) => outcome.replay.next(entry).or_else(|stopped| explain(&place, stopped))?,
                Err(problem) => {
                    outcome.replay.lose_track();
                    match problem {
                        Unreadable::Torn => torn = Some(place),
                        Unreadable::Damaged(problem) => outcome.unreadable.push((place, problem)),
                        Unreadable::OtherVersion(version) => {
                            outcome.unreadable.push((place, replay::other_version(version)));
                        }
                    }
                }
            }
        }
    }
    outcome.torn += u64::from(torn.is_some());
    Ok(outcome)
}

/// The files, the oldest first.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| reading(folder))? {
        let entry = entry?;
        files.extend(
            entry.file_name().to_str().and_then(|name| Kind::Journal.number(name)).zip(Some(entry.path())),
        );
    }
    files.sort();
    if files.is_empty() {
        bail!("there is no journal in {}", folder.display());
    }
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

fn reading(path: &Path) -> String {
    format!("reading {}", path.display())
}

/// Fails with what differs at this place.
fn explain(place: &Place, stopped: Stopped) -> Result<()> {
    match stopped {
        Stopped::Differs(Difference::Plan { at, made, again, plan }) => bail!(
            "{place}: the plan of {} ms after 1970 was made with digest {}, and comes out with digest {} ({}):\n{}",
            at.0,
            made.as_str(),
            again.as_str(),
            size(&plan),
            replay::print(&plan)?
        ),
        Stopped::Differs(Difference::State { was, comes }) => replay::check_state(&comes, &was)
            .with_context(|| format!("{place}: what is on record leads to another state than there was")),
        Stopped::Unwritable(problem) => {
            Err(problem).with_context(|| format!("{place}: the plan cannot be written"))
        }
    }
}

fn size(plan: &Plan) -> String {
    let Plan { admit, evict, hold, park, .. } = plan;
    format!("admits {}, evicts {}, keeps for {}, parks {}", admit.len(), evict.len(), hold.len(), park.len())
}
