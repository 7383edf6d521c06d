//! Devices: handles of them, and what they are.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlBrandType_enum_NVML_BRAND_NVIDIA, nvmlBrandType_t, nvmlDevice_t, nvmlDeviceArchitecture_t,
    nvmlEnableState_t, nvmlPciInfo_t,
};
use whalezen_mig::model::{Architecture, pci_id};

use super::{any_device, chars, device, export, fill, fill_text, given, gpu, narrow, text};
use crate::{
    machine::{Machine, client::Place, compute::ComputeInstance, mig::GpuInstance},
    process::{Target, ask},
    refusal::Refusal,
};

export! {
    /// How many GPUs there are.
    fn nvmlDeviceGetCount_v2(count: *mut c_uint) {
        fill(count, ask(NAME, None, |view| Ok(narrow(view.machine.gpus.len() as u64)))?)
    }

    /// The GPU with that index.
    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, handle: *mut nvmlDevice_t) {
        given(handle)?;
        let target = Target::Gpu(index as usize);
        ask(NAME, Some(target), |_| Ok(()))?;
        fill(handle, device(target))
    }

    /// The GPU or MIG device with that UUID.
    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, handle: *mut nvmlDevice_t) {
        given(handle)?;
        let uuid = text(uuid)?;
        let found = ask(NAME, None, |view| view.present(by_uuid(view.machine, uuid)))?;
        fill(handle, device(found))
    }

    /// The GPU with that serial number.
    fn nvmlDeviceGetHandleBySerial(serial: *const c_char, handle: *mut nvmlDevice_t) {
        given(handle)?;
        let serial = text(serial)?;
        let found = ask(NAME, None, |view| {
            let at = view.machine.gpus.iter().position(|gpu| gpu.serial == serial);
            view.present(at.map(Target::Gpu))
        })?;
        fill(handle, device(found))
    }

    /// The GPU at that place on the PCI bus.
    fn nvmlDeviceGetHandleByPciBusId_v2(bus_id: *const c_char, handle: *mut nvmlDevice_t) {
        given(handle)?;
        let wanted = text(bus_id)?;
        let found = ask(NAME, None, |view| {
            let mut all = 0..view.machine.gpus.len();
            let at = all.find(|index| [bus(*index, 8), bus(*index, 4)].iter().any(|id| id.eq_ignore_ascii_case(wanted)));
            view.present(at.map(Target::Gpu))
        })?;
        fill(handle, device(found))
    }

    /// The index of a GPU among all, or of a MIG device on its GPU.
    fn nvmlDeviceGetIndex(handle: nvmlDevice_t, index: *mut c_uint) {
        let target = any_device(handle)?;
        let at = ask(NAME, Some(target), |view| match target {
            Target::Gpu(index) => Ok(index),
            other => {
                let (gpu, _, compute) = view.compute_instance(other)?;
                let mut devices = view.machine.mig_devices(gpu);
                devices.position(|(_, other)| other.birth == compute.birth).ok_or(Refusal::NotFound)
            }
        })?;
        fill(index, narrow(at as u64))
    }

    /// The UUID of a GPU or MIG device.
    fn nvmlDeviceGetUUID(handle: nvmlDevice_t, uuid: *mut c_char, length: c_uint) {
        let target = any_device(handle)?;
        let found = ask(NAME, Some(target), |view| match target {
            Target::Gpu(index) => Ok(view.gpu(index)?.uuid.clone()),
            other => Ok(view.compute_instance(other)?.2.uuid.clone()),
        })?;
        fill_text(uuid, length, &found)
    }

    /// The name of a GPU; of a MIG device, its GPU's with the profile.
    fn nvmlDeviceGetName(handle: nvmlDevice_t, name: *mut c_char, length: c_uint) {
        let target = any_device(handle)?;
        let found = ask(NAME, Some(target), |view| {
            let product = view.machine.model(target.gpu())?.product();
            match target {
                Target::Gpu(_) => Ok(product.to_owned()),
                other => {
                    let (gpu, instance, compute) = view.compute_instance(other)?;
                    let profile = super::instance::compute_name(view.machine, gpu, instance, compute.size)?;
                    Ok(format!("{product} MIG {profile}"))
                }
            }
        })?;
        fill_text(name, length, &found)
    }

    /// The brand: all data centre GPUs are NVIDIA's.
    fn nvmlDeviceGetBrand(handle: nvmlDevice_t, brand: *mut nvmlBrandType_t) {
        let target = any_device(handle)?;
        ask(NAME, Some(target), |_| Ok(()))?;
        fill(brand, nvmlBrandType_enum_NVML_BRAND_NVIDIA)
    }

    /// The serial number of a GPU.
    fn nvmlDeviceGetSerial(handle: nvmlDevice_t, serial: *mut c_char, length: c_uint) {
        let (target, index) = gpu(handle)?;
        let found = ask(NAME, Some(target), |view| Ok(view.gpu(index)?.serial.clone()))?;
        fill_text(serial, length, &found)
    }

    /// The number in the name of a GPU's device file.
    fn nvmlDeviceGetMinorNumber(handle: nvmlDevice_t, minor: *mut c_uint) {
        let (target, index) = gpu(handle)?;
        ask(NAME, Some(target), |_| Ok(()))?;
        fill(minor, narrow(index as u64))
    }

    /// The generation of a GPU: 7 is Ampere, 9 Hopper, 10 Blackwell.
    fn nvmlDeviceGetArchitecture(handle: nvmlDevice_t, architecture: *mut nvmlDeviceArchitecture_t) {
        let target = any_device(handle)?;
        let generation = ask(NAME, Some(target), |view| Ok(view.machine.model(target.gpu())?.architecture()))?;
        fill(architecture, match generation {
            Architecture::Ampere => 7,
            Architecture::Hopper => 9,
            Architecture::Blackwell => 10,
        })
    }

    /// The compute capability of a GPU or MIG device.
    fn nvmlDeviceGetCudaComputeCapability(handle: nvmlDevice_t, major: *mut c_int, minor: *mut c_int) {
        given(major)?;
        let target = any_device(handle)?;
        let generation = ask(NAME, Some(target), |view| Ok(view.machine.model(target.gpu())?.architecture()))?;
        let (before, after) = generation.compute_capability();
        fill(minor, after.into())?;
        fill(major, before.into())
    }

    /// How many CUDA cores a GPU has.
    fn nvmlDeviceGetNumGpuCores(handle: nvmlDevice_t, cores: *mut c_uint) {
        let (target, index) = gpu(handle)?;
        fill(cores, ask(NAME, Some(target), |view| {
            let per = view.machine.hardware(index)?.cores_per_multiprocessor;
            Ok(view.machine.model(index)?.multiprocessors() * per)
        })?)
    }

    /// The width of a GPU's memory bus in bits.
    fn nvmlDeviceGetMemoryBusWidth(handle: nvmlDevice_t, width: *mut c_uint) {
        let (target, index) = gpu(handle)?;
        fill(width, ask(NAME, Some(target), |view| Ok(view.machine.hardware(index)?.memory_bus_bits))?)
    }

    /// The NUMA node of a GPU.
    fn nvmlDeviceGetNumaNodeId(handle: nvmlDevice_t, node: *mut c_uint) {
        let (target, index) = gpu(handle)?;
        fill(node, ask(NAME, Some(target), |view| view.machine.numa(index))?)
    }

    /// Whether the driver stays loaded when nobody uses a GPU: it always does.
    fn nvmlDeviceGetPersistenceMode(handle: nvmlDevice_t, mode: *mut nvmlEnableState_t) {
        let (target, _) = gpu(handle)?;
        ask(NAME, Some(target), |_| Ok(()))?;
        fill(mode, 1)
    }

    /// Where a GPU, or the GPU of a MIG device, is on the PCI bus.
    fn nvmlDeviceGetPciInfo_v3(handle: nvmlDevice_t, info: *mut nvmlPciInfo_t) {
        let target = any_device(handle)?;
        fill(info, ask(NAME, Some(target), |view| pci(view.machine, target.gpu()))?)
    }
}

