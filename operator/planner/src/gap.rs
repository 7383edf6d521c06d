//! How far the search of the core is from the best, on instances made by seeds.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use whalezen_core::placement::{
    TaskMix, Weights,
    improve::{Budget, Change, JobId, Leave, Place, Snapshot, SnapshotError, improve},
};

use crate::{
    instance,
    oracle::{self, Best, OracleError},
};

/// How the two are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Method {
    /// Instances are those of this seed and the following.
    pub first_seed: u64,
    /// How many.
    pub instances: u64,
    /// How many nodes they have at most.
    pub most_nodes: u32,
    /// The budget of the search.
    pub units: u64,
    /// Nodes of the solver's search tree.
    pub tree: u64,
}

/// One instance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gap {
    /// Its seed.
    pub seed: u64,
    /// GPUs times weight before the search.
    pub before: i64,
    /// GPUs times weight after it.
    pub ours: i64,
    /// In how many racks gangs are after it.
    pub racks: i64,
    /// The best.
    pub best: Best,
}

/// Why the two cannot be compared.
#[derive(Debug, Error, PartialEq)]
pub enum GapError {
    /// The search does not take the instance.
    #[error(transparent)]
    Search(#[from] SnapshotError),
    /// There is nothing to compare it with.
    #[error("seed {0}: {1}")]
    Oracle(u64, OracleError),
    /// A proposal cannot be carried out.
    #[error("seed {0}: what is proposed cannot be done: {1}")]
    Impossible(u64, String),
    /// More than the best: one of the two is wrong.
    #[error("seed {0}: the search has {1} and the best is {2}")]
    Above(u64, i64, f64),
}

impl Gap {
    /// What is missing of the best, as a part of it.
    #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
    pub fn missing(&self) -> f64 {
        if self.best.weighted > 0.0 { 1.0 - self.ours as f64 / self.best.weighted } else { 0.0 }
    }

    /// How many racks more than necessary gangs are in, as a part of those; `None` unless there is as much as in the best.
    #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
    pub fn spread(&self) -> Option<f64> {
        let racks = self.best.racks.filter(|racks| *racks > 0.0)?;
        (self.missing() <= 0.0).then(|| self.racks as f64 / racks - 1.0)
    }
}

/// Compares the two on every instance; `tell` is told of each.
pub fn measure(method: &Method, mut tell: impl FnMut(&Gap)) -> Result<Vec<Gap>, GapError> {
    let seeds = (method.first_seed..).take(usize::try_from(method.instances).unwrap_or(usize::MAX));
    let mut gaps = Vec::new();
    for seed in seeds {
        let gap = compare(seed, method)?;
        tell(&gap);
        gaps.push(gap);
    }
    Ok(gaps)
}

#[allow(clippy::cast_precision_loss, reason = "a few thousand")]
fn compare(seed: u64, method: &Method) -> Result<Gap, GapError> {
    let snapshot = instance(seed, method.most_nodes)?;
    let before = worth(&snapshot, &at_home(&snapshot));
    let budget = Budget { units: method.units, seed, horizon: 1000 };
    let improvement = improve(&snapshot, &TaskMix::default(), Weights::default(), &budget)?;
    let mut at = at_home(&snapshot);
    for proposal in &improvement.proposals {
        proposal.verify(&snapshot).map_err(|refusal| GapError::Impossible(seed, refusal.to_string()))?;
        for change in &proposal.changes {
            match change {
                Change::Start { job, on: to } | Change::Move { job, to, .. } => {
                    at.insert(*job, to.as_slice())
                }
                Change::Stop { job, .. } => at.remove(job),
            };
        }
    }
    let (ours, racks) = worth(&snapshot, &at);
    let best = oracle::best(&snapshot, method.tree).map_err(|problem| GapError::Oracle(seed, problem))?;
    if ours as f64 > best.weighted + 1e-6 {
        return Err(GapError::Above(seed, ours, best.weighted));
    }
    Ok(Gap { seed, before: before.0, ours, racks, best })
}

fn at_home(snapshot: &Snapshot) -> BTreeMap<JobId, &[Place]> {
    snapshot.residents.iter().map(|resident| (resident.job.id, resident.on.as_slice())).collect()
}

/// GPUs times weight, and in how many racks gangs are, of those that may leave or wait.
fn worth(snapshot: &Snapshot, at: &BTreeMap<JobId, &[Place]>) -> (i64, i64) {
    let rack: BTreeMap<_, _> = snapshot.nodes.iter().map(|node| (&node.name, node.domains.first())).collect();
    let residents = snapshot.residents.iter().filter(|resident| resident.leave != Leave::Never);
    let jobs =
        residents.map(|resident| &resident.job).chain(snapshot.blocked.iter().map(|blocked| &blocked.job));
    let (mut weighted, mut racks) = (0, 0);
    for job in jobs {
        let Some(on) = at.get(&job.id) else { continue };
        let gpus = i64::from(job.shape.count()) * i64::try_from(on.len()).unwrap_or_default();
        weighted += i64::from(job.weight) * gpus;
        let used: BTreeSet<_> = on.iter().map(|place| rack.get(&place.node)).collect();
        racks += i64::try_from(used.len()).unwrap_or_default();
    }
    (weighted, racks)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few small ones: what the benchmark does with two hundred.
    #[test]
    fn the_search_is_near_the_best_and_never_above_it() {
        let method = Method { first_seed: 1, instances: 8, most_nodes: 16, units: 20_000, tree: 200 };
        let gaps = measure(&method, |_| {}).unwrap();
        let mean = gaps.iter().map(Gap::missing).sum::<f64>() / 8.0;
        let worst = gaps.iter().map(Gap::missing).fold(0.0, f64::max);
        assert!(mean < 0.02 && worst < 0.1, "mean {mean}, worst {worst}: {gaps:?}");
        assert!(gaps.iter().any(|gap| gap.ours > gap.before), "and it does something: {gaps:?}");
    }
}
