//! How long one decision takes: the cluster of the trace several times over, filled as in the experiment.
//!
//! What is measured is the time that the thread had of a processor, from the question to the task being placed, so that what
//! else runs on the machine is not measured. Figures of time differ from run to run; nothing else here does.

use std::time::Duration;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets::UTF8_BORDERS_ONLY};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::{
    arrivals::Arrivals,
    experiment::ARRIVALS,
    policy::{Mix, Policy, start},
    trace::{Task, TraceNode},
};

/// What decisions took, in microseconds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// How many nodes there were.
    pub nodes: usize,
    /// How many decisions were made.
    pub decisions: usize,
    /// The mean.
    pub mean_us: f64,
    /// Half of them took no longer.
    pub p50_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
}

/// Fills so many copies of the nodes by a policy.
pub fn time(policy: &Policy, nodes: &[TraceNode], tasks: Vec<Task>, copies: usize) -> Result<Timing> {
    let nodes: Vec<_> = (0..copies).flat_map(|_| nodes.iter().cloned()).collect();
    let mix = Mix::new("copies", nodes, tasks);
    let arrivals = Arrivals::new(&mix.tasks, mix.nodes.len(), mix.capacity(), ARRIVALS, 42);
    let mut placing = start(policy, &mix, &arrivals.ranks, arrivals.dice.clone())?;
    let mut took = Vec::with_capacity(arrivals.order.len());
    for kind in arrivals.order.iter().filter_map(|index| mix.kind_of.get(*index)) {
        let begun = now();
        placing.place(*kind)?;
        took.push(now().saturating_sub(begun));
    }
    took.sort_unstable();
    let at = |percent: usize| took.get(took.len() * percent / 100).copied().unwrap_or_default();
    let count = u32::try_from(took.len()).unwrap_or(u32::MAX).max(1);
    Ok(Timing {
        nodes: mix.nodes.len(),
        decisions: took.len(),
        mean_us: micros(took.iter().sum::<Duration>() / count),
        p50_us: micros(at(50)),
        p99_us: micros(at(99)),
    })
}

fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// As a table, one row a size.
pub fn table(timings: &[Timing]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header(["nodes", "decisions", "mean", "p50", "p99"]);
    for timing in timings {
        let times = [timing.mean_us, timing.p50_us, timing.p99_us].map(|micros| format!("{micros:.1} µs"));
        table.add_row([timing.nodes.to_string(), timing.decisions.to_string()].into_iter().chain(times));
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
