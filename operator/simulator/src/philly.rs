//! `whalezen-sim philly`: three virtual clusters of the Philly trace under every policy, beside reference answers.
//!
//! A virtual cluster is a pool of GPUs that are alike, as many as are busy for 85 % of the time if the jobs were spread
//! evenly. Jobs are rigid and take the time that the trace says. The reference answers come from another simulator with
//! the same rules.

mod golden;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::{
    engine::{Costs, Outcome, Pool, SECOND, simulate},
    figures::{Measured, in_hours, mean},
    progress::Progress,
    table::{Table, write_measured},
    trace::{self, Trace},
};

pub use golden::{GOLDEN, Golden, PLAYED, Played};

/// What is asked of `whalezen-sim philly`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The folder of traces; without it `$WHALEZEN_TRACES`, or ../shared/traces
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Play this virtual cluster only
    #[arg(long, value_name = "CLUSTER")]
    vc: Option<String>,
    /// Write every number with its reference into this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Plays them and prints the table. Fails if a policy that has a reference is further from it than [`TOLERANCE`].
pub fn execute(arguments: &Arguments) -> Result<()> {
    let file = trace::folder(arguments.traces.as_deref())?.join("philly/philly.csv");
    let all = trace::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let chosen: Vec<_> =
        GOLDEN.iter().filter(|golden| arguments.vc.as_ref().is_none_or(|vc| vc == golden.vc)).collect();
    if chosen.is_empty() {
        let known: Vec<_> = GOLDEN.iter().map(|golden| golden.vc).collect();
        bail!("there are reference answers for {} only", known.join(", "));
    }
    let mut measured = Vec::new();
    for golden in chosen {
        let rows = play(&all.of_queue(golden.vc)?, golden)?;
        println!("{}", render(golden, &rows));
        measured.extend(rows.iter().map(|row| row.measured(golden)));
        measured.extend(ratio(&rows, golden));
    }
    if let Some(file) = &arguments.json {
        write_measured(file, &measured)?;
    }
    check(&measured)
}

/// How far from its reference a policy may come out.
pub const TOLERANCE: f64 = 0.005;

fn check(measured: &[Measured]) -> Result<()> {
    let off = |one: &&Measured| {
        one.unit == "h"
            && one.reference.is_some_and(|reference| (one.value / reference - 1.0).abs() > TOLERANCE)
    };
    let off: Vec<_> = measured.iter().filter(off).map(|one| one.name.as_str()).collect();
    if !off.is_empty() {
        bail!("more than {} % from the reference: {}", TOLERANCE * 100.0, off.join(", "));
    }
    Ok(())
}

/// A policy's line.
struct Row {
    name: String,
    slug: &'static str,
    mean_h: f64,
    reference: Option<f64>,
    outcome: Outcome,
}

impl Row {
    fn measured(&self, golden: &Golden) -> Measured {
        Measured {
            name: format!("sim/philly/{}/{}/mean_jct_h", golden.vc, self.slug),
            value: self.mean_h,
            unit: "h".to_owned(),
            reference: self.reference,
            reference_name: self.reference.map(|_| golden::NAME.to_owned()),
        }
    }
}

/// How far ours, which knows no size, is from SRSF, which knows all: without users and names in the trace, all that it
/// can learn from is the width of a job and who came just before and after it.
fn ratio(rows: &[Row], golden: &Golden) -> Option<Measured> {
    let mean = |slug: &str| rows.iter().find(|row| row.slug == slug).map(|row| row.mean_h);
    let (ours, known) = (mean("predicted")?, mean("srsf")?);
    println!(
        "Philly {}: ours with predicted sizes takes {:.3} times as long as SRSF with known ones\n",
        golden.vc,
        ours / known
    );
    Some(Measured {
        name: format!("sim/philly/{}/jct_ratio", golden.vc),
        value: ours / known,
        unit: "of SRSF with known sizes".to_owned(),
        reference: Some(1.1),
        reference_name: Some("aim".to_owned()),
    })
}

fn play(trace: &Trace, golden: &Golden) -> Result<Vec<Row>> {
    let pool = Pool::of(trace.gpus_for_load(850));
    let progress = Progress::new(golden.vc, trace.jobs().len() * PLAYED.len());
    let mut rows = Vec::new();
    for (number, (Played { kind, slug, restore_s }, reference)) in
        PLAYED.iter().zip(golden.mean_h).enumerate()
    {
        let pool = pool.with_costs(Costs { restore: restore_s * SECOND, ..Costs::default() });
        let mut policy = kind.policy(pool);
        let done = number * trace.jobs().len();
        let outcome = simulate(trace, pool, policy.as_mut(), &mut |jobs| progress.at(done + jobs))?;
        let name = match restore_s {
            0 => policy.name().to_owned(),
            seconds => format!("{}, {seconds} s a resume", policy.name()),
        };
        rows.push(Row { name, slug, mean_h: mean_jct_h(&outcome), reference, outcome });
    }
    Ok(rows)
}

/// The mean time from submission to end, in hours.
pub fn mean_jct_h(outcome: &Outcome) -> f64 {
    mean(outcome.finished.iter().map(|job| in_hours(job.completion())))
}

fn render(golden: &Golden, rows: &[Row]) -> String {
    let (jobs, gpus) = rows.first().map_or((0, 0), |row| (row.outcome.finished.len(), row.outcome.gpus));
    let mut table = Table::new(["policy", "mean JCT h", "reference", "off by", "stops"]);
    for row in rows {
        let reference = row.reference.map_or("-".to_owned(), |reference| format!("{reference:.2}"));
        let off = row
            .reference
            .map_or("-".to_owned(), |reference| format!("{:+.2} %", (row.mean_h / reference - 1.0) * 100.0));
        let stops: u32 = row.outcome.finished.iter().map(|job| job.stops).sum();
        table.row([row.name.clone(), format!("{:.2}", row.mean_h), reference, off, stops.to_string()]);
    }
    format!("Philly {}: {jobs} jobs on {gpus} GPUs\n{table}", golden.vc)
}

/// Whether the traces that this needs are there.
pub fn has_traces(folder: &Path) -> bool {
    folder.join("philly/philly.csv").is_file()
}
