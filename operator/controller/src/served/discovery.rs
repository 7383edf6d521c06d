//! What there is under `/apis`: the documents by which clients find `visibility.kueue.x-k8s.io`.
//!
//! They are the same for everybody and say nothing of anybody, so everybody may read them.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::Path,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};
use whalezen_crds::visibility::{GROUP, VERSIONS};

use super::{Pages, refusal};

/// The `APIService`s by which the API server passes requests on.
pub const SERVICES: [&str; 2] = ["v1beta2.visibility.kueue.x-k8s.io", "v1beta1.visibility.kueue.x-k8s.io"];

pub fn routes() -> Router<Arc<Pages>> {
    Router::new()
        .route("/apis", get(|| async { Json(groups()) }))
        .route(&format!("/apis/{GROUP}"), get(|| async { Json(group()) }))
        .route(&format!("/apis/{GROUP}/{{version}}"), get(resources))
}

fn groups() -> Value {
    json!({ "apiVersion": "v1", "kind": "APIGroupList", "groups": [group()] })
}

fn group() -> Value {
    let version = |version: &str| json!({ "groupVersion": format!("{GROUP}/{version}"), "version": version });
    let versions = VERSIONS.map(version);
    let preferred = versions.first();
    json!({
        "apiVersion": "v1", "kind": "APIGroup", "name": GROUP, "versions": versions, "preferredVersion": preferred,
    })
}

async fn resources(Path(version): Path<String>) -> Response {
    if !VERSIONS.contains(&version.as_str()) {
        return refusal(StatusCode::NOT_FOUND, "there is no such version");
    }
    let queue = |kind: &str, namespaced: bool| {
        let singular = kind.to_lowercase();
        let plural = format!("{singular}s");
        let summary = "PendingWorkloadsSummary";
        [
            json!({
                "name": plural, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": [],
            }),
            json!({
                "name": format!("{plural}/pendingworkloads"), "singularName": "", "namespaced": namespaced,
                "kind": summary, "verbs": ["get"],
            }),
        ]
    };
    let resources = [queue("ClusterQueue", false), queue("LocalQueue", true)].concat();
    Json(json!({
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "groupVersion": format!("{GROUP}/{version}"),
        "resources": resources,
    }))
    .into_response()
}
