//! Who runs on which GPU: a row for each GPU, a bar for each job on it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use crate::{
    engine::{JobIndex, Outcome, Phase, Segment},
    figures::{count, float},
};

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 260.0;
/// The most bars that are drawn.
const MOST: usize = 4000;

/// A bar: GPUs that stand together, and what holds them.
struct Bar {
    from_gpu: usize,
    gpus: usize,
    segment: Segment,
}

/// The drawing.
pub fn draw(outcome: &Outcome) -> String {
    let mut bars = bars(outcome);
    let area = |bar: &Bar| (bar.segment.until - bar.segment.from) * i64::try_from(bar.gpus).unwrap_or(0);
    bars.sort_by_key(|bar| Reverse(area(bar)));
    bars.truncate(MOST);
    let end = outcome.segments.iter().map(|segment| segment.until).max().unwrap_or(1).max(1);
    let gpus = float(outcome.gpus.max(1));
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"GPUs over time\" preserveAspectRatio=\"none\">\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#f4f4f4\"/>"
    );
    for Bar { from_gpu, gpus: rows, segment } in bars {
        let x = float(segment.from) / float(end) * WIDTH;
        let width = (float(segment.until - segment.from) / float(end) * WIDTH).max(0.3);
        let (y, height) = (count(from_gpu) / gpus * HEIGHT, count(rows) / gpus * HEIGHT);
        let fill = if segment.phase == Phase::Running { colour(segment.index) } else { "#999".to_owned() };
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
        );
    }
    svg + "</svg>"
}

/// Colours that differ for jobs that are near each other: steps by the golden angle.
fn colour(index: JobIndex) -> String {
    format!("hsl({:.0} 55% 58%)", (count(index.0) * 137.508) % 360.0)
}

/// Gives each segment GPUs: those that its job had before if they are free, else the lowest. The engine counts GPUs and
/// does not number them.
fn bars(outcome: &Outcome) -> Vec<Bar> {
    let mut segments: Vec<&Segment> = outcome.segments.iter().collect();
    segments.sort_by_key(|segment| (segment.from, segment.until, segment.index));
    let mut free: BTreeSet<usize> = (0..usize::try_from(outcome.gpus).unwrap_or_default()).collect();
    let mut ends: BTreeMap<(i64, usize), Vec<usize>> = BTreeMap::new();
    let mut before: BTreeMap<JobIndex, Vec<usize>> = BTreeMap::new();
    let mut bars = Vec::new();
    for (number, segment) in segments.into_iter().enumerate() {
        while let Some(entry) = ends.first_entry().filter(|entry| entry.key().0 <= segment.from) {
            free.extend(entry.remove());
        }
        let wanted = usize::try_from(segment.gpus).unwrap_or_default();
        let old = before.get(&segment.index).into_iter().flatten().copied().filter(|gpu| free.contains(gpu));
        let mut taken: Vec<usize> = old.take(wanted).collect();
        let others: Vec<usize> = free
            .iter()
            .copied()
            .filter(|gpu| !taken.contains(gpu))
            .take(wanted - taken.len().min(wanted))
            .collect();
        taken.extend(others);
        taken.sort_unstable();
        for gpu in &taken {
            free.remove(gpu);
        }
        bars.extend(together(&taken).map(|(from_gpu, gpus)| Bar { from_gpu, gpus, segment: *segment }));
        before.insert(segment.index, taken.clone());
        ends.insert((segment.until, number), taken);
    }
    bars
}

/// Runs of numbers that follow each other, as first and length.
fn together(sorted: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    sorted
        .chunk_by(|one, next| one + 1 == *next)
        .filter_map(|run| run.first().map(|&first| (first, run.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_gpu_has_two_bars_at_once_and_a_job_keeps_its_gpus() {
        let segment = |index, from, until, gpus| Segment {
            index: JobIndex(index),
            from,
            until,
            gpus,
            phase: Phase::Running,
        };
        let segments =
            vec![segment(0, 0, 5, 2), segment(1, 0, 9, 1), segment(2, 5, 9, 1), segment(0, 9, 12, 2)];
        let bars = bars(&Outcome { gpus: 3, segments, ..Outcome::default() });
        let rows: Vec<_> = bars.iter().map(|bar| (bar.segment.index.0, bar.from_gpu, bar.gpus)).collect();
        assert_eq!(rows, [(0, 0, 2), (1, 2, 1), (2, 0, 1), (0, 0, 2)]);
    }
}
