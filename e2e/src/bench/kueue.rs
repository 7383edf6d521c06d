//! Kueue, the peer: its manager and its own harness, built unmodified from its Go module.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::harness_run::Launch;
use super::local;
use super::metrics::Endpoint;
use crate::binaries::sources;
use crate::go_module::build_go_module;
use crate::ports::free_ports;

const MODULE: &str = "sigs.k8s.io/kueue";

/// Kueue's binaries and its module's folder, of which the harness uses the configuration and the
/// benchmark the CRDs.
#[derive(Debug, Clone)]
pub struct Kueue {
    /// The manager.
    manager: PathBuf,
    /// The harness's runner.
    pub runner: PathBuf,
    /// The module as the Go command unpacked it.
    pub module: PathBuf,
    /// Its version, with the `v`.
    pub version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    dir: PathBuf,
    version: String,
}

impl Kueue {
    /// Builds what is not in the cache, for some minutes the first time.
    pub fn build() -> Result<Self> {
        let source = sources().join("kueue");
        let runner = format!("{MODULE}/test/performance/scheduler/runner");
        let binaries = build_go_module(&source, &[&format!("{MODULE}/cmd/kueue"), &runner])?;
        let output = Command::new("go")
            .args(["list", "-m", "-json", MODULE])
            .current_dir(&source)
            .output()
            .context("cannot run `go`")?;
        if !output.status.success() {
            bail!("`go list -m {MODULE}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let Listed { dir, version } = serde_json::from_slice(&output.stdout)?;
        Ok(Self { manager: binaries.join("kueue"), runner: binaries.join("runner"), module: dir, version })
    }

    /// The folder of its CRDs.
    pub fn crds(&self) -> PathBuf {
        self.module.join("config/components/crd/bases")
    }

    /// How the manager is started: as its release is, at the client limits of the comparison, but
    /// without election, visibility server and webhooks, which the harness does not use. `settings` are further
    /// fields of its configuration.
    pub fn launch(&self, kubeconfig: &Path, scratch: &Path, settings: &Map<String, Value>) -> Result<Launch> {
        let etc = scratch.join("etc");
        let certificates = etc.join("kueue/metrics/certs");
        fs::create_dir_all(&certificates)?;
        self_signed(&certificates)?;
        let [health, metrics, webhook] = free_ports()?;
        let config = scratch.join("kueue.json");
        fs::write(
            &config,
            serde_json::to_vec_pretty(&configuration([health, metrics, webhook], &certificates, settings))?,
        )?;

        // The manager reads the certificate of its metrics page from a fixed place below /etc. It
        // gets a private /etc, in a mount namespace of its own, so that the machine's is not
        // touched and root is not needed.
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount", "--", "sh", "-c"])
            .arg(r#"mount --bind "$1" /etc && shift && exec "$@""#)
            .args([Path::new("sh"), &etc, &self.manager])
            .arg(format!("--config={}", config.display()))
            .arg("--feature-gates=VisibilityOnDemand=false")
            .env("KUBECONFIG", kubeconfig);
        Ok(Launch { command, ready: (Endpoint::local(&local::address(health))?, "readyz"), metrics: None })
    }
}

/// The release's own concurrency; limits of the client as in the operator's launch.
fn configuration(
    [health, metrics, webhook]: [u16; 3],
    certificates: &Path,
    settings: &Map<String, Value>,
) -> Value {
    let mut configuration = json!({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": { "healthProbeBindAddress": local::address(health) },
        "metrics": { "bindAddress": local::address(metrics) },
        "webhook": { "host": "127.0.0.1", "port": webhook, "certDir": certificates },
        "leaderElection": { "leaderElect": false },
        "internalCertManagement": { "enable": false },
        "clientConnection": { "qps": local::QPS, "burst": local::BURST },
        "controller": { "groupKindConcurrency": {
            "Job.batch": 5,
            "Workload.kueue.x-k8s.io": 10,
            "LocalQueue.kueue.x-k8s.io": 5,
            "ClusterQueue.kueue.x-k8s.io": 5,
            "Cohort.kueue.x-k8s.io": 1,
            "ResourceFlavor.kueue.x-k8s.io": 1,
        } },
        "integrations": { "frameworks": ["batch/job"] },
    });
    if let Some(fields) = configuration.as_object_mut() {
        fields.extend(settings.clone());
    }
    configuration
}

fn self_signed(folder: &Path) -> Result<()> {
    let output = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "tls.key", "-out", "tls.crt"])
        .current_dir(folder)
        .output()
        .context("cannot run `openssl`, which makes Kueue's serving certificate")?;
    if !output.status.success() {
        bail!("openssl made no certificate: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
