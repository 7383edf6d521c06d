//! What `manifests/kustomize/base/admission` does to Jobs, on a real API server.
//!
//! Nothing of ours runs here but the policies, so this is also what a cluster does whose operator is down.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use whalezen_e2e::{Cluster, manifests};

/// How long a policy may take from its creation to its effect.
const DEADLINE: Duration = Duration::from_secs(30);

/// A namespace without a LocalQueue named `default`.
const PLAIN: &str = "plain";
/// And one with it.
const DEFAULTED: &str = "defaulted";

async fn shared() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER.get_or_init(start).await
}

/// An API server on which nobody acts on Jobs.
async fn bare() -> Cluster {
    let builder = Cluster::builder().with_scheduler(false).with_controller_manager(false).with_kwok(false);
    builder.start().await.unwrap()
}

/// The same with the definitions and the policies in force.
async fn start() -> Cluster {
    let cluster = bare().await;
    cluster.install_operator().await.unwrap();
    for namespace in [PLAIN, DEFAULTED] {
        cluster.kubectl(&["create", "namespace", namespace]).await.unwrap();
    }
    let queue = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
        "metadata": {"name": "default", "namespace": DEFAULTED}, "spec": {"clusterQueue": "any"},
    });
    cluster.kubectl_apply_stdin(&queue.to_string()).await.unwrap();
    // The API server takes note of new policies and of their parameters after a moment.
    until(|| async {
        let named = probe(&cluster, PLAIN, queued("q")).await.unwrap();
        let unnamed = probe(&cluster, DEFAULTED, json!({})).await.unwrap();
        let refused = probe(&cluster, PLAIN, queued("")).await.is_err();
        suspended(&named) && suspended(&unnamed) && refused
    })
    .await;
    cluster
}

async fn until<F: Future<Output = bool>>(holds: impl Fn() -> F) {
    let poll = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(DEADLINE, poll).await.expect("the policies take effect");
}

/// What would become of a Job with these labels.
async fn probe(cluster: &Cluster, namespace: &str, labels: Value) -> kube::Result<Job> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let job = job(namespace, "probe", json!({"labels": labels}), json!({}));
    jobs(cluster, namespace).create(&params, &job).await
}

fn jobs(cluster: &Cluster, namespace: &str) -> Api<Job> {
    Api::namespaced(cluster.client(), namespace)
}

/// A Job that is to run at once, with `metadata` and `spec` laid over it.
fn job(namespace: &str, name: &str, metadata: Value, spec: Value) -> Job {
    let mut job = json!({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "suspend": false,
            "parallelism": 2,
            // A variable that is set twice is legal, and some ways to change an object stumble over it.
            "template": {"spec": {"restartPolicy": "Never", "containers": [{
                "name": "c", "image": "i",
                "env": [{"name": "TWICE", "value": "1"}, {"name": "TWICE", "value": "2"}],
            }]}},
        },
    });
    for (part, over) in [("metadata", metadata), ("spec", spec)] {
        let part = job[part].as_object_mut().unwrap();
        part.extend(over.as_object().unwrap().clone());
    }
    serde_json::from_value(job).unwrap()
}

async fn create(cluster: &Cluster, job: &Job) -> Result<Job, String> {
    let namespace = job.metadata.namespace.clone().unwrap();
    let created = jobs(cluster, &namespace).create(&PostParams::default(), job).await;
    created.map_err(|error| error.to_string())
}

fn suspended(job: &Job) -> bool {
    job.spec.as_ref().unwrap().suspend == Some(true)
}

fn queue(job: &Job) -> Option<&str> {
    job.metadata.labels.as_ref()?.get("kueue.x-k8s.io/queue-name").map(String::as_str)
}

fn queued(name: &str) -> Value {
    json!({"kueue.x-k8s.io/queue-name": name})
}

fn owner(api_version: &str, kind: &str, controller: bool) -> Value {
    json!([{"apiVersion": api_version, "kind": kind, "name": "owner", "controller": controller,
            "uid": "11111111-2222-3333-4444-555555555555"}])
}

