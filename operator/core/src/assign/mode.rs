//! What a flavor is worth to a request.

use std::cmp::Reverse;

use crate::queue::{Fungibility, Preference, WhenCanBorrow, WhenCanPreempt};

/// How the quota of a flavor answers a request. Later is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Answer {
    /// There would be room for it, but nobody can be preempted for it.
    NoCandidates,
    /// There is room for it if others of the same ClusterQueue are preempted.
    Preempt,
    /// There is room for it if others of the cohort are, or once those have stopped who were told to already.
    Reclaim,
    /// There is room for it.
    Fit,
}

/// An answer, and how far up has to be borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mode {
    pub(super) answer: Answer,
    pub(super) borrowing: u32,
}

impl Mode {
    /// Whether this is better than the other, by the queue's preference. What cannot be had in this attempt is
    /// always worse than what can.
    pub(super) fn is_better_than(self, other: Self, preference: Preference) -> bool {
        let rank = |mode: Self| {
            let possible = mode.answer != Answer::NoCandidates;
            let (answer, borrowing) = (mode.answer, Reverse(mode.borrowing));
            match preference {
                Preference::BorrowingOverPreemption => (possible, Some(answer), borrowing, None),
                Preference::PreemptionOverBorrowing => (possible, None, borrowing, Some(answer)),
            }
        };
        rank(self) > rank(other)
    }

    /// Whether later flavors are looked at although this one will do.
    pub(super) fn goes_on(self, fungibility: Fungibility) -> bool {
        match self.answer {
            Answer::NoCandidates => true,
            Answer::Preempt | Answer::Reclaim
                if fungibility.when_can_preempt == WhenCanPreempt::TryNextFlavor =>
            {
                true
            }
            _ => self.borrowing > 0 && fungibility.when_can_borrow == WhenCanBorrow::TryNextFlavor,
        }
    }
}
