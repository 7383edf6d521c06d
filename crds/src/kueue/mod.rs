//! Kueue's API group, `kueue.x-k8s.io`.
//!
//! Names, shapes and limits are Kueue 0.19.2's, so that its manifests apply unchanged; a test compares the
//! definitions with those in Kueue's own module. The words are ours.

#![allow(
    clippy::doc_markdown,
    reason = "the docs are also the text of `kubectl explain`, where backticks are noise"
)]

pub mod constants;
pub mod v1beta1;
pub mod v1beta2;

use serde_json::{Value, json};

/// The path at which the operator converts objects, on the Service that is named in the definitions.
pub const CONVERSION_PATH: &str = "/convert";

/// The definitions of every kind, in both versions.
///
/// Only v1beta2 is stored: whoever uses that one depends on no conversion.
pub fn crds() -> Vec<Value> {
    let mut crds = v1beta2::crds();
    for crd in &mut crds {
        let kind = crd.pointer("/spec/names/kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(Value::Array(versions)) = crd.pointer_mut("/spec/versions")
            && let Some(version) = versions.first()
        {
            versions.push(v1beta1::of(&kind, version.clone()));
        }
        if v1beta1::CONVERTED.contains(&kind.as_str())
            && let Some(Value::Object(spec)) = crd.get_mut("spec")
        {
            spec.insert("conversion".to_owned(), conversion());
        }
    }
    crds
}

/// How the API server has objects converted: by the operator, whose certificate's authority is patched in.
fn conversion() -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {
                "service": {
                    "namespace": "whalezen-system",
                    "name": "whalezen-operator",
                    "path": CONVERSION_PATH,
                    "port": 443,
                },
            },
        },
    })
}
