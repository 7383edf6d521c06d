//! Compute instances, and the MIG devices that they are.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    nvmlComputeInstance_t, nvmlComputeInstanceInfo_t, nvmlComputeInstancePlacement_t,
    nvmlComputeInstanceProfileInfo_t, nvmlComputeInstanceProfileInfo_v2_t, nvmlDevice_t,
    nvmlDeviceAttributes_t, nvmlGpuInstance_t,
};

use super::{
    any_device, chars, device, device::mig_device, export, fill, fill_all, fill_array, given, gpu, instance,
    narrow, pointer, target, version,
};
use crate::{
    machine::{client::Place, compute::ComputeProfile, mig::GpuInstance},
    process::{Target, View, ask, change, find_compute_instance, find_gpu_instance},
    refusal::Refusal,
};

/// How many profiles of compute instances the header numbers.
const PROFILES: c_uint = 8;

export! {
    /// A profile of a GPU instance's compute instances, by the header's number of it.
    fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
        instance: nvmlGpuInstance_t, profile: c_uint, engines: c_uint, info: *mut nvmlComputeInstanceProfileInfo_t,
    ) {
        given(info)?;
        let target = target(instance)?;
        let shape = ask(NAME, Some(target), |view| shape(view, target, profile, engines))?;
        fill(info, nvmlComputeInstanceProfileInfo_t {
            id: shape.profile.id,
            sliceCount: shape.profile.slices,
            instanceCount: narrow(shape.profile.starts.len() as u64),
            multiprocessorCount: shape.multiprocessors,
            sharedCopyEngineCount: shape.engines.copy,
            sharedDecoderCount: shape.engines.decoders,
            sharedEncoderCount: shape.engines.encoders,
            sharedJpegCount: shape.engines.jpeg,
            sharedOfaCount: shape.engines.optical_flow,
        })
    }

    /// A profile of a GPU instance's compute instances with its name, by the header's number of it.
    fn nvmlGpuInstanceGetComputeInstanceProfileInfoV(
        instance: nvmlGpuInstance_t, profile: c_uint, engines: c_uint, info: *mut nvmlComputeInstanceProfileInfo_v2_t,
    ) {
        given(info)?;
        let revision = version::<nvmlComputeInstanceProfileInfo_v2_t>(2);
        if (&raw const (*info).version).read() != revision {
            return Err(Refusal::ArgumentVersionMismatch);
        }
        let target = target(instance)?;
        let shape = ask(NAME, Some(target), |view| shape(view, target, profile, engines))?;
        fill(info, nvmlComputeInstanceProfileInfo_v2_t {
            version: revision,
            id: shape.profile.id,
            sliceCount: shape.profile.slices,
            instanceCount: narrow(shape.profile.starts.len() as u64),
            multiprocessorCount: shape.multiprocessors,
            sharedCopyEngineCount: shape.engines.copy,
            sharedDecoderCount: shape.engines.decoders,
            sharedEncoderCount: shape.engines.encoders,
            sharedJpegCount: shape.engines.jpeg,
            sharedOfaCount: shape.engines.optical_flow,
            name: chars(&format!("MIG {}", shape.name)),
        })
    }

    /// Where compute instances of a profile may lie, whatever is there.
    fn nvmlGpuInstanceGetComputeInstancePossiblePlacements(
        instance: nvmlGpuInstance_t, id: c_uint, placements: *mut nvmlComputeInstancePlacement_t, count: *mut c_uint,
    ) {
        given(count)?;
        let target = target(instance)?;
        let found = ask(NAME, Some(target), |view| {
            let (gpu, found) = view.gpu_instance(target)?;
            let profile = view.machine.compute_profile(gpu, found, id)?;
            let placement = |start: &u32| nvmlComputeInstancePlacement_t { start: *start, size: profile.slices };
            Ok(profile.starts.iter().map(placement).collect::<Vec<_>>())
        })?;
        if placements.is_null() {
            return fill(count, narrow(found.len() as u64));
        }
        fill_array(placements, count, &found)
    }

    /// How many more compute instances of a profile find room in a GPU instance.
    fn nvmlGpuInstanceGetComputeInstanceRemainingCapacity(
        instance: nvmlGpuInstance_t, id: c_uint, count: *mut c_uint,
    ) {
        given(count)?;
        let target = target(instance)?;
        fill(count, ask(NAME, Some(target), |view| {
            let (gpu, found) = view.gpu_instance(target)?;
            view.machine.compute_remaining(gpu, found.id, id)
        })?)
    }

    /// Makes a compute instance at the first free place.
    fn nvmlGpuInstanceCreateComputeInstance(
        instance: nvmlGpuInstance_t, id: c_uint, compute: *mut nvmlComputeInstance_t,
    ) {
        given(compute)?;
        fill(compute, pointer(create(NAME, target(instance)?, id, None)?))
    }

    /// Makes a compute instance at a place.
    fn nvmlGpuInstanceCreateComputeInstanceWithPlacement(
        instance: nvmlGpuInstance_t, id: c_uint, placement: *const nvmlComputeInstancePlacement_t,
        compute: *mut nvmlComputeInstance_t,
    ) {
        given(compute)?;
        given(placement)?;
        let place = placement.read();
        fill(compute, pointer(create(NAME, target(instance)?, id, Some((place.start, place.size)))?))
    }

    /// Destroys a compute instance.
    fn nvmlComputeInstanceDestroy(compute: nvmlComputeInstance_t) {
        let target = compute_target(compute)?;
        change(NAME, target, |machine, now, living| {
            let (gpu, instance, found) = find_compute_instance(machine, target)?;
            let place = Place { gi: instance.id, ci: found.id };
            machine.destroy_compute_instance(gpu, place, now, living)
        })
    }

    /// The compute instances of a profile. The array has room for as many as the profile allows.
    fn nvmlGpuInstanceGetComputeInstances(
        instance: nvmlGpuInstance_t, id: c_uint, computes: *mut nvmlComputeInstance_t, count: *mut c_uint,
    ) {
        given(count)?;
        let target = target(instance)?;
        let found = ask(NAME, Some(target), |view| {
            let (gpu, found) = view.gpu_instance(target)?;
            view.machine.compute_profile(gpu, found, id)?;
            let wanted = found.compute.iter().filter(|compute| compute.profile == id);
            let handle = |compute| pointer(of(gpu, found, compute));
            Ok(wanted.map(handle).collect::<Vec<_>>())
        })?;
        fill_all(computes, &found)?;
        fill(count, narrow(found.len() as u64))
    }

    /// The compute instance with that id.
    fn nvmlGpuInstanceGetComputeInstanceById(
        instance: nvmlGpuInstance_t, id: c_uint, compute: *mut nvmlComputeInstance_t,
    ) {
        given(compute)?;
        let target = target(instance)?;
        let found = ask(NAME, Some(target), |view| {
            let (gpu, found) = view.gpu_instance(target)?;
            Ok(of(gpu, found, found.compute_instance(id)?))
        })?;
        fill(compute, pointer(found))
    }

    /// What a compute instance is.
    fn nvmlComputeInstanceGetInfo_v2(compute: nvmlComputeInstance_t, info: *mut nvmlComputeInstanceInfo_t) {
        given(info)?;
        let target = compute_target(compute)?;
        fill(info, ask(NAME, Some(target), |view| {
            let (gpu, instance, found) = view.compute_instance(target)?;
            Ok(nvmlComputeInstanceInfo_t {
                device: device(mig_device(gpu, instance, found)),
                gpuInstance: pointer(instance::of(gpu, instance)),
                id: found.id,
                profileId: found.profile,
                placement: nvmlComputeInstancePlacement_t { start: found.start, size: found.size },
            })
        })?)
    }

    /// Whether a device is a MIG device.
    fn nvmlDeviceIsMigDeviceHandle(handle: nvmlDevice_t, is: *mut c_uint) {
        let target = any_device(handle)?;
        ask(NAME, Some(target), |_| Ok(()))?;
        fill(is, matches!(target, Target::MigDevice(..)).into())
    }

    /// The id of a MIG device's GPU instance.
    fn nvmlDeviceGetGpuInstanceId(handle: nvmlDevice_t, id: *mut c_uint) {
        let target = mig_target(handle)?;
        fill(id, ask(NAME, Some(target), |view| Ok(view.compute_instance(target)?.1.id))?)
    }

    /// The id of a MIG device's compute instance.
    fn nvmlDeviceGetComputeInstanceId(handle: nvmlDevice_t, id: *mut c_uint) {
        let target = mig_target(handle)?;
        fill(id, ask(NAME, Some(target), |view| Ok(view.compute_instance(target)?.2.id))?)
    }

    /// The MIG device of a GPU with that index; there are gaps at the end only.
    fn nvmlDeviceGetMigDeviceHandleByIndex(handle: nvmlDevice_t, index: c_uint, mig: *mut nvmlDevice_t) {
        given(mig)?;
        let (target, own) = gpu(handle)?;
        let found = ask(NAME, Some(target), |view| {
            view.gpu(own)?.has_mig()?;
            if index >= instance::max_devices(view, own)? {
                return Err(Refusal::InvalidArgument);
            }
            let found = view.machine.mig_devices(own).nth(index as usize).ok_or(Refusal::NotFound)?;
            Ok(mig_device(own, found.0, found.1))
        })?;
        fill(mig, device(found))
    }

    /// The GPU that a MIG device is on.
    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig: nvmlDevice_t, handle: *mut nvmlDevice_t) {
        let target = mig_target(mig)?;
        let index = ask(NAME, Some(target), |view| Ok(view.compute_instance(target)?.0))?;
        fill(handle, device(Target::Gpu(index)))
    }

    /// What a MIG device has.
    fn nvmlDeviceGetAttributes_v2(handle: nvmlDevice_t, attributes: *mut nvmlDeviceAttributes_t) {
        given(attributes)?;
        let target = mig_target(handle)?;
        fill(attributes, ask(NAME, Some(target), |view| {
            let (gpu, instance, compute) = view.compute_instance(target)?;
            let profile = view.machine.geometry(gpu)?.by_id(instance.profile).ok_or(Refusal::NotFound)?;
            Ok(nvmlDeviceAttributes_t {
                multiprocessorCount: view.machine.multiprocessors(gpu, instance, compute.size)?,
                sharedCopyEngineCount: profile.engines.copy,
                sharedDecoderCount: profile.engines.decoders,
                sharedEncoderCount: profile.engines.encoders,
                sharedJpegCount: profile.engines.jpeg,
                sharedOfaCount: profile.engines.optical_flow,
                gpuInstanceSliceCount: profile.compute_slices().into(),
                computeInstanceSliceCount: compute.size,
                memorySizeMB: profile.engines.memory_mib,
            })
        })?)
    }
}

