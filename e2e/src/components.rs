//! The command line of every component, in one place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::binaries::{Binaries, sources};
use crate::credentials;

/// The controllers that matter where nodes and pods are simulated; the others would only cost
/// time at start.
const CONTROLLERS: [&str; 15] = [
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
];

/// Where everything of one cluster lies and listens.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) state: PathBuf,
    pub(crate) etcd_client: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) api: u16,
}

impl Layout {
    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api)
    }
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.state.join("kubeconfig")
    }
    pub(crate) fn log(&self, component: &str) -> PathBuf {
        self.state.join("logs").join(format!("{component}.log"))
    }
    /// The folder where the API server puts the certificate it signs for itself.
    pub(crate) fn certificates(&self) -> PathBuf {
        self.state.join("pki")
    }
    pub(crate) fn authority(&self) -> PathBuf {
        self.certificates().join("apiserver.crt")
    }
    pub(crate) fn service_account_key(&self) -> PathBuf {
        self.certificates().join("service-account.key")
    }
    pub(crate) fn service_account_public_key(&self) -> PathBuf {
        self.certificates().join("service-account.pub")
    }
    /// The authority of the API server's own proxy to aggregated APIs.
    pub(crate) fn front_proxy_authority(&self) -> PathBuf {
        self.certificates().join("front-proxy-ca.crt")
    }
    pub(crate) fn front_proxy_certificate(&self) -> PathBuf {
        self.certificates().join("front-proxy-client.crt")
    }
    pub(crate) fn front_proxy_key(&self) -> PathBuf {
        self.certificates().join("front-proxy-client.key")
    }
    pub(crate) fn tokens(&self) -> PathBuf {
        self.certificates().join("tokens.csv")
    }
}

/// etcd, which never waits for a disk: what it holds is worth nothing after a crash.
pub(crate) fn etcd(binaries: &Binaries, layout: &Layout) -> Command {
    let client = format!("http://127.0.0.1:{}", layout.etcd_client);
    let peer = format!("http://127.0.0.1:{}", layout.etcd_peer);
    let mut command = Command::new(binaries.control_plane("etcd"));
    command
        .arg("--name=whalezen")
        .arg(format!("--data-dir={}", layout.state.join("etcd").display()))
        .arg(format!("--listen-client-urls={client}"))
        .arg(format!("--advertise-client-urls={client}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=whalezen={peer}"))
        .arg("--unsafe-no-fsync")
        // A single member elects itself after this long; there is nobody to disagree.
        .args(["--heartbeat-interval=20", "--election-timeout=200"])
        .arg(format!("--quota-backend-bytes={}", 8_u64 << 30));
    command
}

/// The API server. `simulated` nodes run no process, so no pod needs a token or a network.
pub(crate) fn apiserver(binaries: &Binaries, layout: &Layout, simulated: bool, extra: &[String]) -> Command {
    let mut command = Command::new(binaries.control_plane("kube-apiserver"));
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{}", layout.etcd_client))
        .args(["--bind-address=127.0.0.1", "--endpoint-reconciler-type=none"])
        .arg(format!("--secure-port={}", layout.api))
        .arg(format!("--cert-dir={}", layout.certificates().display()))
        .arg(format!("--token-auth-file={}", layout.tokens().display()))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(format!("--service-account-key-file={}", layout.service_account_public_key().display()))
        .arg(format!("--service-account-signing-key-file={}", layout.service_account_key().display()))
        .args(["--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16"])
        .args(["--allow-privileged", "--profiling=false"])
        // Nobody routes to Services here: the API server looks their endpoints up itself.
        .arg("--enable-aggregator-routing=true")
        .arg(format!("--requestheader-client-ca-file={}", layout.front_proxy_authority().display()))
        .arg(format!("--requestheader-allowed-names={}", credentials::FRONT_PROXY))
        .args([
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
        ])
        .arg("--requestheader-extra-headers-prefix=X-Remote-Extra-")
        .arg(format!("--proxy-client-cert-file={}", layout.front_proxy_certificate().display()))
        .arg(format!("--proxy-client-key-file={}", layout.front_proxy_key().display()));
    if simulated {
        command.arg("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition");
    }
    command.args(extra);
    command
}

/// The controllers of ordinary workloads, with a client that is not held back.
pub(crate) fn controller_manager(binaries: &Binaries, layout: &Layout, extra: &[String]) -> Command {
    let mut command = Command::new(binaries.control_plane("kube-controller-manager"));
    command
        .arg(format!("--kubeconfig={}", layout.kubeconfig().display()))
        .arg(format!("--controllers={}", CONTROLLERS.join(",")))
        .args(["--leader-elect=false", "--secure-port=0", "--profiling=false"])
        .args(["--kube-api-qps=2000", "--kube-api-burst=4000"])
        // Nobody renews the nodes' leases (see `kwok`): a node is NotReady when a test says so.
        .arg("--node-monitor-grace-period=87600h")
        .args(extra);
    command
}

/// The scheduler, by a configuration file: its flags cannot raise the client's limits.
pub(crate) fn scheduler(binaries: &Binaries, layout: &Layout) -> Result<Command> {
    let config = layout.state.join("scheduler.json");
    let content = serde_json::json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": { "leaderElect": false },
        "clientConnection": { "kubeconfig": layout.kubeconfig(), "qps": 2000, "burst": 4000 },
    });
    fs::write(&config, content.to_string())?;
    let mut command = Command::new(binaries.control_plane("kube-scheduler"));
    command.arg(format!("--config={}", config.display())).arg("--secure-port=0");
    Ok(command)
}

/// The simulator of nodes and pods, with every stage file of this repository.
///
/// It keeps no node leases: a node is not ready when a test says so, and their renewals would be
/// writes that nobody measures.
pub(crate) fn kwok(binaries: &Binaries, layout: &Layout) -> Result<Command> {
    let mut command = Command::new(binaries.kwok());
    command.arg(format!("--kubeconfig={}", layout.kubeconfig().display())).arg("--manage-all-nodes");
    command.arg("--node-lease-duration-seconds=0");
    for file in yaml_files(&sources().join("stages"))? {
        command.arg(format!("--config={}", file.display()));
    }
    Ok(command)
}

fn yaml_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
