//! That there is one agent on a node: a locked file on the node's own disk.
//!
//! The lock is the kernel's, and goes with the process however it ends. Two agents in two pods share the file by a folder
//! of the host. An agent of another node cannot write this node's objects: the API server refuses its token.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use thiserror::Error;
use tokio::time::sleep;

/// How often it is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// The lock of the node's agent, as long as it is held.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why there can be no lock.
#[derive(Debug, Error)]
#[error("the lock file {path}: {source}")]
pub struct LockError {
    path: PathBuf,
    source: io::Error,
}

impl Lock {
    /// Takes the lock. While another agent has it, this one says so and waits.
    pub async fn wait(path: &Path) -> Result<Self, LockError> {
        let told = |source| LockError { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(told)?;
        }
        let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path);
        let mut file = open.map_err(told)?;
        let mut said = String::new();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) => {
                    let mut other = String::new();
                    file.rewind().map_err(told)?;
                    // What the other one wrote is only for the message.
                    drop((&file).take(256).read_to_string(&mut other));
                    if other != said || said.is_empty() {
                        tracing::warn!(
                            "another agent runs on this node ({}): waiting until it ends",
                            if other.trim().is_empty() { "it does not say which" } else { other.trim() }
                        );
                        said = if other.is_empty() { "?".to_owned() } else { other };
                    }
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(told(error.into())),
            }
        }
        file.rewind().map_err(told)?;
        file.set_len(0).map_err(told)?;
        file.write_all(format!("process {}\n", std::process::id()).as_bytes()).map_err(told)?;
        Ok(Self { _file: file })
    }
}
