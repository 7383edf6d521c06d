//! The service that the kubelet calls, one for each resource.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt as _, stream::BoxStream};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status};
use whalezen_kubelet_api::device_plugin::{
    AllocateRequest, AllocateResponse, ContainerPreferredAllocationResponse, DevicePluginOptions, Empty,
    ListAndWatchResponse, PreStartContainerRequest, PreStartContainerResponse, PreferredAllocationRequest,
    PreferredAllocationResponse, device_plugin_server::DevicePlugin,
};

use super::{
    allocation::{self, Refusal, Ways},
    offer::Offer,
    preference,
    unit::ResourceName,
};
use crate::device::Uuid;

/// Who has the last word when devices are given away, and keeps in mind that they were.
pub trait Gate: Send + Sync + 'static {
    /// Notes that these devices are given away, and says which of them may not be, if any. It notes first: who wants to
    /// take a device away says so first and then looks whether it was given, so that one of the two sees the other.
    fn give(&self, resource: &ResourceName, ids: &[Uuid]) -> Result<(), Uuid>;
}

/// What a plugin can do.
pub fn options() -> DevicePluginOptions {
    DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: true }
}

/// The service of one resource.
pub struct Service {
    pub(super) resource: ResourceName,
    pub(super) offer: watch::Receiver<Offer>,
    pub(super) ways: Ways,
    pub(super) gate: Arc<dyn Gate>,
    /// How many streams of devices the kubelet has open.
    pub(super) streams: Arc<watch::Sender<usize>>,
    /// True when the streams are to end. Nothing else ends them: the kubelet never does.
    pub(super) stop: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl DevicePlugin for Service {
    type ListAndWatchStream = Devices;

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(options()))
    }

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Devices>, Status> {
        let mut stop = self.stop.clone();
        let stopped = async move {
            let _ = stop.wait_for(|stop| *stop).await;
        };
        Ok(Response::new(Devices {
            offers: WatchStream::new(self.offer.clone()).take_until(Box::pin(stopped)).boxed(),
            said: None,
            _open: Open::new(Arc::clone(&self.streams)),
        }))
    }

    /// Never an error: the kubelet would refuse the pod, though any choice is better than that.
    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let offer = self.offer.borrow().clone();
        let mut answer = PreferredAllocationResponse::default();
        for container in request.into_inner().container_requests {
            let size = usize::try_from(container.allocation_size).unwrap_or_default();
            let device_i_ds = preference::prefer(
                &offer,
                &container.available_device_i_ds,
                &container.must_include_device_i_ds,
                size,
            );
            answer.container_responses.push(ContainerPreferredAllocationResponse { device_i_ds });
        }
        Ok(Response::new(answer))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let offer = self.offer.borrow().clone();
        let mut answer = AllocateResponse::default();
        let mut given = Vec::new();
        for container in request.into_inner().container_requests {
            let response =
                allocation::allocate(&offer, &container.devices_ids, self.ways).map_err(|refusal| {
                    tracing::warn!(resource = %self.resource, %refusal, "the kubelet is refused a device");
                    match refusal {
                        Refusal::Unknown(_) => Status::not_found(refusal.to_string()),
                        Refusal::Unhealthy { .. } => Status::failed_precondition(refusal.to_string()),
                    }
                })?;
            answer.container_responses.push(response);
            given.extend(container.devices_ids.iter().map(|id| Uuid::from(id.as_str())));
        }
        self.gate.give(&self.resource, &given).map_err(|id| {
            tracing::warn!(resource = %self.resource, device = %id, "the kubelet is refused a device that is withheld");
            Status::not_found(Refusal::Unknown(id.to_string()).to_string())
        })?;
        tracing::info!(resource = %self.resource, devices = ?given, "given to a container");
        Ok(Response::new(answer))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}

/// The devices of a resource, and again when they changed in what the kubelet sees of them.
pub struct Devices {
    offers: BoxStream<'static, Offer>,
    said: Option<ListAndWatchResponse>,
    _open: Open,
}

impl Stream for Devices {
    type Item = Result<ListAndWatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match self.offers.poll_next_unpin(context) {
                Poll::Ready(Some(offer)) => {
                    let devices = ListAndWatchResponse { devices: offer.devices() };
                    if self.said.as_ref() != Some(&devices) {
                        self.said = Some(devices.clone());
                        return Poll::Ready(Some(Ok(devices)));
                    }
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// Counts a stream for as long as it is there.
struct Open(Arc<watch::Sender<usize>>);

impl Open {
    fn new(streams: Arc<watch::Sender<usize>>) -> Self {
        streams.send_modify(|open| *open += 1);
        Self(streams)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open = open.saturating_sub(1));
    }
}
