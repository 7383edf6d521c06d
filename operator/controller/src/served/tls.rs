//! Connections over TLS.
//!
//! Handshakes are made beside each other and given up after a while, so that nobody who connects and says nothing keeps
//! others waiting. A client's certificate is asked for and need not be given; one that is given must be signed by the
//! front proxy's authority.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use rustls::{
    RootCertStore, ServerConfig,
    server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc, watch},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{certificate::Certificate, front_proxy::FrontProxy};

const HANDSHAKE: Duration = Duration::from_secs(10);
/// How many handshakes are made at once.
const HANDSHAKES: usize = 64;

type Stream = TlsStream<TcpStream>;

/// Who is at the other end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The common name of its certificate, if it showed one: the front proxy's authority vouches for it.
    pub common_name: Option<String>,
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        let (_, session) = stream.io().get_ref();
        let certificate = session.peer_certificates().and_then(|chain| chain.first());
        // One without a name is somebody, whom no list of allowed names has.
        Self { common_name: certificate.map(|certificate| common_name(certificate).unwrap_or_default()) }
    }
}

fn common_name(certificate: &[u8]) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let mut names = parsed.subject().iter_common_name();
    names.next()?.as_str().ok().map(ToOwned::to_owned)
}

/// Accepts connections.
pub struct TlsListener {
    accepted: mpsc::Receiver<(Stream, SocketAddr)>,
    address: io::Result<SocketAddr>,
}

impl TlsListener {
    /// Serves by the certificate that there is at the time; without one connections are closed.
    pub fn new(
        listener: TcpListener,
        certificate: watch::Receiver<Option<Certificate>>,
        front_proxy: watch::Receiver<Arc<FrontProxy>>,
    ) -> Self {
        let (to, accepted) = mpsc::channel(HANDSHAKES);
        let address = listener.local_addr();
        tokio::spawn(accept(listener, certificate, front_proxy, to));
        Self { accepted, address }
    }
}

impl Listener for TlsListener {
    type Io = Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Stream, SocketAddr) {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            // Nobody accepts any more: the process ends.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.address.as_ref().copied().map_err(|problem| io::Error::from(problem.kind()))
    }
}

async fn accept(
    listener: TcpListener,
    mut certificate: watch::Receiver<Option<Certificate>>,
    mut front_proxy: watch::Receiver<Arc<FrontProxy>>,
    to: mpsc::Sender<(Stream, SocketAddr)>,
) {
    let room = Arc::new(Semaphore::new(HANDSHAKES));
    let mut acceptor = None;
    loop {
        let Ok(turn) = Arc::clone(&room).acquire_owned().await else { return };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(problem) => {
                tracing::debug!("a connection was not accepted: {problem}");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let news = [certificate.has_changed(), front_proxy.has_changed()];
        if acceptor.is_none() || news.iter().any(|changed| matches!(changed, Ok(true))) {
            let certificate = certificate.borrow_and_update().clone();
            let front_proxy = Arc::clone(&front_proxy.borrow_and_update());
            acceptor = certificate.and_then(|certificate| match config(&certificate, &front_proxy) {
                Ok(config) => Some(TlsAcceptor::from(Arc::new(config))),
                Err(problem) => {
                    tracing::warn!("nothing can be served over TLS: {problem}");
                    None
                }
            });
        }
        let Some(acceptor) = acceptor.clone() else { continue };
        let to = to.clone();
        tokio::spawn(async move {
            match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => drop(to.send((stream, address)).await),
                Ok(Err(problem)) => tracing::debug!(%address, "no handshake: {problem}"),
                Err(_) => tracing::debug!(%address, "no handshake in time"),
            }
            drop(turn);
        });
    }
}

fn config(certificate: &Certificate, front_proxy: &FrontProxy) -> anyhow::Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    let (_, unusable) = roots.add_parsable_certificates(front_proxy.authorities.iter().cloned());
    if unusable > 0 {
        tracing::warn!("{unusable} of the front proxy's authorities cannot be used");
    }
    let verifier: Arc<dyn ClientCertVerifier> = if roots.is_empty() {
        Arc::new(NoClientAuth)
    } else {
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()?
    };
    let (chain, key) = certificate.parts()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests;
