//! What the agent says in the status of its GPUNode. Pure.

mod conditions;
mod device;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use whalezen_crds::scheduling::v1alpha1::{GPUNodeStatus, GpuLink, GpuSummary, LayoutProgress, PciePath};

use crate::{
    device::{Path, Uuid},
    view::View,
};

/// What is known when a status is written.
#[derive(Debug)]
pub struct Known<'a> {
    /// What is seen.
    pub view: &'a View,
    /// The MIG devices that the agent made.
    pub made: &'a BTreeSet<Uuid>,
    /// How far the layout of each GPU is, where MIG is known.
    pub layouts: &'a BTreeMap<Uuid, LayoutProgress>,
    /// The generation of the spec that this is about.
    pub generation: Option<i64>,
    /// Why the GPUs are not seen at all.
    pub blind: Option<&'a str>,
    /// Who else changes layouts on the node.
    pub rival: Option<&'a str>,
    /// What is wrong with what people or the operator wrote.
    pub complaints: &'a [String],
    /// The time of day.
    pub now: Timestamp,
}

/// The status. Conditions that say the same as `before` keep their time.
pub fn status(known: &Known<'_>, before: Option<&GPUNodeStatus>) -> GPUNodeStatus {
    let gpus: Vec<_> = known
        .view
        .gpus
        .iter()
        .map(|seen| device::device(seen, known, island(known.view, &seen.gpu.uuid)))
        .collect();
    let driver = known.view.driver.as_ref();
    GPUNodeStatus {
        observed_generation: known.generation,
        heartbeat_time: Some(Time(seconds(known.now))),
        driver_version: driver.map(|driver| driver.version.clone()),
        cuda_version: driver.and_then(|driver| driver.cuda).map(|(major, minor)| format!("{major}.{minor}")),
        agent_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        summary: Some(summary(&gpus)),
        links: links(known.view),
        conditions: conditions::conditions(known, &gpus, before),
        gpus,
    }
}

/// Whether two statuses say the same, whenever they were written.
pub fn same(a: &GPUNodeStatus, b: &GPUNodeStatus) -> bool {
    let timeless = |status: &GPUNodeStatus| GPUNodeStatus { heartbeat_time: None, ..status.clone() };
    timeless(a) == timeless(b)
}

/// Kubernetes' times have whole seconds.
pub(crate) fn seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// GPUs that reach each other over NVLink, directly or by way of others, have the lowest index of them.
fn island(view: &View, gpu: &Uuid) -> Option<i32> {
    let mut island: BTreeSet<&Uuid> = [gpu].into();
    loop {
        let before = island.len();
        for link in view.links.iter().filter(|link| link.nvlinks > 0) {
            if island.contains(&link.a) || island.contains(&link.b) {
                island.extend([&link.a, &link.b]);
            }
        }
        if island.len() == before {
            break;
        }
    }
    if island.len() == 1 {
        return None;
    }
    let index = view.gpus.iter().filter(|seen| island.contains(&seen.gpu.uuid)).map(|seen| seen.gpu.index);
    index.min().and_then(|index| i32::try_from(index).ok())
}

fn links(view: &View) -> Vec<GpuLink> {
    let index = |uuid: &Uuid| {
        let seen = view.gpus.iter().find(|seen| seen.gpu.uuid == *uuid)?;
        i32::try_from(seen.gpu.index).ok()
    };
    let links = view.links.iter().filter_map(|link| {
        let (a, b) = (index(&link.a)?, index(&link.b)?);
        Some(GpuLink {
            a: a.min(b),
            b: a.max(b),
            path: match link.path {
                Path::Internal => PciePath::Internal,
                Path::SingleSwitch => PciePath::SingleSwitch,
                Path::MultipleSwitches => PciePath::MultipleSwitches,
                Path::HostBridge => PciePath::HostBridge,
                Path::Node => PciePath::Node,
                Path::System => PciePath::System,
            },
            nvlinks: i32::try_from(link.nvlinks).unwrap_or(i32::MAX),
        })
    });
    let mut links: Vec<_> = links.collect();
    links.sort_by_key(|link| (link.a, link.b));
    links
}

fn summary(gpus: &[whalezen_crds::scheduling::v1alpha1::GpuDevice]) -> GpuSummary {
    use whalezen_crds::scheduling::v1alpha1::GpuHealth;

    let models: BTreeSet<&str> = gpus.iter().map(|gpu| gpu.model.as_str()).collect();
    let in_mig_mode = gpus.iter().filter_map(|gpu| gpu.mig.as_ref()).filter(|mig| mig.enabled);
    let mut profiles: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut free, mut all) = (0, 0);
    for mig in in_mig_mode.clone() {
        for instance in &mig.instances {
            *profiles.entry(&instance.profile).or_default() += 1;
            all += 1;
            free += u32::from(!instance.busy);
        }
    }
    for gpu in gpus.iter().filter(|gpu| !gpu.mig.as_ref().is_some_and(|mig| mig.enabled)) {
        all += 1;
        free += u32::from(!gpu.busy && gpu.health == GpuHealth::Healthy);
    }
    let counted: Vec<String> = profiles.iter().map(|(profile, count)| format!("{profile}:{count}")).collect();
    GpuSummary {
        gpus: i32::try_from(gpus.len()).unwrap_or(i32::MAX),
        model: clip(&models.into_iter().collect::<Vec<_>>().join(", "), 256),
        mig: match (in_mig_mode.count(), counted.is_empty()) {
            (0, _) => "Disabled".to_owned(),
            (_, true) => "Empty".to_owned(),
            (_, false) => clip(&counted.join(","), 256),
        },
        free: format!("{free}/{all}"),
        unhealthy: gpus
            .iter()
            .filter(|gpu| gpu.health == GpuHealth::Unhealthy)
            .count()
            .try_into()
            .unwrap_or(i32::MAX),
    }
}

/// As much of a text as the schema lets in, which counts characters.
pub(crate) fn clip(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
