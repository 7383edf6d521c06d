//! Compute instances: parts of a GPU instance that share its memory. What programs run on is one of these.

use serde::{Deserialize, Serialize};

use super::{Living, Machine, client::Place, identity, mig::GpuInstance};
use crate::refusal::Refusal;

/// A compute instance, which is a MIG device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeInstance {
    /// Its id in the GPU instance: the lowest that is free.
    pub id: u32,
    /// What tells it from another that had its id before.
    pub birth: u64,
    /// Id of its profile.
    pub profile: u32,
    /// The first of its compute slices, in the GPU instance.
    pub start: u32,
    /// How many compute slices it has.
    pub size: u32,
    /// The UUID of the MIG device. Never the same again.
    pub uuid: String,
}

/// What compute instances of one size a GPU instance can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeProfile {
    /// NVML's index of it, which is its id too.
    pub id: u32,
    /// How many compute slices it has.
    pub slices: u32,
    /// Where it may begin.
    pub starts: &'static [u32],
}

impl ComputeProfile {
    /// The profiles of a GPU instance with that many compute slices, as `nvidia-smi mig -lcipp` prints them. The last
    /// one takes all of it.
    pub fn of(slices: u8) -> &'static [Self] {
        const fn profile(id: u32, slices: u32, starts: &'static [u32]) -> ComputeProfile {
            ComputeProfile { id, slices, starts }
        }
        const ONE: [ComputeProfile; 1] = [profile(0, 1, &[0])];
        const TWO: [ComputeProfile; 2] = [profile(0, 1, &[0, 1]), profile(1, 2, &[0])];
        const THREE: [ComputeProfile; 3] =
            [profile(0, 1, &[0, 1, 2]), profile(1, 2, &[0]), profile(2, 3, &[0])];
        const FOUR: [ComputeProfile; 3] =
            [profile(0, 1, &[0, 1, 2, 3]), profile(1, 2, &[0, 2]), profile(3, 4, &[0])];
        const SEVEN: [ComputeProfile; 5] = [
            profile(0, 1, &[0, 1, 2, 3, 4, 5, 6]),
            profile(1, 2, &[0, 2, 4]),
            profile(2, 3, &[0, 4]),
            profile(3, 4, &[0]),
            profile(4, 7, &[0]),
        ];
        match slices {
            1 => &ONE,
            2 => &TWO,
            3 => &THREE,
            4 => &FOUR,
            7 => &SEVEN,
            _ => &[],
        }
    }
}

impl GpuInstance {
    /// The compute instance with that id.
    pub fn compute_instance(&self, id: u32) -> Result<&ComputeInstance, Refusal> {
        self.compute.iter().find(|compute| compute.id == id).ok_or(Refusal::NotFound)
    }

    fn is_free(&self, start: u32, size: u32) -> bool {
        self.compute.iter().all(|other| start + size <= other.start || other.start + other.size <= start)
    }
}

impl Machine {
    /// How many compute slices a GPU instance has.
    pub fn compute_slices(&self, gpu: usize, instance: &GpuInstance) -> Result<u8, Refusal> {
        let profile = self.geometry(gpu)?.by_id(instance.profile).ok_or(Refusal::NotFound)?;
        Ok(profile.compute_slices())
    }

    /// The profile of a GPU instance's compute instances with that id.
    pub fn compute_profile(
        &self,
        gpu: usize,
        instance: &GpuInstance,
        id: u32,
    ) -> Result<&'static ComputeProfile, Refusal> {
        let profiles = ComputeProfile::of(self.compute_slices(gpu, instance)?);
        profiles.iter().find(|profile| profile.id == id).ok_or(Refusal::NotSupported)
    }

    /// Streaming multiprocessors of a compute instance with that many slices: all of its GPU instance's if it has all
    /// slices, else what a single slice has on that model, times the slices.
    pub fn multiprocessors(&self, gpu: usize, instance: &GpuInstance, slices: u32) -> Result<u32, Refusal> {
        let geometry = self.geometry(gpu)?;
        let profile = geometry.by_id(instance.profile).ok_or(Refusal::NotFound)?;
        let single = geometry.by_slot(0).ok_or(Refusal::NotFound)?.engines.multiprocessors;
        let all = profile.engines.multiprocessors;
        Ok(if slices >= u32::from(profile.compute_slices()) { all } else { all.min(single * slices) })
    }

    /// How many more compute instances with that profile find room in a GPU instance.
    pub fn compute_remaining(&self, gpu: usize, gi: u32, profile: u32) -> Result<u32, Refusal> {
        let instance = self.gpu(gpu)?.instance(gi)?;
        let profile = self.compute_profile(gpu, instance, profile)?;
        let free = profile.starts.iter().filter(|start| instance.is_free(**start, profile.slices));
        u32::try_from(free.count()).map_err(|_| Refusal::Unknown)
    }

    /// Makes a compute instance, at `placement` (start and size in compute slices) or at the first free place.
    pub fn create_compute_instance(
        &mut self,
        gpu: usize,
        gi: u32,
        profile: u32,
        placement: Option<(u32, u32)>,
    ) -> Result<ComputeInstance, Refusal> {
        let instance = self.gpu(gpu)?.instance(gi)?;
        let profile = self.compute_profile(gpu, instance, profile)?;
        let mut starts = profile.starts.iter().copied();
        let start = match placement {
            Some((start, size)) => {
                let possible = size == profile.slices && starts.any(|possible| possible == start);
                Some(start).filter(|_| possible).ok_or(Refusal::InvalidArgument)?
            }
            None => starts
                .find(|start| instance.is_free(*start, profile.slices))
                .ok_or(Refusal::InsufficientResources)?,
        };
        if !instance.is_free(start, profile.slices) {
            return Err(Refusal::InsufficientResources);
        }
        let free_id = |id: &u32| instance.compute.iter().all(|compute| compute.id != *id);
        let id = (0..u32::MAX).find(free_id).ok_or(Refusal::InsufficientResources)?;
        let birth = self.birth();
        let uuid = identity::uuid("MIG", self.seed, &[self.boot, birth]);
        let compute = ComputeInstance { id, birth, profile: profile.id, start, size: profile.slices, uuid };
        let instances = &mut self.gpu_mut(gpu)?.instances;
        let instance = instances.iter_mut().find(|instance| instance.id == gi).ok_or(Refusal::NotFound)?;
        instance.compute.push(compute.clone());
        instance.compute.sort_by_key(|compute| compute.id);
        Ok(compute)
    }

    /// Destroys a compute instance. Refused while a living process uses it.
    pub fn destroy_compute_instance(
        &mut self,
        gpu: usize,
        place: Place,
        now: u64,
        living: Living<'_>,
    ) -> Result<(), Refusal> {
        self.gpu(gpu)?.instance(place.gi)?.compute_instance(place.ci)?;
        if self.clients_of(gpu).any(|client| client.instance == Some(place) && living(client)) {
            return Err(Refusal::InUse);
        }
        self.bury(now, living);
        let instances = &mut self.gpu_mut(gpu)?.instances;
        let instance =
            instances.iter_mut().find(|instance| instance.id == place.gi).ok_or(Refusal::NotFound)?;
        instance.compute.retain(|compute| compute.id != place.ci);
        Ok(())
    }

    /// The MIG devices of a GPU, in the order of their ids: the index of one changes when another comes or goes.
    pub fn mig_devices(&self, gpu: usize) -> impl Iterator<Item = (&GpuInstance, &ComputeInstance)> {
        let instances = self.gpus.get(gpu).into_iter().flat_map(|gpu| &gpu.instances);
        instances.flat_map(|instance| instance.compute.iter().map(move |compute| (instance, compute)))
    }
}

