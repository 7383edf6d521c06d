//! What the simulator says of the worked examples and of public traces, with the references beside it. `whalezen-sim`
//! prints the tables and writes every number; here they are recorded.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{Benchmark, Measurement, Options, operator};

/// One subcommand of `whalezen-sim`.
pub struct Simulated {
    name: &'static str,
    about: &'static str,
    command: &'static str,
    /// Whether it plays public traces, which are no part of the project.
    needs_traces: bool,
}

impl Simulated {
    /// All of them.
    pub fn all() -> [Self; 3] {
        [
            ("sim/whale", "the document on Whale: its worked example in every variant", "whale", false),
            (
                "sim/gen",
                "the document on the market for GPU memory: its experiment, 1,000 seeds",
                "gen",
                false,
            ),
            ("sim/philly", "three virtual clusters of the Philly trace under every policy", "philly", true),
        ]
        .map(|(name, about, command, needs_traces)| Self { name, about, command, needs_traces })
    }

    fn measure(&self) -> Result<Vec<Measurement>> {
        let traces = std::env::var_os("WHALEZEN_TRACES").unwrap_or_else(|| "../shared/traces".into());
        if self.needs_traces && !Path::new(&traces).is_dir() {
            println!(
                "skipped: there are no traces at {} (WHALEZEN_TRACES says where)",
                Path::new(&traces).display()
            );
            return Ok(Vec::new());
        }
        let file = operator::target()?.join(format!("bench/{}.json", self.command));
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let simulator = std::env::current_exe()?.with_file_name("whalezen-sim");
        let status = Command::new(&simulator)
            .arg(self.command)
            .arg("--json")
            .arg(&file)
            .status()
            .with_context(|| format!("running {}", simulator.display()))?;
        if !status.success() {
            bail!("whalezen-sim {} failed: {status}", self.command);
        }
        let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        Ok(serde_json::from_str(&text)?)
    }
}

impl Benchmark for Simulated {
    fn name(&self) -> &str {
        self.name
    }

    fn about(&self) -> &str {
        self.about
    }

    fn run<'a>(&'a self, _options: &'a Options) -> BoxFuture<'a, Result<Vec<Measurement>>> {
        async { self.measure() }.boxed()
    }
}
