//! What a GPU is, and the links between GPUs.

use std::collections::BTreeMap;

use nvml_wrapper::{Device, enum_wrappers::device::TopologyLevel, enums::event::XidError, error::NvmlError};

use super::{failed, instances};
use crate::device::{DeviceError, Gpu, Link, Mig, Path, Pci, Process, Uuid};

/// The most NVLinks that a GPU has (`NVML_NVLINK_MAX_LINKS`).
const MOST_NVLINKS: u32 = 18;

/// Everything about one GPU.
pub(super) fn read(gpu: &Uuid, device: &Device<'_>) -> Result<Gpu, DeviceError> {
    let told = |error: &NvmlError| failed(gpu, "asking what the GPU is", error);
    let memory = device.memory_info().map_err(|error| told(&error))?.total;
    let pci = match device.pci_info() {
        Ok(pci) => Some(Pci { bus_id: pci.bus_id, id: pci.pci_device_id }),
        Err(error) => optional(gpu, &error)?,
    };
    Ok(Gpu {
        uuid: gpu.clone(),
        index: device.index().map_err(|error| told(&error))?,
        minor: device.minor_number().ok(),
        model: device.name().map_err(|error| told(&error))?,
        numa: numa(pci.as_ref()),
        pci,
        memory,
        mig: mig(gpu, device, memory)?,
        processes: processes(gpu, device)?,
    })
}

/// What MIG can do with the GPU and has done; `None` if it knows no MIG.
fn mig(gpu: &Uuid, device: &Device<'_>, memory: u64) -> Result<Option<Mig>, DeviceError> {
    let mode = match device.mig_mode() {
        Ok(mode) => mode,
        Err(NvmlError::FailedToLoadSymbol(_)) => return Ok(None),
        Err(error) => return optional(gpu, &error),
    };
    let Some(geometry) = instances::geometry(gpu, device, memory)? else { return Ok(None) };
    let enabled = mode.current == 1;
    let instances = if enabled { instances::read(gpu, device, &geometry)? } else { Vec::new() };
    Ok(Some(Mig { enabled, pending: mode.pending == 1, geometry, instances }))
}

/// The processes on the GPU, each once.
fn processes(gpu: &Uuid, device: &Device<'_>) -> Result<Vec<Process>, DeviceError> {
    let mut all = Vec::new();
    for found in [device.running_compute_processes(), device.running_graphics_processes()] {
        match found {
            Ok(found) => all.extend(
                found
                    .into_iter()
                    .map(|process| Process { pid: process.pid, instance: process.gpu_instance_id }),
            ),
            // Not known is not none: an instance that may be in use is not to be destroyed. A kind of process that the
            // driver or the GPU does not have is none.
            Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => {}
            Err(error) => return Err(failed(gpu, "asking for the processes", &error)),
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// What the driver does not have is left out, but a GPU that is gone is gone.
fn optional<T>(gpu: &Uuid, error: &NvmlError) -> Result<Option<T>, DeviceError> {
    match error {
        NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => Ok(None),
        _ => Err(failed(gpu, "asking what the GPU is", error)),
    }
}

/// The NUMA node, as the kernel knows it; it says -1 where there is one node alone.
fn numa(pci: Option<&Pci>) -> Option<u32> {
    let bus_id = pci?.bus_id.to_lowercase();
    // NVML writes the domain with eight digits, the kernel with four.
    let short = bus_id.get(bus_id.len().checked_sub(12)?..)?;
    std::fs::read_to_string(format!("/sys/bus/pci/devices/{short}/numa_node")).ok()?.trim().parse().ok()
}

/// How the GPUs reach each other, each pair once. What cannot be asked is the longest way.
pub(super) fn links(gpus: &[(Uuid, Device<'_>)]) -> Vec<Link> {
    let ends: Vec<Ends> = gpus.iter().map(|(_, device)| ends(device)).collect();
    let mut links = Vec::new();
    for (first, ((a, one), from)) in gpus.iter().zip(&ends).enumerate() {
        let others = gpus.iter().zip(&ends).skip(first + 1);
        for ((b, other), to) in others {
            let path = one.nvml().topology_common_ancestor(one, other).map_or(Path::System, path);
            links.push(Link { a: a.clone(), b: b.clone(), path, nvlinks: from.to(to) });
        }
    }
    links
}

/// Where the NVLinks of a GPU end.
struct Ends {
    bus_id: Option<String>,
    /// How many end at which place on the PCI bus, a GPU's or a switch's.
    at: BTreeMap<String, u32>,
}

impl Ends {
    /// How many links there are to another GPU: those that end there, or where theirs end too, which is a switch.
    fn to(&self, other: &Self) -> u32 {
        let direct =
            other.bus_id.as_ref().and_then(|bus_id| self.at.get(bus_id)).copied().unwrap_or_default();
        let gpu =
            |bus_id: &String| Some(bus_id) == self.bus_id.as_ref() || Some(bus_id) == other.bus_id.as_ref();
        let switched = self.at.iter().filter(|(at, _)| !gpu(at)).filter_map(|(at, links)| {
            let theirs = other.at.get(at)?;
            Some(*links.min(theirs))
        });
        direct.max(switched.sum())
    }
}

fn ends(device: &Device<'_>) -> Ends {
    let mut at = BTreeMap::new();
    for link in (0..MOST_NVLINKS).map(|link| device.link_wrapper_for(link)) {
        if link.is_active().unwrap_or(false)
            && let Ok(remote) = link.remote_pci_info()
        {
            *at.entry(remote.bus_id.to_lowercase()).or_default() += 1;
        }
    }
    Ends { bus_id: device.pci_info().ok().map(|pci| pci.bus_id.to_lowercase()), at }
}

fn path(level: TopologyLevel) -> Path {
    match level {
        TopologyLevel::Internal => Path::Internal,
        TopologyLevel::Single => Path::SingleSwitch,
        TopologyLevel::Multiple => Path::MultipleSwitches,
        TopologyLevel::HostBridge => Path::HostBridge,
        TopologyLevel::Node => Path::Node,
        TopologyLevel::System => Path::System,
    }
}

/// The number of an Xid.
pub(super) fn xid(xid: &XidError) -> u64 {
    match xid {
        XidError::Value(value) => *value,
        XidError::Unknown => 0,
    }
}
