//! One page that says what came of a run: a table and plots, with nothing to load from elsewhere.

mod chart;
mod timeline;

use std::fmt::Write as _;

use crate::{
    engine::{Level, Outcome},
    figures::{float, in_hours},
    run::Run,
    summary::Summary,
    trace::Trace,
};
use chart::{Chart, Series};

/// The colours of policies, in order, told apart with any kind of sight (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6d00", "#000000"];
/// Across how many moments a curve is drawn.
const COLUMNS: i64 = 300;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;\
background:#fff}h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse}\
td,th{padding:.25rem .7rem;text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}\
svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:#333}p{max-width:48rem}";

/// The page.
pub fn page(trace: &Trace, runs: &[Run], summaries: &[Summary]) -> String {
    let gpus = summaries.first().map_or(0, |summary| summary.gpus);
    let mut page = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page += "<meta name=\"viewport\" content=\"width=device-width\"><title>whalezen-sim run</title>";
    let _ = write!(
        page,
        "<style>{STYLE}</style></head><body>\n<h1>{} jobs on {gpus} GPUs</h1>\n",
        trace.jobs().len()
    );
    page += "<p>The same jobs were played in virtual time under each policy. A job's completion time (JCT) is from its \
             submission to its end; its wait is from its submission to its first start. Utilisation is the part of all \
             GPU-time in which jobs made progress; saving and restoring state is none.</p>\n";
    page += &table(summaries);
    page += &section(
        "GPUs in use",
        "How many GPUs are held. Below the top while jobs wait, what is free is too little for them.",
        &curves(runs, "GPUs", |level, _| float(level.held)),
    );
    page += &section(
        "Jobs that wait",
        "How many jobs hold no GPU.",
        &curves(runs, "jobs", |level, _| float(level.waiting)),
    );
    page += &section(
        "GPUs that wait is for",
        "How many GPUs those jobs ask for together.",
        &curves(runs, "GPUs", |level, _| float(level.asked)),
    );
    page += &section(
        "GPUs that are idle while jobs wait",
        "Capacity that is lost to fragmentation: free, and too little for whoever is next.",
        &curves(
            runs,
            "GPUs",
            |level, outcome| {
                if level.waiting > 0 { float(outcome.gpus - level.held) } else { 0.0 }
            },
        ),
    );
    page += &section(
        "Completion times",
        "The part of jobs that are done within a time. Further left is better.",
        &cdf(runs),
    );
    for run in runs {
        page += &section(
            &format!("Who runs where: {}", run.policy),
            "A row is a GPU, a bar a job; bars of one colour are of one job or of jobs far apart. Grey is saving and \
             restoring. Only the longest bars are drawn where there are too many.",
            &timeline::draw(&run.outcome),
        );
    }
    page += "</body></html>\n";
    page
}

/// Text as HTML shows it.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn section(title: &str, says: &str, drawing: &str) -> String {
    format!("<h2>{}</h2>\n<p>{}</p>\n{drawing}\n", escape(title), escape(says))
}

fn table(summaries: &[Summary]) -> String {
    let mut table = String::from(
        "<table><thead><tr><th>policy</th><th>mean JCT h</th><th>median</th><th>95 % within</th><th>mean wait h</th>\
         <th>longest wait h</th><th>makespan h</th><th>utilisation</th><th>stops</th></tr></thead><tbody>",
    );
    for summary in summaries {
        let _ = write!(
            table,
            "<tr><td>{}</td><td>{:.2}</td><td>{:.2}</td><td>{:.2}</td><td>{:.2}</td><td>{:.2}</td><td>{:.2}</td>\
             <td>{:.1} %</td><td>{}</td></tr>",
            escape(&summary.policy),
            summary.mean_jct_h,
            summary.median_jct_h,
            summary.p95_jct_h,
            summary.mean_wait_h,
            summary.max_wait_h,
            summary.makespan_h,
            summary.utilisation * 100.0,
            summary.stops
        );
    }
    table + "</tbody></table>\n"
}

fn named(runs: &[Run]) -> impl Iterator<Item = (&Run, &'static str)> {
    runs.iter().zip(COLOURS.iter().copied().cycle())
}

/// A curve over time for each run.
fn curves(runs: &[Run], unit: &str, value: impl Fn(&Level, &Outcome) -> f64) -> String {
    let series = named(runs).map(|(run, colour)| Series {
        name: run.policy.clone(),
        colour,
        points: averages(&run.outcome, |level| value(level, &run.outcome)),
    });
    Chart { x: "hours since the first submission", y: unit, logarithmic: false, series: series.collect() }
        .draw()
}

/// The time average of what holds, in columns.
fn averages(outcome: &Outcome, value: impl Fn(&Level) -> f64) -> Vec<(f64, f64)> {
    let Some(end) = outcome.levels.last().map(|level| level.at.max(1)) else { return Vec::new() };
    let mut levels = outcome.levels.iter().peekable();
    let mut current = 0.0;
    let mut points = Vec::new();
    for column in 0..COLUMNS {
        let (from, until) = (end * column / COLUMNS, end * (column + 1) / COLUMNS);
        let (mut at, mut sum) = (from, 0.0);
        while let Some(level) = levels.next_if(|level| level.at < until) {
            sum += current * float(level.at.max(at) - at);
            at = level.at.max(at);
            current = value(level);
        }
        sum += current * float(until - at);
        points.push((in_hours(from), if until > from { sum / float(until - from) } else { current }));
    }
    points
}

fn cdf(runs: &[Run]) -> String {
    let series = named(runs).map(|(run, colour)| {
        let mut hours: Vec<f64> = run.outcome.finished.iter().map(|job| in_hours(job.completion())).collect();
        hours.sort_by(f64::total_cmp);
        let points = (0..=200_usize).map(|part| {
            let share = crate::figures::count(part) / 200.0;
            (crate::figures::quantile(&hours, part * 5).max(1.0 / 3600.0), share * 100.0)
        });
        Series { name: run.policy.clone(), colour, points: points.collect() }
    });
    Chart { x: "hours", y: "% of jobs", logarithmic: true, series: series.collect() }.draw()
}

#[cfg(test)]
mod tests;
