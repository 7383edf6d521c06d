//! The lowest of what was seen in the last minute. Pure.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// How far one looks back.
const WINDOW: Duration = Duration::from_mins(1);

/// What is seen within this time counts as one: so there are sixty numbers at most, however often one looks.
const STEP: Duration = Duration::from_secs(1);

/// The lowest of what was seen in the last minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Low(VecDeque<(Instant, u64)>);

impl Low {
    /// Something was seen. Times do not go backwards.
    pub fn note(&mut self, value: u64, now: Instant) {
        self.0.retain(|(at, _)| now.saturating_duration_since(*at) < WINDOW);
        match self.0.back_mut() {
            Some((at, lowest)) if now.saturating_duration_since(*at) < STEP => *lowest = value.min(*lowest),
            _ => self.0.push_back((now, value)),
        }
    }

    /// The lowest, if anything was seen.
    pub fn lowest(&self) -> Option<u64> {
        self.0.iter().map(|(_, value)| *value).min()
    }

    /// How many numbers are kept.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
