//! One process of a cluster: its log, its end, and what it has used.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::supervisor::{Exit, ExitWatch, Request, Supervisor};

/// In which namespaces a process starts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Those of the supervisor.
    Machine,
    /// New ones of these kinds (`net`, `uts`, `pid`, `mnt`), the others as the supervisor's.
    Apart(&'static [&'static str]),
    /// Those of the process with this id.
    Inside(u32),
}

/// A process that runs under a cluster's supervisor and therefore never outlives the cluster.
/// Dropping the handle leaves it running.
#[derive(Clone)]
pub struct Process {
    name: String,
    pid: u32,
    log: PathBuf,
    exit: ExitWatch,
    supervisor: Arc<Supervisor>,
}

impl Process {
    pub(crate) fn spawn(
        supervisor: &Arc<Supervisor>,
        name: &str,
        log: PathBuf,
        command: &Command,
    ) -> Result<Self> {
        Self::spawn_in(Place::Machine, supervisor, name, log, command)
    }

    pub(crate) fn spawn_in(
        place: Place,
        supervisor: &Arc<Supervisor>,
        name: &str,
        log: PathBuf,
        command: &Command,
    ) -> Result<Self> {
        let mut request = request(command, &log)?;
        match place {
            Place::Machine => {}
            Place::Apart(kinds) => request.isolate = kinds,
            Place::Inside(holder) => request.inside = holder,
        }
        let (pid, exit) = supervisor.spawn(request).with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name: name.to_owned(), pid, log, exit, supervisor: Arc::clone(supervisor) })
    }

    /// The name it was started with, for example `kube-apiserver`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The file that holds its standard output and error.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, or `None` while it runs.
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.exit().is_none() && self.exit.has_changed().is_ok()
    }

    /// Waits for its end. An error means that the whole cluster was stopped meanwhile.
    pub async fn wait(&self) -> Result<Exit> {
        let mut exit = self.exit.clone();
        let ended = exit.wait_for(Option::is_some).await.context("the cluster has been stopped")?;
        (*ended).context("a process that ended has an exit")
    }

    /// Ends it and everything in its process group with SIGKILL.
    pub fn kill(&self) -> Result<()> {
        self.supervisor.signal(self.pid, Signal::KILL.as_raw(), true)
    }

    /// Asks it to end, with SIGTERM.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends it any signal: STOP and CONT make a process that hangs and comes back late.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.supervisor.signal(self.pid, signal.as_raw(), false)
    }

    /// CPU time used so far, or in all once it has ended: user and system, in seconds.
    #[expect(clippy::cast_precision_loss, reason = "centuries of CPU time are not measured here")]
    pub fn cpu_seconds(&self) -> f64 {
        if let Some(exit) = self.exit() {
            return exit.cpu_micros as f64 / 1e6;
        }
        cpu_ticks(self.pid).unwrap_or(0) as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// The most memory it has had resident at one time, in bytes.
    pub fn peak_rss_bytes(&self) -> u64 {
        let kib = self.exit().map(|exit| exit.peak_rss_kib).or_else(|| peak_rss_kib(self.pid));
        kib.unwrap_or(0) * 1024
    }

    /// Whether its log holds this text.
    pub fn log_contains(&self, text: &str) -> bool {
        self.read_log().contains(text)
    }

    /// The last `lines` lines of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        let log = self.read_log();
        let all: Vec<&str> = log.lines().collect();
        let from = all.len().saturating_sub(lines);
        all.get(from..).unwrap_or_default().join("\n")
    }

    fn read_log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("name", &self.name).field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// What the supervisor needs to know of a command. The environment is this process's with the
/// command's changes (`env_clear` cannot be seen from outside and has no effect).
fn request(command: &Command, log: &Path) -> Result<Request<'static>> {
    let mut argv = vec![text(find_program(command.get_program())?.as_os_str())?];
    for argument in command.get_args() {
        argv.push(text(argument)?);
    }
    let changes: Vec<(&OsStr, Option<&OsStr>)> = command.get_envs().collect();
    let mut pairs = Vec::new();
    for (name, value) in env::vars_os() {
        if !changes.iter().any(|(changed, _)| *changed == name) {
            pairs.push(format!("{}={}", name.to_string_lossy(), value.to_string_lossy()));
        }
    }
    for (name, value) in changes {
        if let Some(value) = value {
            pairs.push(format!("{}={}", text(name)?, text(value)?));
        }
    }
    let dir = command.get_current_dir().map_or(Ok(String::new()), |dir| text(dir.as_os_str()))?;
    let log = text(log.as_os_str())?;
    Ok(Request { argv, env: pairs, dir, log, ..Request::default() })
}

fn text(value: &OsStr) -> Result<String> {
    Ok(value.to_str().with_context(|| format!("{} is not UTF-8", value.display()))?.to_owned())
}

/// A program named without a folder is looked up in PATH, as `Command` itself does.
pub(crate) fn find_program(program: &OsStr) -> Result<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Ok(std::path::absolute(path)?);
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders)
        .map(|folder| folder.join(path))
        .find(|candidate| candidate.is_file())
        .with_context(|| format!("{} is not in PATH", path.display()))
}

/// utime and stime of `/proc/PID/stat`: fields 14 and 15, counted from 1.
fn cpu_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command in parentheses may hold spaces; what follows the last one starts with field 3.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    Some(times.next()? + times.next()?)
}

fn peak_rss_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
