//! The page holds what it should, and needs nothing from elsewhere.

use super::*;
use crate::{
    engine::Pool,
    policy::Kind,
    run::play,
    trace::{Shape, generate},
};

#[test]
fn the_page_names_every_policy_and_loads_nothing() {
    let trace = generate(Shape { jobs: 40, gpus: 16, load: 0.8 }, 3);
    let runs = play(&trace, Pool::of(16), &[Kind::Fcfs, Kind::Srsf]).unwrap();
    let summaries: Vec<_> = runs.iter().map(|run| Summary::of(&run.policy, &run.outcome)).collect();
    let page = page(&trace, &runs, &summaries);
    for part in [
        "<td>FCFS</td>",
        "<td>SRSF</td>",
        "40 jobs on 16 GPUs",
        "<polyline",
        "Completion times",
        "Who runs where: SRSF",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for part in ["http", "<script", "<link", "url(", "NaN", "inf"] {
        assert!(!page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

#[test]
fn names_cannot_write_into_the_page() {
    assert_eq!(escape("<b>&\"x\""), "&lt;b&gt;&amp;&quot;x&quot;");
}

#[test]
fn a_curve_is_the_average_over_each_column() {
    let level = |at, held| Level { at, held, waiting: 0, asked: 0 };
    let levels = vec![level(0, 4), level(COLUMNS / 2, 2), level(COLUMNS, 0)];
    let points = averages(&Outcome { levels, ..Outcome::default() }, |level| float(level.held));
    assert_eq!(points.len(), usize::try_from(COLUMNS).unwrap());
    let values: Vec<_> = points.iter().map(|point| point.1).collect();
    let all = |values: &[f64], expected: f64| values.iter().all(|value| (value - expected).abs() < 1e-9);
    assert!(all(&values[..150], 4.0) && all(&values[150..], 2.0));
}