#[cfg(test)]
mod tests {
    use whalezen_mig::Model;

    use super::*;
    use crate::machine::testing::{NOBODY, machine};

    /// A machine with one GPU instance of that profile, and the instance's id.
    fn with(profile: u32) -> (Machine, u32) {
        let mut machine = machine(&[Model::H100_80]);
        let id = machine.create_gpu_instance(0, profile, None).unwrap().id;
        (machine, id)
    }

    #[test]
    fn compute_instances_lie_where_they_may_and_do_not_overlap() {
        // (profile, placement, start) in turn, in a whole GPU.
        let table = [
            (1, Some((2, 2)), Ok(2)),
            (1, Some((1, 2)), Err(Refusal::InvalidArgument)),
            (1, Some((4, 1)), Err(Refusal::InvalidArgument)),
            (0, Some((3, 1)), Err(Refusal::InsufficientResources)),
            (2, None, Ok(4)),
            (1, None, Ok(0)),
            (0, None, Err(Refusal::InsufficientResources)),
            (4, None, Err(Refusal::InsufficientResources)),
            (6, None, Err(Refusal::NotSupported)),
        ];
        let (mut machine, gi) = with(0);
        for (profile, placement, outcome) in table {
            let made = machine.create_compute_instance(0, gi, profile, placement);
            assert_eq!(made.map(|compute| compute.start), outcome, "{profile} at {placement:?}");
        }
    }

    #[test]
    fn every_profile_of_every_gpu_instance_fits_as_often_as_room_was_said_to_be() {
        for gi_profile in [19, 14, 9, 5, 0] {
            let (empty, gi) = with(gi_profile);
            let slices = empty.compute_slices(0, empty.gpus[0].instance(gi).unwrap()).unwrap();
            let profiles = ComputeProfile::of(slices);
            assert_eq!(profiles.last().map(|profile| profile.slices), Some(slices.into()), "{gi_profile}");
            for profile in profiles {
                let mut machine = empty.clone();
                let room = machine.compute_remaining(0, gi, profile.id).unwrap();
                let made =
                    (0..9).take_while(|_| machine.create_compute_instance(0, gi, profile.id, None).is_ok());
                assert_eq!(made.count(), room as usize, "{gi_profile} {}", profile.id);
                assert_eq!(machine.compute_remaining(0, gi, profile.id), Ok(0));
            }
        }
    }

    #[test]
    fn a_part_has_the_multiprocessors_of_its_slices_and_the_whole_has_all() {
        let (machine, gi) = with(9);
        let instance = machine.gpus[0].instance(gi).unwrap();
        let each = [1, 2, 3].map(|slices| machine.multiprocessors(0, instance, slices).unwrap());
        assert_eq!(each, [16, 32, 60]);
    }

    #[test]
    fn ids_come_back_from_the_lowest_and_devices_move_up() {
        let (mut machine, gi) = with(9);
        for _ in 0..3 {
            machine.create_compute_instance(0, gi, 0, None).unwrap();
        }
        let ids =
            |machine: &Machine| machine.mig_devices(0).map(|(_, compute)| compute.id).collect::<Vec<_>>();
        machine.destroy_compute_instance(0, Place { gi, ci: 1 }, 0, NOBODY).unwrap();
        assert_eq!(ids(&machine), [0, 2]);
        assert_eq!(machine.create_compute_instance(0, gi, 0, None).unwrap().id, 1);
        assert_eq!(ids(&machine), [0, 1, 2]);
        assert_eq!(machine.destroy_gpu_instance(0, gi), Err(Refusal::InUse));
    }
}
