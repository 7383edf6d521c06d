//! Our own operator as a contender.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};

use super::harness_run::Launch;
use super::local;
use super::metrics::Endpoint;
use crate::ports::free_ports;

/// The operator's release build and its CRDs.
#[derive(Debug, Clone)]
pub struct Operator {
    binary: PathBuf,
}

impl Operator {
    /// The binary at `path`, else the release build beside this program's own build.
    pub fn find(path: Option<&Path>) -> Result<Self> {
        let binary = match path {
            Some(path) => std::path::absolute(path)?,
            None => target()?.join("release/whalezen-operator"),
        };
        if !binary.is_file() {
            bail!("{} is not there: `cargo build --release --workspace --bins` makes it", binary.display());
        }
        Ok(Self { binary })
    }

    /// How the operator is started. `settings` are fields of Kueue's configuration, for which a file is written.
    pub fn launch(&self, kubeconfig: &Path, scratch: &Path, settings: &Map<String, Value>) -> Result<Launch> {
        let [port] = free_ports()?;
        let metrics = local::address(port);
        let mut command = Command::new(&self.binary);
        command
            .arg("--no-leader-election")
            .args(["--metrics-bind-address", &metrics])
            .args(["--serving-bind-address", "0"])
            .args(["--kube-api-qps", &local::QPS.to_string()])
            .args(["--kube-api-burst", &local::BURST.to_string()])
            .env("KUBECONFIG", kubeconfig);
        if !settings.is_empty() {
            let mut configuration = json!({
                "apiVersion": "config.kueue.x-k8s.io/v1beta2",
                "kind": "Configuration",
            });
            if let Some(fields) = configuration.as_object_mut() {
                fields.extend(settings.clone());
            }
            let file = scratch.join("configuration.json");
            fs::write(&file, configuration.to_string())?;
            command.arg("--config").arg(file);
        }
        let metrics = Endpoint::local(&metrics)?;
        Ok(Launch { command, ready: (metrics.clone(), "readyz"), metrics: Some(metrics) })
    }
}

/// The folder of its CRDs.
pub fn crds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/crds")
}

/// Cargo's target folder, in which this program lies two levels deep.
pub fn target() -> Result<PathBuf> {
    let own = env::current_exe()?;
    match own.ancestors().nth(2) {
        Some(target) => Ok(target.to_owned()),
        None => bail!("{} does not lie in a target folder", own.display()),
    }
}
