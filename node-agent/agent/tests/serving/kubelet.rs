//! A kubelet as far as devices go: its device manager (Kubernetes 1.36, `pkg/kubelet/cm/devicemanager`) over the real
//! sockets, and its pod resources API. What it does to plugins, down to what is awkward, is the real one's:
//!
//! * when it starts it removes every socket from its folder, and knows which pods have which devices from a checkpoint;
//! * it dials a plugin while that registers, and asks for options then and for devices afterwards;
//! * it keeps plugins by resource, and at the end of *any* stream of a resource it disconnects the plugin that it knows
//!   under that name by then;
//! * of a plugin that is gone it counts the devices as unhealthy;
//! * an error of a preference refuses the pod, and devices that are given stay so until the pod goes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
    task::AbortHandle,
};
use tonic::{
    Request, Response, Status,
    transport::{Channel, Server},
};
use whalezen_kubelet_api::{
    DEVICE_PLUGIN_VERSION, HEALTHY, KUBELET_SOCKET,
    device_plugin::{
        AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse,
        ContainerPreferredAllocationRequest, DevicePluginOptions, Empty, PreferredAllocationRequest,
        RegisterRequest,
        device_plugin_client::DevicePluginClient,
        registration_server::{Registration, RegistrationServer},
    },
    pod_resources::{
        AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices, ContainerResources,
        GetPodResourcesRequest, GetPodResourcesResponse, ListPodResourcesRequest, ListPodResourcesResponse,
        PodResources,
        pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer},
    },
    socket,
};

/// A plugin that the kubelet knows.
struct Endpoint {
    client: DevicePluginClient<Channel>,
    options: DevicePluginOptions,
    stream: Option<AbortHandle>,
}

#[derive(Default)]
struct State {
    endpoints: BTreeMap<String, Endpoint>,
    /// By resource: the devices, and whether each is healthy. Stays when a plugin goes.
    devices: BTreeMap<String, BTreeMap<String, bool>>,
    /// By namespace, pod, container and resource: survives a restart.
    given: BTreeMap<(String, String, String, String), BTreeSet<String>>,
    registrations: BTreeMap<String, usize>,
    refuse: bool,
    /// Says yes and then asks for nothing, as a kubelet that is disconnected by what it noticed late.
    forget_next: bool,
}

/// The state, and a word when it changes.
#[derive(Clone)]
struct Manager {
    folder: PathBuf,
    state: Arc<Mutex<State>>,
    changes: Arc<watch::Sender<u64>>,
}

/// A kubelet that runs.
pub struct Kubelet {
    manager: Manager,
    changes: watch::Receiver<u64>,
    /// A runtime of its own, as it would be a process of its own: what it has open is closed when it ends.
    process: Option<Runtime>,
}

impl Kubelet {
    /// Starts one whose sockets are in this folder.
    pub fn start(folder: &Path) -> Self {
        let changes = watch::Sender::new(0);
        let seen = changes.subscribe();
        let manager = Manager { folder: folder.into(), state: Arc::default(), changes: Arc::new(changes) };
        let mut kubelet = Self { manager, changes: seen, process: None };
        kubelet.listen();
        kubelet
    }

    /// The socket of the pod resources API, elsewhere than the plugins'.
    pub fn pod_resources(folder: &Path) -> PathBuf {
        folder.join("pods/kubelet.sock")
    }

