//! The configuration of one real node's kubelet, container runtime and pod network.
//!
//! Where programs expect something is left at its default: the node's mounts make `/var/lib/kubelet`, `/run/containerd`
//! and `/etc/cdi` its own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use super::Tools;
use super::image::PAUSE_IMAGE;

/// The container runtime's socket, as the node sees it.
pub(crate) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

/// Where a node's own configuration lies.
pub(crate) fn containerd_config(dir: &Path) -> PathBuf {
    dir.join("containerd.toml")
}

pub(crate) fn kubelet_config(dir: &Path) -> PathBuf {
    dir.join("kubelet.json")
}

pub(crate) fn kubeconfig(dir: &Path) -> PathBuf {
    dir.join("kubeconfig")
}

/// Writes what the runtime and the kubelet of a node read. `cgroup` is below which pods have their control groups,
/// `pods` the addresses they get, and `clients` the authority of those whom the kubelet answers.
pub(crate) fn write(dir: &Path, tools: &Tools, cgroup: &str, pods: &str, clients: &Path) -> Result<()> {
    let networks = dir.join("cni");
    fs::create_dir_all(&networks)?;
    fs::write(networks.join("10-pods.conflist"), network(pods).to_string())?;
    fs::write(containerd_config(dir), containerd(tools, &networks)?)?;
    fs::write(kubelet_config(dir), kubelet(cgroup, clients).to_string())?;
    Ok(())
}

/// A bridge for the node's pods. Nodes know the way to each other's.
fn network(pods: &str) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            "ipam": {
                "type": "host-local",
                // A node that boots again has no pods, so none of its addresses is taken.
                "dataDir": "/run/cni/addresses",
                "ranges": [[{ "subnet": pods }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    })
}

fn containerd(tools: &Tools, networks: &Path) -> Result<String> {
    // JSON's strings are TOML's.
    let text = |path: &Path| serde_json::to_string(path);
    Ok(format!(
        r#"version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  # Root without CAP_SYS_RESOURCE may not lower what a process is worth when memory runs out.
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = [{plugins}]
    conf_dir = {networks}
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = {runc}
"#,
        plugins = text(&tools.plugins)?,
        networks = text(networks)?,
        runc = text(&tools.runc)?,
    ))
}

fn kubelet(cgroup: &str, clients: &Path) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": clients },
        },
        "authorization": { "mode": "Webhook" },
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{cgroup}"),
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": false,
        "resolvConf": "",
        // What a device plugin offers is to be seen at once; it is written only when it changes.
        "nodeStatusUpdateFrequency": "1s",
        "nodeStatusReportFrequency": "5m",
        // The disk is this machine's: that others fill it is no reason to throw pods out.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": { "nodefs.available": "1%", "imagefs.available": "1%" },
        "healthzPort": 0,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
    })
}
