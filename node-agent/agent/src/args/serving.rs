//! What of the command line is about the kubelet, Prometheus and the node's labels.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use whalezen_agent::{
    labels::free::Threshold,
    plugin::{inventory::mig_minors, set},
    sense::Rate,
    serving::Config,
};

/// How long the kubelet may take to ask a plugin for its devices before it is told again.
const PATIENCE: Duration = Duration::from_secs(5);

/// How devices, numbers and labels are served.
#[derive(Args, Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "flags of a command line are independent of each other")]
pub struct Serving {
    /// The kubelet's folder: its sockets for device plugins and for who has which device are in it.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    kubelet_dir: PathBuf,

    /// Offers the kubelet nothing: NVIDIA's device plugin does, or DRA.
    #[arg(long)]
    no_device_plugin: bool,

    /// The folder of CDI files that the container runtime reads.
    #[arg(long, value_name = "DIR", default_value = "/var/run/cdi")]
    cdi_dir: PathBuf,

    /// Devices are not handed out by CDI: the container runtime does not know it.
    #[arg(long)]
    no_cdi: bool,

    /// Devices are not handed out by their device files: by CDI alone, or by NVIDIA's container runtime.
    #[arg(long)]
    no_device_files: bool,

    /// The folder of device files.
    #[arg(long, value_name = "DIR", default_value = "/dev")]
    dev_dir: PathBuf,

    /// Where Prometheus finds the metrics.
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:9400")]
    metrics_address: SocketAddr,

    /// Serves no metrics.
    #[arg(long)]
    no_metrics: bool,

    /// How often GPUs are read for metrics and labels, in milliseconds.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=1000))]
    sense_interval_ms: u64,

    /// By how many percentage points free memory has to change for the label gpu.memory.free.percent to change.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=50))]
    free_memory_threshold: u8,

    /// Gives the node no labels.
    #[arg(long)]
    no_node_labels: bool,
}

impl Serving {
    /// The socket on which the kubelet says who has which device.
    pub fn pod_resources(&self) -> PathBuf {
        self.kubelet_dir.join("pod-resources/kubelet.sock")
    }

    /// What to serve. Without a kubelet there is no device plugin.
    pub fn config(&self, node: &str, kubelet: bool) -> anyhow::Result<Config> {
        let plugin = set::Config {
            folder: self.kubelet_dir.join("device-plugins"),
            cdi: (!self.no_cdi).then(|| self.cdi_dir.clone()),
            files: !self.no_device_files,
            dev: self.dev_dir.clone(),
            minors: mig_minors().to_owned(),
            patience: PATIENCE,
        };
        let threshold = Threshold::new(self.free_memory_threshold)?;
        Ok(Config {
            node: node.to_owned(),
            plugin: (kubelet && !self.no_device_plugin).then_some(plugin),
            metrics: (!self.no_metrics).then_some(self.metrics_address),
            rate: Rate::new(Duration::from_millis(self.sense_interval_ms))?,
            labels: (!self.no_node_labels).then_some(threshold),
        })
    }
}
