//! The quick start's jobs, with their days scaled to seconds.
//!
//! The manifests know nothing of the demo: they are rendered as they are, and only what is sent to this cluster
//! gets the annotation that tells the simulated nodes how long a pod runs.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use whalezen_e2e::{Cluster, DURATION_ANNOTATION, manifests};

/// A kind of job of the source document: how its name starts, how long it runs there, how long it runs here.
struct Scale {
    prefix: &'static str,
    there: &'static str,
    here: Duration,
}

const SCALES: [Scale; 3] = [
    Scale { prefix: "a-", there: "7 days", here: Duration::from_secs(10) },
    Scale { prefix: "b-", there: "12 hours", here: Duration::from_secs(5) },
    Scale { prefix: "c-", there: "some hours", here: Duration::from_secs(3) },
];

/// How long a job runs here.
pub fn duration(job: &str) -> Duration {
    SCALES
        .iter()
        .find(|scale| job.starts_with(scale.prefix))
        .map_or(Duration::from_secs(1), |scale| scale.here)
}

/// `7 days as 10 s, 12 hours as 5 s, ...`
pub fn scales() -> String {
    let each = SCALES.iter().map(|scale| format!("{} as {} s", scale.there, scale.here.as_secs()));
    each.collect::<Vec<_>>().join(", ")
}

/// What is submitted.
pub struct Jobs {
    documents: String,
    pub count: usize,
}

/// Renders the jobs' manifests and scales them.
pub async fn render(cluster: &Cluster) -> Result<Jobs> {
    let folder = manifests("examples/quickstart/jobs");
    let folder = folder.to_str().context("the repository's path is not UTF-8")?;
    let rendered = cluster.kubectl(&["kustomize", folder]).await?;
    let mut objects: Vec<Value> =
        serde_saphyr::from_multiple(&rendered).context("kustomize printed no YAML")?;
    let mut count = 0;
    for job in objects.iter_mut().filter(|object| object["kind"] == "Job") {
        scale(job);
        count += 1;
    }
    // JSON documents are YAML documents.
    let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
    Ok(Jobs { documents: documents.join("\n---\n"), count })
}

/// Submits them all at once, as a user's `kubectl apply -k` does.
pub async fn submit(cluster: &Cluster, jobs: &Jobs) -> Result<()> {
    cluster.kubectl_apply_stdin(&jobs.documents).await.context("the jobs")?;
    Ok(())
}

fn scale(job: &mut Value) {
    let name = job.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let seconds = duration(name).as_secs();
    let annotation = json!({ DURATION_ANNOTATION: format!("{seconds}s") });
    let Some(template) = job.pointer_mut("/spec/template").and_then(Value::as_object_mut) else { return };
    let metadata = template.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("annotations".to_owned(), annotation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_scaled_by_an_annotation_of_its_pods_and_nothing_else_of_it_changes() {
        let job = |metadata: Value| {
            json!({"kind": "Job", "metadata": {"name": "b-finetune"},
                   "spec": {"template": {"metadata": metadata, "spec": {"restartPolicy": "Never"}}}})
        };
        let mut scaled = job(json!({"labels": {"team": "x"}}));
        scale(&mut scaled);
        assert_eq!(
            scaled,
            job(json!({"labels": {"team": "x"}, "annotations": {"whalezen.dev/duration": "5s"}}))
        );
    }
}
