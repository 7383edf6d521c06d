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

#[cfg(test)]
mod tests {
    use whalezen_mig::Model;

    use super::*;
    use crate::{
        machine::{
            load::{Load, Running},
            testing::{ALL, NOBODY, machine},
        },
        wave::Wave,
    };

    fn client(pid: u32, instance: Option<Place>, utilization: u64, memory_mib: u64) -> Client {
        let load = Load {
            utilization: Wave::Steady(utilization),
            memory_mib: Wave::Steady(memory_mib),
            pcie_tx_kib: Wave::Steady(100),
            ..Load::default()
        };
        Client { pid, started: 1, gpu: 0, instance, running: Running { since: 0, load } }
    }

    /// A GPU in two halves, and where programs run in each.
    fn halves() -> (Machine, [Place; 2]) {
        let mut machine = machine(&[Model::H100_80]);
        let places = [0, 4].map(|start| {
            let gi = machine.create_gpu_instance(0, 9, Some((start, 4))).unwrap().id;
            Place { gi, ci: machine.create_compute_instance(0, gi, 2, None).unwrap().id }
        });
        (machine, places)
    }

    #[test]
    fn an_instance_is_as_busy_as_its_own_clients_and_the_gpu_by_their_share() {
        let (mut machine, [one, other]) = halves();
        machine.attach(client(1, Some(one), 70, 1_000), ALL).unwrap();
        machine.attach(client(2, Some(one), 70, 500), ALL).unwrap();
        let of = |place: Place| machine.instance_activity(0, place.gi, 10, ALL);
        assert_eq!((of(one).utilization, of(other).utilization), (100, 0));
        // 30 and 30 of the GPU: 70 % of three of seven slices, twice.
        assert_eq!(machine.activity(0, 10, ALL).unwrap().utilization, 60);
        assert_eq!(machine.activity(0, 10, NOBODY).unwrap().utilization, 0);
        assert_eq!(machine.instance_memory(0, one.gi, 10, ALL).unwrap().used, 1_500);
        assert_eq!(machine.memory(0, 10, ALL).unwrap().used, 1_500);
    }

    #[test]
    fn nobody_takes_more_memory_than_there_is() {
        let (mut machine, [one, _]) = halves();
        machine.attach(client(1, Some(one), 0, u64::MAX), ALL).unwrap();
        for memory in
            [machine.memory(0, 0, ALL).unwrap(), machine.instance_memory(0, one.gi, 0, ALL).unwrap()]
        {
            assert_eq!((memory.free(), memory.used + memory.reserved), (0, memory.total));
        }
    }

    #[test]
    fn counters_never_go_back_when_clients_come_and_go() {
        let (mut machine, [one, other]) = halves();
        let counted = |machine: &Machine, now: u64| {
            (machine.totals(0, now).unwrap(), machine.instance_totals(0, one.gi, now).unwrap())
        };
        machine.attach(client(1, Some(one), 70, 0), ALL).unwrap();
        machine.attach(client(1, Some(other), 70, 0), ALL).unwrap();
        let (whole, part) = counted(&machine, 100);
        assert_eq!((whole.utilization, part.utilization), (2 * 3_000, 7_000));
        assert_eq!((whole.pcie_tx, part.pcie_tx), (20_000, 10_000));
        machine.detach(1, None, None, 100);
        assert_eq!(counted(&machine, 500), (whole, part));
        machine.set_load(0, client(0, None, 10, 0).running.load, 500).unwrap();
        assert_eq!(machine.totals(0, 600).unwrap().utilization, whole.utilization + 1_000);
        machine.set_load(0, Load::default(), 600).unwrap();
        assert_eq!(machine.totals(0, 900).unwrap().utilization, whole.utilization + 1_000);
    }

    #[test]
    fn a_process_that_attaches_again_goes_on_with_the_new_load_only() {
        let (mut machine, [one, _]) = halves();
        machine.attach(client(1, Some(one), 70, 10), ALL).unwrap();
        machine.attach(client(1, Some(one), 30, 20), ALL).unwrap();
        assert_eq!(machine.processes(0, Some(one), ALL).len(), 1);
        assert_eq!(machine.instance_activity(0, one.gi, 0, ALL).utilization, 30);
    }

    #[test]
    fn power_and_energy_go_from_idle_to_the_limit() {
        let mut machine = machine(&[Model::H100_80]);
        assert_eq!(machine.milliwatts(0, 0, ALL), Ok(70_000));
        assert_eq!(machine.millijoules(0, 1_000), Ok(70_000));
        machine.set_load(0, client(0, None, 100, 0).running.load, 0).unwrap();
        assert_eq!(machine.milliwatts(0, 0, ALL), Ok(700_000));
        machine.gpus[0].base.since = 1_000;
        assert_eq!(machine.millijoules(0, 2_000), Ok(70_000 + 700_000));
    }
}
