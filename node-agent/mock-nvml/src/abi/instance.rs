//! MIG's mode, and GPU instances.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlGpuInstance_t, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t,
    nvmlGpuInstanceProfileInfo_t, nvmlGpuInstanceProfileInfo_v2_t, nvmlReturn_t,
};
use whalezen_mig::Profile;

use super::{chars, device, export, fill, fill_all, fill_array, given, gpu, pointer, target, version};
use crate::{
    machine::{Machine, mig::GpuInstance},
    process::{Target, View, ask, change, find_gpu_instance},
    refusal::Refusal,
};

/// How many profiles the header numbers; one beyond is refused as an argument, and one that a GPU lacks as not
/// supported.
const PROFILES: c_uint = 17;

export! {
    /// Whether MIG is on, and whether it will be after the next reset.
    fn nvmlDeviceGetMigMode(handle: nvmlDevice_t, current: *mut c_uint, pending: *mut c_uint) {
        given(current)?;
        let (target, index) = gpu(handle)?;
        let (now, then) = ask(NAME, Some(target), |view| {
            let gpu = view.gpu(index)?;
            Ok((gpu.mig, gpu.mig_pending))
        })?;
        fill(pending, then.into())?;
        fill(current, now.into())
    }

    /// Switches MIG on or off. `activation` tells whether it came into force.
    fn nvmlDeviceSetMigMode(handle: nvmlDevice_t, mode: c_uint, activation: *mut nvmlReturn_t) {
        given(activation)?;
        let (target, index) = gpu(handle)?;
        let on = match mode {
            0 => false,
            1 => true,
            _ => return Err(Refusal::InvalidArgument),
        };
        let status = change(NAME, target, |machine, now, living| machine.set_mig_mode(index, on, now, living))?;
        fill(activation, status.map_or_else(Refusal::code, |()| 0))
    }

    /// A profile of GPU instances, by the header's number of it.
    fn nvmlDeviceGetGpuInstanceProfileInfo(
        handle: nvmlDevice_t, profile: c_uint, info: *mut nvmlGpuInstanceProfileInfo_t,
    ) {
        given(info)?;
        let (target, index) = gpu(handle)?;
        let profile = ask(NAME, Some(target), |view| by_slot(view.machine, index, profile))?;
        fill(info, nvmlGpuInstanceProfileInfo_t {
            id: profile.id,
            isP2pSupported: 0,
            sliceCount: profile.compute_slices().into(),
            instanceCount: profile.max.into(),
            multiprocessorCount: profile.engines.multiprocessors,
            copyEngineCount: profile.engines.copy,
            decoderCount: profile.engines.decoders,
            encoderCount: profile.engines.encoders,
            jpegCount: profile.engines.jpeg,
            ofaCount: profile.engines.optical_flow,
            memorySizeMB: profile.engines.memory_mib,
        })
    }

    /// A profile of GPU instances with its name, by the header's number of it.
    fn nvmlDeviceGetGpuInstanceProfileInfoV(
        handle: nvmlDevice_t, profile: c_uint, info: *mut nvmlGpuInstanceProfileInfo_v2_t,
    ) {
        check(info)?;
        let (target, index) = gpu(handle)?;
        let profile = ask(NAME, Some(target), |view| by_slot(view.machine, index, profile))?;
        fill(info, named(profile))
    }

    /// A profile of GPU instances with its name, by its id.
    fn nvmlDeviceGetGpuInstanceProfileInfoByIdV(
        handle: nvmlDevice_t, id: c_uint, info: *mut nvmlGpuInstanceProfileInfo_v2_t,
    ) {
        check(info)?;
        let (target, index) = gpu(handle)?;
        let profile = ask(NAME, Some(target), |view| by_id(view.machine, index, id))?;
        fill(info, named(profile))
    }

    /// Where instances of a profile may lie, whatever is there, and whether MIG is on or off.
    fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        handle: nvmlDevice_t, id: c_uint, placements: *mut nvmlGpuInstancePlacement_t, count: *mut c_uint,
    ) {
        given(count)?;
        let (target, index) = gpu(handle)?;
        let found = ask(NAME, Some(target), |view| {
            let profile = by_id(view.machine, index, id)?;
            let size = profile.memory_slices.into();
            let placement = |start: &u8| nvmlGpuInstancePlacement_t { start: (*start).into(), size };
            Ok(profile.starts.iter().map(placement).collect::<Vec<_>>())
        })?;
        if placements.is_null() {
            return fill(count, super::narrow(found.len() as u64));
        }
        fill_array(placements, count, &found)
    }

    /// How many more instances of a profile find room.
    fn nvmlDeviceGetGpuInstanceRemainingCapacity(handle: nvmlDevice_t, id: c_uint, count: *mut c_uint) {
        given(count)?;
        let (target, index) = gpu(handle)?;
        fill(count, ask(NAME, Some(target), |view| view.machine.remaining(index, id))?)
    }

    /// Makes a GPU instance where the driver likes.
    fn nvmlDeviceCreateGpuInstance(handle: nvmlDevice_t, id: c_uint, instance: *mut nvmlGpuInstance_t) {
        given(instance)?;
        let (target, index) = gpu(handle)?;
        let made = change(NAME, target, |machine, _, _| machine.create_gpu_instance(index, id, None))?;
        fill(instance, pointer(of(index, &made)))
    }

    /// Makes a GPU instance at a place.
    fn nvmlDeviceCreateGpuInstanceWithPlacement(
        handle: nvmlDevice_t, id: c_uint, placement: *const nvmlGpuInstancePlacement_t,
        instance: *mut nvmlGpuInstance_t,
    ) {
        given(instance)?;
        given(placement)?;
        let place = placement.read();
        let (target, index) = gpu(handle)?;
        let made = change(NAME, target, |machine, _, _| {
            machine.create_gpu_instance(index, id, Some((place.start, place.size)))
        })?;
        fill(instance, pointer(of(index, &made)))
    }

    /// Destroys a GPU instance.
    fn nvmlGpuInstanceDestroy(instance: nvmlGpuInstance_t) {
        let target = target(instance)?;
        change(NAME, target, |machine, _, _| {
            let (gpu, found) = find_gpu_instance(machine, target)?;
            let id = found.id;
            machine.destroy_gpu_instance(gpu, id)
        })
    }

    /// The GPU instances of a profile. The array has room for as many as the profile allows.
    fn nvmlDeviceGetGpuInstances(
        handle: nvmlDevice_t, id: c_uint, instances: *mut nvmlGpuInstance_t, count: *mut c_uint,
    ) {
        given(count)?;
        let (target, index) = gpu(handle)?;
        let found = ask(NAME, Some(target), |view| {
            let gpu = view.gpu(index)?;
            gpu.has_mig()?;
            by_id(view.machine, index, id)?;
            let wanted = gpu.instances.iter().filter(|instance| instance.profile == id);
            Ok(wanted.map(|instance| pointer(of(index, instance))).collect::<Vec<_>>())
        })?;
        fill_all(instances, &found)?;
        fill(count, super::narrow(found.len() as u64))
    }

    /// The GPU instance with that id.
    fn nvmlDeviceGetGpuInstanceById(handle: nvmlDevice_t, id: c_uint, instance: *mut nvmlGpuInstance_t) {
        given(instance)?;
        let (target, index) = gpu(handle)?;
        let found = ask(NAME, Some(target), |view| {
            let gpu = view.gpu(index)?;
            gpu.has_mig()?;
            Ok(of(index, gpu.instance(id)?))
        })?;
        fill(instance, pointer(found))
    }

    /// What a GPU instance is.
    fn nvmlGpuInstanceGetInfo(instance: nvmlGpuInstance_t, info: *mut nvmlGpuInstanceInfo_t) {
        given(info)?;
        let target = target(instance)?;
        fill(info, ask(NAME, Some(target), |view| {
            let (gpu, found) = view.gpu_instance(target)?;
            Ok(nvmlGpuInstanceInfo_t {
                device: device(Target::Gpu(gpu)),
                id: found.id,
                profileId: found.profile,
                placement: nvmlGpuInstancePlacement_t { start: found.start.into(), size: found.size.into() },
            })
        })?)
    }

    /// How many MIG devices a GPU can have: one for each compute slice.
    fn nvmlDeviceGetMaxMigDeviceCount(handle: nvmlDevice_t, count: *mut c_uint) {
        let (target, index) = gpu(handle)?;
        fill(count, ask(NAME, Some(target), |view| max_devices(view, index))?)
    }
}