#[tokio::test]
async fn a_job_that_names_a_queue_is_born_suspended_unless_another_controller_made_it() {
    let cluster = shared().await;
    let job_set = owner("jobset.x-k8s.io/v1alpha2", "JobSet", true);
    let cron_job = owner("batch/v1", "CronJob", true);
    let bystander = owner("v1", "ConfigMap", false);
    for (name, metadata, expected) in [
        ("named", json!({"labels": queued("q")}), true),
        ("unnamed", json!({}), false),
        ("made-by-job-set", json!({"labels": queued("q"), "ownerReferences": job_set}), false),
        ("made-by-cron-job", json!({"labels": queued("q"), "ownerReferences": cron_job}), true),
        ("owned-but-not-controlled", json!({"labels": queued("q"), "ownerReferences": bystander}), true),
    ] {
        let job = create(cluster, &job(PLAIN, name, metadata, json!({}))).await.unwrap();
        assert_eq!(suspended(&job), expected, "{name}");
    }
}

#[tokio::test]
async fn where_there_is_a_default_queue_every_job_gets_it_that_names_none() {
    let cluster = shared().await;
    let job_set = owner("jobset.x-k8s.io/v1alpha2", "JobSet", true);
    for (name, metadata, expected) in [
        ("unnamed", json!({}), Some("default")),
        ("other-labels", json!({"labels": {"team": "x"}}), Some("default")),
        ("empty-name", json!({"labels": queued("")}), Some("default")),
        ("named", json!({"labels": queued("q")}), Some("q")),
        ("made-by-job-set", json!({"ownerReferences": job_set}), None),
    ] {
        let job = create(cluster, &job(DEFAULTED, name, metadata, json!({}))).await.unwrap();
        assert_eq!((queue(&job), suspended(&job)), (expected, expected.is_some()), "{name}");
        let labels = job.metadata.labels.unwrap_or_default();
        assert_eq!(labels.contains_key("team"), name == "other-labels", "{name}: {labels:?}");
    }
}

#[tokio::test]
async fn what_kueue_refuses_to_create_is_refused_with_a_reason() {
    let cluster = shared().await;
    let indexed = |completions: i64| json!({"completionMode": "Indexed", "completions": completions});
    let with = |key: &str, value: &str| json!({"labels": queued("q"), "annotations": {key: value}});
    let labelled = |key: &str, value: &str| json!({"labels": {"kueue.x-k8s.io/queue-name": "q", key: value}});
    let minimum = "kueue.x-k8s.io/job-min-parallelism";
    let sync = "kueue.x-k8s.io/job-completions-equal-parallelism";
    let time = "kueue.x-k8s.io/max-exec-time-seconds";
    let prebuilt = "kueue.x-k8s.io/prebuilt-workload-name";
    for (name, metadata, spec, refusal) in [
        ("queue-empty", json!({"labels": queued("")}), json!({}), Some("must be the name of a LocalQueue")),
        ("queue-upper", json!({"labels": queued("Q")}), json!({}), Some("must be the name of a LocalQueue")),
        ("prebuilt-label", labelled(prebuilt, "a_b"), json!({}), Some("must be the name of a Workload")),
        ("prebuilt-annotation", with(prebuilt, "a b"), json!({}), Some("must be the name of a Workload")),
        ("time-zero", labelled(time, "0"), json!({}), Some("greater than 0")),
        ("time-word", labelled(time, "long"), json!({}), Some("greater than 0")),
        ("time-good", labelled(time, "60"), json!({}), None),
        ("minimum-word", with(minimum, "one"), json!({}), Some("less than 2, the number of pods")),
        ("minimum-zero", with(minimum, "0"), json!({}), Some("less than 2, the number of pods")),
        ("minimum-all", with(minimum, "2"), json!({}), Some("less than 2, the number of pods")),
        ("minimum-good", with(minimum, "1"), json!({}), None),
        ("sync-word", with(sync, "perhaps"), indexed(2), Some("must be true or false")),
        ("sync-plain", with(sync, "true"), json!({}), Some("only an Indexed Job")),
        ("sync-unequal", with(sync, "true"), indexed(3), Some("must equal parallelism")),
        ("sync-good", with(sync, "true"), indexed(2), None),
    ] {
        let created = create(cluster, &job(PLAIN, name, metadata, spec)).await;
        match (refusal, created) {
            (None, created) => drop(created.unwrap()),
            (Some(reason), Err(error)) => assert!(error.contains(reason), "{name}: {error}"),
            (Some(_), Ok(_)) => panic!("{name} was accepted"),
        }
    }
}

