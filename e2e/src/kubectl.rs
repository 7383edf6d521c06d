//! kubectl against a cluster, as its users run it.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::cluster::Cluster;

impl Cluster {
    /// Runs kubectl as administrator and gives what it printed; an error holds what it said.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_with_input(arguments, "").await
    }

    /// Applies manifests from text, on the server's side: large CRDs do not fit the annotation
    /// that the other way needs.
    pub async fn kubectl_apply_stdin(&self, yaml: &str) -> Result<String> {
        self.kubectl_with_input(&["apply", "--server-side", "--force-conflicts", "-f", "-"], yaml).await
    }

    /// Applies a folder of manifests, or a kustomization where it holds one.
    pub async fn apply_dir(&self, dir: impl AsRef<Path>) -> Result<String> {
        let dir = dir.as_ref();
        let path = dir.to_str().with_context(|| format!("{} is not UTF-8", dir.display()))?;
        let how: &[&str] =
            if dir.join("kustomization.yaml").is_file() { &["-k"] } else { &["--recursive", "-f"] };
        let apply = ["apply", "--server-side", "--force-conflicts"];
        self.kubectl(&[&apply, how, &[path]].concat()).await
    }

    /// Runs kubectl with text on its standard input.
    pub async fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut child = Command::new(self.binaries().control_plane("kubectl"))
            .arg(format!("--kubeconfig={}", self.kubeconfig().display()))
            .arg(format!("--cache-dir={}", self.state_dir().join("kubectl-cache").display()))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot run kubectl")?;
        let pipe = child.stdin.take();
        let feed = async {
            if let Some(mut pipe) = pipe {
                // One that fails early does not read to the end; what it says then is the error.
                let _ = pipe.write_all(input.as_bytes()).await;
            }
        };
        let ((), output) = tokio::join!(feed, child.wait_with_output());
        let output = output?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("kubectl {} failed: {}", arguments.join(" "), said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
