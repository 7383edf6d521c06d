//! What tests do with a machine from outside: let processes use it, let faults befall it, start it anew.

pub mod show;

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
};

use thiserror::Error;

use crate::{
    abi, host,
    machine::{
        Machine,
        client::{Client, Place},
        fault::Fault,
        load::{Load, Running},
    },
    refusal::Refusal,
    store::{Store, StoreError},
};

/// Why something could not be done.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The machine cannot be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The process is not there.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// A fault or a load that cannot be.
    #[error("{0}")]
    Impossible(String),
}

/// A machine, from outside.
#[derive(Debug)]
pub struct Control {
    store: Store,
}

impl Control {
    /// The machine that the configuration file at `path` describes.
    pub fn open(path: &Path) -> Result<Self, ControlError> {
        Ok(Self { store: Store::open(path)? })
    }

    /// The machine as it is now.
    pub fn machine(&self) -> Result<Arc<Machine>, ControlError> {
        Ok(self.store.read()?)
    }

    /// The time of the machine's clock, in milliseconds.
    pub fn now(&self) -> u64 {
        host::now()
    }

    /// Lets a process use a GPU, or an instance of it, until it ends or is detached.
    pub fn attach(
        &self,
        pid: u32,
        gpu: usize,
        instance: Option<Place>,
        load: Load,
    ) -> Result<(), ControlError> {
        possible(load.impossible())?;
        let started = host::started(pid).ok_or(ControlError::NoProcess(pid))?;
        let now = host::now();
        let client = Client { pid, started, gpu, instance, running: Running { since: now, load } };
        self.change(|machine| Ok(machine.attach(client, &host::is_alive)?))
    }

    /// Ends what a process does, on one GPU or one instance if they are named. Says whether there was anything.
    pub fn detach(
        &self,
        pid: u32,
        gpu: Option<usize>,
        instance: Option<Place>,
    ) -> Result<bool, ControlError> {
        self.change(|machine| Ok(machine.detach(pid, gpu, instance, host::now())))
    }

    /// Sets how busy a GPU is beside its clients.
    pub fn set_load(&self, gpu: usize, load: Load) -> Result<(), ControlError> {
        possible(load.impossible())?;
        self.change(|machine| Ok(machine.set_load(gpu, load, host::now())?))
    }

    /// Lets calls fail or hang.
    pub fn inject(&self, fault: Fault) -> Result<(), ControlError> {
        self.change(|machine| {
            possible(fault.impossible(machine.gpus.len(), abi::functions()))?;
            machine.faults.push(fault);
            Ok(())
        })
    }

    /// Lets no call fail or hang any more. Says how many faults there were.
    pub fn heal(&self) -> Result<usize, ControlError> {
        self.change(|machine| Ok(std::mem::take(&mut machine.faults).len()))
    }

    /// Lets an Xid error befall a GPU, or one instance of it; 79 takes the GPU off the bus.
    pub fn befall(&self, gpu: usize, xid: u64, place: Option<Place>) -> Result<(), ControlError> {
        self.change(|machine| Ok(machine.befall(gpu, xid, place, host::now())?))
    }

    /// Lets memory errors befall a GPU that are corrected.
    pub fn correct(&self, gpu: usize, errors: u64) -> Result<(), ControlError> {
        self.change(|machine| Ok(machine.correct(gpu, errors, host::now())?))
    }

    /// Resets a GPU; refused while a process uses it.
    pub fn reset(&self, gpu: usize) -> Result<(), ControlError> {
        self.change(|machine| Ok(machine.reset(gpu, host::now(), &host::is_alive)?))
    }

    /// Starts the machine anew. Whoever had NVML initialised has to do it again.
    pub fn reboot(&self) -> Result<(), ControlError> {
        self.change(|machine| {
            machine.reboot(host::now());
            Ok(())
        })
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut Machine) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        self.store.change(change)
    }
}

fn possible(wrong: Option<String>) -> Result<(), ControlError> {
    wrong.map_or(Ok(()), |reason| Err(ControlError::Impossible(reason)))
}

/// The built library beside the running program, for `Nvml::builder().lib_path`: Cargo builds it for whatever depends
/// on this crate, as a test of it does.
pub fn library() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let mut folders = program.ancestors().skip(1).take(2);
    folders.find_map(|folder| {
        let candidates = [folder.join("deps"), folder.to_owned()].map(|place| place.join(LIBRARY));
        candidates.into_iter().find(|candidate| candidate.is_file())
    })
}

/// What Cargo calls the library.
const LIBRARY: &str = "libwhalezen_mock_nvml.so";
