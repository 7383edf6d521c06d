//! GPU instances: MIG's mode, what may lie where, and what is refused as the hardware refuses it.

use serde::{Deserialize, Serialize};
use whalezen_mig::{Geometry, Profile};

use super::{Gpu, Living, Machine, compute::ComputeInstance, load::Totals};
use crate::refusal::Refusal;

/// A GPU instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInstance {
    /// Its id on the GPU. It goes with the place, so that it comes back.
    pub id: u32,
    /// What tells it from another that had its id before.
    pub birth: u64,
    /// Id of its profile.
    pub profile: u32,
    /// The first of its memory slices.
    pub start: u8,
    /// How many memory slices it has.
    pub size: u8,
    /// Its compute instances.
    pub compute: Vec<ComputeInstance>,
    /// What was done in it by clients that are gone.
    pub done: Totals,
}

impl Machine {
    /// Switches MIG on or off. The answer is what NVML calls the activation status: what keeps the mode from coming
    /// into force now. It stays pending then.
    ///
    /// Ampere needs a reset, which the driver does itself only where the configuration says so. Later generations
    /// switch at once. None does while a process uses the GPU, and none gives up instances for it except by a reset.
    pub fn set_mig_mode(
        &mut self,
        index: usize,
        on: bool,
        now: u64,
        living: Living<'_>,
    ) -> Result<Result<(), Refusal>, Refusal> {
        let resets = self.model(index)?.architecture().resets_for_mode();
        let by_itself = self.config.reset_on_mode_change;
        let used = self.is_used(index, living);
        let gpu = self.gpu_mut(index)?;
        gpu.mig_pending = on;
        if gpu.mig == on {
            return Ok(Ok(()));
        }
        if used || (!resets && !gpu.instances.is_empty()) {
            return Ok(Err(Refusal::InUse));
        }
        if resets && !by_itself {
            return Ok(Err(Refusal::ResetRequired));
        }
        self.restart(index, now, living)?;
        Ok(Ok(()))
    }

    /// Resets a GPU, as `nvidia-smi --gpu-reset` does: the layout is gone, the pending mode in force, and one that had
    /// fallen off the bus is back. Refused while a process uses it.
    pub fn reset(&mut self, index: usize, now: u64, living: Living<'_>) -> Result<(), Refusal> {
        if self.is_used(index, living) {
            return Err(Refusal::InUse);
        }
        self.restart(index, now, living)
    }

    fn restart(&mut self, index: usize, now: u64, living: Living<'_>) -> Result<(), Refusal> {
        self.bury(now, living);
        self.gpu_mut(index)?.restart(now);
        Ok(())
    }

    /// Makes a GPU instance of the profile with that id, at `placement` (start and size) or where the driver likes.
    ///
    /// What is occupied and what exceeds the profile's number are both [`Refusal::InsufficientResources`]; a
    /// placement that the profile does not have is [`Refusal::InvalidArgument`].
    pub fn create_gpu_instance(
        &mut self,
        index: usize,
        profile: u32,
        placement: Option<(u32, u32)>,
    ) -> Result<GpuInstance, Refusal> {
        let geometry = self.geometry(index)?;
        let gpu = self.gpu(index)?;
        gpu.has_mig()?;
        let profile = geometry.by_id(profile).ok_or(Refusal::NotSupported)?;
        let wanted = placement.map(|(start, size)| {
            let fits = |at: &&u8| u32::from(**at) == start && u32::from(profile.memory_slices) == size;
            profile.starts.iter().find(fits).copied().ok_or(Refusal::InvalidArgument)
        });
        let start = match wanted.transpose()? {
            Some(start) => Some(start).filter(|start| gpu.is_free(profile, *start)),
            None => gpu.driver_choice(profile),
        };
        let room = gpu.room(geometry, profile) > 0;
        let start = start.filter(|_| room).ok_or(Refusal::InsufficientResources)?;
        let whole = geometry.memory_slices();
        let instance = GpuInstance {
            id: instance_id(profile, start, whole),
            birth: self.birth(),
            profile: profile.id,
            start,
            size: profile.memory_slices,
            compute: Vec::new(),
            done: Totals::default(),
        };
        let gpu = self.gpu_mut(index)?;
        gpu.instances.push(instance.clone());
        gpu.instances.sort_by_key(|instance| instance.id);
        Ok(instance)
    }

