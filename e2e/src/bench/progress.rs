//! What is seen while a run takes its minutes: a moving line on a terminal, a plain line now and
//! then elsewhere.

use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

const PLAIN_INTERVAL: Duration = Duration::from_secs(30);

/// The progress of one run. Dropping it clears the moving line.
pub struct Progress {
    bar: Option<ProgressBar>,
    title: String,
    started: Instant,
    printed: Instant,
}

impl Progress {
    /// Begins to show `title`.
    pub fn start(title: &str) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_message(title.to_owned());
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        if bar.is_none() {
            eprintln!("{title}");
        }
        let now = Instant::now();
        Self { bar, title: title.to_owned(), started: now, printed: now }
    }

    /// Shows how far the run is.
    pub fn at(&mut self, state: &str) {
        let line = format!("{}: {} s, {state}", self.title, self.started.elapsed().as_secs());
        if let Some(bar) = &self.bar {
            bar.set_message(line);
        } else if self.printed.elapsed() >= PLAIN_INTERVAL {
            self.printed = Instant::now();
            eprintln!("{line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
