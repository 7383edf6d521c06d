//! What the API server says that concerns the node, and what it is told.
//!
//! The agent goes on by what it heard last while the API server is away. It begins to change layouts only when it has
//! heard everything once.

use std::{collections::BTreeMap, time::Duration};

use futures::{Stream, StreamExt as _, pin_mut};
use k8s_openapi::{
    api::{core::v1::Node as KubeNode, resource::v1::ResourceSlice},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject},
    runtime::{WatchStreamExt as _, reflector, watcher, watcher::watch_object},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{error::Elapsed, sleep, timeout},
};
use whalezen_crds::scheduling::v1alpha1::{GPUNode, GPUNodeSpec, GPUNodeStatus, MIGPolicy};

use crate::{
    device::Uuid,
    layout::{
        neighbours::NodePatch,
        policies::{Node, Policies},
    },
    view::SeenGpu,
};

/// Under which name the agent writes.
const MANAGER: &str = "whalezen-agent";

/// How long a write may take: the loop waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is asked whether NVIDIA's DRA driver makes MIG instances on the node.
const DRA_INTERVAL: Duration = Duration::from_mins(1);

/// The driver in the `ResourceSlice` objects of NVIDIA's DRA driver.
const DRA_DRIVER: &str = "gpu.nvidia.com";

/// What the API server has said.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// The node; `None` until it was seen, or when there is none.
    pub(super) node: Option<NodeSeen>,
    /// The GPUNode.
    pub(super) gpu_node: Heard<GpuNodeSeen>,
    /// The policies.
    pub(super) policies: Policies,
    /// Whether the policies were listed.
    policies_heard: bool,
    /// What could not be read.
    unreadable: Vec<String>,
    /// Whether NVIDIA's DRA driver makes MIG instances on the node.
    pub(super) dynamic_mig: bool,
    /// Whether that was asked.
    dynamic_mig_heard: bool,
}

/// An object that there may be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Heard<T> {
    /// The API server has not said yet.
    #[default]
    NotYet,
    /// There is none.
    Absent,
    /// This is it.
    There(T),
}

/// The node.
#[derive(Clone, Debug)]
pub(super) struct NodeSeen {
    uid: String,
    /// What layouts depend on.
    pub(super) node: Node,
}

/// The node's GPUNode.
#[derive(Clone, Debug)]
pub(super) struct GpuNodeSeen {
    generation: Option<i64>,
    /// What is wanted; an error where it cannot be read.
    spec: Result<GPUNodeSpec, String>,
    /// What an agent wrote; `None` if it cannot be read.
    pub(super) status: Option<GPUNodeStatus>,
}

/// Everything that has to be known before a layout is changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) node: &'a Node,
    pub(super) spec: &'a GPUNodeSpec,
}

impl Said {
    /// What layouts depend on, once all of it is known.
    pub(super) fn complete(&self) -> Option<Place<'_>> {
        let Heard::There(GpuNodeSeen { spec: Ok(spec), .. }) = &self.gpu_node else { return None };
        self.is_complete().then_some(Place { node: &self.node.as_ref()?.node, spec })
    }

    /// Whether everything was said that a status is about.
    pub(super) fn is_complete(&self) -> bool {
        let objects = self.node.is_some() && matches!(self.gpu_node, Heard::There(_));
        objects && self.policies_heard && self.dynamic_mig_heard
    }

    /// The generation of the spec.
    pub(super) fn generation(&self) -> Option<i64> {
        match &self.gpu_node {
            Heard::There(gpu_node) => gpu_node.generation,
            Heard::NotYet | Heard::Absent => None,
        }
    }

    /// What is wrong with what people or the operator wrote, with what is seen at hand.
    pub(super) fn complaints(&self, seen: &[SeenGpu]) -> Vec<String> {
        let mut complaints = self.unreadable.clone();
        complaints.extend(self.policies.broken.iter().cloned());
        if let Heard::There(GpuNodeSeen { spec: Err(error), .. }) = &self.gpu_node {
            complaints.push(format!("the spec cannot be read: {error}"));
        }
        if let Some(place) = self.complete() {
            let missing = place
                .spec
                .gpus
                .iter()
                .filter(|wanted| !seen.iter().any(|seen| seen.gpu.uuid.as_str() == wanted.uuid));
            complaints.extend(
                missing.map(|wanted| format!("the spec is about {}, which is not here", wanted.uuid)),
            );
        }
        complaints
    }

    /// Which MIG devices are for one pod alone: instances of the spec with an assignment to a pod, at their place.
    pub(super) fn assigned(&self, seen: &[SeenGpu]) -> BTreeMap<Uuid, (String, String)> {
        let Some(place) = self.complete() else { return BTreeMap::new() };
        let mut assigned = BTreeMap::new();
        for wanted in &place.spec.gpus {
            let Some(gpu) = seen.iter().find(|seen| seen.gpu.uuid.as_str() == wanted.uuid) else { continue };
            for instance in &wanted.instances {
                let Some(pod) = instance.assignment.as_ref().and_then(|assignment| assignment.pod.as_ref())
                else {
                    continue;
                };
                let there = gpu.gpu.mig.iter().flat_map(|mig| &mig.instances).find(|there| {
                    i32::from(there.instance.start) == instance.start
                        && there.instance.profile.to_string() == instance.profile
                });
                if let Some(device) = there.and_then(|there| there.device()) {
                    assigned.insert(device.clone(), (pod.namespace.clone(), pod.name.clone()));
                }
            }
        }
        assigned
    }
}

