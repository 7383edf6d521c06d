//! Objects on their way to the API server.

use anyhow::{Context as _, Result};
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde::Serialize;
use serde_json::json;
use whalezen_crds::kueue::v1beta2::Workload;

use super::problem::{Problem, name};

/// The workloads of a namespace.
pub fn workloads(client: &Client, namespace: &str) -> Api<Workload> {
    Api::namespaced(client.clone(), namespace)
}

/// Creates any object.
pub async fn create(client: &Client, object: &impl Serialize) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(serde_json::to_value(object)?)?;
    let types = object.types.clone().context("an object without a kind")?;
    let kind = GroupVersionKind::try_from(&types)?;
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let what = format!("creating {} {}", types.kind, object.metadata.name.clone().unwrap_or_default());
    api.create(&PostParams::default(), &object).await.context(what)?;
    Ok(())
}

/// Creates a namespace for a [placed](Problem::placed) problem, and its flavors and cohorts.
pub async fn flavors(client: &Client, namespace: &str, problem: &Problem) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    create(client, &namespace).await?;
    for flavor in &problem.flavors {
        create(client, flavor).await?;
    }
    for cohort in &problem.cohorts {
        create(client, cohort).await?;
    }
    Ok(())
}

/// Creates its `ClusterQueues`.
pub async fn cluster_queues(client: &Client, problem: &Problem) -> Result<()> {
    for queue in &problem.queues {
        create(client, queue).await?;
    }
    Ok(())
}

/// Creates its `LocalQueues`.
pub async fn local_queues(client: &Client, namespace: &str, problem: &Problem) -> Result<()> {
    for queue in &problem.queues {
        let cluster_queue = name(queue.metadata.name.as_ref());
        let local = json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
            "metadata": {
                "name": local_name(namespace, cluster_queue),
                "namespace": namespace,
            },
            "spec": {"clusterQueue": cluster_queue},
        });
        create(client, &local).await?;
    }
    Ok(())
}

/// The name of the `LocalQueue` for a placed `ClusterQueue`: the one that the queue has in the problem.
pub fn local_name<'a>(namespace: &str, cluster_queue: &'a str) -> &'a str {
    cluster_queue.strip_prefix(namespace).unwrap_or_default().trim_start_matches('-')
}
