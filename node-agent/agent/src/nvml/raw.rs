//! NVML's calls for GPU and compute instances, for which nvml-wrapper has no safe functions.
//!
//! Everything here is the call itself with its answer checked: the symbol is there, the code says success, and of a list
//! no more is read than was written. What it means is decided in [`super::instances`].
#![allow(
    unsafe_code,
    reason = "NVML's functions for instances are only to be had as C functions; this module is the whole of that"
)]

use std::mem::MaybeUninit;

use nvml_wrapper::{Device, error::NvmlError};
use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlComputeInstance_t, nvmlComputeInstanceInfo_t, nvmlComputeInstanceProfileInfo_t,
    nvmlGpuInstance_t, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t, nvmlGpuInstanceProfileInfo_t,
    nvmlReturn_t,
};

/// A code that nvml-wrapper's errors do not know.
pub(super) const INSUFFICIENT_RESOURCES: nvmlReturn_t = 23;

/// The most instances of a profile there can be on any GPU, and the most places.
const MOST: u8 = 64;

/// What a call answered when it did not succeed.
#[derive(Debug)]
pub(super) enum RawError {
    /// There is no room.
    InsufficientResources,
    /// Anything that nvml-wrapper knows.
    Nvml(NvmlError),
}

impl From<NvmlError> for RawError {
    fn from(error: NvmlError) -> Self {
        Self::Nvml(error)
    }
}

/// A GPU instance, as NVML's handle. It is good as long as the instance exists.
#[derive(Clone, Copy)]
pub(super) struct GpuInstance(nvmlGpuInstance_t);

/// A compute instance, as NVML's handle.
#[derive(Clone, Copy)]
pub(super) struct ComputeInstance(nvmlComputeInstance_t);

fn checked(code: nvmlReturn_t) -> Result<(), RawError> {
    match code {
        0 => Ok(()),
        INSUFFICIENT_RESOURCES => Err(RawError::InsufficientResources),
        code => Err(RawError::Nvml(NvmlError::from(code))),
    }
}

/// A function of the library, or the word that this driver does not have it.
fn symbol<T: Copy, E: std::fmt::Display>(found: &Result<T, E>) -> Result<T, RawError> {
    found.as_ref().copied().map_err(|error| NvmlError::FailedToLoadSymbol(error.to_string()).into())
}

fn library<'a>(device: &Device<'a>) -> &'a NvmlLib {
    device.nvml().lib()
}

/// Calls with a place for the answer and gives what was put there.
fn answer<T: Copy>(call: impl FnOnce(*mut T) -> nvmlReturn_t) -> Result<T, RawError> {
    let mut place = MaybeUninit::<T>::zeroed();
    checked(call(place.as_mut_ptr()))?;
    // SAFETY: every `T` here is a C struct of integers and pointers or one of these, for which zeroes are a value, and
    // a call that succeeded has filled it in.
    Ok(unsafe { place.assume_init() })
}

/// Calls with places for [`MOST`] answers and gives those that were filled in.
fn answers<T: Copy>(call: impl FnOnce(*mut T, *mut u32) -> nvmlReturn_t) -> Result<Vec<T>, RawError> {
    let mut places = Vec::<T>::with_capacity(MOST.into());
    let mut count = u32::from(MOST);
    checked(call(places.as_mut_ptr(), &raw mut count))?;
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(MOST.into());
    // SAFETY: a call that succeeded has filled in the first `count` places, and there are no more than `MOST`.
    unsafe { places.set_len(count) };
    Ok(places)
}

/// A profile of GPU instances by NVML's index. `InvalidArg` is beyond the last.
pub(super) fn profile(device: &Device<'_>, index: u32) -> Result<nvmlGpuInstanceProfileInfo_t, RawError> {
    let call = symbol(&library(device).nvmlDeviceGetGpuInstanceProfileInfo)?;
    // SAFETY: the handle is of a device of this library, and the place is for this struct.
    answer(|place| unsafe { call(device.handle(), index, place) })
}

/// Where instances of a profile may lie. nvml-wrapper's function of that name gives an empty list.
pub(super) fn placements(
    device: &Device<'_>,
    profile: u32,
) -> Result<Vec<nvmlGpuInstancePlacement_t>, RawError> {
    let call = symbol(&library(device).nvmlDeviceGetGpuInstancePossiblePlacements_v2)?;
    // SAFETY: the handle is of a device of this library; places and their count belong together.
    answers(|places, count| unsafe { call(device.handle(), profile, places, count) })
}

/// The GPU instances of a profile.
pub(super) fn gpu_instances(device: &Device<'_>, profile: u32) -> Result<Vec<GpuInstance>, RawError> {
    let call = symbol(&library(device).nvmlDeviceGetGpuInstances)?;
    // SAFETY: the handle is of a device of this library; places and their count belong together.
    let found = answers(|places, count| unsafe { call(device.handle(), profile, places, count) })?;
    Ok(found.into_iter().map(GpuInstance).collect())
}

