//! The display: bars on a terminal, one line a change anywhere else.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::Result;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::jobs;
use crate::row::{Row, State, place};
use crate::score::Score;

/// Where the story is told.
pub enum Show {
    /// What each job did last, to tell changes from repetitions.
    Lines(BTreeMap<String, String>),
    Bars(Bars),
}

impl Show {
    /// Bars where somebody watches, unless `plain`.
    pub fn new(plain: bool, capacity: i64) -> Result<Self> {
        if plain || !std::io::stdout().is_terminal() {
            return Ok(Self::Lines(BTreeMap::new()));
        }
        Bars::new(capacity).map(Self::Bars)
    }

    /// Tells something that is not about one job.
    pub fn note(&self, at: Duration, text: &str) {
        let line = format!("{:6.1} s  {text}", at.as_secs_f64());
        match self {
            Self::Lines(_) => println!("{line}"),
            // Nobody reads a screen that cannot be written to.
            Self::Bars(bars) => drop(bars.screen.println(line)),
        }
    }

    /// Tells what has changed.
    pub fn rows(&mut self, rows: &[Row], score: &Score, at: Duration) -> Result<()> {
        match self {
            Self::Lines(told) => {
                for row in rows.iter().filter(|row| row.state != State::Submitted) {
                    let text = brief(&text(&row.state));
                    if told.insert(row.name.clone(), text.clone()).as_deref() != Some(&text) {
                        println!("{:6.1} s  {:<12} {:>2} GPUs  {text}", at.as_secs_f64(), row.name, row.gpus);
                    }
                }
                Ok(())
            }
            Self::Bars(bars) => bars.update(rows, score, at),
        }
    }
}

/// What a job is doing, in words.
pub fn text(state: &State) -> String {
    match state {
        State::Submitted => "is submitted".to_owned(),
        State::Waiting(reason) => format!("waits: {reason}"),
        State::Starting => "is admitted; its pods are being placed".to_owned(),
        State::Running(nodes) => format!("runs on {}", place(nodes)),
        State::Finished => "has finished".to_owned(),
        State::Failed(reason) => format!("has failed: {reason}"),
    }
}

/// What fits in a line: of several resources that are short, the GPUs. `kubectl describe workload` has it all.
fn brief(text: &str) -> String {
    match text.rsplit_once("insufficient") {
        Some((_, rest)) if rest.contains("nvidia.com/gpu") => format!("waits: insufficient{rest}"),
        _ => text.to_owned(),
    }
}

/// A bar for the cluster's GPUs and one for each job.
pub struct Bars {
    screen: MultiProgress,
    gpus: ProgressBar,
    job: ProgressStyle,
    jobs: BTreeMap<String, ProgressBar>,
}

impl Bars {
    fn new(capacity: i64) -> Result<Self> {
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stdout_with_hz(8));
        let style = "{prefix:<12} [{bar:32}] {pos} of {len} GPUs in use";
        let style = ProgressStyle::with_template(style)?.progress_chars("##-");
        let gpus =
            screen.add(ProgressBar::new(capacity.unsigned_abs()).with_style(style).with_prefix("cluster"));
        let job = ProgressStyle::with_template("{prefix:<12} [{bar:32}] {wide_msg}")?.progress_chars("=> ");
        Ok(Self { screen, gpus, job, jobs: BTreeMap::new() })
    }

    fn update(&mut self, rows: &[Row], score: &Score, at: Duration) -> Result<()> {
        let held: i64 = rows.iter().map(|row| row.held).sum();
        self.gpus.set_position(held.unsigned_abs());
        for row in rows {
            let bar = self.jobs.entry(row.name.clone()).or_insert_with(|| {
                let length = u64::try_from(jobs::duration(&row.name).as_millis()).unwrap_or(u64::MAX);
                let bar = ProgressBar::new(length).with_style(self.job.clone()).with_prefix(row.name.clone());
                self.screen.add(bar)
            });
            let since = score.started(row).map_or(Duration::ZERO, |start| at.saturating_sub(start));
            let done = match row.state {
                State::Starting | State::Running(_) => u64::try_from(since.as_millis())?,
                State::Finished => u64::MAX,
                _ => 0,
            };
            let (done, message) = (done.min(bar.length().unwrap_or_default()), brief(&text(&row.state)));
            let message = format!("{:>2} GPUs  {message}", row.gpus);
            // Every call draws, so only what has changed is called.
            if bar.position() != done {
                bar.set_position(done);
            }
            if bar.message() != message {
                bar.set_message(message);
            }
        }
        Ok(())
    }
}

impl Drop for Bars {
    /// Leaves the last picture on the screen.
    fn drop(&mut self) {
        for bar in self.jobs.values() {
            bar.abandon();
        }
        self.gpus.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_resources_that_are_short_a_line_names_the_gpus() {
        let long = "waits: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor \
                    a100, 16 more needed, insufficient unused quota for nvidia.com/gpu in flavor a100, 2 more needed";
        let short = "waits: insufficient unused quota for nvidia.com/gpu in flavor a100, 2 more needed";
        assert_eq!(brief(long), short);
        assert_eq!(brief("waits: queued"), "waits: queued");
    }
}
