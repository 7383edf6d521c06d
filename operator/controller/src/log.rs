//! The decision log, and beside it the journal of what was decided on: lines go in without waiting, a thread of its own
//! appends them to files, and readers read those.
//!
//! The engine never waits for a disk. What does not fit into the backlog, or cannot be written, is counted, and the log
//! says itself where lines are missing. Each line is handed to the system as soon as it is there, so a process that is
//! killed loses what waited and at most half a line of what was being written; a power cut may lose what the system had
//! not written yet.

mod files;
mod journal;

use std::{
    fs, io,
    path::Path,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

use prometheus_client::metrics::counter::Counter;
use whalezen_core::workload::Timestamp;
use whalezen_decisions::{
    file::Kind,
    line::{Decision, Line, Mode},
};

use self::files::Files;
pub use self::{
    files::{Limits, Wanted, wanted},
    journal::Journal,
};

/// How many lines may wait for the disk. A line is some hundreds of bytes.
const BACKLOG: usize = 16_384;

/// What waits for the disk.
enum Item {
    Decision(Line),
    Journal(journal::Page),
}

/// Where lines are handed in.
pub struct DecisionLog {
    /// What decisions were made from.
    pub journal: Journal,
    to: SyncSender<Item>,
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
        let (to, items) = sync_channel(BACKLOG);
        let files = Files::open(folder.to_owned(), Kind::Decisions, limits)?;
        let decisions = Decisions { files, mode, dropped: dropped.clone(), missing: 0 };
        let files = Files::open(folder.to_owned(), Kind::Journal, limits)?;
        let (journal, journal_writer) = journal::journal(to.clone(), files, &dropped);
        let thread = thread::Builder::new().name("decision-log".to_owned());
        let writer = thread.spawn(move || write_all(decisions, journal_writer, &items))?;
        Ok((Self { journal, to, mode, dropped, missing: 0 }, Writer(writer)))
    }

    /// Hands in a line.
    pub fn write(&mut self, at: Timestamp, decision: Decision) {
        if self.missing > 0 {
            let gap = Line::new(at, self.mode, Decision::Dropped { lines: self.missing });
            if self.to.try_send(Item::Decision(gap)).is_ok() {
                self.missing = 0;
            }
        }
        let line = Item::Decision(Line::new(at, self.mode, decision));
        if self.missing > 0 || self.to.try_send(line).is_err() {
            if self.missing == 0 {
                tracing::warn!("the decision log is written too slowly: lines are dropped, and counted");
            }
            self.missing += 1;
            self.dropped.inc();
        }
    }
}

/// Writes for as long as there may be more.
fn write_all(mut decisions: Decisions, mut journal: journal::Writer, items: &Receiver<Item>) {
    for item in items {
        match item {
            Item::Decision(line) => decisions.write(&line),
            Item::Journal(page) => journal.write(page),
        }
    }
}

/// What writes decisions.
struct Decisions {
    files: Files,
    mode: Mode,
    dropped: Counter,
    /// How many lines were not written since one was.
    missing: u64,
}

impl Decisions {
    /// Writes a line. One that cannot be written is counted; when one can be again, the log says how many are missing
    /// before it.
    fn write(&mut self, line: &Line) {
        if let Err(problem) = self.append(line) {
            if self.missing == 0 {
                tracing::warn!(
                    "the decision log cannot be written, lines are dropped and counted: {problem}"
                );
            }
            self.missing += 1;
            self.dropped.inc();
        }
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        if self.files.is_full() {
            self.files.begin_next()?;
        }
        if self.missing > 0 {
            let decision = Decision::Dropped { lines: self.missing };
            self.files.append(&Line { decision, mode: self.mode, ..line.clone() })?;
            self.missing = 0;
        }
        self.files.append(line)
    }
}

#[cfg(test)]
mod tests;
