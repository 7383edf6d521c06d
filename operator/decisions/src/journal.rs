//! The journal: what plans were made from, as lines, and what comes of them when they are read again.
//!
//! It begins with a [`Snapshot`]. What the state was told follows, and for each plan the moment, the policy and a digest
//! of what it was. The plan itself is not there: it is made again. Now and then there is another snapshot, from which
//! a reader can begin too. As in all that the scheduler keeps there is no pod template in it, and so no environment
//! variable and no secret.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};
use whalezen_core::{
    plan::{Plan, Policy, plan},
    state::{Event, Snapshot, State, Step},
    workload::Timestamp,
};

/// A line of the journal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Entry {
    /// The state as it was when the record began, or went on after lines were lost.
    Began(Box<Snapshot>),
    /// The state that everything before it led to.
    Checkpoint(Box<Snapshot>),
    /// The state was told something.
    Told(Event),
    /// A plan was made and is followed.
    Planned {
        /// The moment it was made for.
        at: Timestamp,
        /// The policy it was made under, with its budget.
        policy: Policy,
        /// What it was.
        digest: Digest,
    },
    /// So many lines are missing here: the disk was full, or too slow.
    Missing(u64),
}

/// A digest of a plan. It tells plans apart that differ by mistake, not by intent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// Of a plan's bytes as JSON: the order of everything in it is that of the decisions or of names, so equal plans
    /// are equal bytes.
    pub fn of(plan: &Plan) -> serde_json::Result<Self> {
        let mut text = String::new();
        for byte in Sha1::digest(serde_json::to_vec(plan)?) {
            // Writing to a text does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Self(text))
    }

    /// As hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a line could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// It ends too early, as the last one of a process that was killed does.
    Torn,
    /// It is a snapshot of another version: its plans were made by other rules.
    OtherVersion(u32),
    /// It is damaged.
    Damaged(String),
}

/// Of a snapshot, what tells whether the rest can be read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Versioned {
    Began { version: u32 },
    Checkpoint { version: u32 },
}

impl Entry {
    /// The line for what happened.
    pub fn of(step: Step) -> serde_json::Result<Self> {
        Ok(match step {
            Step::Told(event) => Self::Told(event),
            Step::Planned(planned) => {
                Self::Planned { at: planned.at, digest: Digest::of(&planned.plan)?, policy: planned.policy }
            }
        })
    }

    /// Reads a line.
    pub fn read(line: &[u8]) -> Result<Self, Unreadable> {
        let version = match serde_json::from_slice(line) {
            Ok(Versioned::Began { version } | Versioned::Checkpoint { version }) => version,
            Err(_) => Snapshot::VERSION,
        };
        if version != Snapshot::VERSION {
            return Err(Unreadable::OtherVersion(version));
        }
        serde_json::from_slice(line).map_err(|problem| {
            if problem.is_eof() { Unreadable::Torn } else { Unreadable::Damaged(problem.to_string()) }
        })
    }

    /// Whether a reader can begin here.
    pub fn is_snapshot(&self) -> bool {
        matches!(self, Self::Began(_) | Self::Checkpoint(_))
    }
}

/// What is on record and what comes of it are not the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Difference {
    /// A plan that is made again is another one than was made.
    Plan {
        /// The moment it was made for.
        at: Timestamp,
        /// The digest of what was made.
        made: Digest,
        /// The digest of what is made now.
        again: Digest,
        /// What is made now.
        plan: Box<Plan>,
    },
    /// What was told leads to another state than there was.
    State {
        /// What there was.
        was: Box<Snapshot>,
        /// What comes of it now.
        comes: Box<Snapshot>,
    },
}

/// Why replay cannot go on.
#[derive(Debug)]
pub enum Stopped {
    /// Something differs.
    Differs(Difference),
    /// What is made now cannot be written.
    Unwritable(serde_json::Error),
}

/// A journal as it is played again.
#[derive(Debug, Default)]
pub struct Replay {
    state: Option<State>,
    /// How many plans agreed.
    pub plans: u64,
    /// From how many snapshots it went on.
    pub snapshots: u64,
    /// How many of those are the state that everything before them leads to.
    pub checked: u64,
    /// How many lines the journal says are missing.
    pub missing: u64,
    /// How many lines were passed over because it is not known what came before them.
    pub skipped: u64,
}

impl Replay {
    /// Plays the next entry again.
    pub fn next(&mut self, entry: Entry) -> Result<(), Stopped> {
        match (entry, &mut self.state) {
            (Entry::Began(snapshot), _) => self.begin(&snapshot),
            (Entry::Checkpoint(snapshot), state) => {
                if let Some(state) = state {
                    let comes = Snapshot::of(state, snapshot.now, &snapshot.policy);
                    if comes != *snapshot {
                        let comes = Box::new(comes);
                        return Err(Stopped::Differs(Difference::State { was: snapshot, comes }));
                    }
                    self.checked += 1;
                }
                self.begin(&snapshot);
            }
            (Entry::Missing(lines), _) => {
                self.missing += lines;
                self.lose_track();
            }
            (Entry::Told(_) | Entry::Planned { .. }, None) => self.skipped += 1,
            (Entry::Told(event), Some(state)) => state.tell(event),
            (Entry::Planned { at, policy, digest: made }, Some(state)) => {
                let plan = plan(state, at, &policy);
                let again = Digest::of(&plan).map_err(Stopped::Unwritable)?;
                if again != made {
                    let plan = Box::new(plan);
                    return Err(Stopped::Differs(Difference::Plan { at, made, again, plan }));
                }
                state.follow(&plan, at, &policy);
                self.plans += 1;
            }
        }
        Ok(())
    }

    /// What comes next is not what came next: nothing is played again before there is another snapshot.
    pub fn lose_track(&mut self) {
        self.state = None;
    }

    fn begin(&mut self, snapshot: &Snapshot) {
        self.state = Some(snapshot.state());
        self.snapshots += 1;
    }
}
