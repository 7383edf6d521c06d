//! Connections of all sorts, over a real socket.

use std::net::Ipv4Addr;

use axum::{Router, extract::ConnectInfo, routing::get};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use super::*;

const NAME: &str = "operator.system.svc";

fn certificate(before: Option<&Certificate>) -> Certificate {
    let now = jiff::Timestamp::now();
    Certificate::make(vec![NAME.to_owned()], Duration::from_hours(1), now, before).unwrap()
}

/// Signs certificates of clients.
struct Authority(Issuer<'static, KeyPair>, CertificateDer<'static>);

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    Authority(Issuer::new(params, key), certificate)
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Authority {
    fn signs(&self, name: &str) -> Identity {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap().der().clone();
        (vec![certificate], PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap())
    }
}

/// A server that tells each who it is.
struct Server {
    address: SocketAddr,
    certificate: watch::Sender<Option<Certificate>>,
    _front_proxy: watch::Sender<Arc<FrontProxy>>,
}

async fn server(first: Option<Certificate>, front_proxy: &Authority) -> Server {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (certificate, is_certificate) = watch::channel(first);
    let mut known = FrontProxy::default();
    known.authorities.push(front_proxy.1.clone());
    let (known, is_known) = watch::channel(Arc::new(known));
    let listener = TlsListener::new(listener, is_certificate, is_known);
    let who = async |ConnectInfo(peer): ConnectInfo<Peer>| format!("{:?}", peer.common_name);
    let service = Router::new().route("/", get(who)).into_make_service_with_connect_info::<Peer>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    Server { address, certificate, _front_proxy: known }
}

/// Who a client is told that it is.
async fn told(server: &Server, trusts: &Certificate, identity: Option<Identity>) -> Result<String, String> {
    let mut roots = RootCertStore::empty();
    let bundle = CertificateDer::pem_slice_iter(trusts.authorities.as_bytes()).map(Result::unwrap);
    roots.add_parsable_certificates(bundle);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match identity {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
        None => config.with_no_client_auth(),
    };
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from(NAME).unwrap();
    let asked = async {
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = asked.await.map_err(|problem| problem.to_string())?;
    Ok(answer.rsplit("\r\n").next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_client_is_who_the_front_proxys_authority_says_or_nobody() {
    let (front_proxy, own) = (authority(), certificate(None));
    let server = server(Some(own.clone()), &front_proxy).await;
    assert_eq!(told(&server, &own, None).await.unwrap(), "None");
    assert_eq!(told(&server, &own, Some(front_proxy.signs("front"))).await.unwrap(), "Some(\"front\")");
    let stranger = told(&server, &own, Some(authority().signs("front"))).await;
    assert!(stranger.as_ref().is_err_and(|problem| problem.contains("alert")), "{stranger:?}");
    assert_eq!(told(&server, &own, None).await.unwrap(), "None", "and the next is served");
}

#[tokio::test]
async fn a_new_certificate_is_served_at_once_and_trusted_by_who_trusts_its_bundle() {
    let (front_proxy, first) = (authority(), certificate(None));
    let server = server(None, &front_proxy).await;
    assert!(told(&server, &first, None).await.is_err(), "nothing is served without a certificate");
    server.certificate.send_replace(Some(first.clone()));
    assert!(told(&server, &first, None).await.is_ok());
    let second = certificate(Some(&first));
    assert!(
        told(&server, &second, None).await.is_ok(),
        "a replica that still serves by the first is trusted"
    );
    server.certificate.send_replace(Some(second.clone()));
    assert!(told(&server, &second, None).await.is_ok());
    let outdated = told(&server, &first, None).await;
    assert!(outdated.as_ref().is_err_and(|problem| problem.contains("UnknownIssuer")), "{outdated:?}");
}

#[tokio::test]
async fn who_connects_and_says_nothing_or_nonsense_keeps_nobody_waiting() {
    let (front_proxy, own) = (authority(), certificate(None));
    let server = server(Some(own.clone()), &front_proxy).await;
    let mut silent = Vec::new();
    for _ in 0..HANDSHAKES / 2 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    let mut rude = TcpStream::connect(server.address).await.unwrap();
    rude.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let told = timeout(Duration::from_secs(5), told(&server, &own, None)).await;
    assert_eq!(told.unwrap().unwrap(), "None");
}
