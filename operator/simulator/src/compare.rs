//! `whalezen-sim compare`: policies on the same made-up traces, and how sure it is that one is better.

use anyhow::Result;
use clap::Args;

use crate::{
    figures::{Measured, count, mean_and_error},
    policy::Kind,
    progress::Progress,
    run::{ClusterArguments, play},
    summary::Summary,
    table::{Table, write_measured},
    trace::{Shape, generate},
};

/// What is asked of `whalezen-sim compare`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The policies, with commas between them; the others are compared with the first
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Kind::Fcfs, Kind::Easy, Kind::Srsf, Kind::Las])]
    policies: Vec<Kind>,
    /// Play so many traces; each under every policy
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=100_000))]
    seeds: u64,
    /// How many jobs a trace has
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    jobs: u32,
    /// The part of the GPUs that are busy on average
    #[arg(long, default_value_t = 0.85)]
    load: f64,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Write the numbers into this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
}

/// Plays and prints the table.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let gpus = arguments.cluster.gpus_or(64);
    let shape = Shape { jobs: usize::try_from(arguments.jobs)?, gpus, load: arguments.load };
    let progress = Progress::new("seeds", usize::try_from(arguments.seeds)?);
    let mut logs: Vec<Vec<f64>> = vec![Vec::new(); arguments.policies.len()];
    let mut means: Vec<Vec<f64>> = logs.clone();
    let mut names = Vec::new();
    for seed in 0..arguments.seeds {
        let trace = generate(shape, seed);
        let mut pool = arguments.cluster.pool(&trace);
        pool.gpus = gpus;
        let runs = play(&trace, pool, &arguments.policies)?;
        let summaries: Vec<_> = runs.iter().map(|run| Summary::of(&run.policy, &run.outcome)).collect();
        if let Some(first) = summaries.first() {
            for ((logs, means), summary) in logs.iter_mut().zip(&mut means).zip(&summaries) {
                logs.push(libm::log(summary.ratio_to(first)));
                means.push(summary.mean_jct_h);
            }
        }
        names = summaries.into_iter().map(|summary| summary.policy).collect();
        progress.at(usize::try_from(seed)?);
    }
    drop(progress);
    let rows: Vec<_> = names
        .iter()
        .zip(logs.iter().zip(&means))
        .map(|(name, (logs, means))| Row::of(name, logs, means))
        .collect();
    println!(
        "{} made-up traces of {} jobs on {gpus} GPUs, the same for all policies",
        arguments.seeds, shape.jobs
    );
    println!("{}", render(&rows));
    if let Some(file) = &arguments.json {
        write_measured(file, &rows.iter().map(Row::measured).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// A policy beside the first.
struct Row {
    name: String,
    mean_h: f64,
    /// The geometric mean of the ratios of mean completion times, and its 95 % confidence interval.
    ratio: f64,
    from: f64,
    to: f64,
}

impl Row {
    fn of(name: &str, logs: &[f64], means: &[f64]) -> Self {
        let (centre, error) = mean_and_error(logs);
        let reach = error * student(logs.len());
        Self {
            name: name.to_owned(),
            mean_h: mean_and_error(means).0,
            ratio: libm::exp(centre),
            from: libm::exp(centre - reach),
            to: libm::exp(centre + reach),
        }
    }

    fn measured(&self) -> Measured {
        Measured {
            name: format!("sim/compare/{}/jct_ratio", self.name),
            value: self.ratio,
            unit: "ratio".to_owned(),
            reference: Some(1.0),
            reference_name: Some("the first policy".to_owned()),
        }
    }
}

/// The two-sided 95 % point of Student's distribution with one degree less than there are values: from the table for
/// few, and by Fisher's expansion around the normal distribution's for more.
fn student(values: usize) -> f64 {
    const FEW: [f64; 8] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306];
    let degrees = values.saturating_sub(1).max(1);
    if let Some(&point) = FEW.get(degrees - 1) {
        return point;
    }
    let degrees = count(degrees);
    let z: f64 = 1.959_964;
    let (cube, fifth) = (z * z * z, z * z * z * z * z);
    let first = (cube + z) / (4.0 * degrees);
    let second = (5.0 * fifth + 16.0 * cube + 3.0 * z) / (96.0 * degrees * degrees);
    z + first + second
}

fn render(rows: &[Row]) -> String {
    let mut table =
        Table::new(["policy", "mean JCT h", "JCT beside the first", "95 % confidence", "verdict"]);
    for row in rows {
        let verdict = match (row.from, row.to) {
            (_, to) if to < 1.0 => "shorter",
            (from, _) if from > 1.0 => "longer",
            _ => "no difference shown",
        };
        table.row([
            row.name.clone(),
            format!("{:.2}", row.mean_h),
            format!("{:.3}", row.ratio),
            format!("{:.3} to {:.3}", row.from, row.to),
            verdict.to_owned(),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        for (values, expected) in [(2, 12.706), (3, 4.303), (5, 2.776), (6, 2.571), (10, 2.262), (20, 2.093)]
        {
            assert!((student(values) - expected).abs() < 0.008, "{values}: {}", student(values));
        }
    }

    #[test]
    fn equal_policies_show_no_difference_and_a_clear_one_is_shown() {
        let row = Row::of("same", &[0.0, 0.0, 0.0], &[1.0, 1.0, 1.0]);
        assert!(row.from <= 1.0 && row.to >= 1.0);
        let row = Row::of("half", &[-0.7, -0.69, -0.68], &[1.0, 1.0, 1.0]);
        assert!(row.to < 1.0 && (row.ratio - 0.5).abs() < 0.01, "{} {}", row.ratio, row.to);
    }
}
