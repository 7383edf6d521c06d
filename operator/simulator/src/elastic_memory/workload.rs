//! The tasks of the experiment, drawn once for all policies.

use clap::ValueEnum;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

/// The memory of the GPU, in GB.
pub const MEMORY: i64 = 40;
/// How many tasks there are.
pub const TASKS: usize = 20;

/// When tasks arrive. The document's comment and its code say different things.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Arrivals {
    /// Each after a time of its own, 10 s on average: all within about 35 s, as the document's code has it
    Iid,
    /// One every 10 s on average, as the document's comment has it
    Poisson,
}

/// A task.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Task {
    /// When it arrives, in seconds.
    pub arrival: f64,
    /// The memory that it would like, in GB.
    pub need: i64,
    /// For how long it runs with that, in seconds.
    pub duration: f64,
    /// How well it does with less: of what is missing, so much costs no time. 1 is fully elastic. (The document calls 1
    /// rigid, and its formula says otherwise; the formula holds.)
    pub elasticity: f64,
}

impl Task {
    /// With less than half of its need it does not run.
    pub fn least(&self) -> i64 {
        self.need / 2
    }

    /// How fast it runs with so much memory, beside how fast with all that it needs: the document's law.
    pub fn speed(&self, memory: i64) -> f64 {
        if memory >= self.need {
            return 1.0;
        }
        if memory < self.least() {
            return 0.0;
        }
        let shortage = super::gigabytes(self.need) / super::gigabytes(memory);
        1.0 / (1.0 + (shortage - 1.0) * (1.0 - self.elasticity))
    }

    /// The memory times the seconds that it takes with so much memory from beginning to end.
    pub fn memory_time(&self, memory: i64) -> f64 {
        super::gigabytes(memory) * self.duration / self.speed(memory)
    }
}

/// The tasks of a seed, in the order of arrival.
pub fn draw(arrivals: Arrivals, seed: u64) -> Vec<Task> {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut clock = 0.0;
    let mut tasks: Vec<Task> = (0..TASKS)
        .map(|_| {
            let gap = -10.0 * libm::log(1.0 - dice.random_range(0.0..1.0));
            clock += gap;
            Task {
                arrival: if arrivals == Arrivals::Iid { gap } else { clock },
                need: *[8, 16, 24, 30, 32].get(dice.random_range(0..5)).unwrap_or(&32),
                duration: dice.random_range(20.0..60.0),
                elasticity: dice.random_range(0.3..0.9),
            }
        })
        .collect();
    tasks.sort_by(|one, other| one.arrival.total_cmp(&other.arrival));
    tasks
}
