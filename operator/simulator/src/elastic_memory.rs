//! `whalezen-sim gen`: the experiment of the document on the market for GPU memory, made right, beside reference answers.
//!
//! One GPU of 40 GB and 20 tasks that can do with half of their memory, more slowly. As the document prints it, the
//! experiment starts nothing that does not fit at once, gives memory out twice and loses some, and draws other tasks for
//! each scheduler. Here one event simulation plays all policies on the same tasks: memory is deducted when it is given,
//! growing speeds a task up, turnaround is over all tasks, and utilisation is an average over time.

mod golden;
mod play;
mod policy;
mod welfare;
mod workload;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use crate::{
    figures::{Measured, count, float, mean, mean_and_error},
    progress::Progress,
    table::{Table, write_measured},
};

pub use play::{HORIZON, Played, play};
pub use policy::MemoryPolicy;
pub use workload::{Arrivals, MEMORY, TASKS, Task, draw};

/// The order in which the policies are to come out, the slowest first.
pub const ORDER: [MemoryPolicy; 5] = [
    MemoryPolicy::StrictFcfs,
    MemoryPolicy::FirstFit,
    MemoryPolicy::ElasticStart,
    MemoryPolicy::Shrink,
    MemoryPolicy::Srpt,
];

/// GB as a float.
fn gigabytes(value: i64) -> f64 {
    float(value)
}

/// What is asked of `whalezen-sim gen`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Draw so many workloads; each is played under every policy
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    seeds: u64,
    /// Only with these arrivals
    #[arg(long, value_enum)]
    arrivals: Option<Arrivals>,
    /// Write every number with its reference into this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Plays all policies on all seeds and prints the tables. Fails if the policies do not come out in the order in which
/// they should, or if one gains more than can be gained.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let mut measured = Vec::new();
    for (arrivals, name, slug) in [
        (Arrivals::Iid, "each task after an exponential time of its own (mean 10 s)", "iid"),
        (Arrivals::Poisson, "a task every 10 s on average (Poisson)", "poisson"),
    ] {
        if arguments.arrivals.is_some_and(|only| only != arrivals) {
            continue;
        }
        let experiment = Experiment::run(arrivals, arguments.seeds);
        println!("{TASKS} tasks on {MEMORY} GB, {} seeds, {name}", arguments.seeds);
        println!("{}", experiment.render(arrivals));
        experiment.check()?;
        measured.extend(experiment.measured(arrivals, slug));
    }
    if let Some(file) = &arguments.json {
        write_measured(file, &measured)?;
    }
    Ok(())
}

/// All policies on the same seeds.
#[derive(Debug)]
pub struct Experiment {
    /// For each policy the runs, by seed.
    pub runs: Vec<Vec<Played>>,
    /// Of each seed, GB times seconds if every task has all that it needs, and if every task has its least.
    pub memory_time: Vec<(f64, f64)>,
}

impl Experiment {
    /// Plays seeds from 0 on.
    pub fn run(arrivals: Arrivals, seeds: u64) -> Self {
        let progress = Progress::new("gen", usize::try_from(seeds).unwrap_or(usize::MAX));
        let mut runs = vec![Vec::new(); MemoryPolicy::ALL.len()];
        let mut memory_time = Vec::new();
        for seed in 0..seeds {
            let tasks = draw(arrivals, seed);
            for (policy, runs) in MemoryPolicy::ALL.into_iter().zip(&mut runs) {
                runs.push(play(&tasks, policy));
            }
            let of = |memory: fn(&Task) -> i64| tasks.iter().map(|task| task.memory_time(memory(task))).sum();
            memory_time.push((of(|task| task.need), of(Task::least)));
            progress.at(usize::try_from(seed).unwrap_or(usize::MAX));
        }
        Self { runs, memory_time }
    }

    /// The most that throughput can gain on average: memory times time with all that is needed, by that with the least.
    pub fn bound(&self) -> f64 {
        let (full, least): (Vec<f64>, Vec<f64>) = self.memory_time.iter().copied().unzip();
        mean(full) / mean(least)
    }

