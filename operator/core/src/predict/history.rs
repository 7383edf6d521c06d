//! The jobs that are known, and which of them a job resembles.

use std::collections::BTreeMap;

use super::{Forecast, LifeTable};
use crate::workload::Timestamp;

/// As many jobs before and after one in its group are looked at.
const NEIGHBOURS: usize = 60;
/// After so many places in the group a neighbour counts by e less.
const NEAR: f64 = 3.0;
/// After so many milliseconds a neighbour counts half.
const A_DAY: f64 = 86_400_000.0;
/// As many neighbours those of the same width count as much as.
const WIDTH_COUNTS: f64 = 1.0;
/// As many jobs of the same width all count as much as.
const ALL_COUNT: f64 = 5.0;

/// What a job says of itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Description {
    /// Whose it is.
    pub user: String,
    /// What it is called. Digits at the end are not looked at: jobs that recur are numbered.
    pub name: String,
    /// The GPUs that it asks for.
    pub width: i64,
}

impl Description {
    /// Those that recur together.
    fn group(&self) -> Self {
        let stem =
            self.name.trim_end_matches(|letter: char| letter.is_ascii_digit() || "-_.".contains(letter));
        Self { name: stem.to_owned(), user: self.user.clone(), width: self.width }
    }
}

struct Known {
    group: Description,
    /// Its place in its group.
    place: usize,
    submitted: Timestamp,
    ran: i64,
    ended: bool,
}

/// All jobs that are known: those that ended, and those that wait or run.
pub struct History<K> {
    jobs: BTreeMap<K, Known>,
    groups: BTreeMap<Description, Vec<K>>,
    widths: BTreeMap<i64, LifeTable>,
    all: LifeTable,
}

impl<K: Copy + Ord> Default for History<K> {
    fn default() -> Self {
        Self {
            jobs: BTreeMap::new(),
            groups: BTreeMap::new(),
            widths: BTreeMap::new(),
            all: LifeTable::default(),
        }
    }
}

impl<K: Copy + Ord> History<K> {
    /// A job was submitted.
    pub fn submitted(&mut self, who: K, description: &Description, submitted: Timestamp) {
        let group = description.group();
        let members = self.groups.entry(group.clone()).or_default();
        let place = members.len();
        members.push(who);
        self.jobs.insert(who, Known { group, place, submitted, ran: 0, ended: false });
    }

    /// A job ran for so many milliseconds so far, and ended or not.
    pub fn ran(&mut self, who: K, ran: i64, ended: bool) {
        let Some(known) = self.jobs.get_mut(&who) else { return };
        let tables = [&mut self.all, self.widths.entry(known.group.width).or_default()];
        for table in tables {
            if known.ran > 0 || known.ended {
                table.count(known.ran, known.ended, -1.0);
            }
            if ran > 0 || ended {
                table.count(ran, ended, 1.0);
            }
        }
        known.ran = ran;
        known.ended = ended;
    }

    /// How long a job that is known will run on.
    pub fn forecast(&self, who: K) -> Option<Forecast> {
        let known = self.jobs.get(&who)?;
        let all = self.all.hazards(&LifeTable::nothing_known(), 2.0);
        let width = match self.widths.get(&known.group.width) {
            Some(table) => table.hazards(&all, ALL_COUNT),
            None => all,
        };
        let near = self.neighbours(who, known).hazards(&width, WIDTH_COUNTS);
        Some(Forecast::new(&near, known.ran))
    }

    #[allow(clippy::cast_precision_loss, reason = "a weight, not a quantity")]
    fn neighbours(&self, who: K, known: &Known) -> LifeTable {
        let mut table = LifeTable::default();
        let from = known.place.saturating_sub(NEIGHBOURS);
        let members = self.groups.get(&known.group).into_iter().flatten();
        for other in members.skip(from).take(2 * NEIGHBOURS + 1).filter(|&&other| other != who) {
            let Some(other) = self.jobs.get(other).filter(|other| other.ran > 0 || other.ended) else {
                continue;
            };
            let apart = other.place.abs_diff(known.place) as f64;
            let time = (other.submitted.0 - known.submitted.0).unsigned_abs() as f64;
            table.count(other.ran, other.ended, libm::exp(-apart / NEAR) / (1.0 + time / A_DAY));
        }
        table
    }
}
