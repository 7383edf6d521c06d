//! What pods count for, and jobs that hold less than they asked for.

use serde_json::{Value, json};

use crate::{
    ground::{Ground, QUEUE, text},
    objects::{A100, GPU, PRODUCT, job, kueue, local_queue},
};

const LEAST: &str = "kueue.x-k8s.io/job-min-parallelism";
const SYNC: &str = "kueue.x-k8s.io/job-completions-equal-parallelism";

/// A place whose queue has this much `cpu` of nodes with GPUs.
async fn cpus(name: &str, cpu: &str) -> Ground {
    let ground = Ground::empty(name).await;
    ground.apply(&crate::objects::flavor(name)).await;
    let group = json!({
        "coveredResources": ["cpu"],
        "flavors": [{ "name": name, "resources": [{ "name": "cpu", "nominalQuota": cpu }] }],
    });
    ground
        .apply(&kueue(
            "ClusterQueue",
            name,
            json!({ "spec": { "namespaceSelector": {}, "resourceGroups": [group] } }),
        ))
        .await;
    ground.apply(&local_queue(name, QUEUE, name)).await;
    ground.is_active(name).await;
    ground
}

/// A Job of so many pods with these resources.
fn plain(name: &str, pods: u32, resources: &Value) -> Value {
    let mut job = job(name, pods, 1, None);
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = resources.clone();
    job
}

fn limit_range(name: &str, limits: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": name }, "spec": { "limits": [limits] } })
}

fn usage(workload: &Value) -> &Value {
    &workload["status"]["admission"]["podSetAssignments"][0]["resourceUsage"]
}

#[tokio::test]
async fn pods_are_charged_with_what_their_namespace_and_their_runtime_class_add() {
    let ground = cpus("totals", "10").await;
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "totals" },
        "handler": "runc", "overhead": { "podFixed": { "cpu": "250m" } },
    });
    ground.apply(&class).await;
    ground
        .apply(&limit_range(
            "defaults",
            &json!({ "type": "Container", "default": { "cpu": "2" }, "defaultRequest": { "cpu": "1" } }),
        ))
        .await;
    let mut sandboxed = plain("sandboxed", 2, &json!({}));
    sandboxed["spec"]["template"]["spec"]["runtimeClassName"] = json!("totals");
    ground.create(sandboxed).await;
    let workload = ground.admitted("sandboxed").await;
    assert_eq!(*usage(&workload), json!({ "cpu": "2500m" }));
    ground.runs("sandboxed").await;
    for pod in ground.pods("sandboxed").await {
        assert_eq!(
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1",
            "as the API server says"
        );
        assert_eq!(pod["spec"]["overhead"]["cpu"], "250m");
    }

    ground.create(plain("greedy", 1, &json!({ "requests": { "cpu": "8" }, "limits": { "cpu": "8" } }))).await;
    ground.waits("greedy", "WaitingForQuota").await;
    ground.apply(&limit_range("most", &json!({ "type": "Pod", "max": { "cpu": "4" } }))).await;
    let message = ground.waits("greedy", "Misconfigured").await;
    let says = "resources didn't satisfy LimitRange constraints: spec.podSets[0].template.spec: \
                Invalid value: [\"cpu\"]: requests must not be above the limitRange max";
    assert_eq!(message, says);
    ground.delete("LimitRange", "most").await;
    ground.delete("Job", "sandboxed").await;
    let workload = ground.admitted("greedy").await;
    assert_eq!(*usage(&workload), json!({ "cpu": "8" }));
}

#[tokio::test]
async fn pods_that_have_done_their_work_make_room_for_the_next_job() {
    let ground = Ground::new("reclaim", 4).await;
    ground.create(job("first", 4, 1, None)).await;
    ground.runs("first").await;
    ground.create(job("second", 1, 2, Some("200ms"))).await;
    ground.waits("second", "WaitingForQuota").await;
    for pod in ground.pods("first").await.iter().take(2) {
        let ends = json!({ "metadata": { "annotations": { whalezen_e2e::DURATION_ANNOTATION: "100ms" } } });
        ground.patch("Pod", text(pod, "/metadata/name"), ends).await;
    }
    ground.finished("second", "Succeeded").await;
    let first = ground.workload("first", "tells what is done", |workload| {
        workload["status"]["reclaimablePods"] == json!([{ "name": "main", "count": 2 }])
    });
    assert_eq!(*usage(&first.await), json!({ GPU: "4" }), "what was given is on record");
    ground.counts("reclaim", 0, 1, 2).await;
}

