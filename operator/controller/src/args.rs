//! The command line.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context, anyhow};
use clap::Parser;
use whalezen_dialects::kueue::{
    configuration::{self, Configuration},
    settings::{LostAfter, StuckAfter},
};

use crate::log::Limits;

/// Queues, quota and gang admission for AI work on Kubernetes.
#[derive(Parser, Debug, Clone)]
#[command(name = "whalezen-operator", version)]
pub struct Args {
    /// Namespace of the lease by which one of several replicas leads.
    #[arg(long, default_value = "whalezen-system")]
    pub lease_namespace: String,

    /// Name of that lease.
    #[arg(long, default_value = "whalezen-operator")]
    pub lease_name: String,

    /// This replica's name in the lease; the host's name and a random part if not given.
    #[arg(long)]
    identity: Option<String>,

    /// Lead without a lease. Only where there is exactly one replica.
    #[arg(long)]
    pub no_leader_election: bool,

    /// Where /metrics, /healthz and /readyz are served, as `ADDRESS:PORT` or `:PORT`; `0` serves nothing.
    #[arg(long, default_value = ":8080")]
    metrics_bind_address: String,

    /// Where conversions of v1beta1 objects and `visibility.kueue.x-k8s.io` are served over TLS, as `ADDRESS:PORT` or
    /// `:PORT`; `0` serves neither. An operator that observes serves neither.
    #[arg(long, default_value = ":9443")]
    serving_bind_address: String,

    /// The Service by which the API server reaches that port, in the lease's namespace. The certificate is in the Secret
    /// of its name and `-certificate`.
    #[arg(long, default_value = "whalezen-operator")]
    pub serving_service: String,

    /// For how many minutes a certificate is made. It is replaced when two thirds of them are over.
    #[arg(long, default_value_t = 90 * 24 * 60, value_parser = clap::value_parser!(u32).range(1..))]
    serving_certificate_minutes: u32,

    /// Kueue's configuration file (config.kueue.x-k8s.io/v1beta2 or v1beta1).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// How many API requests a second the writes may use in the long run; without it the configuration file says.
    #[arg(long)]
    kube_api_qps: Option<u32>,

    /// How many of them may come at once; without it the configuration file says.
    #[arg(long)]
    kube_api_burst: Option<u32>,

    /// For how many seconds a node may be not ready, or gone, until the end of pods that are being deleted on it is not
    /// waited for any more: their jobs give their quota back. Where a node has the taint `node.kubernetes.io/out-of-service`
    /// that is at once.
    #[arg(long, default_value_t = 300)]
    lost_node_seconds: u32,

    /// For how many seconds a pod may wait for room on the host that was chosen for it, which somebody else took, until its
    /// job is stopped and queues again.
    #[arg(long, default_value_t = 60)]
    stuck_pod_seconds: u32,

    /// A folder for the decision log: who got or lost what, for whom, under which policy, when; and for the journal of
    /// what that was decided on. Without it none is kept.
    #[arg(long, value_name = "DIR")]
    pub decision_log: Option<PathBuf>,

    /// From how many MiB on a file of the decision log, or of the journal, is followed by the next.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..))]
    decision_log_file_size: u64,

    /// How many files of each are kept.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    decision_log_files: u16,

    /// Look on while Kueue runs the queues: plan, compare, and write nothing to the API server.
    #[arg(long)]
    pub observe: bool,

    /// In observe mode, for how many seconds Kueue is waited for to do what was planned.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub observe_patience: u32,

    /// What is logged: error, warn, info, debug or trace, or a filter such as `info,whalezen_operator=debug`.
    #[arg(long, default_value = "info", env = "WHALEZEN_LOG")]
    pub log_level: String,
}

impl Args {
    /// The address that metrics are served on, if any.
    pub fn metrics_address(&self) -> anyhow::Result<Option<SocketAddr>> {
        bind_address(&self.metrics_bind_address).context("--metrics-bind-address")
    }

    /// The address that is served on over TLS, if any.
    pub fn serving_address(&self) -> anyhow::Result<Option<SocketAddr>> {
        let address = bind_address(&self.serving_bind_address).context("--serving-bind-address")?;
        Ok(address.filter(|_| !self.observe))
    }

    /// For how long a certificate is made.
    pub fn certificate_life(&self) -> Duration {
        Duration::from_mins(self.serving_certificate_minutes.into())
    }

    /// How much of the decision log is kept.
    pub fn log_limits(&self) -> Limits {
        let bytes = self.decision_log_file_size.saturating_mul(1 << 20);
        Limits { bytes, files: self.decision_log_files.into() }
    }

    /// What the configuration file says, and where there is none, Kueue's defaults; flags go before it.
    pub fn configuration(&self) -> anyhow::Result<Configuration> {
        let mut configuration = match &self.config {
            None => Configuration::without_file(&self.lease_namespace),
            Some(file) => {
                let text =
                    fs::read_to_string(file).with_context(|| format!("--config {}", file.display()))?;
                configuration::read(&text, &self.lease_namespace).map_err(|problems| {
                    let problems: Vec<_> = problems.iter().map(|problem| format!("\n  {problem}")).collect();
                    anyhow!("--config {} cannot be honoured:{}", file.display(), problems.concat())
                })?
            }
        };
        configuration.rate.qps = self.kube_api_qps.or(configuration.rate.qps);
        configuration.rate.burst = self.kube_api_burst.unwrap_or(configuration.rate.burst);
        configuration.settings.lost_after = LostAfter(Duration::from_secs(self.lost_node_seconds.into()));
        configuration.settings.stuck_after = StuckAfter(Duration::from_secs(self.stuck_pod_seconds.into()));
        Ok(configuration)
    }

    /// This replica's name in the lease.
    pub fn identity(&self) -> String {
        self.identity.clone().unwrap_or_else(|| {
            let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "whalezen-operator".to_owned());
            format!("{host}_{:08x}", rand::random::<u32>())
        })
    }
}

fn bind_address(text: &str) -> anyhow::Result<Option<SocketAddr>> {
    let text = match text {
        "0" => return Ok(None),
        port if port.starts_with(':') => format!("0.0.0.0{port}"),
        address => address.to_owned(),
    };
    text.parse().map(Some).with_context(|| format!("{text:?} is no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(more: &[&str]) -> Args {
        Args::parse_from([&["whalezen-operator"], more].concat())
    }

    #[test]
    fn a_flag_goes_before_the_configuration_file() {
        let file = std::env::temp_dir().join(format!("whalezen-configuration-{}", std::process::id()));
        let text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nclientConnection: {qps: 7, burst: 8}";
        fs::write(&file, text).unwrap();
        let config = format!("--config={}", file.display());
        let rate = args(&[&config, "--kube-api-qps=9"]).configuration().unwrap().rate;
        assert_eq!((rate.qps, rate.burst), (Some(9), 8));
        fs::write(&file, format!("{text}\nnonsense: 1\nmultiKueue: {{origin: a}}")).unwrap();
        let problem = args(&[&config]).configuration().unwrap_err().to_string();
        assert!(problem.contains("nonsense: unknown field") && problem.contains("multiKueue: "), "{problem}");
        fs::remove_file(file).unwrap();
        let problem = format!("{:#}", args(&[&config]).configuration().unwrap_err());
        assert!(problem.contains("--config") && problem.contains("No such file"), "{problem}");
    }
}
