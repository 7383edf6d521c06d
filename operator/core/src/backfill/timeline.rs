//! How much is free from which moment on.

use std::{collections::BTreeMap, ops::Bound};

use crate::workload::Timestamp;

/// Capacity that is free, as a function of time: a step at each moment at which it changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timeline {
    /// Free from this moment until the next.
    steps: BTreeMap<Timestamp, i64>,
}

impl Timeline {
    /// So much is free for ever.
    pub fn new(free: i64) -> Self {
        Self { steps: BTreeMap::from([(Timestamp(i64::MIN), free)]) }
    }

    /// What is free at a moment. Below zero if more was taken than there is.
    pub fn free_at(&self, at: Timestamp) -> i64 {
        self.steps.range(..=at).next_back().map_or(0, |(_, &free)| free)
    }

    /// Takes an amount from a moment until another; a negative one gives it back.
    pub fn take(&mut self, from: Timestamp, until: Timestamp, amount: i64) {
        if from >= until || amount == 0 {
            return;
        }
        for moment in [from, until] {
            let free = self.free_at(moment);
            self.steps.entry(moment).or_insert(free);
        }
        for free in self.steps.range_mut(from..until).map(|(_, free)| free) {
            *free -= amount;
        }
        self.merge(from);
        self.merge(until);
    }

    /// A step that changes nothing is none.
    fn merge(&mut self, moment: Timestamp) {
        let before = self.steps.range(..moment).next_back().map(|(_, &free)| free);
        if before.is_some() && before == self.steps.get(&moment).copied() {
            self.steps.remove(&moment);
        }
    }

    /// Forgets what was before a moment.
    pub fn forget_before(&mut self, now: Timestamp) {
        let free = self.free_at(now);
        self.steps = self.steps.split_off(&now);
        self.steps.insert(Timestamp(i64::MIN), free);
        self.steps.remove(&now);
    }

    /// The next moment at which it changes.
    pub fn next_after(&self, at: Timestamp) -> Option<Timestamp> {
        self.steps.range((Bound::Excluded(at), Bound::Unbounded)).next().map(|(&moment, _)| moment)
    }

    /// The first moment, not before `from`, from which on so much is free for so many milliseconds. None if there is
    /// no such moment.
    pub fn earliest(&self, from: Timestamp, run: i64, width: i64) -> Option<Timestamp> {
        let mut start = (self.free_at(from) >= width).then_some(from);
        for (&moment, &free) in self.steps.range(from..) {
            match start {
                Some(begun) if moment.0 >= begun.0.saturating_add(run.max(1)) => return start,
                _ if free < width => start = None,
                None => start = Some(moment),
                Some(_) => {}
            }
        }
        start
    }
}
