//! `whalezen-sim sharing`: does sharing a cluster cost a tenant what it could have run on its own?
//!
//! The question is `HiveD`'s (Zhao et al., OSDI 2020). The virtual clusters of the Philly trace are tenants of one cluster of nodes of eight GPUs, and
//! each has as many nodes as are busy for 85 % of the time by its own jobs. Each has a private picture, in which only its nodes are, and its jobs that run on its quota. A gang is *lost* if
//! it waits though the private picture has room for it. Who does not fit there may borrow what is idle.
//!
//! Three ways to share are played, on the same jobs: quota that is counted; quota that is counted, and who borrowed is stopped for it; and
//! [cells](whalezen_core::cells). A stopped job goes on later where it was.

mod field;
mod play;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use whalezen_core::cells::{PER_NODE, Quota};

use crate::{
    figures::{Measured, float, in_hours},
    progress::Progress,
    table::{Table, write_measured},
    trace::{self, Trace},
};

pub use field::{Field, Loose, Sharing};
pub use play::{Played, Tenants, play};

/// Nodes of a rack.
const NODES_PER_RACK: u32 = 8;
/// A virtual cluster with fewer jobs is none to speak of.
const FEWEST_JOBS: usize = 100;

/// What is asked of `whalezen-sim sharing`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The folder of traces; without it `$WHALEZEN_TRACES`, or ../shared/traces
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Play this trace instead, of any format that has queues; each of its queues is a tenant
    #[arg(long, value_name = "FILE", conflicts_with = "traces")]
    trace: Option<PathBuf>,
    /// Write every number into this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Plays them and prints the table. Fails if with cells a gang was lost.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let file = match &arguments.trace {
        Some(file) => file.clone(),
        None => trace::folder(arguments.traces.as_deref())?.join("philly/philly.csv"),
    };
    let all = trace::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let tenants = tenants(&all)?;
    let jobs: usize = tenants.jobs();
    let progress = Progress::new("sharing", jobs * Sharing::ALL.len());
    let mut rows = Vec::new();
    for (number, sharing) in Sharing::ALL.into_iter().enumerate() {
        rows.push((sharing, play(&tenants, sharing, &mut |done| progress.at(number * jobs + done))?));
    }
    println!("{}", render(&tenants, &rows));
    if let Some(file) = &arguments.json {
        let measured: Vec<_> = rows.iter().map(|(sharing, played)| measured(*sharing, played)).collect();
        write_measured(file, &measured)?;
    }
    match rows.iter().find(|(sharing, played)| *sharing == Sharing::Cells && played.lost > 0) {
        Some((_, played)) => bail!("with cells {} gangs were lost, and none may be", played.lost),
        None => Ok(()),
    }
}

/// The queues of a trace that have some jobs.
fn tenants(all: &Trace) -> Result<Tenants> {
    let queues: Vec<&str> =
        all.queues().into_iter().filter(|(_, jobs)| *jobs >= FEWEST_JOBS).map(|(queue, _)| queue).collect();
    if queues.len() < 2 {
        bail!("a cluster is shared by two at least, and {} queues have {FEWEST_JOBS} jobs", queues.len());
    }
    let mut quotas = Vec::new();
    for queue in &queues {
        let gpus = all.of_queue(queue)?.gpus_for_load(850);
        let gpus = u32::try_from(gpus).context("more GPUs than can be counted")?;
        quotas.push(Quota::of_gpus(gpus, NODES_PER_RACK));
    }
    Ok(Tenants::new(all, &queues, quotas, NODES_PER_RACK))
}

fn measured(sharing: Sharing, played: &Played) -> Measured {
    let is_ours = sharing == Sharing::Cells;
    Measured {
        name: format!("sim/sharing/{}/lost_gangs", sharing.slug()),
        value: float(played.lost),
        unit: "gangs".to_owned(),
        reference: is_ours.then_some(0.0),
        reference_name: is_ours.then(|| "HiveD's promise".to_owned()),
    }
}

fn render(tenants: &Tenants, rows: &[(Sharing, Played)]) -> String {
    let mut table = Table::new([
        "quota",
        "lost gangs",
        "longest lost h",
        "lost GPU h",
        "mean wait h",
        "borrowed %",
        "stops",
    ]);
    for (sharing, played) in rows {
        table.row([
            sharing.name().to_owned(),
            played.lost.to_string(),
            format!("{:.2}", in_hours(played.longest_lost)),
            format!("{:.1}", in_hours(played.lost_work)),
            format!("{:.3}", in_hours(played.waited) / float(played.jobs.max(1))),
            format!("{:.1}", 100.0 * float(played.borrowed) / float(played.worked.max(1))),
            played.stops.to_string(),
        ]);
    }
    format!(
        "{} jobs of {} tenants on {} GPUs in {} racks\n{table}",
        tenants.jobs(),
        tenants.quotas().len(),
        tenants.racks() * NODES_PER_RACK * PER_NODE,
        tenants.racks(),
    )
}

#[cfg(test)]
mod tests;
