//! Metrics over HTTP: `/metrics` for Prometheus, `/healthz` for the kubelet.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Deserialize;
use tokio::{net::TcpListener, sync::watch, time::sleep};

use super::{Names, Shown, text};
use crate::{sense::Sensed, view::View, xid::Xids};

/// The media type of Prometheus' text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// After how long an address that could not be had is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// Where the numbers come from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The node's name.
    pub node: Arc<str>,
    /// What is seen.
    pub view: watch::Receiver<View>,
    /// What was read.
    pub sensed: watch::Receiver<Sensed>,
    /// What GPUs reported.
    pub xids: watch::Receiver<Xids>,
}

/// How a reader wants it.
#[derive(Debug, Deserialize)]
struct Wish {
    /// `snake_case`, or nothing.
    labels: Option<String>,
}

/// What answers.
pub fn router(sources: Sources) -> Router {
    Router::new().route("/metrics", get(metrics)).route("/healthz", get(async || "ok")).with_state(sources)
}

/// Answers for as long as it is polled. Where the address cannot be had it is tried again: somebody else's exporter is no
/// reason for a node without an agent.
pub async fn serve(address: SocketAddr, sources: Sources) {
    let app = router(sources);
    loop {
        let ended = match TcpListener::bind(address).await {
            Ok(listener) => axum::serve(listener, app.clone()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::warn!(%address, %error, again = ?AGAIN, "metrics cannot be served");
        }
        sleep(AGAIN).await;
    }
}

async fn metrics(State(sources): State<Sources>, Query(wish): Query<Wish>) -> Response {
    let names = match wish.labels.as_deref() {
        None => Names::Dcgm,
        Some("snake_case") => Names::SnakeCase,
        Some(_) => return (StatusCode::BAD_REQUEST, "labels is snake_case or nothing\n").into_response(),
    };
    // Copies, so that nobody waits for the writing of the text.
    let (view, sensed) = (sources.view.borrow().clone(), sources.sensed.borrow().clone());
    let xids = sources.xids.borrow().clone();
    let shown = Shown { node: &sources.node, view: &view, sensed: &sensed, xids: &xids, now: Instant::now() };
    match text(shown, names) {
        Ok(text) => ([(header::CONTENT_TYPE, TEXT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
