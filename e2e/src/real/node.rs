//! One real node: where things are on it, and what runs there.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::Node;

use super::files::{self, CONTAINERD_SOCKET};
use super::{Network, Tools, node_dir};
use crate::binaries::NodeBinaries;
use crate::process::{Place, Process};
use crate::start::failure;
use crate::supervisor::Supervisor;

/// The names of a cluster's real nodes, which are counted from 1.
pub(crate) fn node_names(nodes: u8) -> impl Iterator<Item = (u8, String)> {
    (1..=nodes).map(|number| (number, format!("node-{number}")))
}

/// What all real nodes of a cluster have in common.
pub(crate) struct Machine {
    pub(crate) supervisor: Arc<Supervisor>,
    /// The program that is the first process of a node.
    pub(crate) init: PathBuf,
    pub(crate) binaries: NodeBinaries,
    pub(crate) tools: Tools,
    pub(crate) network: Network,
    pub(crate) nodes: u8,
    pub(crate) state: PathBuf,
    /// Whose clients the kubelets answer.
    pub(crate) clients: PathBuf,
}

/// A kubelet with containerd and runc, in namespaces of its own.
///
/// What lies on a node is found from outside under [`Self::path`].
pub struct RealNode {
    pub(super) name: String,
    pub(super) number: u8,
    pub(super) dir: PathBuf,
    pub(super) machine: Arc<Machine>,
    pub(super) boots: AtomicU32,
    pub(super) runs: Mutex<Option<Processes>>,
}

/// The processes of a node that is switched on.
#[derive(Clone)]
pub(super) struct Processes {
    pub(super) init: Process,
    pub(super) containerd: Process,
    /// None until the kubelet was started, and when it was stopped.
    pub(super) kubelet: Option<Process>,
}

impl RealNode {
    /// A node that is switched off.
    pub(crate) fn new(machine: Arc<Machine>, number: u8, name: String) -> Result<Self> {
        let dir = node_dir(&machine.state, &name);
        let node = Self { name, number, dir, machine, boots: AtomicU32::new(0), runs: Mutex::new(None) };
        let pods = node.machine.network.pods(number);
        files::write(&node.dir, &node.machine.tools, &node.cgroup(), &pods, &node.machine.clients)?;
        Ok(node)
    }

    /// Its name, that of its Node object too.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address, at which this machine reaches its kubelet as well.
    pub fn address(&self) -> std::net::Ipv4Addr {
        self.machine.network.node(self.number)
    }

