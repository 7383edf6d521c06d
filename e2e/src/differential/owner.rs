//! The part of a workload's owner, which Kueue's harness plays too: it lets go what was evicted, and it ends.

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use whalezen_crds::kueue::constants::condition;
use whalezen_crds::kueue::v1beta2::Workload;

use super::objects::workloads;

/// Who owns `status.admission` and the conditions around it.
const ADMISSION_OWNER: &str = "kueue-admission";
/// Who says that a workload is over.
const FINISH_OWNER: &str = "kueue-job-controller-Finished";

/// The workload is over.
pub async fn finish(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let finished = is(condition::FINISHED, "True", "ByTest", "its script says so", now());
    apply(client, FINISH_OWNER, namespace, name, &json!({"conditions": [finished]})).await
}

/// The pods of an evicted workload are gone: its quota is given back. Everything else in its status stays.
pub async fn let_go(client: &Client, workload: &Workload) -> Result<()> {
    let (Some(name), Some(namespace)) = (&workload.metadata.name, &workload.metadata.namespace) else {
        return Ok(());
    };
    let mut status = serde_json::to_value(workload.status.clone().unwrap_or_default())?;
    let now = now();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("admission");
    }
    for old in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let kind = old.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if kind == condition::QUOTA_RESERVED {
            *old = is(&kind, "False", "Pending", "let go by its owner", now);
        } else if kind == condition::ADMITTED {
            *old = is(&kind, "False", "NoReservation", "The workload has no reservation", now);
        }
    }
    apply(client, ADMISSION_OWNER, namespace, name, &status).await
}

fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

fn is(kind: &str, status: &str, reason: &str, message: &str, since: Timestamp) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since.to_string(),
    })
}

async fn apply(client: &Client, owner: &str, namespace: &str, name: &str, status: &Value) -> Result<()> {
    let object = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace}, "status": status,
    });
    let how = PatchParams::apply(owner).force();
    let applied = workloads(client, namespace).patch_status(name, &how, &Patch::Apply(&object)).await;
    applied.with_context(|| format!("writing the status of {namespace}/{name}"))?;
    Ok(())
}
