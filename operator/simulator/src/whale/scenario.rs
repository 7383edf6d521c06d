//! The variants of the example, and the answers.

use whalezen_core::sequence::Grid;

use crate::{
    engine::{Costs, HOUR, MINUTE, Millis, Pool},
    policy::{Kind, Optimised, Policy},
    trace::{Job, Trace},
};

/// The run times of C that there are answers for, in hours.
pub const D_HOURS: [i64; 3] = [4, 2, 12];

/// How jobs are scheduled in a variant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// By a policy that is known.
    By(Kind),
    /// By ours, with A as it is.
    OursRigid,
    /// By ours, with A on as many GPUs as there are.
    OursElastic(Grid),
}

/// A variant.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// What it is called in tables.
    pub name: &'static str,
    /// What it is called in benchmarks.
    pub slug: &'static str,
    /// The mean completion time in hours, for each of [`D_HOURS`].
    pub mean_h: [f64; 3],
    /// When A, B and C are submitted, in hours.
    submit_h: [i64; 3],
    costs: Costs,
    how: How,
}

const FREE: Costs = Costs { save: 0, restore: 0, resize: 0 };

/// A checkpoint cycle: half of it to save and half of it to restore.
const fn cycle(time: Millis) -> Costs {
    Costs { save: time / 2, restore: time / 2, resize: 0 }
}

const ALL_AT_ONCE: [i64; 3] = [0, 0, 0];
const ONE_BY_ONE: [i64; 3] = [0, 24, 48];

/// The variants.
pub const SCENARIOS: [Scenario; 14] = [
    Scenario {
        name: "S1 all at 0, FCFS",
        slug: "s1_fcfs",
        mean_h: [172.333, 170.667, 179.0],
        submit_h: ALL_AT_ONCE,
        costs: FREE,
        how: How::By(Kind::Fcfs),
    },
    Scenario {
        name: "S1 all at 0, EASY",
        slug: "s1_easy",
        mean_h: [172.333, 170.667, 179.0],
        submit_h: ALL_AT_ONCE,
        costs: FREE,
        how: How::By(Kind::Easy),
    },
    Scenario {
        name: "S1 ours, A rigid (optimum)",
        slug: "s1_rigid",
        mean_h: [19.333, 17.667, 26.0],
        submit_h: ALL_AT_ONCE,
        costs: cycle(5 * MINUTE),
        how: How::OursRigid,
    },
    Scenario {
        name: "S1 ours, A malleable",
        slug: "s1_malleable",
        mean_h: [18.562, 16.844, 25.438],
        submit_h: ALL_AT_ONCE,
        costs: FREE,
        how: How::OursElastic(Grid::Any),
    },
    Scenario {
        name: "S1 ours, A malleable, whole nodes",
        slug: "s1_whole_nodes",
        mean_h: [18.583, 16.854, 25.5],
        submit_h: ALL_AT_ONCE,
        costs: FREE,
        how: How::OursElastic(Grid::Multiples(8)),
    },
    Scenario {
        name: "S1 ours, A malleable, powers of two",
        slug: "s1_powers_of_two",
        mean_h: [18.833, 17.167, 25.5],
        submit_h: ALL_AT_ONCE,
        costs: FREE,
        how: How::OursElastic(Grid::PowersOfTwo),
    },
    Scenario {
        name: "S2 A at 0, B at 24, C at 48 h, FCFS",
        slug: "s2_fcfs",
        mean_h: [130.333, 128.667, 137.0],
        submit_h: ONE_BY_ONE,
        costs: FREE,
        how: How::By(Kind::Fcfs),
    },
    Scenario {
        name: "S2 EASY",
        slug: "s2_easy",
        mean_h: [130.333, 128.667, 137.0],
        submit_h: ONE_BY_ONE,
        costs: FREE,
        how: How::By(Kind::Easy),
    },
    Scenario {
        name: "S2 ours, a checkpoint cycle for nothing",
        slug: "s2_preempt_0",
        mean_h: [19.667, 17.833, 27.0],
        submit_h: ONE_BY_ONE,
        costs: FREE,
        how: How::OursRigid,
    },
    Scenario {
        name: "S2 ours, a cycle of 5 min",
        slug: "s2_preempt_5min",
        mean_h: [19.719, 17.885, 27.052],
        submit_h: ONE_BY_ONE,
        costs: cycle(5 * MINUTE),
        how: How::OursRigid,
    },
    Scenario {
        name: "S2 ours, a cycle of 30 min",
        slug: "s2_preempt_30min",
        mean_h: [19.979, 18.146, 27.312],
        submit_h: ONE_BY_ONE,
        costs: cycle(30 * MINUTE),
        how: How::OursRigid,
    },
    Scenario {
        name: "S2 ours, A malleable",
        slug: "s2_malleable",
        mean_h: [18.562, 16.844, 25.438],
        submit_h: ONE_BY_ONE,
        costs: FREE,
        how: How::OursElastic(Grid::Any),
    },
    Scenario {
        name: "S2 ours, whole nodes, 5 min lost a resize",
        slug: "s2_whole_nodes_5min",
        mean_h: [18.611, 16.882, 25.528],
        submit_h: ONE_BY_ONE,
        costs: Costs { resize: 5 * MINUTE, ..cycle(5 * MINUTE) },
        how: How::OursElastic(Grid::Multiples(8)),
    },
    Scenario {
        name: "S3 B, C at 0, A at 2 h, FCFS",
        slug: "s3_fcfs",
        mean_h: [19.167, 17.5, 25.833],
        submit_h: [2, 0, 0],
        costs: FREE,
        how: How::By(Kind::Fcfs),
    },
];

impl Scenario {
    /// Eight servers of eight GPUs.
    pub fn pool(&self) -> Pool {
        Pool::of(64).with_costs(self.costs)
    }

    /// The twelve jobs, with a run time of C in hours.
    pub fn trace(&self, d: i64) -> Trace {
        let [a, b, c] = self.submit_h;
        let least = match self.how {
            How::OursElastic(Grid::Any) => 1,
            How::OursElastic(_) => 8,
            How::By(_) | How::OursRigid => 64,
        };
        let job = |name: String, submit: i64, hours: i64, gpus: i64, least: i64| Job {
            name,
            user: String::new(),
            queue: String::new(),
            submit: submit * HOUR,
            run: hours * HOUR,
            gpus,
            least,
        };
        let mut jobs = vec![job("A".to_owned(), a, 168, 64, least), job("B".to_owned(), b, 12, 8, 8)];
        jobs.extend((1..=10).map(|number| job(format!("C{number}"), c, d, 2, 2)));
        Trace::new(jobs)
    }

    /// How it is scheduled.
    pub fn policy(&self, pool: Pool) -> Box<dyn Policy> {
        match self.how {
            How::By(kind) => kind.policy(pool),
            How::OursRigid => Box::new(Optimised::new(Grid::Any)),
            How::OursElastic(grid) => Box::new(Optimised::new(grid)),
        }
    }
}
