//! A cluster of another kind: without admission policies, and with definitions that let anything in.

use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::ground::{Ground, QUEUE, Site, condition, is};
use crate::objects::{GPU, cluster_queue, flavor, in_queue, job, kueue, local_queue};

const MANAGED: &str = "kueue.x-k8s.io/managed";

async fn apart() -> Arc<Site> {
    static SITE: OnceCell<Arc<Site>> = OnceCell::const_new();
    Arc::clone(SITE.get_or_init(|| Site::start(4, false)).await)
}

#[tokio::test]
async fn where_the_policies_are_absent_the_reconciler_suspends() {
    let ground = Ground::bare(&apart().await, "no-policies").await;
    ground.queues(2).await;
    let created = ground.create(job("first", 1, 2, None)).await;
    assert_ne!(created["spec"]["suspend"], true, "there is no policy here");
    let workload = ground.admitted("first").await;
    assert_eq!(workload["spec"]["queueName"], QUEUE);
    ground.runs("first").await;
    ground.create(job("second", 1, 2, None)).await;
    ground.waits("second", "WaitingForQuota").await;
    ground.sees("Job", "second", "is suspended", |job| job["spec"]["suspend"] == true).await;
    ground.until("the end of its pods", async || ground.pods("second").await.is_empty()).await;
    ground.delete("Job", "first").await;
    let job = ground.runs("second").await;
    assert_eq!(job["status"]["failed"].as_u64().unwrap_or_default(), 0, "{job:#}");
    // Without a queue name nobody touches it.
    let mut free = job_without_queue("free");
    free["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
    ground.create(free).await;
    ground.runs("free").await;
}

#[tokio::test]
async fn a_pod_that_somebody_hides_is_shown_again_and_holds_its_quota_until_it_is_gone() {
    let ground = Ground::bare(&apart().await, "no-policies-hidden").await;
    ground.queues(3).await;
    let gated = |name: &str, group: bool| {
        let requests = json!({ "limits": { GPU: 1 }, "requests": { GPU: 1 } });
        let mut labels = json!({ "kueue.x-k8s.io/queue-name": QUEUE, MANAGED: "true" });
        let mut annotations = json!({});
        if group {
            labels["kueue.x-k8s.io/pod-group-name"] = json!("team");
            annotations["kueue.x-k8s.io/pod-group-total-count"] = json!("2");
        }
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "labels": labels, "annotations": annotations, "finalizers": [MANAGED] },
            "spec": {
                "schedulingGates": [{ "name": "kueue.x-k8s.io/admission" }],
                "containers": [{ "name": "train", "image": "train", "resources": requests }],
            },
        })
    };
    let names = ["alone", "a", "b"];
    for name in names {
        ground.create(gated(name, name != "alone")).await;
    }
    for name in names {
        ground.sees("Pod", name, "runs", |pod| pod["spec"]["nodeName"].is_string()).await;
    }
    ground.counts("no-policies-hidden", 0, 2, 3).await;
    let hidden = json!({ "metadata": { "labels": { MANAGED: null } } });
    for name in names {
        ground.patch("Pod", name, hidden.clone()).await;
    }
    for name in names {
        ground.sees("Pod", name, "is shown again", |pod| pod["metadata"]["labels"][MANAGED] == "true").await;
    }
    ground.counts("no-policies-hidden", 0, 2, 3).await;
    for name in names {
        ground.delete("Pod", name).await;
        ground.patch("Pod", name, hidden.clone()).await;
    }
    for name in names {
        ground.gone("Pod", name).await;
    }
    ground.counts("no-policies-hidden", 0, 0, 0).await;
}

fn job_without_queue(name: &str) -> Value {
    let mut job = job(name, 1, 1, None);
    job["metadata"]["labels"] = json!({});
    job
}

