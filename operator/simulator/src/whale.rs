//! `whalezen-sim whale`: the worked example of the document on Whale, in every variant, beside reference answers.
//!
//! Eight servers of eight A100. Job A wants all 64 GPUs for seven days, B eight for twelve hours, and C is ten runs of two
//! GPUs for a time that the document does not give (`d`). Twelve jobs, of whose completion times the mean is taken.

mod scenario;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use crate::{
    engine::{Outcome, simulate},
    figures::{Measured, float, in_hours},
    philly::mean_jct_h,
    table::{Table, write_measured},
};

pub use scenario::{D_HOURS, SCENARIOS, Scenario};

/// Who the reference answers are by.
const REFERENCE: &str = "computed by hand for the document's example";

/// What is asked of `whalezen-sim whale`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Write every number with its reference into this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Plays every scenario and prints the table. Fails if a mean is not the reference's, to the third decimal.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let rows = play_all()?;
    println!("8 servers x 8 A100; A: 64 GPUs for 168 h, B: 8 for 12 h, C: 10 x 2 GPUs for d = 4 h");
    println!("{}", render(&rows));
    println!(
        "Mean JCT in h with other run times of C; in brackets the reference.\n{}",
        render_variants(&rows)
    );
    if let Some(file) = &arguments.json {
        write_measured(file, &measured(&rows))?;
    }
    let off: Vec<_> = rows.iter().filter(|row| !row.is_exact()).map(|row| row.scenario.name).collect();
    if !off.is_empty() {
        bail!("the mean is not the reference's: {}", off.join("; "));
    }
    Ok(())
}

/// A scenario, and what came of it for each `d`.
pub struct Row {
    scenario: &'static Scenario,
    outcomes: Vec<Outcome>,
}

impl Row {
    fn means(&self) -> impl Iterator<Item = f64> {
        self.outcomes.iter().map(mean_jct_h)
    }

    /// Whether every mean is the reference's, as far as that is written out.
    pub fn is_exact(&self) -> bool {
        self.means().zip(self.scenario.mean_h).all(|(mean, reference)| (mean - reference).abs() < 0.000_6)
    }
}

/// Plays every scenario.
pub fn play_all() -> Result<Vec<Row>> {
    let play = |scenario: &'static Scenario| {
        let outcomes = D_HOURS.map(|d| {
            let pool = scenario.pool();
            simulate(&scenario.trace(d), pool, scenario.policy(pool).as_mut(), &mut |_| {})
        });
        Ok(Row { scenario, outcomes: outcomes.into_iter().collect::<Result<_, _>>()? })
    };
    SCENARIOS.iter().map(play).collect()
}

/// The mean completion time of A, of B and of the runs of C.
fn by_letter(outcome: &Outcome) -> [f64; 3] {
    [64, 8, 2].map(|gpus| {
        let jobs = outcome.finished.iter().filter(|job| job.gpus == gpus);
        crate::figures::mean(jobs.map(|job| in_hours(job.completion())))
    })
}

fn render(rows: &[Row]) -> String {
    let columns = [
        "scenario",
        "makespan h",
        "A h",
        "B h",
        "C h",
        "mean JCT h",
        "reference",
        "utilisation",
        "stops of A",
    ];
    let mut table = Table::new(columns);
    for row in rows {
        let (Some(outcome), [reference, ..]) = (row.outcomes.first(), row.scenario.mean_h) else { continue };
        let [a, b, c] = by_letter(outcome);
        let utilisation = float(outcome.worked) / (float(outcome.gpus) * float(outcome.makespan()));
        let stops: u32 = outcome.finished.iter().filter(|job| job.gpus == 64).map(|job| job.stops).sum();
        table.row([
            row.scenario.name.to_owned(),
            format!("{:.3}", in_hours(outcome.makespan())),
            format!("{a:.3}"),
            format!("{b:.3}"),
            format!("{c:.3}"),
            format!("{:.3}", mean_jct_h(outcome)),
            format!("{reference:.3}"),
            format!("{utilisation:.4}"),
            stops.to_string(),
        ]);
    }
    table.to_string()
}

fn render_variants(rows: &[Row]) -> String {
    let mut table = Table::new(["scenario", "d = 2 h", "d = 12 h"]);
    for row in rows {
        let cells: Vec<_> = row
            .means()
            .zip(row.scenario.mean_h)
            .skip(1)
            .map(|(mean, reference)| format!("{mean:.3} ({reference:.3})"))
            .collect();
        if let Ok([two, twelve]) = <[String; 2]>::try_from(cells) {
            table.row([row.scenario.name.to_owned(), two, twelve]);
        }
    }
    table.to_string()
}

fn measured(rows: &[Row]) -> Vec<Measured> {
    let mut all = Vec::new();
    for row in rows {
        for ((mean, reference), d) in row.means().zip(row.scenario.mean_h).zip(D_HOURS) {
            all.push(Measured {
                name: format!("sim/whale/{}/d{d}/mean_jct_h", row.scenario.slug),
                value: mean,
                unit: "h".to_owned(),
                reference: Some(reference),
                reference_name: Some(REFERENCE.to_owned()),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{HOUR, MINUTE};

    #[test]
    fn every_variant_of_the_example_comes_out_as_computed_by_hand() {
        for row in play_all().unwrap() {
            let means: Vec<_> = row.means().collect();
            assert!(row.is_exact(), "{}: {means:?} and not {:?}", row.scenario.name, row.scenario.mean_h);
        }
    }

    #[test]
    fn a_is_not_stopped_where_a_checkpoint_costs_more_than_the_waiting_that_it_saves() {
        let s2 = SCENARIOS.iter().find(|scenario| scenario.slug == "s2_preempt_5min").unwrap();
        let stops = |cycle: i64| {
            let mut pool = s2.pool();
            (pool.costs.save, pool.costs.restore) = (cycle / 2, cycle / 2);
            let outcome = simulate(&s2.trace(4), pool, s2.policy(pool).as_mut(), &mut |_| {}).unwrap();
            outcome.finished.iter().map(|job| job.stops).sum::<u32>()
        };
        assert_eq!(stops(5 * MINUTE), 2);
        // B alone is not worth a cycle of 90 hours, but ten runs of C are: then B goes with them.
        assert_eq!(stops(90 * HOUR), 1);
        assert_eq!(stops(400 * HOUR), 0);
    }
}
