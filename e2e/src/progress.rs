//! The progress of a build: a bar on a terminal, elsewhere a plain line every 15 seconds, so
//! that a build of the usual few seconds says nothing.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

const PLAIN_INTERVAL: Duration = Duration::from_secs(15);
const FETCHING: &str = "{prefix}: {spinner} {pos} modules downloaded, {elapsed}";
const COMPILING: &str = "{prefix}: {bar:40} {pos} of {len} packages, {elapsed}";

/// What has been done so far for one module.
pub(crate) struct Progress {
    name: String,
    downloaded: u64,
    compiled: u64,
    to_compile: Option<u64>,
    started: Instant,
    printed: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(name: &str) -> Self {
        let now = Instant::now();
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::no_length().with_prefix(format!("building {name}"));
            restyle(&bar, FETCHING);
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        let name = name.to_owned();
        Self { name, downloaded: 0, compiled: 0, to_compile: None, started: now, printed: now, bar }
    }

    /// A module has been downloaded.
    pub(crate) fn downloaded(&mut self) {
        self.downloaded += 1;
        self.show(self.downloaded);
    }

    /// All modules are there and so many packages have to be compiled.
    pub(crate) fn counted(&mut self, packages: usize) {
        let packages = u64::try_from(packages).unwrap_or(u64::MAX);
        self.to_compile = Some(packages);
        if let Some(bar) = &self.bar {
            bar.set_length(packages);
            restyle(bar, COMPILING);
        }
        self.show(0);
    }

    /// A package is being compiled.
    pub(crate) fn compiled(&mut self) {
        self.compiled += 1;
        self.show(self.compiled);
    }

    /// The binaries are there.
    pub(crate) fn finish(self) {
        let took = self.started.elapsed();
        if self.bar.is_some() || took >= PLAIN_INTERVAL {
            self.clear();
            say(&format!("built {} in {} s", self.name, took.as_secs()));
        }
    }

    fn show(&mut self, position: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(position);
        } else if self.printed.elapsed() >= PLAIN_INTERVAL {
            self.printed = Instant::now();
            let done = match self.to_compile {
                Some(all) => format!("{} of {all} packages", self.compiled),
                None => format!("{} modules downloaded", self.downloaded),
            };
            say(&format!("building {}: {done}, {} s", self.name, self.started.elapsed().as_secs()));
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn restyle(bar: &ProgressBar, template: &str) {
    // A template that does not parse would only look different.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// Written past the test harness, which would hold `eprintln!` back for the minutes of a first build.
pub(crate) fn say(line: &str) {
    // A closed standard error is no reason to stop a build.
    let _ = writeln!(stderr(), "{line}");
}
