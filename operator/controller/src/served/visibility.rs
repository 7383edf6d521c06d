//! `/apis/visibility.kueue.x-k8s.io`: who waits in a queue, in the order in which they are tried.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json, Router,
    extract::{ConnectInfo, Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::get,
};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use serde_json::json;
use whalezen_core::name::LocalQueueKey;
use whalezen_crds::visibility::{GROUP, VERSIONS};
use whalezen_dialects::kueue::visibility::{InQueue, Page};

use super::{Pages, front_proxy::Stranger, refusal, tls::Peer};
use crate::access::Pace;

/// How often the API server is asked who may read: it has let the callers in already.
pub const PACE: Pace = Pace { per_second: 20, burst: 100 };

type Asked = Query<BTreeMap<String, String>>;

/// Who asks, and for whom.
struct Caller {
    peer: Peer,
    headers: HeaderMap,
}

pub fn routes() -> Router<Arc<Pages>> {
    let group = format!("/apis/{GROUP}/{{version}}");
    Router::new()
        .route(&format!("{group}/clusterqueues/{{name}}/pendingworkloads"), get(of_cluster_queue))
        .route(
            &format!("{group}/namespaces/{{namespace}}/localqueues/{{name}}/pendingworkloads"),
            get(of_local_queue),
        )
}

async fn of_cluster_queue(
    State(pages): State<Arc<Pages>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Path((version, name)): Path<(String, String)>,
    Query(asked): Asked,
    headers: HeaderMap,
) -> Response {
    let attributes = attributes(&version, "clusterqueues", None, &name);
    let queue = InQueue::Cluster(name.into());
    answer(&pages, &Caller { peer, headers }, attributes, queue, &asked)
        .await
        .unwrap_or_else(|refused| refused)
}

async fn of_local_queue(
    State(pages): State<Arc<Pages>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Path((version, namespace, name)): Path<(String, String, String)>,
    Query(asked): Asked,
    headers: HeaderMap,
) -> Response {
    let attributes = attributes(&version, "localqueues", Some(&namespace), &name);
    let queue = InQueue::Local(LocalQueueKey::new(namespace, name));
    answer(&pages, &Caller { peer, headers }, attributes, queue, &asked)
        .await
        .unwrap_or_else(|refused| refused)
}

fn attributes(version: &str, resource: &str, namespace: Option<&str>, name: &str) -> ResourceAttributes {
    ResourceAttributes {
        group: Some(GROUP.to_owned()),
        version: Some(version.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: Some("pendingworkloads".to_owned()),
        verb: Some("get".to_owned()),
        namespace: namespace.map(ToOwned::to_owned),
        name: Some(name.to_owned()),
        ..ResourceAttributes::default()
    }
}

/// Nothing is looked up before it is known that the caller may, so that nobody learns whether something exists.
async fn answer(
    pages: &Pages,
    caller: &Caller,
    attributes: ResourceAttributes,
    queue: InQueue,
    asked: &BTreeMap<String, String>,
) -> Result<Response, Response> {
    let front_proxy = Arc::clone(&pages.front_proxy.borrow());
    let user = front_proxy.user(&caller.peer, &caller.headers).map_err(|stranger| {
        let problem = match stranger {
            Stranger::NotTheProxy => "only the API server's proxy is answered here: ask the API server",
            Stranger::Nobody => "the API server's proxy does not say for whom it asks",
        };
        refusal(StatusCode::UNAUTHORIZED, problem)
    })?;
    let version = attributes.version.clone().unwrap_or_default();
    let (resource, name) = (attributes.resource.clone(), attributes.name.clone());
    let permitted = pages.access.permits(user, attributes).await;
    permitted.map_err(|(code, problem)| refusal(code, problem))?;
    if !VERSIONS.contains(&version.as_str()) {
        return Err(refusal(StatusCode::NOT_FOUND, "there is no such version"));
    }
    let page = page(asked).map_err(|problem| refusal(StatusCode::BAD_REQUEST, &problem))?;
    let found = pages.asker.pending(queue, page).await;
    let found = found.ok_or_else(|| refusal(StatusCode::SERVICE_UNAVAILABLE, "busy: try again"))?;
    let items = found.ok_or_else(|| {
        let (resource, name) = (resource.unwrap_or_default(), name.unwrap_or_default());
        refusal(StatusCode::NOT_FOUND, &format!("{resource}.{GROUP} {name:?} not found"))
    })?;
    let summary = json!({
        "apiVersion": format!("{GROUP}/{version}"),
        "kind": "PendingWorkloadsSummary",
        "metadata": {},
        "items": items,
    });
    Ok(Json(summary).into_response())
}

fn page(asked: &BTreeMap<String, String>) -> Result<Page, String> {
    let number = |name: &str| match asked.get(name) {
        None => Ok(None),
        Some(text) => text.parse::<i64>().map(Some).map_err(|_| format!("{name} {text:?} is no number")),
    };
    Ok(Page::new(number("offset")?, number("limit")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&str, &str)]) -> Result<Page, String> {
        page(&pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    }

    #[test]
    fn a_page_has_kueues_bounds() {
        assert_eq!(asked(&[]), Ok(Page { offset: 0, limit: 1000 }));
        assert_eq!(asked(&[("offset", "3"), ("limit", "2")]), Ok(Page { offset: 3, limit: 2 }));
        assert_eq!(asked(&[("offset", "-3"), ("limit", "-2")]), Ok(Page { offset: 0, limit: 0 }));
        assert_eq!(asked(&[("limit", "9999999")]), Ok(Page { offset: 0, limit: 100_000 }));
        assert_eq!(asked(&[("limit", "many")]), Err("limit \"many\" is no number".to_owned()));
    }
}
