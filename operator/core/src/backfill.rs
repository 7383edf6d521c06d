//! Who may go before somebody that waits, without making it wait longer: backfilling with estimates of run times.
//!
//! [`easy`] keeps a place for the first in the queue only (Lifka 1995: the IBM SP's EASY-LoadLeveler); [`Promises`]
//! keeps one for everybody (conservative backfilling, Mu'alem and Feitelson 2001). Both know capacity as one number,
//! and estimates as given: a run time may be declared, predicted or known.

mod easy;
mod promises;
mod timeline;

pub use easy::{Asks, Backfill, Held, Reservation, easy};
pub use promises::{Promise, Promises};
pub use timeline::Timeline;

#[cfg(test)]
mod tests;
