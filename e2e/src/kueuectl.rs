//! Kueue's own command line against a cluster, built from Kueue's module.

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::binaries::sources;
use crate::cluster::Cluster;
use crate::go_module::build_go_module;

impl Cluster {
    /// Runs kueuectl as administrator and gives what it printed; an error holds what it said. The first time on a
    /// machine it is built, for a minute or two.
    pub async fn kueuectl(&self, arguments: &[&str]) -> Result<String> {
        let build = || build_go_module(&sources().join("kueue"), &["sigs.k8s.io/kueue/cmd/kueuectl"]);
        let binaries = tokio::task::spawn_blocking(build).await??;
        let output = Command::new(binaries.join("kueuectl"))
            .arg(format!("--kubeconfig={}", self.kubeconfig().display()))
            .arg(format!("--cache-dir={}", self.state_dir().join("kubectl-cache").display()))
            .args(arguments)
            .kill_on_drop(true)
            .output()
            .await
            .context("cannot run kueuectl")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("kueuectl {} failed: {}", arguments.join(" "), said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
