//! What is wanted of a GPU: the first that says something of a pin, an assignment, the node's label and a default.

use std::collections::BTreeMap;

use thiserror::Error;
use whalezen_crds::scheduling::v1alpha1::{
    DeviceLayout, GPUNodeSpec, LayoutMode, LayoutSource, ModeChange, WantedGpu,
};
use whalezen_mig::{
    Counts, Instance, ProfileName, Wanted,
    name::NameError,
    parted::{self, Configurations, Setting},
};

use super::{
    neighbours::CONFIG_LABEL,
    policies::{Node, Policies, Policy},
};
use crate::device::Gpu;

/// Everything that may say what is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The node.
    pub node: &'a Node,
    /// What the operator has written.
    pub spec: &'a GPUNodeSpec,
    /// What people have written.
    pub policies: &'a Policies,
    /// The configuration file of mig-parted's, which gives names to layouts.
    pub configurations: &'a Configurations,
}

/// What is wanted of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Who wants it.
    pub source: LayoutSource,
    /// The policy about the GPU, if there is one.
    pub policy: Option<String>,
    /// When the MIG mode may be changed for it.
    pub mode_change: ModeChange,
    /// The layout; `None` if nobody wants anything.
    pub target: Result<Option<Target>, WishError>,
}

/// The layout of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// MIG is off.
    Off,
    /// MIG is on, with these instances.
    On(Wanted),
}

/// Why a wish cannot be understood. Nothing is done to the GPU then.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WishError {
    /// A configuration that is not in the file, nor one that follows from the GPU.
    #[error(
        "{from} names the layout {name:?}, which is neither in mig-parted's file nor one that this GPU has"
    )]
    UnknownConfiguration {
        /// Who names it.
        from: &'static str,
        /// The name.
        name: String,
    },
    /// What is not a profile's name.
    #[error("{0}")]
    Name(String),
    /// A start outside of any GPU.
    #[error("{profile} at {start}: there is no such place")]
    Start {
        /// The profile.
        profile: String,
        /// The place.
        start: i32,
    },
    /// Compute instances are not for the agent to make.
    #[error("{0} is a part of a GPU instance; layouts are of whole ones")]
    Part(ProfileName),
}

impl From<NameError> for WishError {
    fn from(error: NameError) -> Self {
        Self::Name(error.to_string())
    }
}

/// What is wanted of a GPU.
pub fn wish(gpu: &Gpu, sources: &Sources<'_>) -> Wish {
    let about: Vec<&Policy> = sources.policies.about(sources.node, gpu).collect();
    let first = about.first().copied();
    let mode_change = first.map(|policy| policy.spec.mode_change).unwrap_or_default();
    let by = |policy: Option<&Policy>, source, target| Wish {
        source,
        policy: policy.map(|policy| policy.name.clone()),
        mode_change,
        target,
    };
    if let Some((policy, pin)) =
        about.iter().find_map(|policy| Some((policy, policy.pin(sources.node, gpu)?)))
    {
        let target = setting(pin.mig_enabled, &pin.mig_devices).map(|setting| Some(setting.into()));
        return Wish { mode_change: policy.spec.mode_change, ..by(Some(policy), LayoutSource::Pin, target) };
    }
    if first.is_some_and(|policy| policy.spec.mode == LayoutMode::Dynamic)
        && let Some(wanted) = sources.spec.gpus.iter().find(|wanted| wanted.uuid == gpu.uuid.as_str())
    {
        return by(first, LayoutSource::Assignment, placed(wanted).map(Some));
    }
    if let Some(name) = sources.node.labels.get(CONFIG_LABEL) {
        let target = named("the node's label nvidia.com/mig.config", name, gpu, sources.configurations);
        return by(first, LayoutSource::Label, target);
    }
    let default = first.and_then(|policy| default(policy, gpu, sources.configurations).transpose());
    match default {
        Some(target) => by(first, LayoutSource::Default, target.map(Some)),
        None => by(first, LayoutSource::Nobody, Ok(None)),
    }
}

