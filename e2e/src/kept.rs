//! Clusters that outlived the process that started them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::cache::cache_dir;
use crate::go_module::remove_if_there;

/// A supervisor ends within milliseconds of being asked.
const DEADLINE: Duration = Duration::from_secs(30);

/// The state folders of the clusters kept in the cache folder.
pub fn list() -> Result<Vec<PathBuf>> {
    let dir = cache_dir()?.join("clusters");
    let Ok(entries) = fs::read_dir(&dir) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries {
        found.push(entry?.path());
    }
    found.sort();
    Ok(found)
}

/// Ends the cluster with this state folder and waits until it is gone.
pub fn stop(state: &Path) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    // The number is read once: the supervisor removes the folder before it ends itself.
    if let Some(supervisor) = written_pid(state) {
        while supervises(supervisor, state) {
            // It may end between the look and the signal.
            let _ = kill_process(supervisor, Signal::TERM);
            if Instant::now() > deadline {
                bail!(
                    "the supervisor of {} does not end (process {})",
                    state.display(),
                    supervisor.as_raw_nonzero()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    remove_if_there(state).with_context(|| format!("cannot remove {}", state.display()))
}

/// The process that the state folder names as its supervisor.
fn written_pid(state: &Path) -> Option<Pid> {
    Pid::from_raw(fs::read_to_string(state.join("supervisor.pid")).ok()?.trim().parse().ok()?)
}

/// Whether a process is the running supervisor of a state folder. A process that merely has its old number does not
/// have the folder as its only argument.
fn supervises(process: Pid, state: &Path) -> bool {
    fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero())).is_ok_and(|command| {
        command.split(|byte| *byte == 0).nth(1) == Some(state.as_os_str().as_encoded_bytes())
    })
}