#[tokio::test]
async fn a_job_that_makes_do_with_fewer_pods_starts_with_those_that_fit_and_asks_for_all_again() {
    let ground = Ground::new("partial", 4).await;
    ground.create(job("holder", 1, 1, None)).await;
    ground.admitted("holder").await;
    let mut modest = job("modest", 6, 1, None);
    modest["spec"]["completionMode"] = json!("Indexed");
    modest["metadata"]["annotations"] = json!({ LEAST: "2", SYNC: "true" });
    ground.create(modest).await;
    let running = ground.runs("modest").await;
    assert_eq!((&running["spec"]["parallelism"], &running["spec"]["completions"]), (&json!(3), &json!(3)));
    assert_eq!(running["spec"]["template"]["spec"]["nodeSelector"][PRODUCT], A100);
    let workload = ground.admitted("modest").await;
    let given = &workload["status"]["admission"]["podSetAssignments"][0];
    assert_eq!((&given["count"], usage(&workload)), (&json!(3), &json!({ GPU: "3" })));
    let asked = &workload["spec"]["podSets"][0];
    assert_eq!((&asked["count"], &asked["minCount"]), (&json!(6), &json!(2)));
    ground.counts("partial", 0, 2, 4).await;

    let name = text(&workload, "/metadata/name").to_owned();
    ground.patch("Workload", &name, json!({ "spec": { "active": false } })).await;
    let stopped = |job: &Value| job["spec"]["suspend"] == true && job["spec"]["parallelism"] == 6;
    let stopped = ground.sees("Job", "modest", "is stopped and asks for all", stopped).await;
    assert_eq!(stopped["spec"]["completions"], 6);
    ground.delete("Job", "holder").await;
    ground.counts("partial", 0, 0, 0).await;
    ground.patch("Workload", &name, json!({ "spec": { "active": true } })).await;
    let again = ground.runs("modest").await;
    assert_eq!(again["spec"]["parallelism"], 4);
}

#[tokio::test]
async fn an_elastic_job_grows_and_shrinks_while_it_runs_and_no_pod_runs_without_quota() {
    let ground = Ground::new("elastic", 4).await;
    let mut elastic = job("elastic", 2, 1, None);
    elastic["metadata"]["annotations"] = json!({ "kueue.x-k8s.io/elastic-job": "true" });
    elastic["spec"].as_object_mut().unwrap().remove("completions");
    ground.create(elastic).await;
    ground.runs("elastic").await;
    let scale = async |pods: u32| {
        ground.patch("Job", "elastic", json!({ "spec": { "parallelism": pods } })).await;
    };
    scale(4).await;
    ground.runs("elastic").await;
    ground.counts("elastic", 0, 1, 4).await;
    scale(1).await;
    ground.runs("elastic").await;
    ground.counts("elastic", 0, 1, 1).await;
    ground.create(job("other", 1, 2, None)).await;
    ground.runs("other").await;

    scale(3).await;
    let waits = |job: &Value| job["status"]["active"] == 3;
    let job = ground.sees("Job", "elastic", "has three pods", waits).await;
    assert_eq!(job["spec"]["suspend"], false, "it runs on while it would grow");
    ground.counts("elastic", 1, 2, 3).await;
    let gated = ground.pods("elastic").await;
    let gated = gated.iter().filter(|pod| !pod["spec"]["schedulingGates"].is_null()).count();
    assert_eq!(gated, 2, "and what it has no quota for waits");
    ground.delete("Job", "other").await;
    ground.runs("elastic").await;
    ground.counts("elastic", 0, 1, 3).await;
}
