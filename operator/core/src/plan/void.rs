//! Cycles that come to nothing.
//!
//! A head may only fit if somebody stops whom an [earlier](crate::preempt::Earlier) cycle of the same plan admitted. Kueue
//! would have those stop, since it believes its admissions from one cycle to the next. Here they are written first: the plan
//! ends as it was before that cycle, and the next one begins with the same heads.

use super::{Plan, Planning, entry::Kind};
use crate::preempt::Earlier;

/// How far a plan was at some moment.
pub(super) struct Extent {
    admit: usize,
    evict: usize,
    hold: usize,
    park: usize,
    yielded: usize,
}

impl Extent {
    pub(super) fn of(Plan { admit, evict, hold, park, yielded, more: _ }: &Plan) -> Self {
        Self {
            admit: admit.len(),
            evict: evict.len(),
            hold: hold.len(),
            park: park.len(),
            yielded: yielded.len(),
        }
    }

    /// Takes back what the plan came to since.
    pub(super) fn restore(&self, plan: &mut Plan) {
        plan.admit.truncate(self.admit);
        plan.evict.truncate(self.evict);
        plan.hold.truncate(self.hold);
        plan.park.truncate(self.park);
        plan.yielded.truncate(self.yielded);
    }
}

impl Planning<'_> {
    /// The cycle comes to nothing if the way to what a head would get leads over somebody of an earlier one.
    pub(super) fn note_way(&mut self, kind: &Kind<'_>, earlier: &Earlier) {
        if let Kind::Preempts(victims) = kind {
            self.is_void |= earlier.has_any_of(victims);
        }
    }
}
