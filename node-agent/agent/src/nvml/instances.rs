//! MIG instances: which there can be, which there are, making and destroying.

use std::collections::BTreeMap;

use nvml_wrapper::{Device, error::NvmlError};
use nvml_wrapper_sys::bindings::nvmlGpuInstancePlacement_t;
use whalezen_mig::{
    Geometry, Instance,
    geometry::{Engines, Reported},
};

use super::{
    failed,
    raw::{self, GpuInstance, RawError},
};
use crate::device::{Compute, DeviceError, MigInstance, Uuid};

/// How far NVML's indexes of profiles are tried: it says where they end, and this is if it does not.
const MOST_PROFILES: u32 = 64;

/// The profiles of the GPU and their places; `None` if it has none. They are told whether MIG is on or not.
pub(super) fn geometry(
    gpu: &Uuid,
    device: &Device<'_>,
    memory: u64,
) -> Result<Option<Geometry>, DeviceError> {
    let call = "asking for the MIG profiles";
    let mut reported = Vec::new();
    for index in 0..MOST_PROFILES {
        let profile = match raw::profile(device, index) {
            Ok(profile) => profile,
            Err(RawError::Nvml(NvmlError::NotSupported)) => continue,
            Err(RawError::Nvml(NvmlError::InvalidArg)) => break,
            Err(error) => return Err(told(gpu, call, error)),
        };
        let places = raw::placements(device, profile.id).map_err(|error| told(gpu, call, error))?;
        reported.push(Reported {
            slot: index,
            id: profile.id,
            slices: profile.sliceCount,
            max: profile.instanceCount,
            placements: places.into_iter().map(|place| (place.start, place.size)).collect(),
            engines: Engines {
                memory_mib: profile.memorySizeMB,
                multiprocessors: profile.multiprocessorCount,
                copy: profile.copyEngineCount,
                decoders: profile.decoderCount,
                encoders: profile.encoderCount,
                jpeg: profile.jpegCount,
                optical_flow: profile.ofaCount,
            },
        });
    }
    // A profile that has no place cannot be made, and one that has no name cannot be asked for.
    reported.retain(|profile| !profile.placements.is_empty());
    if reported.is_empty() {
        return Ok(None);
    }
    let geometry = Geometry::reported(memory, &reported);
    geometry.map(Some).map_err(|error| DeviceError::Failed { call, reason: error.to_string() })
}

/// The instances that there are, by start.
pub(super) fn read(
    gpu: &Uuid,
    device: &Device<'_>,
    geometry: &Geometry,
) -> Result<Vec<MigInstance>, DeviceError> {
    let told = |error| told(gpu, "asking for the MIG instances", error);
    let devices = mig_devices(device);
    let mut instances = Vec::new();
    for profile in geometry.profiles() {
        for handle in raw::gpu_instances(device, profile.id).map_err(told)? {
            let info = raw::gpu_instance_info(device, handle).map_err(told)?;
            let start = u8::try_from(info.placement.start).unwrap_or(u8::MAX);
            instances.push(MigInstance {
                id: info.id,
                instance: Instance::new(profile.name, start),
                size: u8::try_from(info.placement.size).unwrap_or(u8::MAX),
                computes: computes(device, handle, info.id, &devices).map_err(told)?,
            });
        }
    }
    instances.sort_by_key(|instance| (instance.instance, instance.id));
    Ok(instances)
}

/// The compute instances of a GPU instance, by number.
fn computes(
    device: &Device<'_>,
    handle: GpuInstance,
    id: u32,
    devices: &BTreeMap<(u32, u32), Uuid>,
) -> Result<Vec<Compute>, RawError> {
    let mut computes = BTreeMap::new();
    for profile in compute_profiles(device, handle)? {
        for compute in raw::compute_instances(device, handle, profile.id)? {
            let info = raw::compute_instance_info(device, compute)?;
            let slices = u8::try_from(profile.slices).unwrap_or(u8::MAX);
            let uuid = devices.get(&(id, info.id)).cloned();
            computes.insert(info.id, Compute { id: info.id, slices, uuid });
        }
    }
    Ok(computes.into_values().collect())
}

struct ComputeProfile {
    id: u32,
    slices: u32,
}

fn compute_profiles(device: &Device<'_>, handle: GpuInstance) -> Result<Vec<ComputeProfile>, RawError> {
    let mut profiles = Vec::new();
    for index in 0..MOST_PROFILES {
        match raw::compute_profile(device, handle, index) {
            Ok(profile) => profiles.push(ComputeProfile { id: profile.id, slices: profile.sliceCount }),
            Err(RawError::Nvml(NvmlError::NotSupported)) => {}
            Err(RawError::Nvml(NvmlError::InvalidArg)) => break,
            Err(error) => return Err(error),
        }
    }
    profiles.dedup_by_key(|profile| profile.id);
    Ok(profiles)
}