    fn summaries(&self) -> Vec<Summary> {
        let full = mean(self.memory_time.iter().map(|(full, _)| *full));
        let summary = |runs: &Vec<Played>| {
            let of = |value: &dyn Fn(&Played) -> f64| mean(runs.iter().map(value));
            let turnaround: Vec<f64> = runs.iter().map(|run| mean(run.turnaround.iter().copied())).collect();
            let (centre, error) = mean_and_error(&turnaround);
            Summary {
                done: of(&|run| count(run.done.iter().filter(|&&done| done <= HORIZON).count())),
                turnaround: centre,
                error,
                makespan: of(&|run| run.done.iter().copied().fold(0.0, f64::max)),
                utilisation: of(&|run| run.held_by_horizon / (HORIZON * gigabytes(MEMORY))),
                gain: full / of(&|run| run.held),
            }
        };
        self.runs.iter().map(summary).collect()
    }

    /// Of each seed, how much less the mean turnaround is under one policy than under another: the mean, and its standard
    /// error.
    pub fn paired(&self, slower: MemoryPolicy, faster: MemoryPolicy) -> (f64, f64) {
        let of = |policy: MemoryPolicy| {
            let place = MemoryPolicy::ALL.iter().position(|&other| other == policy);
            place.and_then(|place| self.runs.get(place)).into_iter().flatten()
        };
        let mean_turnaround = |run: &Played| mean(run.turnaround.iter().copied());
        let less: Vec<f64> = of(slower)
            .zip(of(faster))
            .map(|(slow, fast)| mean_turnaround(slow) - mean_turnaround(fast))
            .collect();
        mean_and_error(&less)
    }

    /// Fails if a policy is not faster than the one before it in [`ORDER`] by two standard errors on the same seeds, or
    /// if one uses less memory times time than the tasks need at the least, or holds more than there is.
    pub fn check(&self) -> Result<()> {
        for (slower, faster) in ORDER.iter().zip(ORDER.iter().skip(1)) {
            let (less, error) = self.paired(*slower, *faster);
            if less <= 2.0 * error {
                bail!("{} is {less:.2} s faster than {}, ± {error:.2} s", faster.names().0, slower.names().0);
            }
        }
        for (policy, runs) in MemoryPolicy::ALL.iter().zip(&self.runs) {
            for (run, (_, least)) in runs.iter().zip(&self.memory_time) {
                if run.held < least * (1.0 - 1e-9) || run.most_held > MEMORY {
                    let name = policy.names().0;
                    bail!(
                        "{name} uses {} GB s of at least {least}, and {} GB at once",
                        run.held,
                        run.most_held
                    );
                }
            }
        }
        Ok(())
    }

    fn render(&self, arrivals: Arrivals) -> String {
        let columns = [
            "policy",
            "done at 200 s",
            "ref",
            "turnaround s",
            "±",
            "ref",
            "makespan s",
            "ref",
            "util 0-200",
            "vs FCFS",
            "throughput gain",
        ];
        let mut table = Table::new(columns);
        let summaries = self.summaries();
        let first = summaries.first().map_or(1.0, |summary| summary.turnaround);
        for ((policy, summary), [done, turnaround, makespan, _]) in
            MemoryPolicy::ALL.iter().zip(&summaries).zip(golden::answers(arrivals))
        {
            table.row([
                policy.names().0.to_owned(),
                format!("{:.2}", summary.done),
                format!("{done:.2}"),
                format!("{:.1}", summary.turnaround),
                format!("{:.1}", summary.error),
                format!("{turnaround:.1}"),
                format!("{:.1}", summary.makespan),
                format!("{makespan:.1}"),
                format!("{:.3}", summary.utilisation),
                format!("{:.2}", first / summary.turnaround),
                format!("{:.3}", summary.gain),
            ]);
        }
        format!("{table}No policy can gain more than {:.2}x throughput on average.\n", self.bound())
    }

    fn measured(&self, arrivals: Arrivals, slug: &str) -> Vec<Measured> {
        let rows = MemoryPolicy::ALL.iter().zip(self.summaries()).zip(golden::answers(arrivals));
        let one =
            |((policy, summary), [_, reference, ..]): ((&MemoryPolicy, Summary), golden::Answer)| Measured {
                name: format!("sim/gen/{slug}/{}/turnaround_s", policy.names().1),
                value: summary.turnaround,
                unit: "s".to_owned(),
                reference: Some(reference),
                reference_name: Some(golden::NAME.to_owned()),
            };
        rows.map(one).collect()
    }
}

/// The means of a policy over all seeds.
struct Summary {
    done: f64,
    turnaround: f64,
    /// The standard error of the turnaround.
    error: f64,
    makespan: f64,
    utilisation: f64,
    gain: f64,
}

#[cfg(test)]
mod tests;
