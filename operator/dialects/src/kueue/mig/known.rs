//! What is known of GPUs and of what may be done with them: `GPUNodes` and `MIGPolicies`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::ResourceExt;
use whalezen_core::{
    labels::{Labels, Selector},
    mig::{Gpu, GpuNode, Leave},
    topology::Node,
};
use whalezen_crds::scheduling::v1alpha1::{
    Claimant, GPUNode, GPUNodeSpec, GPUNodeStatus, GpuDevice, GpuHealth, LayoutMode, LayoutSource,
    LayoutState, MIGPolicy, MIGPolicySpec, MigProfile, READY, WantedGpu, WantedInstance,
};
use whalezen_mig::{Existing, Geometry, Instance, Profile, geometry::Engines};

use super::super::{conditions, quota};

/// A `GPUNode` as it was last seen.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    /// Its name, which is its node's.
    pub name: String,
    /// The object's uid.
    pub uid: String,
    /// Its `resourceVersion`.
    pub version: u64,
    /// Whether its agent says that it sees the GPUs.
    pub ready: bool,
    /// What was decided for its GPUs.
    pub spec: GPUNodeSpec,
    /// Its GPUs, as its agent sees them.
    pub gpus: Vec<GpuDevice>,
}

/// A claim on an instance: for whom, and where.
#[derive(Clone, Copy, Debug)]
pub struct Claimed<'a> {
    /// The GPU.
    pub gpu: &'a str,
    /// The instance.
    pub instance: Instance,
    /// For which workload.
    pub by: &'a Claimant,
}

/// What is known of GPUs.
#[derive(Debug, Default)]
pub struct Known {
    nodes: BTreeMap<String, NodeView>,
    policies: BTreeMap<String, (MIGPolicySpec, Selector)>,
    /// On which nodes each workload has claims, by its uid.
    claimed: BTreeMap<String, BTreeSet<String>>,
}

impl Known {
    /// A `GPUNode` was seen. Gives what was known of it before, unless this is older; the second is whether it is news.
    pub fn apply_node(&mut self, object: &GPUNode) -> (Option<NodeView>, bool) {
        let name = object.name_any();
        let status = object.status.clone().unwrap_or_default();
        let view = NodeView {
            uid: object.uid().unwrap_or_default(),
            version: object.resource_version().and_then(|text| text.parse().ok()).unwrap_or_default(),
            ready: is_ready(&status),
            spec: object.spec.clone(),
            gpus: status.gpus,
            name: name.clone(),
        };
        if self.nodes.get(&name).is_some_and(|known| known.uid == view.uid && known.version >= view.version) {
            return (None, false);
        }
        let before = self.delete_node(&name);
        for claim in view.claims() {
            self.claimed.entry(uid(claim.by).to_owned()).or_default().insert(name.clone());
        }
        self.nodes.insert(name, view);
        (before, true)
    }

    /// A `GPUNode` is gone. Gives what was known of it.
    pub fn delete_node(&mut self, name: &str) -> Option<NodeView> {
        let gone = self.nodes.remove(name)?;
        for claim in gone.claims() {
            if let Some(nodes) = self.claimed.get_mut(uid(claim.by)) {
                nodes.remove(name);
                if nodes.is_empty() {
                    self.claimed.remove(uid(claim.by));
                }
            }
        }
        Some(gone)
    }

    /// A `MIGPolicy` was seen. One whose node selector cannot be read is about no node.
    pub fn apply_policy(&mut self, object: &MIGPolicy) {
        let selector = match &object.spec.node_selector {
            None => Selector::All(Vec::new()),
            Some(selector) => quota::selector(selector).unwrap_or_default(),
        };
        self.policies.insert(object.name_any(), (object.spec.clone(), selector));
    }

    /// A `MIGPolicy` is gone.
    pub fn delete_policy(&mut self, name: &str) {
        self.policies.remove(name);
    }

    /// Whether any node says what GPUs it has: layouts are made where there are agents to make them.
    pub fn any(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// What is known of a node.
    pub fn node(&self, name: &str) -> Option<&NodeView> {
        self.nodes.get(name)
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.values()
    }

    /// The nodes on which a workload has claims, by name.
    pub fn nodes_of(&self, uid: &str) -> impl Iterator<Item = &NodeView> {
        self.claimed.get(uid).into_iter().flatten().filter_map(|name| self.nodes.get(name))
    }

    /// The GPUs of a node, for who looks for instances.
    pub fn gpus(&self, view: &NodeView, node: &Node) -> GpuNode {
        let gpus = view.gpus.iter().filter_map(|device| self.gpu(view, device, &node.labels));
        GpuNode { name: node.name.clone(), gpus: gpus.collect() }
    }

    fn gpu(&self, view: &NodeView, device: &GpuDevice, labels: &Labels) -> Option<Gpu> {
        let mig = device.mig.as_ref().filter(|mig| mig.enabled && mig.pending.is_none())?;
        let layout = mig.layout.as_ref();
        let given_up = |state| matches!(state, LayoutState::Failed | LayoutState::Refused);
        let leave = if device.health == GpuHealth::Unhealthy || layout.is_some_and(|of| given_up(of.state)) {
            Leave::Nothing
        } else if layout.is_some_and(|of| of.source == LayoutSource::Pin) || !self.is_dynamic(device, labels)
        {
            Leave::AsItIs
        } else {
            Leave::Change
        };
        let geometry = geometry(&mig.profiles)?;
        Some(Gpu {
            uuid: device.uuid.as_str().into(),
            geometry: Arc::new(geometry),
            instances: there(view, device),
            leave,
        })
    }

    /// Whether workloads may have the layout of a GPU changed: of the policies about it the one with the highest priority
    /// says so, and of those the first by name.
    fn is_dynamic(&self, device: &GpuDevice, labels: &Labels) -> bool {
        let about = |policy: &&(MIGPolicySpec, Selector)| {
            policy.1.matches(labels)
                && (policy.0.models.is_empty() || policy.0.models.contains(&device.model))
        };
        // Of equals the last would be taken, so they are looked at from the end.
        let decides = self.policies.values().rev().filter(about).max_by_key(|(spec, _)| spec.priority);
        decides.is_some_and(|(spec, _)| spec.mode == LayoutMode::Dynamic)
    }
}

impl NodeView {
    /// All claims on its instances.
    pub fn claims(&self) -> impl Iterator<Item = Claimed<'_>> {
        self.spec.gpus.iter().flat_map(|gpu| {
            gpu.instances.iter().filter_map(|wanted| {
                let by = &wanted.assignment.as_ref()?.workload;
                Some(Claimed { gpu: &gpu.uuid, instance: instance(wanted)?, by })
            })
        })
    }

