//! However the owner of real nodes ends, the machine is as it was.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use whalezen_e2e::Cluster;
use whalezen_e2e::real::passed_over;

use crate::ground::{DEADLINE, container, pod, ready, run};

/// Tells [`an_owner_for_other_tests`] what to do; without it that test does nothing.
const OWNER_STATE: &str = "WHALEZEN_TEST_OWNER_STATE";

#[tokio::test]
async fn an_owner_that_is_killed_leaves_no_process_mount_interface_or_control_group() {
    if passed_over("the test of an owner that is killed") {
        return;
    }
    let state = scratch("killed");
    let mut owner = start_owner(&state);
    let output = BufReader::new(owner.stdout.take().unwrap());
    let line =
        output.lines().map_while(Result::ok).find_map(|line| Some(line.strip_prefix("ready ")?.to_owned()));
    let line = line.expect("the owner ended too early");
    let (interface, container) = line.split_once(' ').unwrap();
    let trace = Trace::of(state, interface, container);
    let there = trace.left();
    for part in [
        "kubelet",
        "containerd",
        "containerd-shim",
        "sleep 98",
        "interface",
        "mount",
        "control group",
        "folder",
    ] {
        assert!(there.iter().any(|left| left.contains(part)), "{part} is not in {there:#?}");
    }
    owner.kill().unwrap();
    owner.wait().unwrap();
    trace.until_nothing_is_left().await;
}

#[tokio::test]
async fn an_owner_that_is_killed_while_its_nodes_boot_leaves_nothing_either() {
    if passed_over("the test of an owner that is killed early") {
        return;
    }
    let state = scratch("early");
    let mut owner = start_owner(&state);
    let deadline = Instant::now() + DEADLINE;
    while !state.join("nodes/node-1/boot-id").exists() {
        assert!(Instant::now() < deadline, "the node does not boot");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // The interface's name is not known: it goes with the namespace, as the test above shows.
    let trace = Trace::of(state, "none", "none");
    owner.kill().unwrap();
    owner.wait().unwrap();
    trace.until_nothing_is_left().await;
}

/// Not a test by itself: the others run it in a process of its own, which they kill.
#[tokio::test]
async fn an_owner_for_other_tests() {
    let Some(state) = std::env::var_os(OWNER_STATE).map(PathBuf::from) else { return };
    let cluster = Cluster::builder().state_dir(&state).real_nodes(1).start().await.unwrap();
    let pid = std::process::id();
    let pod =
        run(&cluster, pod("sleeper", &cluster.real_nodes()[0], &format!("exec sleep 98{pid}")), ready).await;
    let [10, block, 0, 11] = cluster.real_nodes()[0].address().octets() else { panic!("another address") };
    let (_, id) = container(&pod);
    println!("\nready whalezen{block} {}", id.trim_start_matches("containerd://"));
    std::future::pending::<()>().await;
}

fn start_owner(state: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let test = "nothing_left::an_owner_for_other_tests";
    command.args(["--exact", test, "--nocapture"]).env(OWNER_STATE, state);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("whalezen-test-nodes-{name}-{}", std::process::id()))
}

/// By what a cluster is known on the machine.
struct Trace {
    state: PathBuf,
    interface: String,
    /// The control group of its nodes, and the name of a container's.
    cgroups: [String; 2],
}

impl Trace {
    fn of(state: PathBuf, interface: &str, container: &str) -> Self {
        let supervisor = fs::read_to_string(state.join("supervisor.pid")).unwrap();
        let cgroups = [format!("whalezen-{supervisor}"), container.to_owned()];
        Self { state, interface: interface.to_owned(), cgroups }
    }

    /// What of the cluster is there, in words.
    fn left(&self) -> Vec<String> {
        let state = self.state.to_str().unwrap();
        let mut left = Vec::new();
        for process in fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()) {
            let read = |file: &str| {
                String::from_utf8_lossy(&fs::read(process.join(file)).unwrap_or_default()).replace('\0', " ")
            };
            let (command, mounts) = (read("cmdline"), read("mountinfo"));
            let mount = mounts.lines().find(|mount| mount.contains(state));
            if command.contains(state) || mount.is_some() || read("cgroup").contains(&self.cgroups[0]) {
                left.push(format!("process {command}"));
            }
            left.extend(mount.map(|mount| format!("mount {mount}")));
        }
        let mut groups = vec![PathBuf::from("/sys/fs/cgroup")];
        while let Some(group) = groups.pop() {
            if self.cgroups.iter().any(|name| group.ends_with(name)) {
                left.push(format!("control group {}", group.display()));
            }
            // One may go while it is looked at.
            let below = fs::read_dir(group).into_iter().flatten().flatten();
            groups.extend(
                below
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| entry.path()),
            );
        }
        if Path::new("/sys/class/net").join(&self.interface).exists() {
            left.push(format!("interface {}", self.interface));
        }
        if self.state.exists() {
            left.push(format!("folder {state}"));
        }
        left
    }

    async fn until_nothing_is_left(&self) {
        let deadline = Instant::now() + DEADLINE;
        while !self.left().is_empty() {
            assert!(Instant::now() < deadline, "what is left: {:#?}", self.left());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
