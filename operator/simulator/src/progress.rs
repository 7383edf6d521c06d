//! How far a run is: a bar with the time that is left, on a terminal only.

use std::io::{IsTerminal as _, stderr};

use indicatif::{ProgressBar, ProgressStyle};

const STYLE: &str = "{prefix}: {bar:40} {pos} of {len}, {elapsed}, {eta} left";

/// A bar, or nothing where nobody looks.
#[derive(Debug)]
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Of so many steps.
    pub fn new(what: &str, steps: usize) -> Self {
        Self(stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX)).with_prefix(what.to_owned());
            if let Ok(style) = ProgressStyle::with_template(STYLE) {
                bar.set_style(style);
            }
            bar
        }))
    }

    /// One more is done.
    pub fn step(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    /// So many are done.
    pub fn at(&self, steps: usize) {
        if let Some(bar) = &self.0 {
            bar.set_position(u64::try_from(steps).unwrap_or(u64::MAX));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
