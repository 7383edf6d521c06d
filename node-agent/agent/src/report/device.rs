//! One GPU in the status.

use whalezen_crds::scheduling::v1alpha1::{
    GpuDevice, GpuHealth, GpuMig, Holder, InstanceOrigin, MigInstance, MigProfile,
};
use whalezen_mig::Geometry;

use super::{Known, clip};
use crate::{
    device::{self, Gpu, Mig},
    layout::memory::in_use,
    view::SeenGpu,
};

/// The most holders of a device that are named.
const MOST_HOLDERS: usize = 64;

/// A GPU as the status has it.
pub(super) fn device(seen: &SeenGpu, known: &Known<'_>, island: Option<i32>) -> GpuDevice {
    let gpu = &seen.gpu;
    let mig = gpu.mig.as_ref().map(|mig| self::mig(gpu, mig, known));
    let holders = holders(known.view.claims.of(&gpu.uuid));
    let instances = mig.iter().flat_map(|mig| &mig.instances);
    let busy = !gpu.processes.is_empty() || !holders.is_empty() || instances.clone().any(|i| i.busy);
    GpuDevice {
        uuid: gpu.uuid.to_string(),
        index: number(gpu.index),
        model: clip(&gpu.model, 128),
        pci_id: gpu.pci.as_ref().map(|pci| format!("0x{:08X}", pci.id)),
        pci_bus_id: gpu.pci.as_ref().map(|pci| clip(&pci.bus_id, 32)),
        numa_node: gpu.numa.map(number),
        nvlink_island: island,
        memory_mib: i64::try_from(gpu.memory >> 20).unwrap_or(i64::MAX),
        mig,
        holders,
        busy,
        health: if seen.trouble.is_some() { GpuHealth::Unhealthy } else { GpuHealth::Healthy },
        health_reason: seen.trouble.as_ref().map(|trouble| clip(&trouble.reason, 64)),
        health_message: seen.trouble.as_ref().map(|trouble| clip(&trouble.message, 1024)),
    }
}

fn mig(gpu: &Gpu, mig: &Mig, known: &Known<'_>) -> GpuMig {
    GpuMig {
        enabled: mig.enabled,
        pending: (mig.pending != mig.enabled).then_some(mig.pending),
        profiles: profiles(&mig.geometry),
        instances: mig.instances.iter().map(|seen| instance(gpu, seen, known)).collect(),
        layout: known.layouts.get(&gpu.uuid).cloned(),
    }
}

fn profiles(geometry: &Geometry) -> Vec<MigProfile> {
    let profiles = geometry.profiles().iter().map(|profile| MigProfile {
        name: profile.name.to_string(),
        size: profile.memory_slices.into(),
        compute: profile.compute_slices().into(),
        memory_mib: i64::try_from(profile.engines.memory_mib).unwrap_or(i64::MAX),
        max: profile.max.into(),
        starts: profile.starts.iter().map(|&start| start.into()).collect(),
    });
    profiles.collect()
}

fn instance(gpu: &Gpu, seen: &device::MigInstance, known: &Known<'_>) -> MigInstance {
    let mut all: Vec<Holder> =
        seen.devices().flat_map(|device| known.view.claims.of(device)).cloned().collect();
    all.sort();
    all.dedup();
    let ours = seen.devices().next().is_some() && seen.devices().all(|device| known.made.contains(device));
    // What is not known is not told as busy: that would change with every hiccup of the kubelet's.
    let busy = match &known.view.claims {
        crate::claims::Claims::Known(_) => in_use(gpu, seen, &known.view.claims),
        crate::claims::Claims::Unknown(_) => {
            in_use(gpu, seen, &crate::claims::Claims::Known(std::collections::BTreeMap::new()))
        }
    };
    MigInstance {
        profile: seen.instance.profile.to_string(),
        start: seen.instance.start.into(),
        size: seen.size.into(),
        uuid: seen.device().map(ToString::to_string),
        gpu_instance_id: number(seen.id),
        compute_instance_id: match seen.computes.as_slice() {
            [only] => Some(number(only.id)),
            _ => None,
        },
        busy,
        origin: if ours { InstanceOrigin::Agent } else { InstanceOrigin::Other },
        holders: holders(&all),
    }
}

fn holders(all: &[Holder]) -> Vec<Holder> {
    all.iter().take(MOST_HOLDERS).cloned().collect()
}

fn number(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
