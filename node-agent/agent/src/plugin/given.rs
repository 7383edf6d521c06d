//! Who was given what: read back from the kubelet, because a plugin is never told which pod it serves.
//!
//! The kubelet's pod resources API names every container and the ids of its devices, whoever's plugin gave them. Between
//! the moment at which a plugin answers and the one at which the kubelet lists it, a device is *promised*: it counts as
//! held by a container whose name is not known yet.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::{FutureExt as _, future::BoxFuture};
use tokio::sync::watch;
use tonic::transport::Channel;
use whalezen_crds::scheduling::v1alpha1::Holder;
use whalezen_kubelet_api::{
    pod_resources::{
        ListPodResourcesRequest, ListPodResourcesResponse,
        pod_resources_lister_client::PodResourcesListerClient,
    },
    socket,
};

use super::{
    service::Gate,
    unit::{ASSIGNED, ResourceName},
};
use crate::{
    claims::{ClaimError, ClaimSource, Claims},
    device::Uuid,
    view::View,
};

/// NVIDIA's driver for dynamic resource allocation.
const DRA_DRIVER: &str = "gpu.nvidia.com";

/// How long a device stays promised if no container is seen to have it: the pod may have been refused for another
/// reason, or deleted in the meantime.
const PROMISE: Duration = Duration::from_mins(1);

/// An answer may be longer than gRPC's usual 4 MiB: a large node has hundreds of pods, and CPUs by number.
const ANSWER: usize = 64 << 20;

/// Who was given what, asked of the kubelet, and what was promised.
pub struct Given {
    kubelet: PodResourcesListerClient<Channel>,
    view: watch::Receiver<View>,
    promised: Mutex<BTreeMap<Uuid, Instant>>,
}

impl Given {
    /// Asks the kubelet on this socket, and gives nothing that is withheld in the view.
    pub fn new(socket: PathBuf, view: watch::Receiver<View>) -> Self {
        Self {
            kubelet: PodResourcesListerClient::new(socket::connect(socket)).max_decoding_message_size(ANSWER),
            view,
            promised: Mutex::default(),
        }
    }

    fn promised(&self) -> MutexGuard<'_, BTreeMap<Uuid, Instant>> {
        self.promised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self) -> Result<Claims, ClaimError> {
        let asked = Instant::now();
        let list = self.kubelet.clone().list(ListPodResourcesRequest {}).await;
        let list = list.map_err(|status| ClaimError(status.message().to_owned()))?;
        let mut holders = by_device(list.into_inner(), &self.view.borrow());
        let now = Instant::now();
        let mut promised = self.promised();
        // What was promised since one asked, the kubelet could not know.
        promised.retain(|id, since| {
            let seen = holders.contains_key(id) && *since < asked;
            !seen && now.saturating_duration_since(*since) < PROMISE
        });
        for id in promised.keys() {
            holders.entry(id.clone()).or_insert_with(|| vec![Holder::default()]);
        }
        Ok(Claims::Known(holders))
    }
}

impl ClaimSource for Given {
    /// A device that is promised is held by a holder without a name.
    fn claims(&self) -> BoxFuture<'_, Result<Claims, ClaimError>> {
        self.ask().boxed()
    }
}

impl Gate for Given {
    fn give(&self, resource: &ResourceName, ids: &[Uuid]) -> Result<(), Uuid> {
        let now = Instant::now();
        let mut promised = self.promised();
        let new = ids.iter().filter(|id| promised.insert((*id).clone(), now).is_none()).collect::<Vec<_>>();
        drop(promised);
        let view = self.view.borrow();
        let withheld = ids.iter().find(|id| {
            let kept = view.withheld.contains(*id) || view.assigned.contains_key(*id);
            kept && *resource != ResourceName::of(id)
        });
        if let Some(id) = withheld {
            self.promised().retain(|promised, _| !new.contains(&promised));
            return Err(id.clone());
        }
        Ok(())
    }
}

/// Turns the kubelet's list around. Only GPUs are looked at: NVIDIA's resources, whoever's plugin serves them, those that
/// are assigned, and what NVIDIA's DRA driver has given. NVIDIA's plugin calls the parts of a shared GPU `UUID::1`,
/// `UUID::2` and so on.
pub fn by_device(list: ListPodResourcesResponse, view: &View) -> BTreeMap<Uuid, Vec<Holder>> {
    let mut by = BTreeMap::<_, Vec<_>>::new();
    for pod in list.pod_resources {
        for container in pod.containers {
            let holder =
                Holder { namespace: pod.namespace.clone(), pod: pod.name.clone(), container: container.name };
            let devices = container.devices.iter().filter(|devices| is_gpu(&devices.resource_name));
            for id in devices.flat_map(|devices| &devices.device_ids) {
                let whole = id.split_once("::").map_or(id.as_str(), |(whole, _)| whole);
                by.entry(Uuid::from(whole)).or_default().push(holder.clone());
            }
            let claimed = container.dynamic_resources.iter().flat_map(|claim| &claim.claim_resources);
            for device in claimed.filter(|device| device.driver_name == DRA_DRIVER) {
                for id in claimed_devices(&device.device_name, view) {
                    by.entry(id).or_default().push(holder.clone());
                }
            }
        }
    }
    for holders in by.values_mut() {
        holders.sort();
        holders.dedup();
    }
    by
}

fn is_gpu(resource: &str) -> bool {
    matches!(resource.split_once('/'), Some(("nvidia.com" | ASSIGNED, _)))
}

/// The devices that a name of NVIDIA's DRA driver may mean: `gpu-<minor>` is a GPU, and
/// `gpu-<minor>-mig-<profile>-<start>-<size>` an instance. All that is on the GPU where there is none such, and on every
/// GPU where not even that can be read: who takes a device away has to be sure.
fn claimed_devices(name: &str, view: &View) -> Vec<Uuid> {
    let parts = name.split('-').collect::<Vec<_>>();
    let number = |at: usize| parts.get(at).and_then(|part| part.parse::<u32>().ok());
    let minor = number(1).filter(|_| parts.first() == Some(&"gpu"));
    let gpus = view.gpus.iter().map(|seen| &seen.gpu);
    let on = gpus.filter(|gpu| minor.is_none_or(|minor| gpu.minor.unwrap_or(gpu.index) == minor));
    let mut all = Vec::new();
    for gpu in on {
        let instances = gpu.mig.iter().flat_map(|mig| &mig.instances);
        let meant = instances.clone().find(|instance| Some(u32::from(instance.instance.start)) == number(4));
        match (minor, parts.len(), meant) {
            (Some(_), 2, _) => all.push(gpu.uuid.clone()),
            (Some(_), _, Some(instance)) => all.extend(instance.devices().cloned()),
            _ => {
                all.push(gpu.uuid.clone());
                all.extend(instances.flat_map(|instance| instance.devices().cloned()));
            }
        }
    }
    all
}
