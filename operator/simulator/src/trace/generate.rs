//! Traces that are made up, of the shape of real ones: a few wide and long jobs among many small ones, users who
//! submit the same job again and again, and bursts.

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use super::{Job, Trace};
use crate::engine::{HOUR, MINUTE, Millis};

/// What a made-up trace is like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    /// How many jobs.
    pub jobs: usize,
    /// The GPUs of the cluster that they are for; no job is wider.
    pub gpus: i64,
    /// The part of them that is busy on average.
    pub load: f64,
}

/// A job that some user submits again and again.
struct Recurring {
    name: String,
    user: String,
    width: i64,
    /// Its usual time.
    run: f64,
    /// How far it is from that: the standard deviation of the logarithm.
    spread: f64,
}

/// A trace of a shape; the same for the same seed.
pub fn generate(shape: Shape, seed: u64) -> Trace {
    let mut dice = StdRng::seed_from_u64(seed);
    let kinds: Vec<Recurring> =
        (0..(shape.jobs / 12).clamp(3, 60)).map(|number| kind(&mut dice, shape, number)).collect();
    let mut jobs = Vec::with_capacity(shape.jobs);
    while jobs.len() < shape.jobs {
        let Some(kind) = kinds.get(dice.random_range(0..kinds.len())) else { break };
        let burst = if dice.random_bool(0.2) { dice.random_range(2..9) } else { 1 };
        // Where it falls is scaled below, so that the load comes out right.
        let at = dice.random_range(0.0..1.0);
        for number in 0..burst.min(shape.jobs - jobs.len()) {
            let run = kind.run * libm::exp(kind.spread * normal(&mut dice));
            jobs.push((at, number, kind, millis(run).clamp(5_000, 400 * HOUR)));
        }
    }
    let work: f64 = jobs.iter().map(|&(_, _, kind, run)| float(run) * float(kind.width)).sum();
    let span = work / (float(shape.gpus) * shape.load.clamp(0.01, 10.0));
    let jobs = jobs.into_iter().map(|(at, number, kind, run)| Job {
        name: kind.name.clone(),
        user: kind.user.clone(),
        queue: "generated".to_owned(),
        submit: millis(at * span) + Millis::try_from(number).unwrap_or(0) * 3_000,
        run,
        gpus: kind.width,
        least: kind.width,
    });
    Trace::new(jobs.collect())
}

fn kind(dice: &mut StdRng, shape: Shape, number: usize) -> Recurring {
    let exponent: u32 = *[0, 0, 0, 0, 0, 1, 2, 2, 3, 4].get(dice.random_range(0..10)).unwrap_or(&0);
    let median = libm::exp(dice.random_range(libm::log(2.0)..libm::log(2000.0))) * float(MINUTE);
    Recurring {
        name: format!("job-{number}"),
        user: format!("user-{}", number / 3),
        width: 2_i64.pow(exponent).min(shape.gpus),
        run: median,
        spread: dice.random_range(0.05..0.8),
    }
}

/// A normal deviate (Box and Muller 1958).
fn normal(dice: &mut StdRng) -> f64 {
    let radius: f64 = dice.random_range(f64::MIN_POSITIVE..1.0);
    let angle: f64 = dice.random_range(0.0..std::f64::consts::TAU);
    libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(angle)
}

#[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
fn float(value: i64) -> f64 {
    value as f64
}

#[allow(clippy::cast_possible_truncation, reason = "far below 2^63")]
fn millis(value: f64) -> Millis {
    libm::round(value.clamp(0.0, 1e15)) as Millis
}