    /// The GPU of that uuid, as its agent sees it.
    pub fn gpu(&self, uuid: &str) -> Option<&GpuDevice> {
        self.gpus.iter().find(|device| device.uuid == uuid)
    }

    /// Whether an instance is there, on a GPU that is well.
    pub fn shows(&self, gpu: &str, instance: Instance) -> bool {
        let well = self.gpu(gpu).filter(|device| device.health == GpuHealth::Healthy);
        well.is_some_and(|device| existing(device).any(|there| there.instance == instance))
    }

    /// How many instances of a profile are in use by somebody who has no claim.
    pub fn used_unclaimed(&self, profile: whalezen_mig::ProfileName) -> u64 {
        let claimed: BTreeSet<(&str, Instance)> =
            self.claims().map(|claim| (claim.gpu, claim.instance)).collect();
        let used = self
            .gpus
            .iter()
            .flat_map(|device| existing(device).map(move |there| (device.uuid.as_str(), there)));
        let counts = |(gpu, there): &(&str, Existing)| {
            there.busy && there.instance.profile == profile && !claimed.contains(&(*gpu, there.instance))
        };
        used.filter(counts).count() as u64
    }
}

/// The uid of who claims, without which a claim is nobody's.
pub fn uid(claimant: &Claimant) -> &str {
    claimant.uid.as_deref().unwrap_or_default()
}

/// The instances that a GPU has, or will have when what was decided for it is done.
fn there(view: &NodeView, device: &GpuDevice) -> Vec<Existing> {
    let mut there: Vec<Existing> = existing(device).collect();
    if let Some(decided) = view.spec.gpus.iter().find(|gpu| gpu.uuid == device.uuid) {
        // What is idle and not wanted goes; what is busy stays, wanted or not.
        there.retain(|there| there.busy);
        for wanted in &decided.instances {
            let Some(instance) = instance(wanted) else { continue };
            let claimed = wanted.assignment.is_some();
            match there.iter_mut().find(|there| there.instance == instance) {
                Some(there) => there.busy |= claimed,
                None => there.push(Existing { instance, busy: claimed }),
            }
        }
        there.sort_unstable();
    }
    there
}

fn existing(device: &GpuDevice) -> impl Iterator<Item = Existing> {
    device.mig.iter().flat_map(|mig| &mig.instances).filter_map(|there| {
        let instance = Instance::new(there.profile.parse().ok()?, u8::try_from(there.start).ok()?);
        Some(Existing { instance, busy: there.busy || !there.holders.is_empty() })
    })
}

/// A wanted instance, if its profile has a name that can be read.
pub fn instance(wanted: &WantedInstance) -> Option<Instance> {
    Some(Instance::new(wanted.profile.parse().ok()?, u8::try_from(wanted.start).ok()?))
}

/// The layout of one GPU, with the claims of the one before and `claims` on it.
pub fn wanted(
    uuid: &str,
    instances: &[Existing],
    before: Option<&WantedGpu>,
    claims: &BTreeMap<Instance, Claimant>,
) -> WantedGpu {
    let known = |of: Instance| before?.instances.iter().find(|wanted| instance(wanted) == Some(of));
    let wanted = |there: &Existing| {
        let claim = claims.get(&there.instance).cloned();
        let claim =
            claim.map(|workload| whalezen_crds::scheduling::v1alpha1::Assignment { workload, pod: None });
        WantedInstance {
            profile: there.instance.profile.to_string(),
            start: there.instance.start.into(),
            assignment: claim.or_else(|| known(there.instance)?.assignment.clone()),
        }
    };
    WantedGpu { uuid: uuid.to_owned(), instances: instances.iter().map(wanted).collect() }
}

/// What a GPU can be divided into, by what its agent says. The driver's numbers of the profiles are the agent's matter.
fn geometry(profiles: &[MigProfile]) -> Option<Geometry> {
    let profile = |(number, of): (u32, &MigProfile)| {
        Some(Profile {
            name: of.name.parse().ok()?,
            slot: number,
            id: number,
            memory_slices: u8::try_from(of.size).ok()?,
            starts: of.starts.iter().filter_map(|&start| u8::try_from(start).ok()).collect(),
            max: u8::try_from(of.max).ok()?,
            engines: Engines { memory_mib: u64::try_from(of.memory_mib).ok()?, ..Engines::default() },
        })
    };
    Geometry::new((0..).zip(profiles).filter_map(profile).collect()).ok()
}

fn is_ready(status: &GPUNodeStatus) -> bool {
    conditions::find(&status.conditions, READY).is_some_and(|ready| ready.status == "True")
}
