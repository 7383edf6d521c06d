//! What is served over HTTPS: conversions between the versions of Kueue's kinds, which the API server asks for, and
//! `visibility.kueue.x-k8s.io`, to which it passes on what people ask of it.
//!
//! | module | what it does |
//! |---|---|
//! | [`certificate`] | makes a certificate, and knows when it is to be replaced |
//! | [`keeper`] | keeps it in a Secret that all replicas share, and its authority where the API server looks for it |
//! | [`tls`] | connections |
//! | [`front_proxy`] | whether the API server itself is calling, and for whom |
//! | [`conversion`] | `/convert` |
//! | [`visibility`] | `/apis/visibility.kueue.x-k8s.io` |
//! | [`discovery`] | what there is under `/apis` |
//!
//! Every replica serves, whether it leads or not.

mod certificate;
mod conversion;
mod discovery;
mod front_proxy;
mod keeper;
mod tls;
mod visibility;

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use axum::{
    Json, Router,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use kube::Client;
use serde_json::json;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};
use whalezen_crds::kueue::CONVERSION_PATH;

use self::{front_proxy::FrontProxy, keeper::Keeper, tls::TlsListener};
use crate::{access::Access, questions::Asker};

/// What the listener is made from.
pub struct Serving {
    /// Where to listen.
    pub address: SocketAddr,
    /// The namespace of the Service and of the Secret.
    pub namespace: String,
    /// The Service's name.
    pub service: String,
    /// For how long a certificate is made.
    pub certificate_life: Duration,
    /// The API server.
    pub client: Client,
    /// Where the engine is asked.
    pub asker: Asker,
}

/// What answers are made from.
struct Pages {
    asker: Asker,
    access: Access,
    front_proxy: watch::Receiver<Arc<FrontProxy>>,
    converters: Semaphore,
}

/// Binds at once, so that a port in use is an error at the start, and returns what is to be run.
pub async fn serve(serving: Serving) -> anyhow::Result<impl Future<Output = ()>> {
    let Serving { address, namespace, service, certificate_life, client, asker } = serving;
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot serve on {address}"))?;
    let (front_proxy, is_front_proxy) = watch::channel(Arc::default());
    let (certificate, is_certificate) = watch::channel(None);
    let listener = TlsListener::new(listener, is_certificate, is_front_proxy.clone());
    let pages = Pages {
        asker,
        access: Access::new(client.clone(), &visibility::PACE),
        front_proxy: is_front_proxy,
        converters: Semaphore::new(conversion::AT_ONCE),
    };
    let router = Router::new()
        .route(CONVERSION_PATH, post(conversion::convert))
        .route("/healthz", get(|| async { "ok" }))
        .merge(discovery::routes())
        .merge(visibility::routes())
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "there is nothing here") })
        .with_state(Arc::new(pages));
    let keeper = Keeper::new(client.clone(), &namespace, &service, certificate_life);
    Ok(async move {
        let service = router.into_make_service_with_connect_info::<tls::Peer>();
        tokio::join!(
            async {
                if let Err(problem) = axum::serve(listener, service).await {
                    tracing::error!("the HTTPS server ended: {problem}");
                }
            },
            keeper.run(certificate),
            front_proxy::follow(client, front_proxy),
        );
    })
}

/// An error as Kubernetes' clients read it.
fn refusal(code: StatusCode, message: &str) -> Response {
    let reason = match code {
        StatusCode::BAD_REQUEST => "BadRequest",
        StatusCode::UNAUTHORIZED => "Unauthorized",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::PAYLOAD_TOO_LARGE => "RequestEntityTooLarge",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = json!({
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code.as_u16(),
    });
    (code, Json(status)).into_response()
}
