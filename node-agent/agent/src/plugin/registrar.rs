//! One resource's plugin: it listens, registers with the kubelet, and does both again when the kubelet has forgotten it.
//!
//! What is wrong is seen in one of three ways, and the answer is always the same: stop, listen anew, register anew.
//! *The kubelet's socket is another one*: the kubelet was started again and has removed ours. *The kubelet has no stream
//! of devices open*: it does not know us, whatever it answered. *It does not answer.* One registers only after the server
//! before has ended, because the kubelet keeps plugins by resource: when it notices the end of an old stream, it
//! disconnects whoever is known under the name by then.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tonic::transport::Server;
use whalezen_kubelet_api::{
    DEVICE_PLUGIN_VERSION, KUBELET_SOCKET,
    device_plugin::{
        RegisterRequest, device_plugin_server::DevicePluginServer, registration_client::RegistrationClient,
    },
    socket::{self, Identity, ListenError},
};

use super::{
    allocation::Ways,
    offer::Offer,
    service::{self, Gate, Service},
    unit::ResourceName,
};

/// After how long one tries again, at first and at most. A kubelet that was started again is noticed at once.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How long an old server may take to end.
const END: Duration = Duration::from_secs(2);

/// Why a plugin is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// Its own socket cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The kubelet refused, or did not answer.
    #[error("the kubelet does not take the plugin: {0}")]
    Refused(String),
    /// The kubelet took the plugin and then did not ask for its devices.
    #[error("the kubelet does not ask for devices")]
    NotAsked,
}

/// The plugin of one resource.
pub struct Registrar {
    /// The resource.
    pub resource: ResourceName,
    /// The folder of the kubelet's socket and of ours.
    pub folder: PathBuf,
    /// What is offered.
    pub offer: watch::Receiver<Offer>,
    /// How devices are handed out.
    pub ways: Ways,
    /// Who has the last word.
    pub gate: Arc<dyn Gate>,
    /// How long the kubelet may take to ask for devices after it was told of the plugin, or after it stopped asking.
    pub patience: Duration,
    /// The kubelet's socket ([`super::kubelet::follow`]).
    pub kubelet: watch::Receiver<Option<Identity>>,
}

/// A server that listens.
struct Running {
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
    streams: watch::Receiver<usize>,
}

impl Registrar {
    /// Runs until `stop` is dropped. The kubelet then sees the end of the stream.
    pub async fn run(mut self, stop: oneshot::Receiver<()>) {
        self.serve(stop).await;
        let _ = std::fs::remove_file(self.folder.join(self.resource.socket()));
    }

    async fn serve(&mut self, mut stop: oneshot::Receiver<()>) {
        let (mut pause, patience) = (AGAIN.0, self.patience);
        loop {
            let Some(identity) = self.present(&mut stop).await else { return };
            // What was begun ends with the future: a kubelet that does not answer holds nobody up.
            let registered = tokio::select! {
                _ = &mut stop => return,
                registered = self.register() => registered,
            };
            let lost = match registered {
                Ok(mut running) => {
                    tracing::info!(resource = %self.resource, "registered with the kubelet");
                    pause = AGAIN.0;
                    let ended = tokio::select! {
                        _ = &mut stop => true,
                        () = self.replaced(identity) => false,
                        () = forgotten(&mut running.streams, patience) => false,
                    };
                    running.end().await;
                    if ended {
                        return;
                    }
                    continue;
                }
                Err(error) => error,
            };
            tracing::warn!(resource = %self.resource, error = %lost, again = ?pause, "not registered with the kubelet");
            tokio::select! {
                _ = &mut stop => return,
                () = self.replaced(identity) => pause = AGAIN.0,
                () = sleep(pause) => pause = (pause * 2).min(AGAIN.1),
            }
        }
    }

    /// Waits until there is a kubelet, unless it is to end before.
    async fn present(&mut self, stop: &mut oneshot::Receiver<()>) -> Option<Identity> {
        tokio::select! {
            _ = stop => None,
            found = self.kubelet.wait_for(Option::is_some) => found.ok().and_then(|identity| *identity),
        }
    }

    /// Waits until the kubelet's socket is another one, or none.
    async fn replaced(&mut self, than: Identity) {
        // Nobody follows the socket any more when the program ends.
        let _ = self.kubelet.wait_for(|now| *now != Some(than)).await;
    }

    async fn register(&self) -> Result<Running, RegisterError> {
        let mut running = self.listen()?;
        match self.introduce(&mut running.streams).await {
            Ok(()) => Ok(running),
            Err(error) => {
                running.end().await;
                Err(error)
            }
        }
    }

    fn listen(&self) -> Result<Running, ListenError> {
        let incoming = socket::listen(&self.folder.join(self.resource.socket()))?;
        let (streams, open) = watch::channel(0);
        let (stop, mut stopped) = watch::channel(false);
        let service = Service {
            resource: self.resource.clone(),
            offer: self.offer.clone(),
            ways: self.ways,
            gate: Arc::clone(&self.gate),
            streams: Arc::new(streams),
            stop: stopped.clone(),
        };
        let resource = self.resource.clone();
        let server = tokio::spawn(async move {
            let stopped = async move {
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            let server = Server::builder().add_service(DevicePluginServer::new(service));
            if let Err(error) = server.serve_with_incoming_shutdown(incoming, stopped).await {
                tracing::warn!(%resource, %error, "the device plugin's server ended");
            }
        });
        Ok(Running { stop, server, streams: open })
    }

    async fn introduce(&self, streams: &mut watch::Receiver<usize>) -> Result<(), RegisterError> {
        let request = RegisterRequest {
            version: DEVICE_PLUGIN_VERSION.to_owned(),
            endpoint: self.resource.socket(),
            resource_name: self.resource.to_string(),
            options: Some(service::options()),
        };
        let mut kubelet = RegistrationClient::new(socket::connect(self.folder.join(KUBELET_SOCKET)));
        kubelet
            .register(request)
            .await
            .map_err(|status| RegisterError::Refused(status.message().to_owned()))?;
        match timeout(self.patience, streams.wait_for(|open| *open > 0)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(RegisterError::NotAsked),
        }
    }
}

/// Waits until the kubelet has had no stream open for a while: it asks anew in that time if it means to.
async fn forgotten(streams: &mut watch::Receiver<usize>, patience: Duration) {
    loop {
        if streams.wait_for(|open| *open == 0).await.is_err() {
            return;
        }
        match timeout(patience, streams.wait_for(|open| *open > 0)).await {
            Ok(Ok(_)) => {}
            _ => return,
        }
    }
}

impl Running {
    async fn end(self) {
        self.stop.send_replace(true);
        let mut server = self.server;
        if timeout(END, &mut server).await.is_err() {
            server.abort();
        }
    }
}
