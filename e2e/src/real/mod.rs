//! Real nodes: kubelets with containerd and runc, each in namespaces of its own on this machine.
//!
//! A node is a process namespace with a first process, a network namespace on the cluster's own network, a host name, and
//! mounts by which what a node writes in the places that everybody knows (`/var/lib/kubelet`, `/run/containerd`,
//! `/etc/cdi`) is its own. All of it hangs on that first process, which the supervisor ends: then the kernel ends the
//! containers and takes mounts, addresses and interfaces away. See `e2e/cluster/supervisor/node.go`.

mod files;
mod image;
mod life;
mod network;
mod node;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use rustix::process::geteuid;

pub use image::{BUSYBOX_IMAGE, Image};
use image::{archive, pause};
pub(crate) use network::Network;
pub use node::RealNode;
pub(crate) use node::{Machine, is_ready, node_names};

use crate::binaries::NodeBinaries;
use crate::components::Layout;
use crate::process::find_program;

/// Set to something by who wants the tests of real nodes to fail, and not to be passed over, where there can be none.
pub const REQUIRED_VARIABLE: &str = "WHALEZEN_REQUIRE_REAL_NODES";
/// Where distributions put the plugins that give pods their network.
const PLUGIN_DIRS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];
const PLUGINS: [&str; 3] = ["bridge", "host-local", "loopback"];
/// A program without a loader, which therefore runs in an image that holds nothing else.
const BUSYBOX: [&str; 3] = ["/bin/busybox", "/usr/bin/busybox", "/usr/lib/busybox/busybox-static"];

/// The programs of this machine that real nodes use.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    pub(crate) runc: PathBuf,
    pub(crate) plugins: PathBuf,
    pub(crate) busybox: PathBuf,
}

impl Tools {
    /// Finds them. An error says what this machine lacks, and how to get it.
    pub(crate) fn find() -> Result<Self> {
        if !geteuid().is_root() {
            anyhow::bail!("real nodes need root, for namespaces and mounts of their own");
        }
        for program in ["ip", "nsenter", "unshare", "runc"] {
            find_program(program.as_ref()).with_context(|| {
                format!("real nodes need {program}: `apt-get install iproute2 util-linux runc`")
            })?;
        }
        let apart = Command::new("unshare")
            .args(["--net", "--uts", "--mount", "--pid", "--fork", "true"])
            .output()
            .context("cannot run unshare")?;
        if !apart.status.success() {
            let said = String::from_utf8_lossy(&apart.stderr);
            anyhow::bail!(
                "real nodes need namespaces of their own, which this machine refuses: {}",
                said.trim()
            );
        }
        let complete = |dir: &&Path| PLUGINS.iter().all(|plugin| dir.join(plugin).is_file());
        let plugins = PLUGIN_DIRS
            .iter()
            .map(Path::new)
            .find(complete)
            .context("real nodes need the CNI plugins: `apt-get install containernetworking-plugins`")?;
        let busybox = BUSYBOX
            .iter()
            .map(Path::new)
            .find(|file| is_static(file).unwrap_or(false))
            .context("real nodes need a busybox without a loader: `apt-get install busybox-static`")?;
        Ok(Self {
            runc: find_program("runc".as_ref())?,
            plugins: plugins.to_owned(),
            busybox: busybox.to_owned(),
        })
    }
}

/// The file by which the kubelet of the node with this name knows the API server.
pub(crate) fn kubeconfig(layout: &Layout, node: &str) -> PathBuf {
    files::kubeconfig(&node_dir(&layout.state, node))
}

/// Where the files of a node lie.
fn node_dir(state: &Path, node: &str) -> PathBuf {
    state.join("nodes").join(node)
}

/// Whether a program names no loader: it would stand near the beginning of the file.
fn is_static(program: &Path) -> Result<bool> {
    let mut head = Vec::new();
    File::open(program)?.take(4096).read_to_end(&mut head)?;
    Ok(head.starts_with(b"\x7fELF") && !head.windows(4).any(|part| part == b"/ld-"))
}

/// Builds what real nodes run, where it is not in the cache. Blocks, for some minutes the first time.
pub fn build() -> Result<()> {
    NodeBinaries::ensure().map(|_| ())
}

/// For tests: whether this machine cannot have real nodes. It says so on standard error, past the test harness, with what
/// is passed over and why.
///
/// # Panics
///
/// Where `WHALEZEN_REQUIRE_REAL_NODES` is set, as in continuous integration, and there can be none: to pass tests over
/// there would be to hide that they did not run.
pub fn passed_over(what: &str) -> bool {
    let Err(missing) = Tools::find() else { return false };
    let required = std::env::var_os(REQUIRED_VARIABLE).is_some_and(|value| !value.is_empty());
    assert!(!required, "{what} cannot run although {REQUIRED_VARIABLE} is set: {missing:#}");
    crate::progress::say(&format!("PASSED OVER: {what}: {missing:#}"));
    true
}
