//! The memory and the work of devices, and the processes on them.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlBAR1Memory_t, nvmlDevice_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlProcessInfo_t,
    nvmlProcessUtilizationSample_t, nvmlUtilization_t,
};

use super::{any_device, export, fill, fill_array, given, gpu, narrow, version};
use crate::{
    host,
    machine::{client::Client, usage::Memory},
    process::{Target, View, ask},
    refusal::Refusal,
};

const MIB: u64 = 1 << 20;
/// What NVML writes where there is no instance.
const NO_INSTANCE: c_uint = c_uint::MAX;

export! {
    /// The memory of a GPU or MIG device. What the driver keeps counts as used.
    fn nvmlDeviceGetMemoryInfo(handle: nvmlDevice_t, memory: *mut nvmlMemory_t) {
        let target = any_device(handle)?;
        let found = ask(NAME, Some(target), |view| memory_of(view, target))?;
        fill(memory, nvmlMemory_t {
            total: found.total * MIB,
            free: found.free() * MIB,
            used: (found.total - found.free()) * MIB,
        })
    }

    /// The memory of a GPU or MIG device.
    fn nvmlDeviceGetMemoryInfo_v2(handle: nvmlDevice_t, memory: *mut nvmlMemory_v2_t) {
        given(memory)?;
        let revision = version::<nvmlMemory_v2_t>(2);
        if (&raw const (*memory).version).read() != revision {
            return Err(Refusal::ArgumentVersionMismatch);
        }
        let target = any_device(handle)?;
        let found = ask(NAME, Some(target), |view| memory_of(view, target))?;
        fill(memory, nvmlMemory_v2_t {
            version: revision,
            total: found.total * MIB,
            reserved: found.reserved * MIB,
            free: found.free() * MIB,
            used: found.used * MIB,
        })
    }

    /// The part of a GPU's memory that the processor sees: as large as the next power of two.
    fn nvmlDeviceGetBAR1MemoryInfo(handle: nvmlDevice_t, memory: *mut nvmlBAR1Memory_t) {
        let (target, index) = gpu(handle)?;
        let total = ask(NAME, Some(target), |view| Ok(view.machine.model(index)?.memory_mib()))?;
        let total = total.next_power_of_two() * MIB;
        fill(memory, nvmlBAR1Memory_t { bar1Total: total, bar1Free: total - MIB, bar1Used: MIB })
    }

    /// How busy a GPU is. Not known while MIG is on, nor of a MIG device: GPM knows.
    fn nvmlDeviceGetUtilizationRates(handle: nvmlDevice_t, rates: *mut nvmlUtilization_t) {
        let (target, index) = gpu(handle)?;
        fill(rates, ask(NAME, Some(target), |view| {
            if view.gpu(index)?.mig {
                return Err(Refusal::NotSupported);
            }
            let activity = view.machine.activity(index, view.now, view.living)?;
            Ok(nvmlUtilization_t { gpu: narrow(activity.utilization), memory: narrow(activity.memory_bandwidth) })
        })?)
    }

    /// The processes that compute on a GPU or MIG device.
    fn nvmlDeviceGetComputeRunningProcesses_v3(
        handle: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_t,
    ) {
        let target = any_device(handle)?;
        let found = ask(NAME, Some(target), |view| processes(view, target))?;
        fill_array(infos, count, &found)
    }

    /// The processes that draw on a GPU or MIG device: none does.
    fn nvmlDeviceGetGraphicsRunningProcesses_v3(
        handle: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_t,
    ) {
        let target = any_device(handle)?;
        ask(NAME, Some(target), |_| Ok(()))?;
        fill_array(infos, count, &[])
    }

    /// How busy each process keeps a GPU. Not known while MIG is on.
    fn nvmlDeviceGetProcessUtilization(
        handle: nvmlDevice_t, samples: *mut nvmlProcessUtilizationSample_t, count: *mut c_uint, since: c_ulonglong,
    ) {
        let (target, index) = gpu(handle)?;
        let micros = host::unix_micros();
        let found = ask(NAME, Some(target), |view| {
            if view.gpu(index)?.mig {
                return Err(Refusal::NotSupported);
            }
            let clients = view.machine.processes(index, None, view.living);
            let sample = |client: &&Client| {
                let activity = client.running.activity(view.now);
                nvmlProcessUtilizationSample_t {
                    pid: client.pid,
                    timeStamp: micros,
                    smUtil: narrow(activity.utilization),
                    memUtil: narrow(activity.memory_bandwidth),
                    encUtil: 0,
                    decUtil: 0,
                }
            };
            Ok(clients.iter().map(sample).collect::<Vec<_>>())
        })?;
        if found.is_empty() || since >= micros {
            return Err(Refusal::NotFound);
        }
        fill_array(samples, count, &found)
    }
}

fn memory_of(view: &View<'_>, target: Target) -> Result<Memory, Refusal> {
    match target {
        Target::Gpu(index) => view.machine.memory(index, view.now, view.living),
        other => {
            let (gpu, instance, _) = view.compute_instance(other)?;
            view.machine.instance_memory(gpu, instance.id, view.now, view.living)
        }
    }
}

fn processes(view: &View<'_>, target: Target) -> Result<Vec<nvmlProcessInfo_t>, Refusal> {
    let place = match target {
        Target::MigDevice(_, place, _) => view.compute_instance(target).map(|_| Some(place))?,
        _ => None,
    };
    let info = |client: &Client| nvmlProcessInfo_t {
        pid: client.pid,
        usedGpuMemory: client.running.activity(view.now).memory_mib.saturating_mul(MIB),
        gpuInstanceId: client.instance.map_or(NO_INSTANCE, |place| place.gi),
        computeInstanceId: client.instance.map_or(NO_INSTANCE, |place| place.ci),
    };
    Ok(view.machine.processes(target.gpu(), place, view.living).into_iter().map(info).collect())
}