/// How many MIG devices a GPU can have.
pub(super) fn max_devices(view: &View<'_>, index: usize) -> Result<c_uint, Refusal> {
    Ok(view.machine.geometry(index)?.compute_slices().into())
}

/// The name of a compute instance with that many slices, as `nvidia-smi` prints it.
pub(super) fn compute_name(
    machine: &Machine,
    gpu: usize,
    instance: &GpuInstance,
    slices: u32,
) -> Result<String, Refusal> {
    let profile = by_id(machine, gpu, instance.profile)?;
    Ok(if slices < u32::from(profile.compute_slices()) {
        format!("{slices}c.{}", profile.name)
    } else {
        profile.name.to_string()
    })
}

/// What stands for a GPU instance.
pub(super) fn of(gpu: usize, instance: &GpuInstance) -> Target {
    Target::GpuInstance(gpu, instance.id, instance.birth)
}

fn by_slot(machine: &Machine, gpu: usize, slot: c_uint) -> Result<&'static Profile, Refusal> {
    if slot >= PROFILES {
        return Err(Refusal::InvalidArgument);
    }
    machine.geometry(gpu)?.by_slot(slot).ok_or(Refusal::NotSupported)
}

fn by_id(machine: &Machine, gpu: usize, id: c_uint) -> Result<&'static Profile, Refusal> {
    machine.geometry(gpu)?.by_id(id).ok_or(Refusal::NotSupported)
}

/// Refuses a structure of another version.
unsafe fn check(info: *mut nvmlGpuInstanceProfileInfo_v2_t) -> Result<(), Refusal> {
    given(info)?;
    // SAFETY: not null, so that at least the version is there to be read.
    let found = unsafe { (&raw const (*info).version).read() };
    if found == version::<nvmlGpuInstanceProfileInfo_v2_t>(2) {
        Ok(())
    } else {
        Err(Refusal::ArgumentVersionMismatch)
    }
}

fn named(profile: &Profile) -> nvmlGpuInstanceProfileInfo_v2_t {
    nvmlGpuInstanceProfileInfo_v2_t {
        version: version::<nvmlGpuInstanceProfileInfo_v2_t>(2),
        id: profile.id,
        isP2pSupported: 0,
        sliceCount: profile.compute_slices().into(),
        instanceCount: profile.max.into(),
        multiprocessorCount: profile.engines.multiprocessors,
        copyEngineCount: profile.engines.copy,
        decoderCount: profile.engines.decoders,
        encoderCount: profile.engines.encoders,
        jpegCount: profile.engines.jpeg,
        ofaCount: profile.engines.optical_flow,
        memorySizeMB: profile.engines.memory_mib,
        name: chars(&format!("MIG {}", profile.name)),
    }
}
