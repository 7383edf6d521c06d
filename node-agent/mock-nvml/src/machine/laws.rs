//! What holds of a machine whatever is done with it.

use std::collections::BTreeSet;

use proptest::prelude::*;
use whalezen_mig::Model;

use super::{
    Machine,
    client::{Client, Place},
    compute::ComputeProfile,
    load::{Load, Running},
    testing::machine,
};
use crate::wave::Wave;

/// Something that is asked of a machine. Numbers choose among what is there; places are taken as they come, and most are
/// refused.
#[derive(Clone, Debug)]
enum Step {
    Create(usize, usize, Option<(u32, u32)>),
    CreateCompute(usize, usize, usize, Option<(u32, u32)>),
    Destroy(usize, usize),
    DestroyCompute(usize, usize),
    Attach(u32, usize, usize),
    Die(u32),
    Detach(u32),
    Mode(usize, bool),
    Reset(usize),
    Xid(usize, u64),
    Reboot,
}

fn step() -> impl Strategy<Value = Step> {
    let (gpu, which, pid) = (0..3_usize, 0..7_usize, 1..5_u32);
    let place = || prop::option::weighted(0.2, (0..8_u32, 0..9_u32));
    prop_oneof![
        20 => (gpu.clone(), which.clone(), place()).prop_map(|(gpu, profile, at)| Step::Create(gpu, profile, at)),
        20 => (gpu.clone(), which.clone(), which.clone(), place())
            .prop_map(|(gpu, instance, profile, at)| Step::CreateCompute(gpu, instance, profile, at)),
        10 => (gpu.clone(), which.clone()).prop_map(|(gpu, instance)| Step::Destroy(gpu, instance)),
        10 => (gpu.clone(), which.clone()).prop_map(|(gpu, device)| Step::DestroyCompute(gpu, device)),
        10 => (pid.clone(), gpu.clone(), which).prop_map(|(pid, gpu, at)| Step::Attach(pid, gpu, at)),
        4 => pid.clone().prop_map(Step::Die),
        4 => pid.prop_map(Step::Detach),
        1 => (gpu.clone(), any::<bool>()).prop_map(|(gpu, on)| Step::Mode(gpu, on)),
        1 => gpu.clone().prop_map(Step::Reset),
        1 => (gpu, prop_oneof![Just(31), Just(48), Just(79)]).prop_map(|(gpu, xid)| Step::Xid(gpu, xid)),
        1 => Just(Step::Reboot),
    ]
}

/// A machine, the time, and who is dead.
struct World {
    machine: Machine,
    now: u64,
    dead: BTreeSet<u32>,
}

impl World {
    fn instance(&self, gpu: usize, which: usize) -> u32 {
        let instances = self.machine.gpus.get(gpu).map_or(&[][..], |gpu| &gpu.instances);
        instances.get(which % instances.len().max(1)).map_or(99, |instance| instance.id)
    }

    fn device(&self, gpu: usize, which: usize) -> Option<Place> {
        let devices = || self.machine.mig_devices(gpu);
        let (instance, compute) = devices().nth(which % devices().count().max(1))?;
        Some(Place { gi: instance.id, ci: compute.id })
    }

    /// Does a step; what is refused must leave the machine as it was.
    fn take(&mut self, step: &Step) {
        self.now += 10;
        let dead = self.dead.clone();
        let living = move |client: &Client| !dead.contains(&client.pid);
        let now = self.now;
        let before = self.machine.clone();
        let machine = &mut self.machine;
        let refused = match *step {
            Step::Create(gpu, which, place) => {
                let profiles = before.geometry(gpu).map_or(&[][..], |geometry| geometry.profiles());
                let id = profiles.get(which % profiles.len().max(1)).map_or(99, |profile| profile.id);
                machine.create_gpu_instance(gpu, id, place).is_err()
            }
            Step::CreateCompute(gpu, which, profile, place) => {
                let id = self.instance(gpu, which);
                let instance = before.gpus.get(gpu).and_then(|gpu| gpu.instance(id).ok());
                let slices = instance.and_then(|instance| before.compute_slices(gpu, instance).ok());
                let profiles = slices.map_or(&[][..], ComputeProfile::of);
                let profile = profiles.get(profile % profiles.len().max(1)).map_or(99, |profile| profile.id);
                self.machine.create_compute_instance(gpu, id, profile, place).is_err()
            }
            Step::Destroy(gpu, which) => {
                let id = self.instance(gpu, which);
                self.machine.destroy_gpu_instance(gpu, id).is_err()
            }
            Step::DestroyCompute(gpu, which) => {
                let place = self.device(gpu, which).unwrap_or(Place { gi: 99, ci: 0 });
                self.machine.destroy_compute_instance(gpu, place, now, &living).is_err()
            }
            Step::Attach(pid, gpu, which) => {
                let instance = self.device(gpu, which);
                let load = Load { utilization: Wave::Steady(50), ..Load::default() };
                let running = Running { since: now, load };
                self.dead.remove(&pid);
                self.machine.attach(Client { pid, started: 1, gpu, instance, running }, &|_| true).is_err()
            }
            Step::Die(pid) => !self.dead.insert(pid),
            Step::Detach(pid) => !machine.detach(pid, None, None, now),
            Step::Mode(gpu, on) => machine.set_mig_mode(gpu, on, now, &living).is_err(),
            Step::Reset(gpu) => machine.reset(gpu, now, &living).is_err(),
            Step::Xid(gpu, xid) => machine.befall(gpu, xid, None, now).is_err(),
            Step::Reboot => {
                machine.reboot(now);
                false
            }
        };
        if refused {
            assert_eq!(self.machine, before, "{step:?} was refused and changed something");
        }
    }

