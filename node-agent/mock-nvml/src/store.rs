//! Where the machine is kept: one file, which every process reads and replaces as a whole.
//!
//! A change is made under an exclusive lock on a file beside it, written under another name and moved into place. So
//! a reader needs no lock and never sees half of a change, and the kernel takes the lock from a process that is killed
//! while it has it: what it had not moved into place never happened.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use thiserror::Error;

use crate::{
    config::{Config, ConfigError},
    host,
    machine::Machine,
};

/// Why the machine cannot be read or changed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Its configuration is none.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its state cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Its state is not what this version writes.
    #[error("{path} is no state of a machine: {source}")]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// The machine that a configuration file describes.
#[derive(Debug)]
pub struct Store {
    state: PathBuf,
    seen: Mutex<Option<Seen>>,
}

/// The state as it was read last. The file stays open so that no other can get its number.
#[derive(Debug)]
struct Seen {
    file: File,
    machine: Arc<Machine>,
}

impl Store {
    /// The machine that the file at `config` describes. It is started if it was not yet, if the file says something
    /// else than when it was (that is another machine then), and again if the host was.
    pub fn open(config: &Path) -> Result<Self, StoreError> {
        let (parsed, source) = Config::read(config)?;
        let state = parsed.state_path(config);
        // Where it is from the root: the same name in another folder is another machine.
        let place = std::path::absolute(&state).unwrap_or_else(|_| state.clone());
        let store = Self { state, seen: Mutex::new(None) };
        let now = host::now();
        if store.read().is_ok_and(|machine| machine.source == source && machine.booted <= now) {
            return Ok(store);
        }
        let _lock = store.lock()?;
        let machine = match store.read() {
            Ok(machine) if machine.source == source => {
                let mut machine = Machine::clone(&machine);
                if machine.booted > now {
                    machine.reboot(now);
                }
                machine
            }
            // Whoever has it open must see that it is another one, and no UUID may come back.
            Ok(old) => {
                let new = Machine::new(parsed, source, &place.to_string_lossy(), now);
                Machine { boot: old.boot + 1, births: old.births, ..new }
            }
            Err(_) => Machine::new(parsed, source, &place.to_string_lossy(), now),
        };
        store.write(&machine)?;
        Ok(store)
    }

    /// The file with the state.
    pub fn path(&self) -> &Path {
        &self.state
    }

    /// The machine as it is now.
    pub fn read(&self) -> Result<Arc<Machine>, StoreError> {
        let error = |source| StoreError::File { path: self.state.clone(), source };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let there = fs::metadata(&self.state).map_err(error)?;
        if let Some(seen) = &*seen {
            let known = seen.file.metadata().map_err(error)?;
            if (known.dev(), known.ino()) == (there.dev(), there.ino()) {
                return Ok(seen.machine.clone());
            }
        }
        let mut file = File::open(&self.state).map_err(error)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(error)?;
        let machine: Machine = serde_json::from_slice(&text)
            .map_err(|source| StoreError::State { path: self.state.clone(), source })?;
        let machine = Arc::new(machine);
        *seen = Some(Seen { file, machine: machine.clone() });
        Ok(machine)
    }

    /// Changes the machine. If `change` fails nothing is changed.
    pub fn change<T, E: From<StoreError>>(
        &self,
        change: impl FnOnce(&mut Machine) -> Result<T, E>,
    ) -> Result<T, E> {
        let _lock = self.lock()?;
        let before = self.read()?;
        let mut machine = Machine::clone(&before);
        let answer = change(&mut machine)?;
        if machine != *before {
            self.write(&machine)?;
        }
        Ok(answer)
    }

    /// Waits until no other process changes the machine, and lets none until what is returned goes.
    fn lock(&self) -> Result<File, StoreError> {
        let path = self.beside("lock");
        let error = |source| StoreError::File { path: path.clone(), source };
        // An existing one may belong to somebody else, and reading it is enough to lock it.
        let file = match OpenOptions::new().append(true).create(true).open(&path) {
            Err(denied) if denied.kind() == io::ErrorKind::PermissionDenied => File::open(&path),
            opened => opened,
        }
        .map_err(error)?;
        loop {
            match file.lock() {
                Err(interrupted) if interrupted.kind() == io::ErrorKind::Interrupted => {}
                locked => return locked.map(|()| file).map_err(error),
            }
        }
    }

    /// Puts the machine in place of the one that is there. The lock must be held.
    fn write(&self, machine: &Machine) -> Result<(), StoreError> {
        let new = self.beside("new");
        let error = |source| StoreError::File { path: new.clone(), source };
        let text = serde_json::to_vec(machine)
            .map_err(|source| StoreError::State { path: self.state.clone(), source })?;
        File::create(&new).and_then(|mut file| file.write_all(&text)).map_err(error)?;
        fs::rename(&new, &self.state).map_err(error)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.state.clone().into_os_string();
        name.push(".");
        name.push(ending);
        name.into()
    }
}