/// The GPU or MIG device with that UUID.
fn by_uuid(machine: &Machine, uuid: &str) -> Option<Target> {
    let gpus = 0..machine.gpus.len();
    let mut migs = gpus.flat_map(|gpu| machine.mig_devices(gpu).map(move |device| (gpu, device)));
    let mig = |(gpu, (instance, compute)): (usize, _)| mig_device(gpu, instance, compute);
    let found = || migs.find(|(_, (_, compute))| compute.uuid == uuid).map(mig);
    machine.by_uuid(uuid).map(Target::Gpu).or_else(found)
}

/// A compute instance as a device.
pub(super) fn mig_device(gpu: usize, instance: &GpuInstance, compute: &ComputeInstance) -> Target {
    let place = Place { gi: instance.id, ci: compute.id };
    Target::MigDevice(gpu, place, compute.birth)
}

/// The PCI bus that the GPU with that index is alone on.
fn bus_number(index: usize) -> c_uint {
    0x10 + 3 * narrow(index as u64)
}

/// A GPU's place on the PCI bus; the domain has `digits` digits.
fn bus(index: usize, digits: usize) -> String {
    format!("{:0digits$x}:{:02X}:00.0", 0, bus_number(index))
}

/// Where a GPU is on the PCI bus.
pub(super) fn pci(machine: &Machine, index: usize) -> Result<nvmlPciInfo_t, Refusal> {
    let variant = machine.model(index)?.device_ids().first().copied().ok_or(Refusal::Unknown)?;
    let id = pci_id(variant);
    Ok(nvmlPciInfo_t {
        busIdLegacy: chars(&bus(index, 4)),
        domain: 0,
        bus: bus_number(index),
        device: 0,
        pciDeviceId: id,
        // Boards of NVIDIA's own have its vendor id again.
        pciSubSystemId: (u32::from(variant) << 16) | 0x10de,
        busId: chars(&bus(index, 8)),
    })
}
