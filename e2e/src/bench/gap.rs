//! How far the search for blocked gangs is from the best that there is.
//!
//! There is no peer to run beside it: what it is measured against is an integer program with the same constraints
//! ([`whalezen_planner::oracle`]), on clusters of up to 64 nodes that seeds make.

use anyhow::{Result, bail};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use whalezen_planner::gap::{Gap, Method, measure};

use super::{Benchmark, Measurement, Options};

const METHOD: Method = Method { first_seed: 1, instances: 200, most_nodes: 64, units: 500_000, tree: 300 };

/// The aims, as parts.
const MEAN: f64 = 0.02;
const WORST: f64 = 0.1;

/// The gap to the integer program.
pub struct MilpGap;

impl Benchmark for MilpGap {
    fn name(&self) -> &'static str {
        "placement/milp"
    }

    fn about(&self) -> &'static str {
        "the search for blocked gangs against an integer program, on 200 clusters"
    }

    fn run<'a>(&'a self, _options: &'a Options) -> BoxFuture<'a, Result<Vec<Measurement>>> {
        async { tokio::task::spawn_blocking(compare).await? }.boxed()
    }
}

#[allow(clippy::cast_precision_loss, reason = "there are 200")]
fn compare() -> Result<Vec<Measurement>> {
    let gaps = measure(&METHOD, |gap| {
        if gap.missing() > 0.04 {
            println!("seed {}: {:.2} % below {}", gap.seed, 100.0 * gap.missing(), gap.best.weighted);
        }
    })?;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let missing: Vec<f64> = gaps.iter().map(Gap::missing).collect();
    let spread: Vec<f64> = gaps.iter().filter_map(Gap::spread).collect();
    let worst = missing.iter().copied().fold(0.0, f64::max);
    let bounds = gaps.iter().filter(|gap| !gap.best.proven).count();
    println!(
        "{} instances: mean gap {:.2} %, worst {:.2} %; {bounds} against a bound; of {} with all that can be had, {:.2} % more racks than necessary",
        gaps.len(),
        100.0 * mean(&missing),
        100.0 * worst,
        spread.len(),
        100.0 * mean(&spread),
    );
    let measured = |what: &str, value: f64, aim: Option<f64>| Measurement {
        name: format!("placement/milp/{what}"),
        value: 100.0 * value,
        unit: "%".to_owned(),
        reference: aim.map(|aim| 100.0 * aim),
        reference_name: aim.map(|_| "the aim".to_owned()),
    };
    if mean(&missing) > MEAN || worst > WORST {
        bail!(
            "a mean gap of at most {} % and a worst of at most {} % were the aim",
            100.0 * MEAN,
            100.0 * WORST
        );
    }
    Ok(vec![
        measured("mean_gap", mean(&missing), Some(MEAN)),
        measured("worst_gap", worst, Some(WORST)),
        measured("mean_spread", mean(&spread), None),
    ])
}