    /// Destroys a GPU instance. Refused while it has compute instances.
    pub fn destroy_gpu_instance(&mut self, index: usize, id: u32) -> Result<(), Refusal> {
        let gpu = self.gpu_mut(index)?;
        if !gpu.instance(id)?.compute.is_empty() {
            return Err(Refusal::InUse);
        }
        gpu.instances.retain(|instance| instance.id != id);
        Ok(())
    }

    /// How many more instances of the profile with that id would find room. What it says of one profile changes with
    /// what is made of another.
    pub fn remaining(&self, index: usize, profile: u32) -> Result<u32, Refusal> {
        let geometry = self.geometry(index)?;
        let profile = geometry.by_id(profile).ok_or(Refusal::NotSupported)?;
        let gpu = self.gpu(index)?;
        gpu.has_mig()?;
        Ok(gpu.room(geometry, profile))
    }
}

impl Gpu {
    /// Refuses what needs MIG while it is off.
    pub fn has_mig(&self) -> Result<(), Refusal> {
        if self.mig { Ok(()) } else { Err(Refusal::NotSupported) }
    }

    /// The instance with that id.
    pub fn instance(&self, id: u32) -> Result<&GpuInstance, Refusal> {
        self.instances.iter().find(|instance| instance.id == id).ok_or(Refusal::NotFound)
    }

    /// How many more instances of that profile there may be: as many as find a free place, no more than the profile
    /// allows, and one that claims the media engines only where no other has them.
    fn room(&self, geometry: &Geometry, profile: &Profile) -> u32 {
        let of = |instance: &GpuInstance| geometry.by_id(instance.profile);
        let claims = |profile: &Profile| profile.name.extension().claims_media();
        if claims(profile) && self.instances.iter().filter_map(of).any(claims) {
            return 0;
        }
        // Placements of one profile never overlap by half, so that all free ones can be taken at once.
        let free = profile.starts.iter().filter(|start| self.is_free(profile, **start)).count();
        let there = self.instances.iter().filter(|instance| instance.profile == profile.id).count();
        let allowed = usize::from(profile.max).saturating_sub(there);
        u32::try_from(free.min(allowed)).unwrap_or(u32::MAX)
    }

    fn is_free(&self, profile: &Profile, start: u8) -> bool {
        let end = start.saturating_add(profile.memory_slices);
        self.instances
            .iter()
            .all(|other| end <= other.start || other.start.saturating_add(other.size) <= start)
    }

    /// Where the driver puts an instance when nobody says where: small ones last, so that the half without a hole
    /// stays free.
    fn driver_choice(&self, profile: &Profile) -> Option<u8> {
        let mut free = profile.starts.iter().copied().filter(|start| self.is_free(profile, *start));
        if profile.memory_slices < 4 { free.next_back() } else { free.next() }
    }
}

/// The id of the instance at that place. Ids count the places of each size, the whole GPU first, then the halves, the
/// quarters and the eighths: 0, 1 and 2, 3 to 6, 7 to 14. So two that exist together never have the same one.
fn instance_id(profile: &Profile, start: u8, whole: u8) -> u32 {
    let size = profile.memory_slices.max(1);
    let before = u32::from(whole / size).saturating_sub(1);
    before + u32::from(start / size)
}

#[cfg(test)]
mod tests {
    use whalezen_mig::Model;

    use super::*;
    use crate::machine::{
        client::{Client, Place},
        load::Running,
        testing::{ALL, NOBODY, machine},
    };

    fn client(gpu: usize, instance: Option<Place>) -> Client {
        Client { pid: 1, started: 1, gpu, instance, running: Running::default() }
    }