    /// The id of its first process, in whose namespaces the node lives. Another one after each boot.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.on()?.init.pid())
    }

    /// Its network namespace, as a file. Another one after each boot.
    pub fn network_namespace(&self) -> Result<PathBuf> {
        Ok(PathBuf::from(format!("/proc/{}/ns/net", self.pid()?)))
    }

    /// Where this machine finds what lies on the node at `place`, for example `/etc/cdi` or
    /// `/run/containerd/containerd.sock`. For what lies below `/var/run`, say `/run`: links lead out of the node.
    pub fn path(&self, place: &str) -> Result<PathBuf> {
        Ok(PathBuf::from(format!("/proc/{}/root", self.pid()?)).join(place.trim_start_matches('/')))
    }

    /// The container runtime's socket.
    pub fn containerd_socket(&self) -> Result<PathBuf> {
        self.path(CONTAINERD_SOCKET)
    }

    /// The folder of device descriptions (CDI) that stays from boot to boot; `/run/cdi` does not.
    pub fn cdi_dir(&self) -> Result<PathBuf> {
        self.path("/etc/cdi")
    }

    /// What is `/var/lib/kubelet` on the node. This path is good at any time.
    pub fn kubelet_dir(&self) -> PathBuf {
        self.dir.join("kubelet")
    }

    /// Where the kubelet waits for device plugins (`kubelet.sock`), and looks for their sockets.
    pub fn device_plugin_dir(&self) -> PathBuf {
        self.kubelet_dir().join("device-plugins")
    }

    /// Where the kubelet tells which pods have which devices.
    pub fn pod_resources_socket(&self) -> PathBuf {
        self.kubelet_dir().join("pod-resources/kubelet.sock")
    }

    /// Starts a process on the node: in its namespaces, so with its network, its files and its processes. It ends with
    /// the node. Its output goes to `<node>-<name>.log` in the cluster's log folder.
    pub fn spawn(&self, name: &str, command: &Command) -> Result<Process> {
        self.spawn_with(&self.on()?.init, name, command)
    }

    /// Runs a process on the node to its end and gives what it printed, an error where it fails.
    pub async fn run(&self, command: &Command) -> Result<String> {
        self.run_with(&self.on()?.init, command).await
    }

    /// The command by which people look at containerd, with the node's socket and the kubelet's namespace; to be given
    /// arguments and to [`Self::run`]. Containers that it starts need a `--cgroup` below [`Self::cgroup`].
    pub fn ctr(&self) -> Command {
        let mut command = Command::new(self.machine.binaries.containerd.join("ctr"));
        command.args(["--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"]);
        command
    }

    /// Its kubelet; an error while it is stopped or the node is off.
    pub fn kubelet(&self) -> Result<Process> {
        self.on()?.kubelet.with_context(|| format!("the kubelet of {} is stopped", self.name))
    }

    /// Its container runtime.
    pub fn containerd(&self) -> Result<Process> {
        Ok(self.on()?.containerd)
    }

    /// Fails when one of its processes has ended that nobody ended, with the end of its log.
    pub(crate) fn check(&self) -> Result<()> {
        let Ok(on) = self.on() else { return Ok(()) };
        let processes = [Some(on.init), Some(on.containerd), on.kubelet];
        match processes.into_iter().flatten().find(|process| !process.is_running()) {
            Some(ended) => Err(failure(&ended)),
            None => Ok(()),
        }
    }

    pub(super) fn spawn_with(&self, init: &Process, name: &str, command: &Command) -> Result<Process> {
        let place = Place::Inside(init.pid());
        let supervisor = &self.machine.supervisor;
        Process::spawn_in(place, supervisor, &self.process_name(name), self.log(name), command)
    }

    pub(super) async fn run_with(&self, init: &Process, command: &Command) -> Result<String> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let name = format!("run-{}", RUNS.fetch_add(1, Ordering::Relaxed));
        let process = self.spawn_with(init, &name, command)?;
        let exit = process.wait().await?;
        let said = std::fs::read_to_string(process.log());
        let _ = std::fs::remove_file(process.log());
        let said = said?;
        if !exit.success() {
            let program = command.get_program().display();
            bail!("{program} on {} ended with {} and said:\n{}", self.name, exit.code, said.trim());
        }
        Ok(said)
    }

    pub(super) fn on(&self) -> Result<Processes> {
        self.lock().clone().with_context(|| format!("{} is switched off", self.name))
    }

    pub(super) fn process_name(&self, part: &str) -> String {
        format!("{}-{part}", self.name)
    }

    pub(super) fn log(&self, part: &str) -> PathBuf {
        self.machine.state.join("logs").join(format!("{}.log", self.process_name(part)))
    }

    /// The control group below which those of its pods are, from the root of each hierarchy and without a first slash. It
    /// is removed with the cluster; others are not.
    pub fn cgroup(&self) -> String {
        format!("whalezen-{}/{}", self.machine.supervisor.pid(), self.name)
    }

    /// The data is valid after every statement, so a panic elsewhere does not matter.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Processes>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a Node says that pods may be placed on it, and where it is reached.
pub(crate) fn is_ready(node: &Node) -> bool {
    let Some(status) = &node.status else { return false };
    let ready = |condition: &k8s_openapi::api::core::v1::NodeCondition| {
        condition.type_ == "Ready" && condition.status == "True"
    };
    let taints =
        node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).is_some_and(|taints| !taints.is_empty());
    status.conditions.iter().flatten().any(ready) && !taints && status.addresses.is_some()
}
