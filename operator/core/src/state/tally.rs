//! Counts of a queue.

use super::places::Place;
use crate::quantity::{Sums, Usage};

/// Counts of a ClusterQueue or a LocalQueue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Workloads that wait.
    pub pending: usize,
    /// Workloads that hold quota.
    pub reserving: usize,
    /// Workloads that hold quota and may run.
    pub admitted: usize,
    /// What the reserving ones hold, where it is not nothing.
    pub reserved: Usage,
    /// What the admitted ones hold, where it is not nothing.
    pub used: Usage,
}

/// A tally that is kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pending: usize,
    reserving: usize,
    admitted: usize,
    reserved: Sums,
    used: Sums,
}

/// Whether a workload comes or goes.
#[derive(Clone, Copy)]
pub(super) enum Count {
    Up,
    Down,
}

impl Count {
    fn step(self, number: &mut usize) {
        match self {
            Self::Up => *number += 1,
            Self::Down => *number = number.saturating_sub(1),
        }
    }

    fn add(self, sums: &mut Sums, usage: &Usage) {
        for (resource, amount) in usage {
            let amount = i128::from(amount.0);
            sums.add(resource, if matches!(self, Self::Up) { amount } else { -amount });
        }
    }
}

impl Counts {
    pub(super) fn count(&mut self, place: &Place, by: Count) {
        match place {
            Place::Queued { .. } | Place::Blocked { .. } => by.step(&mut self.pending),
            Place::Holding { usage, admitted, .. } => {
                by.step(&mut self.reserving);
                by.add(&mut self.reserved, usage);
                if *admitted {
                    by.step(&mut self.admitted);
                    by.add(&mut self.used, usage);
                }
            }
            Place::Out => {}
        }
    }
}

impl From<&Counts> for Tally {
    fn from(counts: &Counts) -> Self {
        Self {
            pending: counts.pending,
            reserving: counts.reserving,
            admitted: counts.admitted,
            reserved: counts.reserved.usage(),
            used: counts.used.usage(),
        }
    }
}