/// Whether the GPUNode's spec names a GPU whose policy lets nothing be assigned: the scheduler is to know.
pub fn is_not_heard(gpu: &Gpu, sources: &Sources<'_>) -> bool {
    let first = sources.policies.about(sources.node, gpu).next();
    let dynamic = first.is_some_and(|policy| policy.spec.mode == LayoutMode::Dynamic);
    !dynamic && sources.spec.gpus.iter().any(|wanted| wanted.uuid == gpu.uuid.as_str())
}

fn placed(wanted: &WantedGpu) -> Result<Target, WishError> {
    let instances = wanted.instances.iter().map(|instance| {
        let profile = whole(&instance.profile)?;
        let start = u8::try_from(instance.start)
            .map_err(|_| WishError::Start { profile: instance.profile.clone(), start: instance.start })?;
        Ok(Instance::new(profile, start))
    });
    Ok(Target::On(Wanted::Placed(instances.collect::<Result<_, WishError>>()?)))
}

/// The default of a policy; `None` if it has none for this GPU.
fn default(policy: &Policy, gpu: &Gpu, configurations: &Configurations) -> Result<Option<Target>, WishError> {
    if let Some(name) = &policy.spec.default_config {
        return named("the MIGPolicy", name, gpu, configurations);
    }
    let layout = policy.spec.default_layout.iter().rfind(|layout| is_for(layout, gpu));
    layout.map(|layout| Ok(setting(layout.mig_enabled, &layout.mig_devices)?.into())).transpose()
}

fn is_for(layout: &DeviceLayout, gpu: &Gpu) -> bool {
    let id = gpu.pci.as_ref().map(|pci| format!("0x{:08X}", pci.id));
    let filtered = layout.device_filter.is_empty()
        || layout
            .device_filter
            .iter()
            .any(|filter| id.as_ref().is_some_and(|id| id.eq_ignore_ascii_case(filter)));
    let indexed = layout.devices.is_empty()
        || layout.devices.iter().any(|&index| u32::try_from(index) == Ok(gpu.index));
    filtered && indexed
}

/// A layout by its name: of the file, or one that follows from the GPU. A configuration of the file that is not about the
/// GPU leaves it as it is.
fn named(
    from: &'static str,
    name: &str,
    gpu: &Gpu,
    configurations: &Configurations,
) -> Result<Option<Target>, WishError> {
    let setting = if let Some(entries) = configurations.entries(name) {
        let id = gpu.pci.as_ref().map_or(0, |pci| pci.id);
        parted::setting(entries, gpu.index, id).cloned()
    } else {
        let known = match &gpu.mig {
            Some(mig) => parted::well_known(name, &mig.geometry),
            // A GPU without MIG has the one layout that needs none.
            None => (name == "all-disabled").then_some(Setting::Disabled),
        };
        Some(known.ok_or_else(|| WishError::UnknownConfiguration { from, name: name.to_owned() })?)
    };
    if let Some(Setting::Enabled(counts)) = &setting {
        for (profile, _) in counts.iter() {
            not_a_part(profile)?;
        }
    }
    Ok(setting.map(Target::from))
}

impl From<Setting> for Target {
    fn from(setting: Setting) -> Self {
        match setting {
            Setting::Disabled => Self::Off,
            Setting::Enabled(counts) => Self::On(Wanted::Counts(counts)),
        }
    }
}

fn setting(enabled: bool, devices: &BTreeMap<String, i32>) -> Result<Setting, WishError> {
    if !enabled {
        return Ok(Setting::Disabled);
    }
    let mut counts = Counts::default();
    for (name, &count) in devices {
        counts.add(whole(name)?, u32::try_from(count).unwrap_or_default());
    }
    Ok(Setting::Enabled(counts))
}

fn whole(name: &str) -> Result<ProfileName, WishError> {
    not_a_part(name.parse()?)
}

fn not_a_part(profile: ProfileName) -> Result<ProfileName, WishError> {
    if profile == profile.gpu_instance() { Ok(profile) } else { Err(WishError::Part(profile)) }
}

#[cfg(test)]
mod tests;
