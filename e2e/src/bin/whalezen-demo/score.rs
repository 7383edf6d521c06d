//! What is remembered over the whole run: times, the peak, and whether the rules were kept.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::row::{Row, State};

type Key = (String, String);

/// The record of a run.
#[derive(Debug, Default)]
pub struct Score {
    started: BTreeMap<Key, Duration>,
    finished: BTreeMap<Key, Duration>,
    peak: i64,
    evictions: usize,
    evicted: BTreeMap<Key, bool>,
}

impl Score {
    /// Takes note of the rows at `at` since the jobs were submitted. Fails when more quota is held than there is
    /// (`capacity`, in GPUs), or when a job has failed.
    pub fn note(&mut self, rows: &[Row], at: Duration, capacity: i64) -> Result<()> {
        let held: i64 = rows.iter().map(|row| row.held).sum();
        if held > capacity {
            bail!("quota is exceeded: Workloads hold {held} GPUs and there are {capacity}");
        }
        self.peak = self.peak.max(held);
        for row in rows {
            let key = (row.namespace.clone(), row.name.clone());
            if row.evicted && !self.evicted.insert(key.clone(), true).unwrap_or(false) {
                self.evictions += 1;
            } else if !row.evicted {
                self.evicted.insert(key.clone(), false);
            }
            match &row.state {
                State::Submitted | State::Waiting(_) => {}
                State::Starting | State::Running(_) => {
                    self.started.entry(key).or_insert(at);
                }
                State::Finished => {
                    self.finished.entry(key).or_insert(at);
                }
                State::Failed(reason) => bail!("{} has failed: {reason}", row.name),
            }
        }
        Ok(())
    }

    /// How many jobs have finished.
    pub fn finished(&self) -> usize {
        self.finished.len()
    }

    /// Since when a job has its quota.
    pub fn started(&self, row: &Row) -> Option<Duration> {
        self.started.get(&(row.namespace.clone(), row.name.clone())).copied()
    }

    /// The last line of the demo.
    pub fn summary(&self, jobs: usize, capacity: i64) -> String {
        let last = self.finished.values().max().copied().unwrap_or_default();
        let waits = self.started.iter().max_by_key(|(_, at)| **at);
        let longest = waits.map_or_else(String::new, |((_, name), at)| {
            format!("; the longest wait was {:.1} s ({name})", at.as_secs_f64())
        });
        format!(
            "{} of {jobs} workloads finished in {:.1} s; at most {} of {capacity} GPUs in use; {} evictions{longest}",
            self.finished(),
            last.as_secs_f64(),
            self.peak,
            self.evictions,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, gpus: i64, state: State, holds_quota: bool) -> Row {
        Row {
            namespace: "team".to_owned(),
            name: name.to_owned(),
            gpus,
            state,
            held: if holds_quota { gpus } else { 0 },
            evicted: false,
        }
    }

    #[test]
    fn the_summary_tells_peak_time_and_longest_wait() {
        let mut score = Score::default();
        let seconds = Duration::from_secs;
        let waiting = || State::Waiting(String::new());
        score
            .note(&[row("a", 64, State::Starting, true), row("b", 8, waiting(), false)], seconds(1), 64)
            .unwrap();
        score
            .note(
                &[row("a", 64, State::Finished, false), row("b", 8, State::Starting, true)],
                seconds(11),
                64,
            )
            .unwrap();
        score.note(&[row("b", 8, State::Finished, false)], seconds(16), 64).unwrap();
        assert_eq!(
            score.summary(2, 64),
            "2 of 2 workloads finished in 16.0 s; at most 64 of 64 GPUs in use; 0 evictions; \
             the longest wait was 11.0 s (b)"
        );
    }

    #[test]
    fn more_quota_held_than_there_is_ends_the_demo() {
        let rows = [row("a", 64, State::Submitted, true), row("b", 8, State::Submitted, true)];
        let error = Score::default().note(&rows, Duration::ZERO, 64).unwrap_err();
        assert_eq!(error.to_string(), "quota is exceeded: Workloads hold 72 GPUs and there are 64");
    }

    #[test]
    fn an_eviction_is_counted_once_each_time_it_happens() {
        let mut score = Score::default();
        for evicted in [true, true, false, true] {
            let row = Row { evicted, ..row("a", 8, State::Waiting(String::new()), false) };
            score.note(&[row], Duration::ZERO, 64).unwrap();
        }
        assert_eq!(score.evictions, 2);
    }
}