    fn listen(&mut self) {
        for file in fs::read_dir(&self.manager.folder).unwrap().map(Result::unwrap) {
            if file.file_type().unwrap().is_socket() {
                fs::remove_file(file.path()).unwrap();
            }
        }
        let process = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let pods = Self::pod_resources(&self.manager.folder);
        fs::create_dir_all(pods.parent().unwrap()).unwrap();
        let registration = Server::builder().add_service(RegistrationServer::new(self.manager.clone()));
        let lister = Server::builder().add_service(PodResourcesListerServer::new(self.manager.clone()));
        let folder = self.manager.folder.clone();
        // Listening registers with the runtime that one is in.
        let inside = process.enter();
        let incoming = socket::listen(&pods).unwrap();
        process.spawn(async move { lister.serve_with_incoming(incoming).await.unwrap() });
        let incoming = socket::listen(&folder.join(KUBELET_SOCKET)).unwrap();
        process.spawn(async move { registration.serve_with_incoming(incoming).await.unwrap() });
        drop(inside);
        self.process = Some(process);
    }

    /// Ends as if it was killed: its sockets stay behind.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.shutdown_background();
        }
        let mut state = self.manager.state();
        for (_, endpoint) in std::mem::take(&mut state.endpoints) {
            endpoint.stream.inspect(AbortHandle::abort);
        }
    }

    /// Starts again after [`Self::kill`].
    pub fn start_again(&mut self) {
        let mut state = self.manager.state();
        // From the checkpoint it knows names of resources, but no healthy device.
        for devices in state.devices.values_mut() {
            for healthy in devices.values_mut() {
                *healthy = false;
            }
        }
        drop(state);
        self.listen();
    }

    /// Refuses registrations from now on, or no more.
    pub fn refuse(&self, refuse: bool) {
        self.manager.state().refuse = refuse;
    }

    /// Loses the next plugin that registers at once.
    pub fn forget_next(&self) {
        self.manager.state().forget_next = true;
    }

    /// Disconnects a plugin.
    pub fn disconnect(&self, resource: &str) {
        self.manager.disconnected(resource);
    }

    /// How often a resource was registered.
    pub fn registrations(&self, resource: &str) -> usize {
        self.manager.state().registrations.get(resource).copied().unwrap_or_default()
    }

    /// The node's capacity and allocatable of a resource.
    pub fn counts(&self, resource: &str) -> (usize, usize) {
        let state = self.manager.state();
        let devices = state.devices.get(resource);
        let healthy = devices.map_or(0, |devices| devices.values().filter(|healthy| **healthy).count());
        (devices.map_or(0, BTreeMap::len), healthy)
    }

    /// Waits until a resource has this capacity and allocatable.
    pub async fn until(&mut self, resource: &str, counts: (usize, usize)) {
        let manager = self.manager.clone();
        let reached = self.changes.wait_for(|_| {
            let state = manager.state();
            let devices = state.devices.get(resource);
            let healthy = devices.map_or(0, |devices| devices.values().filter(|healthy| **healthy).count());
            (devices.map_or(0, BTreeMap::len), healthy) == counts
        });
        let reached = tokio::time::timeout(std::time::Duration::from_mins(1), reached).await.map(|_| ());
        assert!(reached.is_ok(), "{resource} is {:?} and not {counts:?}", self.counts(resource));
    }

    /// Gives a container that many devices of a resource, as it would when it takes in its pod.
    pub async fn admit(
        &self,
        pod: &str,
        resource: &str,
        wanted: usize,
    ) -> Result<ContainerAllocateResponse, String> {
        let (mut client, options, available) = {
            let state = self.manager.state();
            let endpoint =
                state.endpoints.get(resource).ok_or(format!("unknown device plugin {resource}"))?;
            let taken = state.given.values().flatten().collect::<BTreeSet<_>>();
            let devices = state.devices.get(resource).into_iter().flatten();
            let free =
                devices.filter(|(id, healthy)| **healthy && !taken.contains(id)).map(|(id, _)| id.clone());
            (endpoint.client.clone(), endpoint.options, free.collect::<Vec<_>>())
        };
        if available.len() < wanted {
            return Err(format!("{} of {wanted} devices available", available.len()));
        }
        // The real one asks only where there is a choice.
        let mut chosen = available.clone();
        if options.get_preferred_allocation_available && wanted < available.len() {
            let container_requests = vec![ContainerPreferredAllocationRequest {
                available_device_i_ds: available.clone(),
                must_include_device_i_ds: vec![],
                allocation_size: i32::try_from(wanted).unwrap(),
            }];
            let preferred =
                client.get_preferred_allocation(PreferredAllocationRequest { container_requests }).await;
            let preferred = preferred.map_err(|status| status.to_string())?.into_inner();
            chosen.clone_from(&preferred.container_responses[0].device_i_ds);
            chosen.retain(|id| available.contains(id));
            chosen.extend(available);
        }
        chosen.truncate(wanted);
        let container_requests = vec![ContainerAllocateRequest { devices_ids: chosen.clone() }];
        let answer = client
            .allocate(AllocateRequest { container_requests })
            .await
            .map_err(|status| status.to_string())?;
        let key = ("team".to_owned(), pod.to_owned(), "main".to_owned(), resource.to_owned());
        self.manager.state().given.insert(key, chosen.into_iter().collect());
        answer
            .into_inner()
            .container_responses
            .pop()
            .ok_or("no containers return in allocation response".to_owned())
    }

    /// A pod is gone.
    pub fn remove(&self, pod: &str) {
        self.manager.state().given.retain(|(_, name, _, _), _| name != pod);
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Manager {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// `disconnectClient`: whoever is known under the name goes, and its devices are unhealthy.
    fn disconnected(&self, resource: &str) {
        let mut state = self.state();
        if let Some(endpoint) = state.endpoints.remove(resource) {
            endpoint.stream.inspect(AbortHandle::abort);
        }
        for healthy in state.devices.get_mut(resource).into_iter().flat_map(BTreeMap::values_mut) {
            *healthy = false;
        }
        drop(state);
        self.changed();
    }

    /// `runClient`.
    async fn listen(self, resource: String, mut client: DevicePluginClient<Channel>) {
        // The channel has a deadline for calls, and this one has no end.
        if let Ok(stream) = client.list_and_watch(Empty {}).await {
            let mut stream = stream.into_inner();
            while let Ok(Some(list)) = stream.message().await {
                let devices =
                    list.devices.into_iter().map(|device| (device.id, device.health == HEALTHY)).collect();
                self.state().devices.insert(resource.clone(), devices);
                self.changed();
            }
        }
        self.disconnected(&resource);
    }
}

#[tonic::async_trait]
impl Registration for Manager {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let RegisterRequest { version, endpoint, resource_name, .. } = request.into_inner();
        *self.state().registrations.entry(resource_name.clone()).or_default() += 1;
        if version != DEVICE_PLUGIN_VERSION || !resource_name.contains('/') || self.state().refuse {
            return Err(Status::unknown("bad registration request"));
        }
        let mut client = DevicePluginClient::new(socket::connect(self.folder.join(endpoint)));
        let options = client.get_device_plugin_options(Empty {}).await?.into_inner();
        let forget = std::mem::take(&mut self.state().forget_next);
        let stream = (!forget)
            .then(|| tokio::spawn(self.clone().listen(resource_name.clone(), client.clone())).abort_handle());
        self.state().endpoints.insert(resource_name, Endpoint { client, options, stream });
        Ok(Response::new(Empty {}))
    }
}

#[tonic::async_trait]
impl PodResourcesLister for Manager {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        let state = self.state();
        let pod_resources = state.given.iter().map(|((namespace, pod, container, resource), ids)| {
            let devices = ContainerDevices {
                resource_name: resource.clone(),
                device_ids: ids.iter().cloned().collect(),
                topology: None,
            };
            let container = ContainerResources {
                name: container.clone(),
                devices: vec![devices],
                ..ContainerResources::default()
            };
            PodResources { name: pod.clone(), namespace: namespace.clone(), containers: vec![container] }
        });
        Ok(Response::new(ListPodResourcesResponse { pod_resources: pod_resources.collect() }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn get(
        &self,
        _: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}
