//! What is served: `/metrics`, `/healthz` and `/readyz` to everybody, and to those who may read Workloads why one waits
//! (`/explain/NAMESPACE/NAME`), everything that decisions are made from (`/snapshot`), the decision log (`/decisions`)
//! and, where another scheduler decides, how plans compare with what it does (`/observe`).

use std::{future::Future, net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::Context;
use axum::{
    Router,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use jiff::Timestamp;
use serde::Deserialize;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::spawn_blocking,
};
use whalezen_core::name::WorkloadKey;

use crate::{
    access::{Access, Pace, Refusal},
    log::{Wanted, wanted},
    metrics::Metrics,
    questions::Asker,
};

const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
/// How many decisions are shown to who does not say, and at most.
const SHOWN: usize = 1000;
const MOST: usize = 100_000;
const BUSY: Refusal = (StatusCode::SERVICE_UNAVAILABLE, "busy: try again");

/// How often the API server is asked who may read.
pub const PACE: Pace = Pace { per_second: 5, burst: 20 };

/// What pages are made from.
pub struct Pages {
    /// What was counted.
    pub metrics: Arc<Metrics>,
    /// Where the engine is asked.
    pub asker: Asker,
    /// Who may read.
    pub access: Access,
    /// Whether everything was seen once.
    pub ready: watch::Receiver<bool>,
    /// Where the decision log is, if one is kept.
    pub log: Option<PathBuf>,
    /// How many more may read it at once: it is large.
    pub readers: Semaphore,
}

/// Binds at once, so that a port in use is an error at the start, and returns the server to be run.
pub async fn serve(address: SocketAddr, pages: Pages) -> anyhow::Result<impl Future<Output = ()>> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot serve on {address}"))?;
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readiness))
        .route("/snapshot", get(snapshot))
        .route("/decisions", get(decisions))
        .route("/observe", get(observed))
        .route("/explain/{namespace}/{name}", get(explain))
        .with_state(Arc::new(pages));
    Ok(async move {
        if let Err(problem) = axum::serve(listener, router).await {
            tracing::error!("the server ended: {problem}");
        }
    })
}

async fn readiness(State(pages): State<Arc<Pages>>) -> Refusal {
    if *pages.ready.borrow() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not synced yet")
    }
}

async fn metrics(State(pages): State<Arc<Pages>>) -> Result<Response, Refusal> {
    let gauges = pages.asker.gauges().await.ok_or(BUSY)?;
    Ok(([(CONTENT_TYPE, TEXT_FORMAT)], pages.metrics.text(&gauges)).into_response())
}

/// For those who may list the Workloads of all namespaces.
async fn snapshot(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Result<Response, Refusal> {
    pages.access.check(&headers, "list", None, None).await?;
    let snapshot = pages.asker.snapshot().await.ok_or(BUSY)?;
    // There may be a lot of it, and the engine is not to wait.
    let text = spawn_blocking(move || serde_json::to_string(&snapshot)).await;
    let text = text.ok().and_then(Result::ok).ok_or(BUSY)?;
    Ok(([(CONTENT_TYPE, JSON)], text).into_response())
}

/// For those who may get this Workload.
async fn explain(
    State(pages): State<Arc<Pages>>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    pages.access.check(&headers, "get", Some(&namespace), Some(&name)).await?;
    let answer = pages.asker.explain(WorkloadKey::new(namespace, name)).await.ok_or(BUSY)?;
    let explanation = answer.ok_or((StatusCode::NOT_FOUND, "there is no such Workload"))?;
    let text = serde_json::to_string(&explanation).map_err(|_| BUSY)?;
    Ok(([(CONTENT_TYPE, JSON)], text).into_response())
}

/// What of the decision log is asked for.
#[derive(Deserialize)]
struct Asked {
    namespace: Option<String>,
    since: Option<Timestamp>,
    limit: Option<usize>,
}

/// The last decisions, the newest at the end: all for those who may list the Workloads of all namespaces, and for those
/// who may list those of one what is about that one.
async fn decisions(
    State(pages): State<Arc<Pages>>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let sees_all = pages.access.check(&headers, "list", None, None).await;
    if let Err(refusal) = sees_all {
        let namespace = asked.namespace.as_deref().filter(|_| refusal.0 == StatusCode::FORBIDDEN);
        let Some(namespace) = namespace else { return Err(refusal) };
        pages.access.check(&headers, "list", Some(namespace), None).await?;
    }
    let folder = pages.log.clone().ok_or((StatusCode::NOT_FOUND, "no decision log is kept here"))?;
    let limit = asked.limit.unwrap_or(SHOWN).min(MOST);
    let what = Wanted { namespace: asked.namespace, sees_all: sees_all.is_ok(), since: asked.since, limit };
    let _turn = pages.readers.acquire().await.map_err(|_| BUSY)?;
    let read = spawn_blocking(move || wanted(&folder, &what)).await.map_err(|_| BUSY)?;
    let text = read.map_err(|problem| {
        tracing::warn!("the decision log cannot be read: {problem}");
        (StatusCode::INTERNAL_SERVER_ERROR, "the decision log cannot be read")
    })?;
    Ok(([(CONTENT_TYPE, LINES)], text).into_response())
}

/// For those who may list the Workloads of all namespaces.
async fn observed(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Result<Response, Refusal> {
    pages.access.check(&headers, "list", None, None).await?;
    let answer = pages.asker.observed().await.ok_or(BUSY)?;
    let summary =
        answer.ok_or((StatusCode::NOT_FOUND, "this operator decides: it was not started with --observe"))?;
    let text = serde_json::to_string(&summary).map_err(|_| BUSY)?;
    Ok(([(CONTENT_TYPE, JSON)], text).into_response())
}