/// Lets a definition accept anything.
async fn relax(ground: &Ground, plural: &str) {
    // The fields that can be selected must stay.
    let open = |properties: Value| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": properties});
    let admission = open(json!({"clusterQueue": {"type": "string"}}));
    let schema = open(json!({"spec": open(json!({})), "status": open(json!({"admission": admission}))}));
    let operations =
        json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema}]);
    let patch: Patch<Value> = Patch::Json(serde_json::from_value(operations).unwrap());
    let name = format!("{plural}.kueue.x-k8s.io");
    ground.api("CustomResourceDefinition").patch(&name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn objects_that_cannot_be_read_are_told_and_neither_stop_the_watch_nor_a_restart() {
    let site = apart().await;
    let ground = Ground::bare(&site, "unreadable").await;
    ground.queues(2).await;
    ground.apply(&cluster_queue("unreadable-later", "unreadable", 1)).await;
    ground.apply(&local_queue("unreadable", "later", "unreadable-later")).await;
    ground.create(in_queue(job("holds", 1, 1, None), "later")).await;
    ground.runs("holds").await;

    for plural in ["clusterqueues", "workloads", "localqueues", "resourceflavors", "cohorts"] {
        relax(&ground, plural).await;
    }
    let nonsense = json!({"spec": {"resourceGroups": "all of them", "queueingStrategy": 7}});
    let bad_queue = kueue("ClusterQueue", "unreadable-new", nonsense.clone());
    // The API server takes note of a definition after a moment.
    ground.until("the open definitions", async || ground.try_apply(&bad_queue).await.is_ok()).await;
    let message = ground.is_inactive("unreadable-new", "InvalidSpec").await;
    assert!(message.contains("cannot be read"), "{message}");
    let bad_workload = kueue("Workload", "bad", json!({"spec": {"queueName": QUEUE, "podSets": "many"}}));
    ground.until("the open definitions", async || ground.try_apply(&bad_workload).await.is_ok()).await;
    let told = |workload: &Value| {
        condition(workload, "QuotaReserved")
            .is_some_and(|c| c["status"] == "False" && c["reason"] == "Misconfigured")
    };
    let bad = ground.sees("Workload", "bad", "is told", told).await;
    let message = condition(&bad, "QuotaReserved").unwrap()["message"].to_string();
    assert!(message.contains("cannot be read"), "{message}");
    let bad_local = {
        let mut queue = local_queue("unreadable", "bad-local", "unreadable");
        queue["spec"] = json!({"clusterQueue": {"name": "unreadable"}});
        queue
    };
    ground.until("the open definitions", async || ground.try_apply(&bad_local).await.is_ok()).await;
    ground.told("LocalQueue", "bad-local", "Unreadable", "cannot be read").await;
    let mut bad_flavor = flavor("unreadable-flavor");
    bad_flavor["spec"] = json!({"nodeLabels": ["not", "a", "map"]});
    ground.until("the open definitions", async || ground.try_apply(&bad_flavor).await.is_ok()).await;
    let bad_cohort = kueue("Cohort", "unreadable-cohort", json!({"spec": {"parentName": 5}}));
    ground.until("the open definitions", async || ground.try_apply(&bad_cohort).await.is_ok()).await;

    // A queue in use becomes unreadable: what it gave stays given, and nobody is let in.
    ground.patch("ClusterQueue", "unreadable-later", nonsense).await;
    let message = ground.is_inactive("unreadable-later", "InvalidSpec").await;
    assert!(message.contains("cannot be read"), "{message}");
    ground.create(in_queue(job("waits", 1, 1, None), "later")).await;
    ground.waits("waits", "Suspended").await;
    assert_eq!(ground.get("Job", "holds").await.unwrap()["spec"]["suspend"], false);

    // Everybody else goes on, before and after a restart.
    ground.create(job("before", 1, 2, Some("100ms"))).await;
    ground.finished("before", "Succeeded").await;
    {
        let mut replicas = site.replicas.lock().await;
        replicas.kill_all().unwrap();
        replicas.start_another(&site.cluster).unwrap();
        replicas.start_another(&site.cluster).unwrap();
    }
    site.note_logs().await;
    // Suspended by its author: nobody else would do it while no replica leads.
    let mut after = job("after", 1, 2, Some("100ms"));
    after["spec"]["suspend"] = json!(true);
    ground.create(after).await;
    ground.finished("after", "Succeeded").await;

    // Put right, they work like any other.
    ground.apply(&cluster_queue("unreadable-new", "unreadable", 1)).await;
    ground.is_active("unreadable-new").await;
    let group = json!([{"coveredResources": [GPU], "flavors": [
        {"name": "unreadable", "resources": [{"name": GPU, "nominalQuota": 2}]}]}]);
    let spec = json!({"resourceGroups": group, "queueingStrategy": "BestEffortFIFO"});
    ground.patch("ClusterQueue", "unreadable-later", json!({"spec": spec})).await;
    ground.runs("waits").await;
    assert!(!is(&ground.get("Workload", "bad").await.unwrap(), "Admitted"));
}