#[tokio::test]
async fn what_holds_quota_does_not_change_and_what_waits_may() {
    let cluster = shared().await;
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {key: value}}});
    let annotation = |key: &str, value: Value| json!({"metadata": {"annotations": {key: value}}});
    let queue = |value: Value| label("kueue.x-k8s.io/queue-name", value);
    let class = |value: Value| label("kueue.x-k8s.io/priority-class", value);
    let time = |value: Value| label("kueue.x-k8s.io/max-exec-time-seconds", value);
    let prebuilt = |value: Value| label("kueue.x-k8s.io/prebuilt-workload-name", value);
    let only_suspended = Some("may change only while the Job is suspended");
    // Each line is what is done to the same Job after the line before it.
    for (step, patch, refusal) in [
        ("another queue while it waits", queue(json!("q2")), None),
        ("run", json!({"spec": {"suspend": false}}), None),
        ("another queue while it runs", queue(json!("q3")), only_suspended),
        ("no queue while it runs", queue(Value::Null), only_suspended),
        ("a prebuilt Workload while it runs", prebuilt(json!("w")), only_suspended),
        ("a time limit while it runs", time(json!("60")), only_suspended),
        ("a class while it runs", class(json!("high")), Some("may be added only while the Job is suspended")),
        ("another label while it runs", label("team", json!("x")), None),
        ("more pods while it runs", json!({"spec": {"parallelism": 3}}), None),
        ("elastic", annotation("kueue.x-k8s.io/elastic-job", json!("true")), Some("may not change")),
        (
            "stop, with another queue",
            json!({"spec": {"suspend": true}, "metadata": {"labels": queued("q4")}}),
            None,
        ),
        ("a class while it waits", class(json!("high")), None),
        ("another class", class(json!("low")), None),
        ("no class", class(Value::Null), Some("not removed")),
        ("a time limit while it waits", time(json!("60")), None),
        ("no queue while it waits", queue(Value::Null), None),
    ] {
        apply_step(cluster, PLAIN, "steps", step, &patch, refusal).await;
    }
}

#[tokio::test]
async fn the_pods_of_a_partially_admitted_job_are_counted_only_when_it_starts_and_after_it_stops() {
    let cluster = shared().await;
    let metadata = json!({"labels": queued("q"), "annotations": {"kueue.x-k8s.io/job-min-parallelism": "1"}});
    create(cluster, &job(PLAIN, "partial", metadata, json!({}))).await.unwrap();
    for (step, patch, refusal) in [
        ("start with fewer pods", json!({"spec": {"suspend": false, "parallelism": 1}}), None),
        (
            "more pods",
            json!({"spec": {"parallelism": 2}}),
            Some("while a Job with kueue.x-k8s.io/job-min-parallelism"),
        ),
        ("stop", json!({"spec": {"suspend": true}}), None),
        ("restore", json!({"spec": {"parallelism": 2}}), None),
    ] {
        apply_step(cluster, PLAIN, "partial", step, &patch, refusal).await;
    }
}

#[tokio::test]
async fn a_queue_name_is_not_taken_away_where_there_is_a_default_queue() {
    let cluster = shared().await;
    let off = json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": null}}});
    let refusal = Some("a LocalQueue named \"default\"");
    apply_step(cluster, DEFAULTED, "keeps-its-name", "no queue", &off, refusal).await;
}

/// Patches a Job, which is made where there is none yet.
async fn apply_step(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    step: &str,
    patch: &Value,
    refusal: Option<&str>,
) {
    let jobs = jobs(cluster, namespace);
    if jobs.get_opt(name).await.unwrap().is_none() {
        create(cluster, &job(namespace, name, json!({"labels": queued("q")}), json!({}))).await.unwrap();
    }
    let patched = jobs.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    match (refusal, patched) {
        (None, patched) => drop(patched.unwrap_or_else(|error| panic!("{step}: {error}"))),
        (Some(reason), Err(error)) => assert!(error.to_string().contains(reason), "{step}: {error}"),
        (Some(_), Ok(_)) => panic!("{step} was accepted"),
    }
}

#[tokio::test]
async fn without_our_definitions_jobs_go_on() {
    let cluster = bare().await;
    cluster.apply_dir(manifests("kustomize/base/admission")).await.unwrap();
    cluster.kubectl(&["create", "namespace", PLAIN]).await.unwrap();
    let named = || async { suspended(&probe(&cluster, PLAIN, queued("q")).await.unwrap()) };
    until(named).await;
    let job = create(&cluster, &job(PLAIN, "unnamed", json!({}), json!({}))).await.unwrap();
    assert!(!suspended(&job));
    cluster.stop().await.unwrap();
}