    #[test]
    fn what_overlaps_is_refused_and_what_does_not_is_made() {
        // (profile, start, size) in turn, on one GPU.
        let table = [
            (9, 4, 4, Ok(2)),
            (9, 4, 4, Err(Refusal::InsufficientResources)),
            (0, 0, 8, Err(Refusal::InsufficientResources)),
            (14, 4, 2, Err(Refusal::InsufficientResources)),
            (14, 2, 2, Ok(4)),
            (19, 1, 1, Ok(8)),
            (15, 0, 2, Err(Refusal::InsufficientResources)),
            (5, 0, 4, Err(Refusal::InsufficientResources)),
            (9, 2, 4, Err(Refusal::InvalidArgument)),
            (19, 0, 2, Err(Refusal::InvalidArgument)),
            (19, 7, 1, Err(Refusal::InvalidArgument)),
            (3, 0, 1, Err(Refusal::NotSupported)),
            (20, 0, 1, Ok(7)),
        ];
        let mut machine = machine(&[Model::H100_80]);
        for (profile, start, size, outcome) in table {
            let made = machine.create_gpu_instance(0, profile, Some((start, size)));
            assert_eq!(made.map(|instance| instance.id), outcome, "{profile} at {start}:{size}");
        }
    }

    #[test]
    fn the_driver_puts_small_instances_last_and_says_when_there_is_no_room() {
        let mut machine = machine(&[Model::A100_40]);
        let mut make =
            |profile| machine.create_gpu_instance(0, profile, None).map(|made| (made.id, made.start));
        assert_eq!(make(19), Ok((13, 6)));
        assert_eq!(make(14), Ok((5, 4)));
        assert_eq!(make(5), Ok((1, 0)));
        assert_eq!(make(19), Err(Refusal::InsufficientResources));
    }

