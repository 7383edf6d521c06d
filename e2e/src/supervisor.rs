//! The owner's end of the supervisor: it asks for processes and hears how they ended.
//!
//! The supervisor (`e2e/cluster/supervisor`) kills everything and removes the state folder
//! when the pipe to it closes, which the kernel does however this process ends. Everything
//! here is synchronous, so that it works in `Drop` and across the runtimes of several tests.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// How long an answer may take; starting a process takes milliseconds.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);

/// How a process ended and what it used, from the kernel's accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exit {
    pid: u32,
    /// The exit code; 0 for a process that a signal ended.
    pub code: i32,
    /// The signal that ended the process; 0 for one that ended by itself.
    pub signal: i32,
    pub(crate) cpu_micros: u64,
    pub(crate) peak_rss_kib: u64,
}

impl Exit {
    /// Whether the process ended by itself with code 0.
    pub fn success(&self) -> bool {
        self.code == 0 && self.signal == 0
    }
}

#[derive(Default, Serialize)]
pub(crate) struct Request<'a> {
    pub(crate) id: u64,
    pub(crate) op: &'a str,
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) dir: String,
    pub(crate) log: String,
    pub(crate) pid: u32,
    pub(crate) signal: i32,
    pub(crate) group: bool,
    pub(crate) isolate: &'a [&'a str],
    pub(crate) inside: u32,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    id: u64,
    #[serde(default)]
    pid: u32,
    error: Option<String>,
    exit: Option<Exit>,
}

/// What a process's end is heard by: `None` while it runs.
pub(crate) type ExitWatch = watch::Receiver<Option<Exit>>;

/// What the thread that reads answers shares with those that wait for them.
#[derive(Default)]
struct Waiting {
    answers: HashMap<u64, Sender<Result<(u32, ExitWatch)>>>,
    exits: HashMap<u32, watch::Sender<Option<Exit>>>,
    closed: bool,
}

/// A running supervisor. Dropping the last handle closes the pipe and so ends everything,
/// unless it is detached.
pub(crate) struct Supervisor {
    child: Mutex<Child>,
    pipe: Mutex<Option<ChildStdin>>,
    waiting: Arc<Mutex<Waiting>>,
    next_id: AtomicU64,
}

impl Supervisor {
    /// Starts the supervisor at `binary`. It makes the folder `state`, owns it, and removes it.
    pub(crate) fn start(binary: &Path, state: &Path) -> Result<Arc<Self>> {
        let mut child = Command::new(binary)
            .arg(state)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", binary.display()))?;
        let pipe = child.stdin.take();
        let output = child.stdout.take().context("the supervisor has no output")?;
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let reader = Arc::clone(&waiting);
        thread::Builder::new().name("supervisor".to_owned()).spawn(move || read_answers(output, &reader))?;
        let supervisor =
            Self { child: Mutex::new(child), pipe: Mutex::new(pipe), waiting, next_id: AtomicU64::new(1) };
        supervisor
            .ask("open", Request::default())
            .with_context(|| format!("cannot make the state folder {}", state.display()))?;
        Ok(Arc::new(supervisor))
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        lock(&self.child).id()
    }

    /// Starts a process and gives its id and the means to hear its end.
    pub(crate) fn spawn(&self, request: Request<'_>) -> Result<(u32, ExitWatch)> {
        self.ask("start", request)
    }

    /// Sends a signal to a process, or with `group` to its whole process group. A process
    /// that has ended is no error.
    pub(crate) fn signal(&self, pid: u32, signal: i32, group: bool) -> Result<()> {
        let request = Request { pid, signal, group, ..Request::default() };
        match self.ask("signal", request) {
            Err(error) if error.to_string().contains("no such process") => Ok(()),
            result => result.map(|_| ()),
        }
    }

    /// Lets the processes live on when this one ends.
    pub(crate) fn detach(&self) -> Result<()> {
        self.ask("detach", Request::default()).map(|_| ())
    }

    /// Kills every process, removes the state folder and waits until both are done.
    pub(crate) fn stop(&self) -> Result<()> {
        if let Some(mut pipe) = lock(&self.pipe).take() {
            // It may have ended by itself or been stopped from outside: then there is nothing to ask.
            let _ = pipe.write_all(b"{\"op\":\"stop\"}\n");
        }
        let status = lock(&self.child).wait()?;
        if !status.success() {
            bail!("the cluster's supervisor ended with {status}");
        }
        Ok(())
    }

    fn ask(&self, op: &str, mut request: Request<'_>) -> Result<(u32, ExitWatch)> {
        request.id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = channel();
        {
            let mut waiting = lock(&self.waiting);
            if waiting.closed {
                bail!("the cluster has been stopped");
            }
            waiting.answers.insert(request.id, sender);
        }
        let request = Request { op, ..request };
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        {
            let mut pipe = lock(&self.pipe);
            let pipe = pipe.as_mut().context("the cluster has been stopped")?;
            pipe.write_all(&line).context("the cluster's supervisor has ended")?;
        }
        match receiver.recv_timeout(ANSWER_DEADLINE) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => bail!("the cluster's supervisor has ended"),
            Err(RecvTimeoutError::Timeout) => bail!("the cluster's supervisor does not answer"),
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Closing the pipe is the message; waiting for the end only avoids a zombie where it comes.
        lock(&self.pipe).take();
        let _ = lock(&self.child).try_wait();
    }
}

/// One thread hands out everything the supervisor says, in order: a process is known before
/// its end can be heard of.
fn read_answers(output: ChildStdout, waiting: &Mutex<Waiting>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let Ok(answer) = serde_json::from_str::<Answer>(&line) else { continue };
        let mut waiting = lock(waiting);
        if let Some(exit) = answer.exit {
            if let Some(sender) = waiting.exits.remove(&exit.pid) {
                sender.send_replace(Some(exit));
            }
        } else if let Some(asker) = waiting.answers.remove(&answer.id) {
            let (sender, receiver) = watch::channel(None);
            if answer.pid != 0 {
                waiting.exits.insert(answer.pid, sender);
            }
            let result = answer.error.map_or(Ok((answer.pid, receiver)), |error| Err(anyhow!(error)));
            // An asker that gave up has nothing to hear.
            let _ = asker.send(result);
        }
    }
    let mut waiting = lock(waiting);
    waiting.closed = true;
    waiting.answers.clear();
    waiting.exits.clear();
}

/// The data behind these locks is valid after every statement, so a panic elsewhere does not matter.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
