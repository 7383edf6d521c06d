//! The decision log: lines go in without waiting, a thread of its own appends them to files, and readers read those.
//!
//! The engine never waits for a disk. What does not fit into the backlog, or cannot be written, is counted, and the log
//! says itself where lines are missing. Each line is handed to the system as soon as it is there, so a process that is
//! killed loses what waited and at most half a line of what was being written; a power cut may lose what the system had
//! not written yet.

mod files;

use std::{
    fs, io,
    path::Path,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

use prometheus_client::metrics::counter::Counter;
use whalezen_core::workload::Timestamp;
use whalezen_decisions::line::{Decision, Line, Mode};

use self::files::Files;
pub use self::files::{Limits, Wanted, wanted};

/// How many lines may wait for the disk. A line is some hundreds of bytes.
const BACKLOG: usize = 16_384;

/// Where lines are handed in.
pub struct DecisionLog {
    to: SyncSender<Line>,
    mode: Mode,
    dropped: Counter,
    /// How many were dropped since one was taken.
    missing: u64,
}

/// The writing thread. It ends when there is nobody any more who could hand in a line.
pub struct Writer(JoinHandle<()>);

impl Writer {
    /// Waits until everything is written.
    pub fn finish(self) {
        if self.0.join().is_err() {
            tracing::error!("the decision log's thread ended badly");
        }
    }
}

impl DecisionLog {
    /// Opens the log in a folder, which is made if need be, and starts its thread.
    pub fn start(folder: &Path, limits: Limits, mode: Mode, dropped: Counter) -> io::Result<(Self, Writer)> {
        fs::create_dir_all(folder)?;
        let files = Files::open(folder.to_owned(), limits)?;
        let (to, lines) = sync_channel(BACKLOG);
        let counter = dropped.clone();
        let thread = thread::Builder::new().name("decision-log".to_owned());
        let writer = thread.spawn(move || write_all(files, &lines, mode, &counter))?;
        Ok((Self { to, mode, dropped, missing: 0 }, Writer(writer)))
    }

    /// Hands in a line.
    pub fn write(&mut self, at: Timestamp, decision: Decision) {
        if self.missing > 0 {
            let gap = Line::new(at, self.mode, Decision::Dropped { lines: self.missing });
            if self.to.try_send(gap).is_ok() {
                self.missing = 0;
            }
        }
        if self.missing > 0 || self.to.try_send(Line::new(at, self.mode, decision)).is_err() {
            if self.missing == 0 {
                tracing::warn!("the decision log is written too slowly: lines are dropped, and counted");
            }
            self.missing += 1;
            self.dropped.inc();
        }
    }
}

/// Writes lines for as long as there may be more. Lines that cannot be written are counted; when one can be again, the
/// log says how many are missing before it.
fn write_all(mut files: Files, lines: &Receiver<Line>, mode: Mode, dropped: &Counter) {
    let mut missing = 0;
    for line in lines {
        let written = if missing > 0 {
            files.append(&Line { decision: Decision::Dropped { lines: missing }, mode, ..line.clone() })
        } else {
            Ok(())
        };
        if written.is_ok() {
            missing = 0;
        }
        if let Err(problem) = written.and_then(|()| files.append(&line)) {
            if missing == 0 {
                tracing::warn!(
                    "the decision log cannot be written, lines are dropped and counted: {problem}"
                );
            }
            missing += 1;
            dropped.inc();
        }
    }
}

#[cfg(test)]
mod tests;
