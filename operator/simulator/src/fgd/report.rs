//! What the experiment found, as tables beside the published figures, and as JSON.

use comfy_table::{CellAlignment, Table, presets::UTF8_BORDERS_ONLY};
use serde::Serialize;

use super::{
    experiment::{ARRIVALS, Outcome, spread},
    reference::Reference,
};

/// What came of one policy on one mix.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The mix.
    pub mix: String,
    /// The policy.
    pub policy: String,
    /// Allocated GPUs at the end, in percent: the mean over the seeds.
    pub allocation_percent: f64,
    /// The standard deviation over the seeds.
    pub deviation: f64,
    /// GPUs that were not allocated at the end, on average.
    pub unallocated: f64,
    /// The published mean, if there is one.
    pub published_percent: Option<f64>,
    /// The published standard deviation.
    pub published_deviation: Option<f64>,
    /// The runs, one a seed.
    pub runs: Vec<Outcome>,
}

/// The percentages of arrivals that are shown.
const SHOWN: [usize; 5] = [90, 95, 100, 110, END];
const END: usize = 130;
const _: () = assert!(END as u64 == ARRIVALS, "the last one is where the runs end");

impl Row {
    /// The figures of runs.
    pub fn new(mix: &str, policy: &str, runs: Vec<Outcome>, reference: &Reference) -> Self {
        let ends: Vec<_> = runs.iter().map(|run| run.at(END)).collect();
        let (allocation_percent, deviation) = spread(&ends);
        let (unallocated, _) = spread(&runs.iter().map(|run| run.unallocated).collect::<Vec<_>>());
        let published = reference.at(mix, policy, END);
        Self {
            mix: mix.to_owned(),
            policy: policy.to_owned(),
            allocation_percent,
            deviation,
            unallocated,
            published_percent: published.map(|(mean, _)| mean),
            published_deviation: published.map(|(_, deviation)| deviation),
            runs,
        }
    }

    /// The mean at a percentage of arrivals.
    fn at(&self, percent: usize) -> f64 {
        spread(&self.runs.iter().map(|run| run.at(percent)).collect::<Vec<_>>()).0
    }
}

/// One mix, policy by policy and by arrivals, each figure with the published one behind it.
pub fn by_arrivals(rows: &[Row], reference: &Reference) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    let mut header = vec!["policy".to_owned()];
    header.extend(SHOWN.iter().map(|percent| format!("{percent} %")));
    header.extend(["sd".to_owned(), "unallocated GPUs".to_owned()]);
    table.set_header(header);
    for row in rows {
        let shown = |percent: &usize| {
            let published = reference.at(&row.mix, &row.policy, *percent);
            beside(row.at(*percent), published.map(|(mean, _)| mean))
        };
        let mut cells = vec![row.policy.clone()];
        cells.extend(SHOWN.iter().map(shown));
        cells.push(beside(row.deviation, row.published_deviation));
        cells.push(format!("{:.0}", row.unallocated));
        table.add_row(cells);
    }
    right(table)
}

/// All mixes at the end, policy by policy.
pub fn by_mix(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    let mut policies: Vec<&str> = Vec::new();
    let mut mixes: Vec<&str> = Vec::new();
    for row in rows {
        if !policies.contains(&row.policy.as_str()) {
            policies.push(&row.policy);
        }
        if !mixes.contains(&row.mix.as_str()) {
            mixes.push(&row.mix);
        }
    }
    table.set_header(std::iter::once("mix").chain(policies.iter().copied()));
    for mix in mixes {
        let of = |policy: &&str| {
            let row = rows.iter().find(|row| row.mix == mix && row.policy == *policy);
            row.map_or_else(String::new, |row| beside(row.allocation_percent, row.published_percent))
        };
        table.add_row(std::iter::once(mix.to_owned()).chain(policies.iter().map(of)));
    }
    right(table)
}

/// A figure, and the published one in brackets.
fn beside(own: f64, published: Option<f64>) -> String {
    published.map_or_else(|| format!("{own:.2}"), |published| format!("{own:.2} ({published:.2})"))
}

fn right(mut table: Table) -> Table {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