    fn uuids(&self) -> BTreeSet<String> {
        let gpus = 0..self.machine.gpus.len();
        gpus.flat_map(|gpu| self.machine.mig_devices(gpu).map(|(_, compute)| compute.uuid.clone())).collect()
    }

    /// Slices are in one instance at most, ids are there once, and whoever uses an instance keeps it.
    fn holds(&self) {
        let devices = (0..self.machine.gpus.len()).flat_map(|gpu| self.machine.mig_devices(gpu));
        assert_eq!(devices.count(), self.uuids().len(), "each device has a UUID of its own");
        for (index, gpu) in self.machine.gpus.iter().enumerate() {
            assert!(gpu.mig || gpu.instances.is_empty());
            let geometry = self.machine.geometry(index).unwrap();
            let (mut slices, mut ids, mut compute) = (BTreeSet::new(), BTreeSet::new(), 0);
            for instance in &gpu.instances {
                assert!(ids.insert(instance.id));
                let taken = instance.start..instance.start + instance.size;
                assert!(
                    taken.end <= geometry.memory_slices() && taken.into_iter().all(|at| slices.insert(at))
                );
                let own = self.machine.compute_slices(index, instance).unwrap();
                compute += own;
                let (mut parts, mut ids) = (BTreeSet::new(), BTreeSet::new());
                for part in &instance.compute {
                    assert!(ids.insert(part.id));
                    let taken = part.start..part.start + part.size;
                    assert!(taken.end <= own.into() && taken.into_iter().all(|at| parts.insert(at)));
                }
            }
            assert!(compute <= geometry.compute_slices());
        }
        for client in &self.machine.clients {
            let gpu = &self.machine.gpus[client.gpu];
            let there =
                |place: Place| gpu.instance(place.gi).is_ok_and(|gi| gi.compute_instance(place.ci).is_ok());
            assert!(self.dead.contains(&client.pid) || client.instance.map_or(!gpu.mig, there));
        }
    }
}

proptest! {
    #[test]
    fn no_slice_is_given_twice_no_user_loses_an_instance_and_no_uuid_comes_back(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let machine = machine(&[Model::H100_80, Model::A30, Model::A100_40]);
        let mut world = World { machine, now: 0, dead: BTreeSet::new() };
        let (mut seen, mut present) = (BTreeSet::new(), BTreeSet::new());
        for step in &steps {
            let counted: Vec<_> = (0..3).map(|gpu| world.machine.totals(gpu, world.now).unwrap()).collect();
            let started: Vec<_> = world.machine.gpus.iter().map(|gpu| gpu.reset).collect();
            world.take(step);
            world.holds();
            let there = world.uuids();
            prop_assert!(there.difference(&present).all(|new| seen.insert(new.clone())), "a UUID came back");
            present = there;
            for (gpu, counted) in counted.iter().enumerate() {
                let totals = world.machine.totals(gpu, world.now).unwrap();
                let reset = world.machine.gpus[gpu].reset != started[gpu];
                prop_assert!(reset || totals.utilization >= counted.utilization, "a counter went back");
            }
        }
        let kept: Machine = serde_json::from_slice(&serde_json::to_vec(&world.machine).unwrap()).unwrap();
        prop_assert_eq!(&kept, &world.machine, "what is kept is what was");
    }
}
