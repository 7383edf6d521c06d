//! Where public traces lie. They are no part of this project.

use std::path::{Path, PathBuf};

use clap::Args;

/// The option that says where.
#[derive(Args, Clone, Debug)]
pub struct Traces {
    /// The folder with the public traces
    #[arg(long, value_name = "DIR", env = "WHALEZEN_TRACES", default_value = "../shared/traces")]
    traces: PathBuf,
}

impl Traces {
    /// The folder, whether or not it is there.
    pub fn folder(&self) -> &Path {
        &self.traces
    }

    /// What to say where something is missing.
    pub fn how(&self) -> String {
        format!("name the folder of traces with --traces or WHALEZEN_TRACES (now {})", self.traces.display())
    }
}
