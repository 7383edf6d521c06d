//! Processes that use a GPU or a MIG instance.

use serde::{Deserialize, Serialize};

use super::{
    Living, Machine,
    load::{Load, Running},
};
use crate::refusal::Refusal;

/// A process that uses a GPU, or a compute instance of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// The process.
    pub pid: u32,
    /// When it started, as `/proc/PID/stat` has it: another process with its number is another client.
    pub started: u64,
    /// The GPU.
    pub gpu: usize,
    /// The instance, unless it has the whole GPU.
    pub instance: Option<Place>,
    /// What it does there.
    pub running: Running,
}

/// A compute instance on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Id of the GPU instance.
    pub gi: u32,
    /// Id of the compute instance in it.
    pub ci: u32,
}

impl Machine {
    /// Lets a process use a GPU or an instance; one that uses it already goes on with the new load. While MIG is on
    /// nothing runs outside of an instance.
    pub fn attach(&mut self, client: Client, living: Living<'_>) -> Result<(), Refusal> {
        self.present(client.gpu, client.running.since)?;
        let gpu = self.gpu(client.gpu)?;
        match client.instance {
            Some(place) => drop(gpu.instance(place.gi)?.compute_instance(place.ci)?),
            None if gpu.mig => return Err(Refusal::NotSupported),
            None => {}
        }
        let before = |other: &Client| {
            (other.pid, other.gpu, other.instance) == (client.pid, client.gpu, client.instance)
        };
        self.retain(client.running.since, |other| !before(other));
        self.bury(client.running.since, living);
        self.clients.push(client);
        Ok(())
    }

    /// Ends a process's use of everything, or of one GPU or one instance if they are named. Says whether there was any.
    pub fn detach(&mut self, pid: u32, gpu: Option<usize>, instance: Option<Place>, now: u64) -> bool {
        let goes = |client: &Client| {
            client.pid == pid
                && gpu.is_none_or(|gpu| gpu == client.gpu)
                && (instance.is_none() || instance == client.instance)
        };
        self.retain(now, |client| !goes(client))
    }

    /// Forgets the clients whose processes are dead. Says whether there were any.
    pub fn bury(&mut self, now: u64, living: Living<'_>) -> bool {
        self.retain(now, living)
    }

    /// Sets how busy a GPU is beside its clients.
    pub fn set_load(&mut self, gpu: usize, load: Load, now: u64) -> Result<(), Refusal> {
        let gpu = self.gpu_mut(gpu)?;
        gpu.done = gpu.done.and(gpu.base.totals(now));
        gpu.base = Running { since: now, load };
        Ok(())
    }

    /// The clients of a GPU, dead ones too.
    pub fn clients_of(&self, gpu: usize) -> impl Iterator<Item = &Client> {
        self.clients.iter().filter(move |client| client.gpu == gpu)
    }

    /// Whether a living process uses the GPU or one of its instances.
    pub fn is_used(&self, gpu: usize, living: Living<'_>) -> bool {
        self.clients_of(gpu).any(living)
    }

    /// What those did who go is kept in the GPU's totals: counters never go back.
    fn retain(&mut self, now: u64, stays: impl Fn(&Client) -> bool) -> bool {
        let (stay, go): (Vec<_>, Vec<_>) = self.clients.iter().partition(|client| stays(client));
        for client in &go {
            let totals = self.client_totals(client, now);
            let Some(gpu) = self.gpus.get_mut(client.gpu) else { continue };
            gpu.done = gpu.done.and(totals);
            let place = client.instance;
            let instance =
                gpu.instances.iter_mut().find(|instance| place.is_some_and(|place| place.gi == instance.id));
            if let Some(instance) = instance {
                instance.done = instance.done.and(client.running.totals(now));
            }
        }
        self.clients = stay;
        !go.is_empty()
    }
}
