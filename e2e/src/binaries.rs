//! The programs a cluster consists of, each from a Go module under `e2e/cluster`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::go_module::GoModule;

/// The Kubernetes version of the control plane. Without it in the binary, clients cannot
/// parse what the API server says its version is.
const KUBERNETES: (&str, &str, &str) = ("v1.36.3", "1", "36");

/// The folder of a cluster's sources: Go modules and stage files.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster")
}

/// Paths of everything a cluster runs.
#[derive(Clone, Debug)]
pub struct Binaries {
    control_plane: PathBuf,
    kwok: PathBuf,
    supervisor: PathBuf,
}

impl Binaries {
    /// Finds the binaries in the cache, and builds those that are not there. Blocks, for
    /// some minutes the first time.
    pub fn ensure() -> Result<Self> {
        let sources = sources();
        let supervisor = GoModule::new(sources.join("supervisor")).build()?.join("supervisor");
        let kwok = GoModule::new(sources.join("kwok")).build()?.join("kwok");
        let control_plane = control_plane(&sources).build()?;
        Ok(Self { control_plane, kwok, supervisor })
    }

    /// `etcd`, `kube-apiserver`, `kube-controller-manager`, `kube-scheduler` or `kubectl`.
    pub fn control_plane(&self, part: &str) -> PathBuf {
        self.control_plane.join(part)
    }

    /// The folder that holds `etcd`, `kube-apiserver` and `kubectl`, as tools want it in
    /// `KUBEBUILDER_ASSETS`.
    pub fn assets(&self) -> &Path {
        &self.control_plane
    }

    /// The simulator of nodes and pods.
    pub fn kwok(&self) -> &Path {
        &self.kwok
    }

    pub(crate) fn supervisor(&self) -> &Path {
        &self.supervisor
    }
}

/// Paths of what a real node runs, beside what its machine has.
#[derive(Clone, Debug)]
pub(crate) struct NodeBinaries {
    pub(crate) kubelet: PathBuf,
    /// The folder of `containerd`, its shim and `ctr`.
    pub(crate) containerd: PathBuf,
}

impl NodeBinaries {
    /// Finds the binaries in the cache, and builds those that are not there. Blocks, for
    /// some minutes the first time.
    pub(crate) fn ensure() -> Result<Self> {
        let sources = sources();
        let kubelet = kubernetes(&sources).package("./kubelet").build()?.join("kubelet");
        let containerd = ["containerd", "containerd-shim-runc-v2", "ctr"]
            .iter()
            .fold(GoModule::new(sources.join("containerd")), |module, program| {
                module.package(&format!("github.com/containerd/containerd/v2/cmd/{program}"))
            })
            // Snapshots on file systems that nobody has here need C libraries.
            .tags("no_btrfs,no_zfs,no_devmapper")
            .build()?;
        Ok(Self { kubelet, containerd })
    }
}

fn control_plane(sources: &Path) -> GoModule {
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"]
        .iter()
        .fold(kubernetes(sources), |module, part| module.link(part, "controlplane"))
}

/// The module of Kubernetes itself.
fn kubernetes(sources: &Path) -> GoModule {
    let (version, major, minor) = KUBERNETES;
    let stamp = "k8s.io/component-base/version";
    GoModule::new(sources.join("controlplane")).ldflags(&format!(
        "-X {stamp}.gitVersion={version} -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor}"
    ))
}
