//! Traces: the jobs that are played, and the files that they come from.
//!
//! Four formats are read, told apart by their first line: the Philly CSV of `ElasticFlow` and Sia, Gavel's
//! tab-separated traces, the openb pod lists of the FGD paper, and our own as CSV or JSON lines ([`own`]). What a
//! format lacks is empty: no trace but our own has users or names of jobs that recur.

mod gavel;
mod generate;
mod openb;
pub mod own;
mod philly;
mod place;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use thiserror::Error;

pub use generate::{Shape, generate};
pub use place::{NoTraces, folder};

use crate::engine::{Millis, SECOND};

/// A job of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// What it is called.
    pub name: String,
    /// Whose it is; empty where the trace does not say.
    pub user: String,
    /// Its queue or virtual cluster; empty where the trace does not say.
    pub queue: String,
    /// When it is submitted.
    pub submit: Millis,
    /// For how long it runs on all the GPUs that it asks for.
    pub run: Millis,
    /// How many it asks for.
    pub gpus: i64,
    /// With how few it can run, more slowly in proportion; as many as it asks for if it is rigid.
    pub least: i64,
}

/// The most GPUs that a job may ask for, and the most time, so that their product is an integer with room to spare.
const MOST_GPUS: i64 = 1 << 20;
const MOST_TIME: Millis = 1 << 38;

/// What is wrong with a trace.
#[derive(Debug, Error)]
pub enum TraceError {
    /// It cannot be read.
    #[error("{}: {problem}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        problem: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("line {line}: {problem}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// It is in no format that is known.
    #[error("this is no trace that can be read: it begins with {0:?}")]
    UnknownFormat(String),
    /// There is nothing to play.
    #[error("there is no job in it{0}")]
    Empty(String),
    /// What a format needs beside the trace.
    #[error("{0}")]
    Needs(String),
}

/// Jobs in the order of their arrival; those of one moment in the order of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    jobs: Vec<Job>,
}

impl Trace {
    /// Puts jobs in order, the first arriving at 0.
    pub fn new(mut jobs: Vec<Job>) -> Self {
        jobs.sort_by_key(|job| job.submit);
        let first = jobs.first().map_or(0, |job| job.submit);
        for job in &mut jobs {
            job.submit -= first;
        }
        Self { jobs }
    }

    /// The jobs in the order of their arrival.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// The jobs of one queue alone.
    pub fn of_queue(&self, queue: &str) -> Result<Self, TraceError> {
        let jobs: Vec<_> = self.jobs.iter().filter(|job| job.queue == queue).cloned().collect();
        if jobs.is_empty() {
            let queues: Vec<_> = self.queues().into_keys().collect();
            return Err(TraceError::Empty(format!(
                " of the queue {queue}; there are: {}",
                queues.join(", ")
            )));
        }
        Ok(Self::new(jobs))
    }

    /// The queues, and how many jobs each has.
    pub fn queues(&self) -> BTreeMap<&str, usize> {
        let mut queues = BTreeMap::new();
        for job in &self.jobs {
            *queues.entry(job.queue.as_str()).or_default() += 1;
        }
        queues
    }

    /// As many GPUs as are busy for this part of the time, in thousandths, if the jobs were spread evenly from the
    /// first arrival to the last; at least as many as the widest job needs.
    pub fn gpus_for_load(&self, thousandths: i64) -> i64 {
        let work: i128 = self.jobs.iter().map(|job| i128::from(job.run) * i128::from(job.gpus)).sum();
        let span = self.jobs.last().map_or(1, |job| job.submit.max(1));
        let by = i128::from(span) * i128::from(thousandths.max(1));
        let gpus = i64::try_from((2 * work * 1000 + by) / (2 * by)).unwrap_or(MOST_GPUS);
        gpus.max(self.jobs.iter().map(|job| job.least).max().unwrap_or(1))
    }
}

/// Reads a trace in whatever format it is.
pub fn read(file: &Path) -> Result<Trace, TraceError> {
    let beside = || read_text(&file.with_file_name("simulation_throughputs.json"));
    parse(&read_text(file)?, &beside)
}

/// Reads a trace from its text; Gavel's needs the table of throughputs that lies beside it.
fn parse(text: &str, throughputs: &dyn Fn() -> Result<String, TraceError>) -> Result<Trace, TraceError> {
    let first =
        text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
    let jobs = match first {
        line if line == philly::HEADER => philly::read(text)?,
        line if line == openb::HEADER => openb::read(text)?,
        line if line.starts_with(own::HEADER_START) => own::read_csv(text)?,
        line if line.starts_with('{') => own::read_json_lines(text)?,
        line if line.contains('\t') => gavel::read(text, throughputs)?,
        line => return Err(TraceError::UnknownFormat(line.chars().take(80).collect())),
    };
    if jobs.is_empty() {
        return Err(TraceError::Empty(String::new()));
    }
    Ok(Trace::new(jobs))
}

fn read_text(file: &Path) -> Result<String, TraceError> {
    fs::read_to_string(file).map_err(|problem| TraceError::Unreadable { file: file.to_owned(), problem })
}

/// Numbers the lines of a file and names the one that is wrong.
fn each_line<T>(
    lines: impl Iterator<Item = (usize, impl AsRef<str>)>,
    mut read: impl FnMut(usize, &str) -> Result<Option<T>, String>,
) -> Result<Vec<T>, TraceError> {
    let mut all = Vec::new();
    for (index, line) in lines {
        let line = line.as_ref();
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let found = read(index + 1, line).map_err(|problem| TraceError::Line { line: index + 1, problem })?;
        all.extend(found);
    }
    Ok(all)
}

/// Splits a line into exactly so many fields.
fn fields<const N: usize>(line: &str, separator: char) -> Result<[&str; N], String> {
    let all: Vec<&str> = line.split(separator).map(str::trim).collect();
    let count = all.len();
    all.try_into().map_err(|_| format!("it has {count} fields and not {N}"))
}

/// A time in seconds, with or without decimals, none before zero.
fn seconds(what: &str, text: &str) -> Result<Millis, String> {
    let value: f64 = text.parse().map_err(|_| format!("{what} is {text:?}, which is no number"))?;
    from_seconds(value)
        .ok_or_else(|| format!("{what} is {text}, which is not from 0 to {}", MOST_TIME / SECOND))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the range is checked first")]
fn from_seconds(value: f64) -> Option<Millis> {
    let millis = value * SECOND as f64;
    (0.0..=MOST_TIME as f64).contains(&millis).then(|| libm::round(millis) as Millis)
}

/// A number of GPUs.
fn gpus(what: &str, text: &str) -> Result<i64, String> {
    let gpus: i64 = text.parse().map_err(|_| format!("{what} is {text:?}, which is no whole number"))?;
    if (1..=MOST_GPUS).contains(&gpus) {
        Ok(gpus)
    } else {
        Err(format!("{what} is {gpus}, which is not from 1 to {MOST_GPUS}"))
    }
}

#[cfg(test)]
mod tests;