/// The MIG devices of a GPU by the numbers of their instances.
fn mig_devices(device: &Device<'_>) -> BTreeMap<(u32, u32), Uuid> {
    let found = (0..device.mig_device_count().unwrap_or_default()).filter_map(|index| {
        let device = device.mig_device_by_index(index).ok()?;
        Some((raw::numbers(&device).ok()?, Uuid::from(device.uuid().ok()?)))
    });
    found.collect()
}

/// Makes an instance at its place with one compute instance that has all of it.
pub(super) fn create(
    gpu: &Uuid,
    device: &Device<'_>,
    instance: Instance,
) -> Result<MigInstance, DeviceError> {
    let call = "making a GPU instance";
    let memory = device.memory_info().map_err(|error| failed(gpu, call, &error))?.total;
    let geometry = geometry(gpu, device, memory)?;
    let profile = geometry.as_ref().and_then(|geometry| geometry.profile(instance.profile));
    let profile = profile.ok_or(DeviceError::NoProfile(instance.profile))?;
    let placement =
        nvmlGpuInstancePlacement_t { start: instance.start.into(), size: profile.memory_slices.into() };
    let handle = match raw::create_gpu_instance(device, profile.id, placement) {
        Err(RawError::InsufficientResources) => return Err(DeviceError::NoRoom(instance)),
        made => made.map_err(|error| told(gpu, call, error))?,
    };
    let made = finish(gpu, device, handle, instance);
    if made.is_err() {
        // Half an instance is of no use to anybody. If this fails too it is seen, and completed or destroyed then.
        drop(raw::destroy_gpu_instance(device, handle));
    }
    made
}

/// Makes the compute instance of an instance that has none.
pub(super) fn complete(
    gpu: &Uuid,
    device: &Device<'_>,
    seen: &MigInstance,
) -> Result<MigInstance, DeviceError> {
    let handle = same(gpu, device, seen)?;
    finish(gpu, device, handle, seen.instance)
}

fn finish(
    gpu: &Uuid,
    device: &Device<'_>,
    handle: GpuInstance,
    instance: Instance,
) -> Result<MigInstance, DeviceError> {
    let call = "making a compute instance";
    let told = |error| told(gpu, call, error);
    let profiles = compute_profiles(device, handle).map_err(told)?;
    let whole = profiles.iter().find(|profile| profile.slices == u32::from(instance.profile.slices()));
    let whole = whole.ok_or(DeviceError::NoProfile(instance.profile))?;
    match raw::create_compute_instance(device, handle, whole.id) {
        Err(RawError::InsufficientResources) => return Err(DeviceError::NoRoom(instance)),
        made => made.map_err(told)?,
    };
    let info = raw::gpu_instance_info(device, handle).map_err(told)?;
    Ok(MigInstance {
        id: info.id,
        instance,
        size: u8::try_from(info.placement.size).unwrap_or(u8::MAX),
        computes: computes(device, handle, info.id, &mig_devices(device)).map_err(told)?,
    })
}

/// Destroys an instance, its compute instances first.
pub(super) fn destroy(gpu: &Uuid, device: &Device<'_>, seen: &MigInstance) -> Result<(), DeviceError> {
    let call = "destroying a GPU instance";
    let told = |error| told(gpu, call, error);
    let handle = same(gpu, device, seen)?;
    for profile in compute_profiles(device, handle).map_err(told)? {
        for compute in raw::compute_instances(device, handle, profile.id).map_err(told)? {
            raw::destroy_compute_instance(device, compute).map_err(told)?;
        }
    }
    raw::destroy_gpu_instance(device, handle).map_err(told)
}

/// The instance that was seen, if it is still that one: same number, same place, and the same MIG devices in it.
fn same(gpu: &Uuid, device: &Device<'_>, seen: &MigInstance) -> Result<GpuInstance, DeviceError> {
    let call = "finding a GPU instance";
    let changed = || DeviceError::Changed(seen.instance);
    let handle = match raw::gpu_instance(device, seen.id) {
        Err(RawError::Nvml(NvmlError::NotFound | NvmlError::InvalidArg)) => return Err(changed()),
        found => found.map_err(|error| told(gpu, call, error))?,
    };
    let info = raw::gpu_instance_info(device, handle).map_err(|error| told(gpu, call, error))?;
    let placed =
        u32::from(seen.instance.start) == info.placement.start && u32::from(seen.size) == info.placement.size;
    let now =
        computes(device, handle, seen.id, &mig_devices(device)).map_err(|error| told(gpu, call, error))?;
    if placed && now == seen.computes { Ok(handle) } else { Err(changed()) }
}

fn told(gpu: &Uuid, call: &'static str, error: RawError) -> DeviceError {
    match error {
        RawError::InsufficientResources => {
            DeviceError::Failed { call, reason: "insufficient resources".to_owned() }
        }
        RawError::Nvml(error) => failed(gpu, call, &error),
    }
}