/// The way to the API server.
pub(super) struct Cluster {
    client: Client,
    name: String,
}

impl Cluster {
    /// Watches what concerns the node of that name.
    pub(super) fn watch(client: Client, name: &str) -> (Self, watch::Receiver<Said>) {
        let (tell, said) = watch::channel(Said::default());
        tokio::spawn(node(client.clone(), name.to_owned(), tell.clone()));
        tokio::spawn(gpu_node(client.clone(), name.to_owned(), tell.clone()));
        tokio::spawn(policies(client.clone(), tell.clone()));
        tokio::spawn(dynamic_mig(client.clone(), name.to_owned(), tell));
        (Self { client, name: name.to_owned() }, said)
    }

    /// Makes the GPUNode. It goes with its node.
    pub(super) async fn create_gpu_node(&self, node: &NodeSeen) -> bool {
        let mut object = GPUNode::new(&self.name, GPUNodeSpec::default());
        object.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.name.clone(),
            uid: node.uid.clone(),
            ..OwnerReference::default()
        }]);
        let api = Api::<GPUNode>::all(self.client.clone());
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match timeout(PATIENCE, api.create(&params, &object)).await {
            // Somebody was faster: the watch tells of it.
            Ok(Err(kube::Error::Api(status))) if status.is_already_exists() => true,
            other => self.taken("GPUNode", other),
        }
    }

    /// Writes the status; says whether it was taken.
    pub(super) async fn write_status(&self, status: &GPUNodeStatus) -> bool {
        let object = json!({
            "apiVersion": "scheduling.gen.io/v1alpha1",
            "kind": "GPUNode",
            "metadata": { "name": self.name },
            "status": status,
        });
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource::<GPUNode>());
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&object);
        let write = timeout(PATIENCE, api.patch_status(&self.name, &params, &patch)).await;
        self.taken("the status of GPUNode", write)
    }

    /// Changes labels and annotations of the node; says whether that was taken.
    pub(super) async fn patch_node(&self, patch: &NodePatch) -> bool {
        if patch.is_empty() {
            return true;
        }
        let body = json!({ "metadata": { "labels": patch.labels, "annotations": patch.annotations } });
        let api = Api::<KubeNode>::all(self.client.clone());
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let body = Patch::Merge(&body);
        let write = timeout(PATIENCE, api.patch_metadata(&self.name, &params, &body)).await;
        let taken = self.taken("the labels of node", write);
        if taken {
            tracing::info!("the node's labels: {:?}", patch.labels);
        }
        taken
    }

    /// Whether a write was taken; says why not.
    fn taken<T>(&self, what: &str, write: Result<kube::Result<T>, Elapsed>) -> bool {
        let why = match write {
            Ok(Ok(_)) => return true,
            Ok(Err(kube::Error::Api(status))) => status.message,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server does not answer".to_owned(),
        };
        tracing::warn!("{what} {} is not written: {why}", self.name);
        false
    }
}

fn resource<K: kube::Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

async fn node(client: Client, name: String, tell: watch::Sender<Said>) {
    let stream = watch_object(Api::<KubeNode>::all(client), &name);
    follow("the node", stream, |found: Option<KubeNode>| {
        let seen = found.map(|found| NodeSeen {
            uid: found.uid().unwrap_or_default(),
            node: Node {
                name: found.name_any(),
                labels: found.labels().clone(),
                annotations: found.annotations().clone(),
                cordoned: found.spec.and_then(|spec| spec.unschedulable).unwrap_or_default(),
            },
        });
        tell.send_if_modified(|said| {
            // A node writes its status all the time, and nothing here depends on that.
            let before = said.node.as_ref().map(|seen| (&seen.uid, &seen.node));
            let changed = before != seen.as_ref().map(|seen| (&seen.uid, &seen.node));
            said.node = seen;
            changed
        });
    })
    .await;
}