/// A profile of compute instances in one GPU instance.
struct Shape {
    profile: &'static ComputeProfile,
    multiprocessors: u32,
    engines: whalezen_mig::geometry::Engines,
    name: String,
}

fn shape(view: &View<'_>, target: Target, profile: c_uint, engines: c_uint) -> Result<Shape, Refusal> {
    // There is one profile of engines, which are shared.
    if profile >= PROFILES || engines != 0 {
        return Err(Refusal::InvalidArgument);
    }
    let (gpu, instance) = view.gpu_instance(target)?;
    let found = view.machine.compute_profile(gpu, instance, profile)?;
    let whole = view.machine.geometry(gpu)?.by_id(instance.profile).ok_or(Refusal::NotFound)?;
    Ok(Shape {
        profile: found,
        multiprocessors: view.machine.multiprocessors(gpu, instance, found.slices)?,
        engines: whole.engines,
        name: instance::compute_name(view.machine, gpu, instance, found.slices)?,
    })
}

fn create(name: &str, target: Target, id: c_uint, place: Option<(u32, u32)>) -> Result<Target, Refusal> {
    change(name, target, |machine, _, _| {
        let (gpu, instance) = find_gpu_instance(machine, target)?;
        let gi = instance.id;
        let made = machine.create_compute_instance(gpu, gi, id, place)?;
        Ok(Target::ComputeInstance(gpu, Place { gi, ci: made.id }, made.birth))
    })
}

fn of(gpu: usize, instance: &GpuInstance, compute: &crate::machine::compute::ComputeInstance) -> Target {
    Target::ComputeInstance(gpu, Place { gi: instance.id, ci: compute.id }, compute.birth)
}

/// The compute instance that a handle stands for.
fn compute_target(handle: nvmlComputeInstance_t) -> Result<Target, Refusal> {
    match target(handle)? {
        target @ Target::ComputeInstance(..) => Ok(target),
        _ => Err(Refusal::InvalidArgument),
    }
}

/// The MIG device that a handle stands for; a GPU is refused.
fn mig_target(handle: nvmlDevice_t) -> Result<Target, Refusal> {
    match target(handle)? {
        target @ Target::MigDevice(..) => Ok(target),
        Target::Gpu(_) => Err(Refusal::NotSupported),
        _ => Err(Refusal::InvalidArgument),
    }
}
