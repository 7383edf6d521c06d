//! The command line of every component, in one place.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::binaries::{Binaries, sources};
use crate::credentials::{self, ClientFiles};

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

/// What nodes a cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nodes {
    /// Only Node objects.
    None,
    /// Played by KWOK.
    Simulated,
    /// Kubelets.
    Real,
}

/// Where everything of one cluster lies and listens.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) state: PathBuf,
    pub(crate) etcd_client: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) api: u16,
    /// Where the API server listens: on the loopback interface, or where its real nodes reach it.
    pub(crate) address: Ipv4Addr,
}

impl Layout {
    pub(crate) fn url(&self) -> String {
        format!("https://{}:{}", self.address, self.api)
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
    /// How the API server's own proxy shows aggregated APIs who it is.
    pub(crate) fn front_proxy(&self) -> ClientFiles {
        self.client("front-proxy")
    }
    /// How the API server shows kubelets who it is.
    pub(crate) fn kubelet_client(&self) -> ClientFiles {
        self.client("kubelet")
    }
    fn client(&self, of: &str) -> ClientFiles {
        let file = |what: &str| self.certificates().join(format!("{of}-{what}"));
        ClientFiles { authority: file("ca.crt"), certificate: file("client.crt"), key: file("client.key") }
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

/// The API server. Nodes that are simulated run no process, so no pod on them needs a token or a network; real ones are
/// held to what a kubelet may do, and asked for logs at their addresses.
pub(crate) fn apiserver(binaries: &Binaries, layout: &Layout, nodes: Nodes, extra: &[String]) -> Command {
    let proxy = layout.front_proxy();
    let mut command = Command::new(binaries.control_plane("kube-apiserver"));
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{}", layout.etcd_client))
        .arg(format!("--bind-address={}", layout.address))
        .arg("--endpoint-reconciler-type=none")
        .arg(format!("--secure-port={}", layout.api))
        .arg(format!("--cert-dir={}", layout.certificates().display()))
        .arg(format!("--token-auth-file={}", layout.tokens().display()))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(format!("--service-account-key-file={}", layout.service_account_public_key().display()))
        .arg(format!("--service-account-signing-key-file={}", layout.service_account_key().display()))
        .args(["--service-cluster-ip-range=10.96.0.0/16"])
        .args(["--allow-privileged", "--profiling=false"])
        // Nobody routes to Services here: the API server looks their endpoints up itself.
        .arg("--enable-aggregator-routing=true")
        .arg(format!("--requestheader-client-ca-file={}", proxy.authority.display()))
        .arg(format!("--requestheader-allowed-names={}", credentials::FRONT_PROXY))
        .args([
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
        ])
        .arg("--requestheader-extra-headers-prefix=X-Remote-Extra-")
        .arg(format!("--proxy-client-cert-file={}", proxy.certificate.display()))
        .arg(format!("--proxy-client-key-file={}", proxy.key.display()));
    let of_real_nodes = nodes == Nodes::Real;
    command.arg(if of_real_nodes { "--authorization-mode=Node,RBAC" } else { "--authorization-mode=RBAC" });
    match nodes {
        Nodes::None => {}
        Nodes::Simulated => {
            command.arg("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition");
        }
        Nodes::Real => {
            let client = layout.kubelet_client();
            command
                .arg("--enable-admission-plugins=NodeRestriction")
                .arg("--kubelet-preferred-address-types=InternalIP")
                .arg(format!("--kubelet-client-certificate={}", client.certificate.display()))
                .arg(format!("--kubelet-client-key={}", client.key.display()))
                // The kubelets ask with this whose certificate is shown to them.
                .arg(format!("--client-ca-file={}", client.authority.display()));
        }
    }
    command.args(extra);
    command
}

/// The controllers of ordinary workloads, with a client that is not held back.
pub(crate) fn controller_manager(
    binaries: &Binaries,
    layout: &Layout,
    nodes: Nodes,
    extra: &[String],
) -> Command {
    let mut controllers = CONTROLLERS.join(",");
    if nodes == Nodes::Real {
        controllers.push_str(",root-ca-certificate-publisher-controller");
    }
    let mut command = Command::new(binaries.control_plane("kube-controller-manager"));
    command
        .arg(format!("--kubeconfig={}", layout.kubeconfig().display()))
        .arg(format!("--controllers={controllers}"))
        .args(["--leader-elect=false", "--secure-port=0", "--profiling=false"])
        .args(["--kube-api-qps=2000", "--kube-api-burst=4000"]);
    if nodes == Nodes::Real {
        // Pods are told by it whom to trust.
        command.arg(format!("--root-ca-file={}", layout.authority().display()));
    } else {
        // Nobody renews the nodes' leases (see `kwok`): a node is NotReady when a test says so.
        command.arg("--node-monitor-grace-period=87600h");
    }
    command.args(extra);
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
