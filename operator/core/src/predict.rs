//! How long jobs will run, from those that ran before.
//!
//! A job resembles those of the same user, the same kind of name and the same width, most of all those submitted just
//! before and after it; if there are few, those of its width; if there are few of these, all ([`History`]). Each of these
//! levels is a *life table*: of the jobs that reached an age, how many ended there ([`LifeTable`]). Those that still run
//! count for the ages that they reached, so a prediction is not biased towards short jobs, and one for a job that ran for
//! an hour already is about jobs that ran for an hour.
//!
//! What is predicted orders and backfills, and decides nothing else. [`aged`] keeps it from starving anybody.

mod history;
mod life_table;

pub use history::{Description, History};
pub use life_table::{Forecast, LifeTable};

/// A rank that shrinks the longer its job waits: by half after `patience` milliseconds, without bound after that. In
/// whatever order others come, a job that waits is first at some time.
#[allow(clippy::cast_precision_loss, reason = "a rank, not a quantity")]
pub fn aged(rank: f64, waited: i64, patience: i64) -> f64 {
    rank / (1.0 + waited.max(0) as f64 / patience.max(1) as f64)
}

#[cfg(test)]
mod tests;