async fn gpu_node(client: Client, name: String, tell: watch::Sender<Said>) {
    let api = Api::<DynamicObject>::all_with(client, &resource::<GPUNode>());
    let stream = watch_dynamic(api, &name);
    follow("the GPUNode", stream, |found: Option<DynamicObject>| {
        let seen = found.map(|found| GpuNodeSeen {
            generation: found.metadata.generation,
            spec: part(&found.data, "spec").map(Option::unwrap_or_default),
            status: part(&found.data, "status").ok().flatten(),
        });
        let heard = seen.map_or(Heard::Absent, Heard::There);
        tell.send_if_modified(|said| {
            // The agent's own writes of the status come back here, and call for nothing.
            let changed = match (&said.gpu_node, &heard) {
                (Heard::There(before), Heard::There(now)) => {
                    (before.generation, &before.spec) != (now.generation, &now.spec)
                }
                (before, now) => std::mem::discriminant(before) != std::mem::discriminant(now),
            };
            said.gpu_node = heard;
            changed
        });
    })
    .await;
}

fn part<T: DeserializeOwned>(data: &Value, name: &str) -> Result<Option<T>, String> {
    let found = data.get(name).filter(|value| !value.is_null());
    found.map(|value| T::deserialize(value).map_err(|error| error.to_string())).transpose()
}

/// The object of that name, `None` when there is none; like kube's `watch_object`, for a kind that is known by name.
fn watch_dynamic(
    api: Api<DynamicObject>,
    name: &str,
) -> impl Stream<Item = watcher::Result<Option<DynamicObject>>> + use<> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    watcher(api, config)
        .scan(false, |there, event| {
            let said = match event {
                Err(error) => Some(Err(error)),
                Ok(watcher::Event::Init) => {
                    *there = false;
                    None
                }
                Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                    *there = true;
                    Some(Ok(Some(object)))
                }
                Ok(watcher::Event::InitDone) if *there => None,
                Ok(watcher::Event::InitDone | watcher::Event::Delete(_)) => Some(Ok(None)),
            };
            futures::future::ready(Some(said))
        })
        .filter_map(futures::future::ready)
}

async fn follow<K>(
    what: &str,
    stream: impl Stream<Item = watcher::Result<Option<K>>>,
    mut tell: impl FnMut(Option<K>),
) {
    let stream = stream.default_backoff();
    pin_mut!(stream);
    while let Some(next) = stream.next().await {
        match next {
            Ok(found) => tell(found),
            Err(error) => tracing::warn!("{what} cannot be watched: {error}"),
        }
    }
}

/// All policies, whenever one of them changes. One that cannot be read is said and does not keep others from it.
async fn policies(client: Client, tell: watch::Sender<Said>) {
    let kind = resource::<MIGPolicy>();
    let writer = reflector::store::Writer::new(kind.clone());
    let store = writer.as_reader();
    let api = Api::<DynamicObject>::all_with(client, &kind);
    let stream = watcher(api, watcher::Config::default()).default_backoff().reflect(writer);
    pin_mut!(stream);
    let mut listed = false;
    while let Some(event) = stream.next().await {
        match event {
            Err(error) => {
                tracing::warn!("MIGPolicies cannot be watched: {error}");
                continue;
            }
            Ok(watcher::Event::InitDone) => listed = true,
            Ok(_) => {}
        }
        if !listed {
            continue;
        }
        let mut unreadable = Vec::new();
        let mut read = Vec::new();
        for object in store.state() {
            match part(&object.data, "spec") {
                Ok(spec) => read.push(MIGPolicy::new(&object.name_any(), spec.unwrap_or_default())),
                Err(error) => unreadable.push(format!("MIGPolicy {}: {error}", object.name_any())),
            }
        }
        unreadable.sort();
        tell.send_modify(|said| {
            said.policies = Policies::read(&read);
            said.unreadable = unreadable;
            said.policies_heard = true;
        });
    }
}

/// Whether NVIDIA's DRA driver offers parts of GPUs on the node: its slices have counters then, which parts share.
async fn dynamic_mig(client: Client, name: String, tell: watch::Sender<Said>) {
    let api = Api::<ResourceSlice>::all(client);
    let of_node = ListParams::default().fields(&format!("spec.nodeName={name},spec.driver={DRA_DRIVER}"));
    loop {
        let offers = match timeout(PATIENCE, api.list(&of_node)).await {
            Ok(Ok(slices)) => Some(slices.items.iter().any(|slice| {
                slice.spec.shared_counters.as_ref().is_some_and(|counters| !counters.is_empty())
            })),
            // An API server that has no such kind has no such driver.
            Ok(Err(kube::Error::Api(status))) if status.is_not_found() => Some(false),
            Ok(Err(error)) => {
                tracing::warn!("whether NVIDIA's DRA driver is here is not known: {error}");
                None
            }
            Err(_) => None,
        };
        if let Some(offers) = offers {
            tell.send_if_modified(|said| {
                let changed = !said.dynamic_mig_heard || said.dynamic_mig != offers;
                (said.dynamic_mig, said.dynamic_mig_heard) = (offers, true);
                changed
            });
        }
        sleep(if offers.is_some() { DRA_INTERVAL } else { PATIENCE }).await;
    }
}
