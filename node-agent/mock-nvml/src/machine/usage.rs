//! How busy a GPU or an instance is, who is on it, and what follows from that: memory, power, temperature, counters.

use super::{
    Living, Machine,
    client::{Client, Place},
    load::{Activity, Totals},
};
use crate::refusal::Refusal;

/// Memory of a GPU or instance, in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total: u64,
    /// What the driver keeps for itself.
    pub reserved: u64,
    /// What programs have taken.
    pub used: u64,
}

impl Memory {
    /// What is left.
    pub fn free(self) -> u64 {
        self.total.saturating_sub(self.reserved).saturating_sub(self.used)
    }
}

/// Memory that every instance's driver keeps for itself, in MiB.
const INSTANCE_RESERVED: u64 = 13;

impl Machine {
    /// How busy a GPU is: its base load and its living clients, those of instances by their share of it.
    pub fn activity(&self, gpu: usize, now: u64, living: Living<'_>) -> Result<Activity, Refusal> {
        let base = self.gpu(gpu)?.base.activity(now);
        let clients = self.clients_of(gpu).filter(|client| living(client));
        Ok(clients.map(|client| self.scaled(client, now)).fold(base, Activity::and))
    }

    /// How busy a GPU instance is, in percent of itself.
    pub fn instance_activity(&self, gpu: usize, gi: u32, now: u64, living: Living<'_>) -> Activity {
        let clients =
            self.clients_of(gpu).filter(|client| client.instance.is_some_and(|place| place.gi == gi));
        let living = clients.filter(|client| living(client));
        living.map(|client| client.running.activity(now)).fold(Activity::default(), Activity::and)
    }

    /// What a GPU's counters show: what was done since its last reset, by whoever did it.
    pub fn totals(&self, gpu: usize, now: u64) -> Result<Totals, Refusal> {
        let own = self.gpu(gpu)?;
        let sum = own.done.and(own.base.totals(now));
        Ok(self.clients_of(gpu).map(|client| self.client_totals(client, now)).fold(sum, Totals::and))
    }

    /// What was done in a GPU instance since it was made, in percent of itself.
    pub fn instance_totals(&self, gpu: usize, gi: u32, now: u64) -> Result<Totals, Refusal> {
        let done = self.gpu(gpu)?.instance(gi)?.done;
        let clients =
            self.clients_of(gpu).filter(|client| client.instance.is_some_and(|place| place.gi == gi));
        Ok(clients.map(|client| client.running.totals(now)).fold(done, Totals::and))
    }

    /// The memory of a GPU.
    pub fn memory(&self, gpu: usize, now: u64, living: Living<'_>) -> Result<Memory, Refusal> {
        let total = self.model(gpu)?.memory_mib();
        let reserved = self.hardware(gpu)?.reserved_mib;
        let used = self.activity(gpu, now, living)?.memory_mib.min(total.saturating_sub(reserved));
        Ok(Memory { total, reserved, used })
    }

    /// The memory of a GPU instance, which its compute instances share.
    pub fn instance_memory(
        &self,
        gpu: usize,
        gi: u32,
        now: u64,
        living: Living<'_>,
    ) -> Result<Memory, Refusal> {
        let instance = self.gpu(gpu)?.instance(gi)?;
        let profile = self.geometry(gpu)?.by_id(instance.profile).ok_or(Refusal::NotFound)?;
        let total = profile.engines.memory_mib;
        let taken = self.instance_activity(gpu, gi, now, living).memory_mib;
        let used = taken.min(total.saturating_sub(INSTANCE_RESERVED));
        Ok(Memory { total, reserved: INSTANCE_RESERVED, used })
    }

    /// The living clients of a GPU, or of one of its compute instances, in the order of their process ids.
    pub fn processes(&self, gpu: usize, place: Option<Place>, living: Living<'_>) -> Vec<&Client> {
        let there = |client: &&Client| place.is_none() || client.instance == place;
        let mut clients: Vec<_> =
            self.clients_of(gpu).filter(there).filter(|client| living(client)).collect();
        clients.sort_by_key(|client| (client.pid, client.instance));
        clients
    }

    /// What a GPU draws, in milliwatts: between idle and its limit as it works.
    pub fn milliwatts(&self, gpu: usize, now: u64, living: Living<'_>) -> Result<u64, Refusal> {
        let hardware = self.hardware(gpu)?;
        let busy = self.activity(gpu, now, living)?.utilization;
        Ok(1_000 * hardware.idle_watts + 10 * hardware.limit_watts.saturating_sub(hardware.idle_watts) * busy)
    }

    /// What a GPU has drawn since its last reset, in millijoules.
    pub fn millijoules(&self, gpu: usize, now: u64) -> Result<u64, Refusal> {
        let hardware = self.hardware(gpu)?;
        let since = now.saturating_sub(self.gpu(gpu)?.reset);
        let working = self.totals(gpu, now)?.utilization / 100;
        let swing = hardware.limit_watts.saturating_sub(hardware.idle_watts);
        Ok(hardware.idle_watts.saturating_mul(since).saturating_add(swing.saturating_mul(working)))
    }

    /// How hot a GPU is, in degrees Celsius: from 30 to 75 as it works.
    pub fn celsius(&self, gpu: usize, now: u64, living: Living<'_>) -> Result<u64, Refusal> {
        Ok(30 + self.activity(gpu, now, living)?.utilization * 45 / 100)
    }

    /// What one client has done, its work counted by its share of the GPU.
    pub(super) fn client_totals(&self, client: &Client, now: u64) -> Totals {
        let totals = client.running.totals(now);
        let (compute, memory) = self.share(client);
        Totals {
            utilization: compute.of(totals.utilization),
            memory_bandwidth: memory.of(totals.memory_bandwidth),
            ..totals
        }
    }

    fn scaled(&self, client: &Client, now: u64) -> Activity {
        let activity = client.running.activity(now);
        let (compute, memory) = self.share(client);
        Activity {
            utilization: compute.of(activity.utilization),
            memory_bandwidth: memory.of(activity.memory_bandwidth),
            ..activity
        }
    }

    /// Which part of the GPU's compute and of its memory a client has.
    fn share(&self, client: &Client) -> (Share, Share) {
        let shares = || {
            let instance = self.gpu(client.gpu).ok()?.instance(client.instance?.gi).ok()?;
            let geometry = self.geometry(client.gpu).ok()?;
            let slices = geometry.by_id(instance.profile)?.compute_slices();
            let compute = Share(slices.into(), geometry.compute_slices().into());
            Some((compute, Share(instance.size.into(), geometry.memory_slices().into())))
        };
        shares().unwrap_or((Share(1, 1), Share(1, 1)))
    }
}

/// So many of so many slices.
#[derive(Clone, Copy)]
struct Share(u64, u64);

impl Share {
    fn of(self, whole: u64) -> u64 {
        let part = u128::from(whole) * u128::from(self.0) / u128::from(self.1.max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}
