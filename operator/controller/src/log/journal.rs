//! The journal's part of the log: what plans were made from.
//!
//! A journal is of use only from a snapshot on, and only as far as nothing is missing. So each file begins with a
//! snapshot, and after lines that were lost there is another one. Only the engine can make one: the writer says when one
//! is needed.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
        mpsc::SyncSender,
    },
    time::{Duration, Instant},
};

use prometheus_client::metrics::counter::Counter;
use whalezen_core::state::{Snapshot, Step};
use whalezen_decisions::journal::Entry;

use super::{Item, files::Files};

/// How long to wait until the next snapshot after one that did not help: they are large.
const PAUSE: Duration = Duration::from_secs(10);

/// Which snapshot the writer needs before it can go on.
#[derive(Clone, Debug, Default)]
struct Needs(Arc<AtomicU8>);

impl Needs {
    const NOTHING: u8 = 0;
    /// The file is full.
    const CHECKPOINT: u8 = 1;
    /// Lines were lost.
    const BEGINNING: u8 = 2;

    fn set(&self, need: u8) {
        self.0.store(need, Ordering::Relaxed);
    }

    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where the journal is handed in.
pub struct Journal {
    to: SyncSender<Item>,
    needs: Needs,
    dropped: Counter,
    /// Whether everything since the last snapshot was taken.
    whole: bool,
    /// How many lines were dropped since.
    missing: u64,
    /// Until when there is no other beginning.
    pause: Option<Instant>,
}

/// What is handed in.
pub enum Page {
    /// The state, and whether it is the one that what was handed in before leads to; if not, how many lines are missing.
    Snapshot {
        /// The state.
        snapshot: Box<Snapshot>,
        /// Whether nothing is missing.
        continues: bool,
        /// How much is.
        missing: u64,
    },
    /// What happened since.
    Step(Step),
}

/// A journal, and what writes it.
pub fn journal(to: SyncSender<Item>, files: Files, dropped: &Counter) -> (Journal, Writer) {
    let needs = Needs::default();
    let journal =
        Journal { to, needs: needs.clone(), dropped: dropped.clone(), whole: false, missing: 0, pause: None };
    let writer = Writer { files, needs, dropped: dropped.clone(), broken: false, asked: false, missing: 0 };
    (journal, writer)
}

impl Journal {
    /// Whether a snapshot is needed before anything else is of use.
    pub fn needs_snapshot(&self) -> bool {
        let paused = self.pause.is_some_and(|until| Instant::now() < until);
        match self.needs.get() {
            Needs::BEGINNING => !paused,
            Needs::CHECKPOINT if self.whole => true,
            _ => !self.whole && !paused,
        }
    }

    /// Hands in a snapshot. What happened before it has to be handed in before.
    pub fn begin(&mut self, snapshot: Snapshot) {
        let continues = self.whole && self.needs.get() != Needs::BEGINNING;
        self.needs.set(Needs::NOTHING);
        let page = Page::Snapshot { snapshot: Box::new(snapshot), continues, missing: self.missing };
        self.whole = self.to.try_send(Item::Journal(page)).is_ok();
        if self.whole {
            self.missing = 0;
        }
        if !continues || !self.whole {
            self.pause = Some(Instant::now() + PAUSE);
        }
    }

    /// Hands in what happened.
    pub fn write(&mut self, steps: Vec<Step>) {
        for step in steps {
            if self.whole && self.to.try_send(Item::Journal(Page::Step(step))).is_ok() {
                continue;
            }
            if self.whole {
                tracing::warn!("the journal is written too slowly: lines are dropped, and counted");
            }
            self.whole = false;
            self.missing += 1;
            self.dropped.inc();
        }
    }

    /// Nothing is planned any more. What happens until it is again is of no use.
    pub fn end(&mut self) {
        self.whole = false;
        self.pause = None;
    }
}

/// What writes a journal.
pub struct Writer {
    files: Files,
    needs: Needs,
    dropped: Counter,
    /// Whether a line could not be written and no snapshot since.
    broken: bool,
    /// Whether a snapshot was asked for because the file is full.
    asked: bool,
    /// How many lines were not written.
    missing: u64,
}

impl Writer {
    /// Writes a page. One that cannot be written is counted, and so are those that are of no use without it.
    pub fn write(&mut self, page: Page) {
        let written = match page {
            Page::Step(_) if self.broken => Err(None),
            Page::Step(step) => self.step(step).map_err(Some),
            Page::Snapshot { snapshot, continues, missing } => {
                self.missing += missing;
                self.snapshot(snapshot, continues).map_err(Some)
            }
        };
        if let Err(problem) = written {
            if let Some(problem) = problem.filter(|_| !self.broken) {
                tracing::warn!("the journal cannot be written, lines are dropped and counted: {problem}");
            }
            self.broken = true;
            self.missing += 1;
            self.dropped.inc();
            self.needs.set(Needs::BEGINNING);
        } else if self.files.is_full() && !self.asked {
            self.asked = true;
            self.needs.set(Needs::CHECKPOINT);
        }
    }

    fn step(&mut self, step: Step) -> io::Result<()> {
        self.files.append(&Entry::of(step)?)
    }

    fn snapshot(&mut self, snapshot: Box<Snapshot>, continues: bool) -> io::Result<()> {
        if self.missing > 0 {
            self.files.append(&Entry::Missing(self.missing))?;
            self.missing = 0;
        }
        if self.files.is_full() {
            self.files.begin_next()?;
        }
        let continues = continues && !self.broken;
        let entry = if continues { Entry::Checkpoint(snapshot) } else { Entry::Began(snapshot) };
        self.files.append_beginning(&entry)?;
        (self.broken, self.asked) = (false, false);
        if self.needs.get() == Needs::BEGINNING {
            self.needs.set(Needs::NOTHING);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
