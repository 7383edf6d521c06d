//! EASY: whoever would not delay the head of the queue may go before it.

use crate::workload::Timestamp;

/// Somebody that holds capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// How much.
    pub width: i64,
    /// Until when, by the estimate.
    pub until: Timestamp,
}

/// Somebody that waits for capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asks {
    /// How much.
    pub width: i64,
    /// For how many milliseconds, by the estimate.
    pub run: i64,
}

/// What is kept for the head of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// Its place in the queue.
    pub head: usize,
    /// When it can start at the latest, if no estimate is too short; none if it asks for more than there will ever be.
    pub at: Option<Timestamp>,
    /// What will be left beside it then.
    pub spare: i64,
}

/// Who starts now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Backfill {
    /// Places in the queue, ascending.
    pub start: Vec<usize>,
    /// The first that does not fit, if there is one.
    pub reserved: Option<Reservation>,
}

/// Starts from the front of the queue whoever fits; for the first that does not, a moment is reserved, and of those
/// behind it everybody starts that fits and either ends by then or needs no more than what is spare then.
pub fn easy(now: Timestamp, free: i64, held: &[Held], queue: &[Asks]) -> Backfill {
    let mut free = free;
    let mut held = held.to_vec();
    let mut result = Backfill::default();
    let mut waiting = queue.iter().copied().enumerate();
    for (place, asks) in waiting.by_ref() {
        if asks.width > free {
            held.sort_by_key(|held| held.until);
            result.reserved = Some(reserve(now, free, &held, place, asks.width));
            break;
        }
        free -= asks.width;
        held.push(Held { width: asks.width, until: end(now, asks.run) });
        result.start.push(place);
    }
    if let Some(Reservation { at, spare, .. }) = &mut result.reserved {
        for (place, asks) in waiting {
            if asks.width > free {
                continue;
            }
            let in_time = at.is_none_or(|at| end(now, asks.run) <= at);
            if !in_time {
                if asks.width > *spare {
                    continue;
                }
                *spare -= asks.width;
            }
            free -= asks.width;
            result.start.push(place);
        }
    }
    result
}

fn end(now: Timestamp, run: i64) -> Timestamp {
    Timestamp(now.0.saturating_add(run.max(0)))
}

/// The first moment at which so much is free, if everybody ends when it is thought to; `held` is sorted.
fn reserve(now: Timestamp, free: i64, held: &[Held], place: usize, width: i64) -> Reservation {
    let mut available = free;
    let mut at = None;
    for one in held {
        // Who ends at the same moment gives back at the same moment.
        if at.is_some_and(|at| one.until > at) {
            break;
        }
        available += one.width;
        if at.is_none() && available >= width {
            at = Some(one.until.max(now));
        }
    }
    Reservation { head: place, at, spare: if at.is_some() { available - width } else { 0 } }
}
