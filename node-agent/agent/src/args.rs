//! The command line.

mod serving;

use std::{fs, path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::Parser;
use whalezen_mig::parted::Configurations;

use self::serving::Serving;

/// Sees every GPU of its node, and makes the MIG layout that is wanted.
#[derive(Parser, Debug, Clone)]
#[command(name = "whalezen-agent", version)]
pub struct Args {
    /// The node that the agent is on.
    #[arg(long, env = "NODE_NAME")]
    pub node_name: String,

    /// NVIDIA's library; without it libnvidia-ml.so.1, where the system looks for libraries.
    #[arg(long, value_name = "FILE")]
    pub nvml_library: Option<PathBuf>,

    /// How often the GPUs are looked at where nothing calls for it, in milliseconds.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(100..=300_000))]
    look_interval_ms: u64,

    /// How long a GPU may take to answer before it counts as one that does not respond, in milliseconds.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=300_000))]
    nvml_patience_ms: u64,

    /// The node has no kubelet that hands devices out: a device in which no process lives is free.
    #[arg(long)]
    pub no_kubelet: bool,

    /// A file on the node's own disk by which one of several agents is the node's.
    #[arg(long, value_name = "FILE", default_value = "/run/whalezen/agent.lock")]
    pub lock_file: PathBuf,

    /// mig-parted's configuration file, whose names a node's label nvidia.com/mig.config and a MIGPolicy may use.
    /// Some names need no file: all-disabled, all-enabled, all-balanced, and all- with a profile.
    #[arg(long, value_name = "FILE")]
    mig_config_file: Option<PathBuf>,

    #[command(flatten)]
    pub serving: Serving,

    /// What is logged to standard error, as in `info,kube=warn`.
    #[arg(long, default_value = "info")]
    pub log_level: String,
}

impl Args {
    /// How often the GPUs are looked at.
    pub fn look_interval(&self) -> Duration {
        Duration::from_millis(self.look_interval_ms)
    }

    /// How long a GPU may take to answer.
    pub fn nvml_patience(&self) -> Duration {
        Duration::from_millis(self.nvml_patience_ms)
    }

    /// The layouts of mig-parted's file.
    pub fn configurations(&self) -> anyhow::Result<Configurations> {
        let Some(path) = &self.mig_config_file else { return Ok(Configurations::default()) };
        let place = || format!("--mig-config-file {}", path.display());
        let text = fs::read_to_string(path).with_context(place)?;
        Configurations::parse(&text).with_context(place)
    }
}
