//! The least mean completion time by search, with what checkpoints cost: [`whalezen_core::sequence`]. Sizes are known.

use whalezen_core::sequence::{Costs, Grid, Instance, Standing, Task};

use super::Policy;
use crate::engine::{Active, Cluster, Decision, JobIndex, Phase};

/// How many of those that have least left are looked at; others wait until they are among them.
const WINDOW: usize = 24;
/// Asks anew, whenever something happens, for the order that leads to the least sum of completion times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Optimised {
    /// How many GPUs jobs that can do with fewer may be given.
    pub grid: Grid,
    /// How many jobs are placed in one search: its budget.
    pub budget: u64,
}

impl Optimised {
    /// With the usual budget, of some milliseconds.
    pub fn new(grid: Grid) -> Self {
        Self { grid, budget: 30_000 }
    }
}

impl Policy for Optimised {
    fn name(&self) -> &'static str {
        match self.grid {
            Grid::Any => "ours, sizes known",
            Grid::Multiples(_) => "ours, whole nodes",
            Grid::PowersOfTwo => "ours, powers of two",
        }
    }

    fn decide(&mut self, cluster: &Cluster<'_>, decision: &mut Decision) {
        let looked_at = looked_at(cluster);
        let tasks =
            looked_at.iter().filter_map(|index| Some(task(cluster, cluster.active.get(index)?))).collect();
        let instance =
            Instance { capacity: cluster.pool.gpus, grid: self.grid, costs: costs(cluster), tasks };
        let Some(best) = instance.best(self.budget) else { return };
        decision.run.extend(looked_at.into_iter().zip(best.now).filter(|&(_, gpus)| gpus > 0));
        // What is stopped holds its GPUs still while it saves.
        decision.run.retain(|(index, _)| {
            cluster.active.get(index).is_some_and(|active| active.phase != Phase::Saving)
        });
    }
}

/// Whoever holds GPUs, and of those that wait the ones that have the least left.
fn looked_at(cluster: &Cluster<'_>) -> Vec<JobIndex> {
    let (holding, waiting): (Vec<_>, Vec<_>) =
        cluster.active.values().partition(|active| active.phase != Phase::Waiting);
    let mut waiting: Vec<_> =
        waiting.into_iter().map(|active| (active.work_left(cluster.now), active.index)).collect();
    waiting.sort_unstable();
    waiting.truncate(WINDOW);
    let mut all: Vec<_> = holding
        .into_iter()
        .map(|active| active.index)
        .chain(waiting.into_iter().map(|(_, index)| index))
        .collect();
    all.sort_unstable();
    all
}

fn costs(cluster: &Cluster<'_>) -> Costs {
    let costs = cluster.pool.costs;
    Costs { save: costs.save, restore: costs.restore, resize: costs.resize }
}

fn task(cluster: &Cluster<'_>, active: &Active<'_>) -> Task {
    let held = active.held;
    let lasts = active.lasts(cluster.now, cluster.pool.costs);
    let standing = match active.phase {
        Phase::Waiting if active.first_start.is_some() => Standing::Stopped,
        Phase::Waiting => Standing::Fresh,
        Phase::Restoring => Standing::On { held, restoring: lasts },
        Phase::Running => Standing::On { held, restoring: 0 },
        Phase::Saving => Standing::Saving { held, saving: lasts },
    };
    let costs = cluster.pool.costs;
    Task {
        width: active.job.gpus,
        least: active.job.least,
        work: active.work_left(cluster.now),
        standing,
        // Every restart is for at least as much work as it costs.
        may_stop: active.stops == 0 || active.on_since_start(cluster.now) >= costs.save + costs.restore,
    }
}
