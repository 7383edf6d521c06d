//! A machine with GPUs: everything that is remembered of it, and what may be done with it.
//!
//! Nothing here reads a clock, a file or `/proc`: the time and who is alive come as arguments. Times are milliseconds
//! of a clock that all processes of the host share and that never goes back.

pub mod client;
pub mod compute;
pub mod event;
pub mod fault;
mod identity;
#[cfg(test)]
mod laws;
pub mod load;
pub mod mig;
pub mod topology;
pub mod usage;

use std::{collections::BTreeMap, sync::OnceLock};

use serde::{Deserialize, Serialize};
use whalezen_mig::{Geometry, Model};

use self::{
    client::Client,
    event::Event,
    fault::Fault,
    load::{Running, Totals},
    mig::GpuInstance,
};
use crate::{config::Config, hardware::Hardware, refusal::Refusal};

/// Who is alive: says so of a process that was attached.
pub type Living<'a> = &'a dyn Fn(&Client) -> bool;

/// A machine with GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The text that it was made from. Another text is another machine.
    pub source: String,
    /// What the text says.
    pub config: Config,
    /// What makes its UUIDs its own.
    pub seed: u64,
    /// How often it was started.
    pub boot: u64,
    /// When it was started last.
    pub booted: u64,
    /// How many instances were made in all its life: what tells one from another that had its id before.
    pub births: u64,
    /// Its GPUs, by index.
    pub gpus: Vec<Gpu>,
    /// Processes that use a GPU or an instance.
    pub clients: Vec<Client>,
    /// What befell it since the boot, the oldest first.
    pub events: Vec<Event>,
    /// How many events there were in all.
    pub told: u64,
    /// Calls that fail or hang.
    pub faults: Vec<Fault>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its UUID, the same for all its life.
    pub uuid: String,
    /// Its serial number.
    pub serial: String,
    /// Whether MIG is on.
    pub mig: bool,
    /// Whether MIG will be on after the next reset.
    pub mig_pending: bool,
    /// Its GPU instances.
    pub instances: Vec<GpuInstance>,
    /// Whether it fell off the bus.
    pub lost: bool,
    /// When it was reset last, or started.
    pub reset: u64,
    /// What keeps it busy beside its clients.
    pub base: Running,
    /// What was done by clients that are gone, and by loads that were replaced.
    pub done: Totals,
    /// Memory errors since the last reset, corrected and not.
    pub ecc: Ecc,
    /// Memory errors in all its life.
    pub ecc_ever: Ecc,
}

/// Memory errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ecc {
    /// Those that were corrected.
    pub corrected: u64,
    /// Those that were not.
    pub uncorrected: u64,
}

impl Machine {
    /// The machine that `config` describes, started for the first time. `place` tells it from other machines with
    /// the same configuration.
    pub fn new(config: Config, source: String, place: &str, now: u64) -> Self {
        let seed = config.seed.unwrap_or_else(|| identity::hash(&[place.as_bytes()]));
        let gpus = config.each().enumerate().map(|(index, group)| Gpu {
            uuid: identity::uuid("GPU", seed, &[0, index as u64]),
            serial: identity::serial(seed, index as u64),
            mig: group.mig,
            mig_pending: group.mig,
            instances: Vec::new(),
            lost: false,
            reset: now,
            base: Running { since: now, load: group.load },
            done: Totals::default(),
            ecc: Ecc::default(),
            ecc_ever: Ecc::default(),
        });
        Self {
            gpus: gpus.collect(),
            faults: config.faults.clone(),
            source,
            config,
            seed,
            boot: 1,
            booted: now,
            births: 0,
            clients: Vec::new(),
            events: Vec::new(),
            told: 0,
        }
    }

    /// Starts it anew: layouts, clients and counters are gone. MIG's mode survives on Ampere, where it is kept on the
    /// board and a pending one comes into force; later generations start with it off, unless the configuration says
    /// otherwise.
    pub fn reboot(&mut self, now: u64) {
        self.boot += 1;
        self.booted = now;
        self.clients.clear();
        self.events.clear();
        let groups: Vec<_> = self.config.each().map(|group| (group.model, group.mig)).collect();
        for (gpu, (model, configured)) in self.gpus.iter_mut().zip(groups) {
            if !model.architecture().resets_for_mode() {
                gpu.mig_pending = configured;
            }
            gpu.restart(now);
        }
    }

    /// The GPU with that index.
    pub fn gpu(&self, index: usize) -> Result<&Gpu, Refusal> {
        self.gpus.get(index).ok_or(Refusal::InvalidArgument)
    }

    fn gpu_mut(&mut self, index: usize) -> Result<&mut Gpu, Refusal> {
        self.gpus.get_mut(index).ok_or(Refusal::InvalidArgument)
    }

    /// Which model the GPU with that index is.
    pub fn model(&self, index: usize) -> Result<Model, Refusal> {
        self.config.each().nth(index).map(|group| group.model).ok_or(Refusal::InvalidArgument)
    }

    /// The NUMA node that the GPU with that index hangs on.
    pub fn numa(&self, index: usize) -> Result<u32, Refusal> {
        self.config.each().nth(index).map(|group| group.numa).ok_or(Refusal::InvalidArgument)
    }

    /// What the GPU with that index has beside MIG.
    pub fn hardware(&self, index: usize) -> Result<Hardware, Refusal> {
        self.model(index).map(crate::hardware::of)
    }

    /// Which MIG profiles the GPU with that index has.
    pub fn geometry(&self, index: usize) -> Result<&'static Geometry, Refusal> {
        static TABLES: OnceLock<BTreeMap<Model, Geometry>> = OnceLock::new();
        let tables = TABLES.get_or_init(|| {
            Model::ALL.into_iter().filter_map(|model| Some((model, model.geometry().ok()?))).collect()
        });
        tables.get(&self.model(index)?).ok_or(Refusal::NotSupported)
    }

    /// The index of the GPU with that UUID.
    pub fn by_uuid(&self, uuid: &str) -> Option<usize> {
        self.gpus.iter().position(|gpu| gpu.uuid == uuid)
    }

    /// A number that no instance had before.
    fn birth(&mut self) -> u64 {
        self.births += 1;
        self.births
    }
}

impl Gpu {
    /// What a reset does: the layout is gone, and the pending mode is in force.
    fn restart(&mut self, now: u64) {
        self.mig = self.mig_pending;
        self.instances.clear();
        self.lost = false;
        self.reset = now;
        self.base.since = now;
        self.done = Totals::default();
        self.ecc = Ecc::default();
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A machine of these GPUs, with MIG on, that was started at 0.
    pub fn machine(models: &[Model]) -> Machine {
        let gpus: Vec<_> =
            models.iter().map(|model| format!("{{ model = \"{model}\", mig = true }}")).collect();
        from_toml(&format!("seed = 7\ngpus = [{}]", gpus.join(", ")))
    }

    /// The machine of that text, started at 0.
    pub fn from_toml(text: &str) -> Machine {
        Machine::new(toml::from_str(text).unwrap(), text.to_owned(), "", 0)
    }

    pub const NOBODY: Living<'static> = &|_| false;
    pub const ALL: Living<'static> = &|_| true;
}