/// The GPU instance with that number.
pub(super) fn gpu_instance(device: &Device<'_>, number: u32) -> Result<GpuInstance, RawError> {
    let call = symbol(&library(device).nvmlDeviceGetGpuInstanceById)?;
    // SAFETY: the handle is of a device of this library, and the place is for a handle.
    answer(|place| unsafe { call(device.handle(), number, place) }).map(GpuInstance)
}

/// What and where a GPU instance is.
pub(super) fn gpu_instance_info(
    device: &Device<'_>,
    instance: GpuInstance,
) -> Result<nvmlGpuInstanceInfo_t, RawError> {
    let call = symbol(&library(device).nvmlGpuInstanceGetInfo)?;
    // SAFETY: the handle came from this library; the driver answers for one whose instance is gone.
    answer(|place| unsafe { call(instance.0, place) })
}

/// Makes a GPU instance at a place.
pub(super) fn create_gpu_instance(
    device: &Device<'_>,
    profile: u32,
    placement: nvmlGpuInstancePlacement_t,
) -> Result<GpuInstance, RawError> {
    let call = symbol(&library(device).nvmlDeviceCreateGpuInstanceWithPlacement)?;
    // SAFETY: the handle is of a device of this library, the placement outlives the call, the place is for a handle.
    answer(|place| unsafe { call(device.handle(), profile, &raw const placement, place) }).map(GpuInstance)
}

/// Destroys a GPU instance, which must have no compute instance.
pub(super) fn destroy_gpu_instance(device: &Device<'_>, instance: GpuInstance) -> Result<(), RawError> {
    let call = symbol(&library(device).nvmlGpuInstanceDestroy)?;
    // SAFETY: the handle came from this library; the driver answers for one whose instance is gone.
    checked(unsafe { call(instance.0) })
}

/// A profile of compute instances by NVML's index, for the engines shared with others.
pub(super) fn compute_profile(
    device: &Device<'_>,
    instance: GpuInstance,
    index: u32,
) -> Result<nvmlComputeInstanceProfileInfo_t, RawError> {
    let call = symbol(&library(device).nvmlGpuInstanceGetComputeInstanceProfileInfo)?;
    // SAFETY: the handle came from this library, and the place is for this struct.
    answer(|place| unsafe { call(instance.0, index, 0, place) })
}

/// The compute instances of a profile.
pub(super) fn compute_instances(
    device: &Device<'_>,
    instance: GpuInstance,
    profile: u32,
) -> Result<Vec<ComputeInstance>, RawError> {
    let call = symbol(&library(device).nvmlGpuInstanceGetComputeInstances)?;
    // SAFETY: the handle came from this library; places and their count belong together.
    let found = answers(|places, count| unsafe { call(instance.0, profile, places, count) })?;
    Ok(found.into_iter().map(ComputeInstance).collect())
}

/// What and where a compute instance is.
pub(super) fn compute_instance_info(
    device: &Device<'_>,
    compute: ComputeInstance,
) -> Result<nvmlComputeInstanceInfo_t, RawError> {
    let call = symbol(&library(device).nvmlComputeInstanceGetInfo_v2)?;
    // SAFETY: the handle came from this library, and the place is for this struct.
    answer(|place| unsafe { call(compute.0, place) })
}

/// Makes a compute instance.
pub(super) fn create_compute_instance(
    device: &Device<'_>,
    instance: GpuInstance,
    profile: u32,
) -> Result<ComputeInstance, RawError> {
    let call = symbol(&library(device).nvmlGpuInstanceCreateComputeInstance)?;
    // SAFETY: the handle came from this library, and the place is for a handle.
    answer(|place| unsafe { call(instance.0, profile, place) }).map(ComputeInstance)
}

/// Destroys a compute instance, which nobody may use.
pub(super) fn destroy_compute_instance(
    device: &Device<'_>,
    compute: ComputeInstance,
) -> Result<(), RawError> {
    let call = symbol(&library(device).nvmlComputeInstanceDestroy)?;
    // SAFETY: the handle came from this library; the driver answers for one whose instance is gone.
    checked(unsafe { call(compute.0) })
}

/// The numbers of the GPU instance and the compute instance of a MIG device.
pub(super) fn numbers(device: &Device<'_>) -> Result<(u32, u32), RawError> {
    let gpu_instance = symbol(&library(device).nvmlDeviceGetGpuInstanceId)?;
    let compute_instance = symbol(&library(device).nvmlDeviceGetComputeInstanceId)?;
    // SAFETY: the handle is of a device of this library, and the place is for a number.
    let gpu_instance = answer(|place| unsafe { gpu_instance(device.handle(), place) })?;
    // SAFETY: as above.
    let compute_instance = answer(|place| unsafe { compute_instance(device.handle(), place) })?;
    Ok((gpu_instance, compute_instance))
}

/// Whether two handles are of one device. A GPU that has fallen off the bus does not say its name any more.
pub(super) fn is_same(a: &Device<'_>, b: &Device<'_>) -> bool {
    // SAFETY: the handles are only compared.
    unsafe { a.handle() == b.handle() }
}
