//! How many ended at which age, of those that reached it.

/// Five classes of age for each factor of four, from a second to some 14 years.
const CLASSES: usize = 72;
/// Milliseconds at which the first class ends.
const FIRST: f64 = 1000.0;
/// Classes in a factor of two.
const A_DOUBLING: f64 = 2.5;

/// The class of an age in milliseconds.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "it is between 0 and the number of classes"
)]
fn class(age: i64) -> usize {
    let doublings = libm::log2((age as f64 / FIRST).max(1.0));
    ((doublings * A_DOUBLING) as usize).min(CLASSES - 1)
}

/// The age at which a class begins.
#[allow(clippy::cast_precision_loss, reason = "a small number")]
fn begin(class: usize) -> f64 {
    if class == 0 { 0.0 } else { FIRST * libm::exp2(class as f64 / A_DOUBLING) }
}

/// Of jobs, how many ended in each class of age, and how many were seen up to it and not further.
#[derive(Clone, PartialEq, Debug)]
pub struct LifeTable {
    ended: Vec<f64>,
    last_seen: Vec<f64>,
}

impl Default for LifeTable {
    fn default() -> Self {
        Self { ended: vec![0.0; CLASSES], last_seen: vec![0.0; CLASSES] }
    }
}

impl LifeTable {
    /// Counts a job that was seen up to an age, and ended there or runs still; a negative weight takes it out again.
    pub fn count(&mut self, age: i64, ended: bool, weight: f64) {
        let class = class(age);
        let seen = self.last_seen.get_mut(class).into_iter();
        let over = ended.then(|| self.ended.get_mut(class)).flatten();
        for number in seen.chain(over) {
            *number += weight;
        }
    }

    /// The part of those that reach each class that end in it. Where few did, what is known otherwise counts as much as
    /// so many jobs.
    pub fn hazards(&self, otherwise: &[f64], as_many_as: f64) -> Vec<f64> {
        let mut reached = 0.0;
        let mut hazards: Vec<f64> = (0..CLASSES)
            .rev()
            .map(|class| {
                reached += self.last_seen.get(class).copied().unwrap_or_default();
                let ended = self.ended.get(class).copied().unwrap_or_default();
                let prior = otherwise.get(class).copied().unwrap_or_default();
                ((ended + as_many_as * prior) / (reached + as_many_as)).clamp(0.0, 1.0)
            })
            .collect();
        hazards.reverse();
        hazards
    }

    /// What is believed of jobs when none was seen: in each class one in ten ends.
    pub fn nothing_known() -> Vec<f64> {
        vec![0.1; CLASSES]
    }
}

/// How long a job will run on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Forecast {
    /// The Gittins index: the least expected time for each end, in milliseconds, over all times for which one could run
    /// it. Whoever has the least goes first; with sizes that are certain it is the time that is left.
    pub index: f64,
    /// For how long one runs it for that, in milliseconds; then it is worth asking again.
    pub for_now: i64,
    /// In half of all cases it runs on for no longer than this, in milliseconds.
    pub median: i64,
    /// In nine of ten cases.
    pub most: i64,
}

impl Forecast {
    /// Of a job that ran for so long, by the part of jobs that end in each class of age.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "ages are far below 2^53"
    )]
    pub fn new(hazards: &[f64], age: i64) -> Self {
        let age = age.max(0) as f64;
        let (mut alive, mut expected) = (1.0, 0.0);
        let mut forecast = Self { index: f64::INFINITY, for_now: i64::MAX, median: i64::MAX, most: i64::MAX };
        for (class, &hazard) in hazards.iter().enumerate().skip(class(age as i64)) {
            let (from, until) = (begin(class).max(age), begin(class + 1));
            let span = until - from;
            if span <= 0.0 {
                continue;
            }
            // Of a class of which a part is over, so much is to come.
            let part = span / (until - begin(class));
            let hazard = 1.0 - libm::pow(1.0 - hazard, part);
            let before = alive;
            expected += alive * (1.0 - hazard / 2.0) * span;
            alive *= 1.0 - hazard;
            let index = expected / (1.0 - alive).max(1e-12);
            if index < forecast.index {
                forecast.index = index;
                forecast.for_now = (until - age) as i64;
            }
            // Between the ends of a class in proportion.
            let crossing = |left: f64| (from + span * ((before - left) / (before - alive)) - age) as i64;
            if before > 0.5 && alive <= 0.5 {
                forecast.median = crossing(0.5);
            }
            if before > 0.1 && alive <= 0.1 {
                forecast.most = crossing(0.1);
            }
        }
        forecast
    }
}
