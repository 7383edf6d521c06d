//! What weights are worth: what they get allocated more than the published FGD.

use std::sync::Arc;

use anyhow::Result;
use whalezen_core::placement::{Class, Feature, Weights, WeightsError};

use crate::fgd::{
    experiment::{self, ARRIVALS, Outcome, spread},
    policy::{Mix, Policy},
    published::Published,
};

/// The weights that are searched for: those of terms that differ between nodes in the experiment. The weight of the
/// fragment stays 1, for only the ratios count.
pub fn searched() -> Vec<(Class, Feature)> {
    use Feature::{Cpu, Gpu, Idle, Opens, Part, Price, Size, Spare, Starved, Surplus};
    let host = [Cpu, Gpu, Idle, Size, Spare, Starved, Surplus];
    let part = [Cpu, Gpu, Part, Opens, Idle, Size, Spare, Starved, Surplus, Price];
    let whole = [Cpu, Gpu, Idle, Size, Spare, Starved, Surplus, Price];
    let of =
        |class, features: &[Feature]| features.iter().map(|feature| (class, *feature)).collect::<Vec<_>>();
    [of(Class::Host, &host), of(Class::Part, &part), of(Class::Whole, &whole)].concat()
}

/// The point at which weights lie.
pub fn point(weights: &Weights) -> Vec<f64> {
    searched().into_iter().map(|(class, feature)| weights.get(class, feature)).collect()
}

/// The weights at a point; those that are not searched for are the default ones.
pub fn weights(point: &[f64], name: &str, version: u32) -> Result<Weights, WeightsError> {
    let mut weights = Weights::default().named(name, version);
    for ((class, feature), value) in searched().into_iter().zip(point) {
        // Six digits are more than a score can tell apart, and a file of them can be read.
        weights.set(class, feature, (value * 1e6).round() / 1e6)?;
    }
    Ok(weights)
}

/// What of a loss counts beside it: it counts three times in all.
const FEAR: f64 = 2.0;

/// The mixes of a training, with what FGD gets on each.
pub struct Worth<'a> {
    mixes: &'a [Mix],
    fgd: Vec<f64>,
}

/// Where the runs end.
fn end(outcome: &Outcome) -> f64 {
    outcome.at(usize::try_from(ARRIVALS).unwrap_or_default())
}

impl<'a> Worth<'a> {
    /// The worth on these mixes. FGD is run on these seeds: it takes long, and what it gets differs little from seed to seed.
    pub fn new(mixes: &'a [Mix], seeds: &[u64]) -> Result<Self> {
        let jobs: Vec<_> = mixes.iter().flat_map(|mix| seeds.iter().map(move |seed| (mix, *seed))).collect();
        let fgd = Policy::Published(Published::Fgd);
        let runs = experiment::all(
            &jobs,
            |(mix, seed)| experiment::run(&fgd, mix, *seed).map(|run| end(&run)),
            || (),
        )?;
        Ok(Self { mixes, fgd: runs.chunks(seeds.len().max(1)).map(|runs| spread(runs).0).collect() })
    }

    /// What each candidate is worth on the arrivals of a seed, in points of allocated GPUs; `done` is called after each run.
    pub fn of(&self, candidates: &[Arc<Weights>], seed: u64, done: impl Fn() + Sync) -> Result<Vec<f64>> {
        let policies: Vec<_> = candidates.iter().map(|weights| Policy::Ours(Arc::clone(weights))).collect();
        let jobs: Vec<_> =
            policies.iter().flat_map(|policy| self.mixes.iter().map(move |mix| (policy, mix))).collect();
        let runs = experiment::all(
            &jobs,
            |(policy, mix)| experiment::run(policy, mix, seed).map(|run| end(&run)),
            done,
        )?;
        let worth = |(allocated, fgd): (&f64, &f64)| {
            let gain = allocated - fgd;
            gain + FEAR * gain.min(0.0)
        };
        let mean =
            |allocated: &[f64]| spread(&allocated.iter().zip(&self.fgd).map(worth).collect::<Vec<_>>()).0;
        Ok(runs.chunks(self.mixes.len().max(1)).map(mean).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_and_points_are_the_same_thing() {
        let start = point(&Weights::default());
        let weights = weights(&start, "default", 1).unwrap();
        assert_eq!(weights, Weights::default());
        assert!(super::weights(&[1e9], "x", 1).is_err());
        assert!(super::weights(&[f64::NAN], "x", 1).is_err());
    }
}
