//! How GPUs are connected: NVLink, and how near they are over PCIe.

use std::ffi::{c_int, c_uint, c_ulong};

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlEnableState_t, nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t, nvmlGpuTopologyLevel_t,
    nvmlIntNvLinkDeviceType_t, nvmlNvLinkCapability_t, nvmlPciInfo_t,
};

use super::{chars, device, device::pci, export, fill, fill_array, given, gpu, narrow};
use crate::{
    machine::topology::{LinkEnd, Nearness},
    process::{Target, ask},
    refusal::Refusal,
};

export! {
    /// Whether an NVLink is connected.
    fn nvmlDeviceGetNvLinkState(handle: nvmlDevice_t, link: c_uint, active: *mut nvmlEnableState_t) {
        fill(active, end(NAME, handle, link)?.is_some().into())
    }

    /// The generation of an NVLink.
    fn nvmlDeviceGetNvLinkVersion(handle: nvmlDevice_t, link: c_uint, version: *mut c_uint) {
        let (target, index) = gpu(handle)?;
        fill(version, ask(NAME, Some(target), |view| {
            view.machine.link_end(index, link)?;
            Ok(view.machine.hardware(index)?.nvlink_version)
        })?)
    }

    /// What an NVLink can do: everything but to be a bridge for graphics.
    fn nvmlDeviceGetNvLinkCapability(
        handle: nvmlDevice_t, link: c_uint, capability: nvmlNvLinkCapability_t, can: *mut c_uint,
    ) {
        const BRIDGE: nvmlNvLinkCapability_t = 4;
        let connected = end(NAME, handle, link)?.is_some();
        if capability > 5 {
            return Err(Refusal::InvalidArgument);
        }
        fill(can, (connected && capability != BRIDGE).into())
    }

    /// Where on the PCI bus the device is that an NVLink goes to.
    fn nvmlDeviceGetNvLinkRemotePciInfo_v2(handle: nvmlDevice_t, link: c_uint, info: *mut nvmlPciInfo_t) {
        given(info)?;
        let (target, index) = gpu(handle)?;
        fill(info, ask(NAME, Some(target), |view| {
            match view.machine.link_end(index, link)?.ok_or(Refusal::NotSupported)? {
                LinkEnd::Gpu(peer) => pci(view.machine, peer),
                LinkEnd::Switch(at) => Ok(switch(at)),
            }
        })?)
    }

    /// What an NVLink goes to: a GPU (0) or a switch (2).
    fn nvmlDeviceGetNvLinkRemoteDeviceType(
        handle: nvmlDevice_t, link: c_uint, kind: *mut nvmlIntNvLinkDeviceType_t,
    ) {
        fill(kind, match end(NAME, handle, link)?.ok_or(Refusal::NotSupported)? {
            LinkEnd::Gpu(_) => 0,
            LinkEnd::Switch(_) => 2,
        })
    }

    /// How near two GPUs are over PCIe.
    fn nvmlDeviceGetTopologyCommonAncestor(
        one: nvmlDevice_t, other: nvmlDevice_t, level: *mut nvmlGpuTopologyLevel_t,
    ) {
        let ((target, one), (_, other)) = (gpu(one)?, gpu(other)?);
        fill(level, ask(NAME, Some(target), |view| view.machine.nearness(one, other).map(number))?)
    }

    /// The GPUs that are exactly as near as that.
    fn nvmlDeviceGetTopologyNearestGpus(
        handle: nvmlDevice_t, level: nvmlGpuTopologyLevel_t, count: *mut c_uint, gpus: *mut nvmlDevice_t,
    ) {
        given(count)?;
        let (target, index) = gpu(handle)?;
        let found = ask(NAME, Some(target), |view| {
            let others = (0..view.machine.gpus.len()).filter(|other| *other != index);
            let near = others.filter(|other| view.machine.nearness(index, *other).map(number) == Ok(level));
            Ok(near.map(|other| device(Target::Gpu(other))).collect::<Vec<_>>())
        })?;
        if gpus.is_null() {
            return fill(count, narrow(found.len() as u64));
        }
        fill_array(gpus, count, &found)
    }

    /// Whether two GPUs reach each other's memory: over PCIe, or over NVLink (2). Not while MIG is on.
    fn nvmlDeviceGetP2PStatus(
        one: nvmlDevice_t, other: nvmlDevice_t, index: nvmlGpuP2PCapsIndex_t, status: *mut nvmlGpuP2PStatus_t,
    ) {
        const OK: nvmlGpuP2PStatus_t = 0;
        const NOT_SUPPORTED: nvmlGpuP2PStatus_t = 5;
        const NVLINK: nvmlGpuP2PCapsIndex_t = 2;
        let ((target, one), (_, other)) = (gpu(one)?, gpu(other)?);
        if index > 4 || one == other {
            return Err(Refusal::InvalidArgument);
        }
        let reached = ask(NAME, Some(target), |view| {
            let mig = view.gpu(one)?.mig || view.gpu(other)?.mig;
            if index == NVLINK { view.machine.peers_over_nvlink(one, other) } else { Ok(!mig) }
        })?;
        fill(status, if reached { OK } else { NOT_SUPPORTED })
    }

    /// Whether two GPUs are on one board: none are.
    fn nvmlDeviceOnSameBoard(one: nvmlDevice_t, other: nvmlDevice_t, same: *mut c_int) {
        let ((target, one), (_, other)) = (gpu(one)?, gpu(other)?);
        ask(NAME, Some(target), |_| Ok(()))?;
        fill(same, (one == other).into())
    }

    /// The NUMA nodes near a GPU, a bit each in words of 64 bits.
    fn nvmlDeviceGetMemoryAffinity(handle: nvmlDevice_t, words: c_uint, nodes: *mut c_ulong, scope: c_uint) {
        given(nodes)?;
        if words == 0 || scope > 1 {
            return Err(Refusal::InvalidArgument);
        }
        let (target, index) = gpu(handle)?;
        let node = ask(NAME, Some(target), |view| view.machine.numa(index))?;
        let (word, bit) = ((node / 64) as usize, node % 64);
        for at in 0..words as usize {
            fill(nodes.add(at), if at == word { 1 << bit } else { 0 })?;
        }
        Ok(())
    }
}

fn end(name: &str, handle: nvmlDevice_t, link: c_uint) -> Result<Option<LinkEnd>, Refusal> {
    let (target, index) = gpu(handle)?;
    ask(name, Some(target), |view| view.machine.link_end(index, link))
}

/// The header's number of a nearness.
fn number(nearness: Nearness) -> nvmlGpuTopologyLevel_t {
    match nearness {
        Nearness::Internal => 0,
        Nearness::Single => 10,
        Nearness::Multiple => 20,
        Nearness::HostBridge => 30,
        Nearness::Node => 40,
        Nearness::System => 50,
    }
}

/// Where a switch is on the PCI bus: before all GPUs.
fn switch(at: usize) -> nvmlPciInfo_t {
    let bus = narrow(at as u64) + 4;
    nvmlPciInfo_t {
        busIdLegacy: chars(&format!("0000:{bus:02X}:00.0")),
        domain: 0,
        bus,
        device: 0,
        // The third generation of NVSwitch.
        pciDeviceId: 0x22a3_10de,
        pciSubSystemId: 0,
        busId: chars(&format!("00000000:{bus:02X}:00.0")),
    }
}
