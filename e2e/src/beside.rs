//! The real Kueue, and our operator looking on beside it, on one control plane.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use crate::bench::{Kueue, install_definitions, wait_until_ready};
use crate::cluster::Cluster;
use crate::install::manifests;
use crate::ports::free_ports;
use crate::process::Process;
use crate::replicas::built_operator;

const NAMESPACE: &str = "whalezen-system";
const OBSERVER: &str = "whalezen-observer";
/// What the API server calls the observer.
const USER: &str = "system:serviceaccount:whalezen-system:whalezen-observer";

/// A control plane on which Kueue runs the queues. No pods are made: there is no controller manager.
pub struct Beside {
    /// The cluster.
    pub cluster: Cluster,
    /// Where the observer serves.
    pub address: SocketAddr,
    /// Where its decision log is.
    pub log: PathBuf,
    /// The observer.
    pub observer: Process,
    audit: PathBuf,
    /// Gone with this.
    _files: Folder,
}

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed lies in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Beside {
    /// Starts Kueue with its own definitions, and the observer with the rights of `manifests/kustomize/observe` and no
    /// more.
    pub async fn start() -> Result<Self> {
        let kueue = tokio::task::spawn_blocking(Kueue::build).await??;
        let files = std::env::temp_dir().join(format!("whalezen-beside-{}", std::process::id()));
        fs::create_dir_all(&files)?;
        let folder = Folder(files.clone());
        let (policy, audit) = (files.join("policy.json"), files.join("audit.log"));
        let everything = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{ "level": "Metadata", "users": [USER] }],
        });
        fs::write(&policy, everything.to_string())?;
        let cluster = Cluster::builder()
            .with_scheduler(false)
            .with_controller_manager(false)
            .with_kwok(false)
            .apiserver_flag(format!("--audit-policy-file={}", policy.display()))
            .apiserver_flag(format!("--audit-log-path={}", audit.display()))
            .start()
            .await?;
        install_definitions(&cluster, &kueue.crds()).await?;
        let scratch = cluster.state_dir().join("kueue");
        fs::create_dir_all(&scratch)?;
        let launch = kueue.launch(&cluster.kubeconfig(), &scratch, &Map::new())?;
        let manager = cluster.spawn("kueue", &launch.command)?;
        wait_until_ready(&manager, &launch.ready).await?;

        cluster.apply_dir(manifests("kustomize/observe/rbac")).await.context("the observer's rights")?;
        let kubeconfig = kubeconfig(&cluster).await?;
        let log = cluster.state_dir().join("decisions");
        let [port] = free_ports()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut command = Command::new(built_operator()?);
        command
            .args(["--observe", "--observe-patience=60"])
            .arg(format!("--metrics-bind-address={address}"))
            .arg(format!("--decision-log={}", log.display()))
            .env("KUBECONFIG", kubeconfig);
        let observer = cluster.spawn("observer", &command)?;
        Ok(Self { cluster, address, log, observer, audit, _files: folder })
    }

    /// Every request of the observer that could change something, as the API server recorded it: refused ones too,
    /// and none that only asks for rights.
    pub fn writes(&self) -> Result<Vec<String>> {
        let reviews = ["tokenreviews", "subjectaccessreviews"];
        let mut writes = Vec::new();
        for line in fs::read_to_string(&self.audit)?.lines() {
            let event: Value = serde_json::from_str(line)?;
            let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let reads = ["get", "list", "watch"].contains(&text("/verb"));
            if text("/user/username") == USER && !reads && !reviews.contains(&text("/objectRef/resource")) {
                writes.push(format!("{} {}", text("/verb"), text("/requestURI")));
            }
        }
        Ok(writes)
    }

    /// How many requests of the observer the API server recorded.
    pub fn requests(&self) -> Result<usize> {
        Ok(fs::read_to_string(&self.audit)?.lines().count())
    }
}

async fn kubeconfig(cluster: &Cluster) -> Result<PathBuf> {
    let token = ["create", "token", OBSERVER, "--namespace", NAMESPACE, "--duration=24h"];
    let token = cluster.kubectl(&token).await?;
    let file = cluster.state_dir().join("observer-kubeconfig");
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "observer",
        "contexts": [{ "name": "observer", "context": { "cluster": "cluster", "user": "observer" } }],
        "clusters": [{ "name": "cluster", "cluster": {
            "server": cluster.url(), "certificate-authority": cluster.authority(),
        } }],
        "users": [{ "name": "observer", "user": { "token": token.trim() } }],
    });
    fs::write(&file, content.to_string())?;
    Ok(file)
}