    #[test]
    fn room_for_one_profile_goes_with_what_is_made_of_another() {
        let mut machine = machine(&[Model::H100_80]);
        let remaining =
            |machine: &Machine| [19, 20, 15, 14, 9, 5, 0].map(|id| machine.remaining(0, id).unwrap());
        assert_eq!(remaining(&machine), [7, 1, 4, 3, 2, 1, 1]);
        machine.create_gpu_instance(0, 9, Some((0, 4))).unwrap();
        assert_eq!(remaining(&machine), [3, 1, 2, 1, 1, 0, 0]);
        machine.create_gpu_instance(0, 20, Some((4, 1))).unwrap();
        assert_eq!(remaining(&machine), [2, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn as_many_are_made_as_room_was_said_to_be_from_every_state() {
        for model in Model::ALL {
            let empty = machine(&[model]);
            let ids: Vec<_> =
                empty.geometry(0).unwrap().profiles().iter().map(|profile| profile.id).collect();
            for first in &ids {
                for second in &ids {
                    let mut machine = empty.clone();
                    machine.create_gpu_instance(0, *first, None).unwrap();
                    let _ = machine.create_gpu_instance(0, *second, None);
                    for id in &ids {
                        let mut machine = machine.clone();
                        let room = machine.remaining(0, *id).unwrap();
                        let made = (0..9).take_while(|_| machine.create_gpu_instance(0, *id, None).is_ok());
                        assert_eq!(made.count(), room as usize, "{model}: {id} after {first} and {second}");
                    }
                }
            }
        }
    }

    #[test]
    fn instances_that_exist_together_have_different_ids() {
        for model in Model::ALL {
            let geometry = machine(&[model]).geometry(0).unwrap();
            let places =
                geometry.profiles().iter().flat_map(|p| p.starts.iter().map(move |start| (p, *start)));
            for (one, at) in places.clone() {
                for (other, there) in places.clone() {
                    let apart = at + one.memory_slices <= there || there + other.memory_slices <= at;
                    let whole = geometry.memory_slices();
                    assert!(!apart || instance_id(one, at, whole) != instance_id(other, there, whole));
                }
            }
        }
    }

    #[test]
    fn an_instance_that_holds_another_or_is_used_stays_and_an_id_comes_back_with_another_birth() {
        let mut machine = machine(&[Model::A30]);
        let two = machine.geometry(0).unwrap().by_slot(1).unwrap().id;
        let made = machine.create_gpu_instance(0, two, Some((0, 2))).unwrap();
        let compute = machine.create_compute_instance(0, made.id, 1, None).unwrap();
        let place = Place { gi: made.id, ci: compute.id };
        machine.attach(client(0, Some(place)), ALL).unwrap();
        assert_eq!(machine.destroy_gpu_instance(0, made.id), Err(Refusal::InUse));
        assert_eq!(machine.destroy_compute_instance(0, place, 5, ALL), Err(Refusal::InUse));
        assert_eq!(machine.destroy_compute_instance(0, place, 5, NOBODY), Ok(()));
        assert_eq!(machine.destroy_gpu_instance(0, made.id), Ok(()));
        assert_eq!(machine.destroy_gpu_instance(0, made.id), Err(Refusal::NotFound));

        let again = machine.create_gpu_instance(0, two, Some((0, 2))).unwrap();
        let compute_again = machine.create_compute_instance(0, again.id, 1, None).unwrap();
        assert_eq!((again.id, compute_again.id), (made.id, compute.id));
        assert!(again.birth != made.birth && compute_again.uuid != compute.uuid);
    }

    #[test]
    fn the_mode_of_ampere_waits_for_a_reset_and_that_of_hopper_for_idleness() {
        let mut machine = machine(&[Model::A100_80, Model::H100_80]);
        machine.create_gpu_instance(0, 19, None).unwrap();
        machine.create_gpu_instance(1, 19, None).unwrap();
        let mode = |machine: &Machine, gpu: usize| (machine.gpus[gpu].mig, machine.gpus[gpu].mig_pending);

        assert_eq!(machine.set_mig_mode(0, false, 1, NOBODY), Ok(Err(Refusal::ResetRequired)));
        assert_eq!((mode(&machine, 0), machine.gpus[0].instances.len()), ((true, false), 1));
        machine.reset(0, 2, NOBODY).unwrap();
        assert_eq!((mode(&machine, 0), machine.gpus[0].instances.len()), ((false, false), 0));

        assert_eq!(machine.set_mig_mode(1, false, 1, NOBODY), Ok(Err(Refusal::InUse)));
        let id = machine.gpus[1].instances[0].id;
        machine.destroy_gpu_instance(1, id).unwrap();
        assert_eq!(machine.set_mig_mode(1, false, 1, NOBODY), Ok(Ok(())));
        assert_eq!(mode(&machine, 1), (false, false));

        for gpu in [0, 1] {
            machine.attach(client(gpu, None), ALL).unwrap();
            assert_eq!(machine.set_mig_mode(gpu, true, 3, ALL), Ok(Err(Refusal::InUse)), "{gpu}");
            assert_eq!(mode(&machine, gpu), (false, true), "{gpu}");
            assert_eq!(machine.reset(gpu, 3, ALL), Err(Refusal::InUse), "{gpu}");
        }
    }

    #[test]
    fn a_driver_that_can_reset_by_itself_does_when_ampere_is_idle() {
        let mut machine = machine(&[Model::A100_80]);
        machine.config.reset_on_mode_change = true;
        machine.create_gpu_instance(0, 0, None).unwrap();
        assert_eq!(machine.set_mig_mode(0, false, 1, NOBODY), Ok(Ok(())));
        assert!(!machine.gpus[0].mig && machine.gpus[0].instances.is_empty());
    }

    #[test]
    fn without_mig_nothing_is_made_and_nothing_is_counted() {
        let mut machine = machine(&[Model::H200]);
        machine.set_mig_mode(0, false, 0, NOBODY).unwrap().unwrap();
        assert_eq!(machine.create_gpu_instance(0, 19, None), Err(Refusal::NotSupported));
        assert_eq!(machine.remaining(0, 19), Err(Refusal::NotSupported));
        assert_eq!(machine.create_gpu_instance(1, 19, None), Err(Refusal::InvalidArgument));
    }

    #[test]
    fn a_reboot_forgets_layouts_and_only_ampere_remembers_the_mode() {
        let mut machine = machine(&[Model::A100_80, Model::B200]);
        machine.config.gpus[1].mig = false;
        let uuids: Vec<_> = machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        for gpu in [0, 1] {
            machine.create_gpu_instance(gpu, 19, None).unwrap();
        }
        machine.reboot(10);
        assert_eq!(
            machine.gpus.iter().map(|gpu| (gpu.mig, gpu.instances.len())).collect::<Vec<_>>(),
            [(true, 0), (false, 0)]
        );
        assert_eq!(machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect::<Vec<_>>(), uuids);
    }
}
