//! What the admission policies refuse, and what they let through: a table against the real API server.

use serde_json::{Value, json};

use crate::ground::{Ground, QUEUE};
use crate::objects::{GPU, job};

const LEAST: &str = "kueue.x-k8s.io/job-min-parallelism";
const SYNC: &str = "kueue.x-k8s.io/job-completions-equal-parallelism";
const GATES: &str = "kueue.x-k8s.io/admission-gated-by";
const TIME: &str = "kueue.x-k8s.io/max-exec-time-seconds";
const PREBUILT: &str = "kueue.x-k8s.io/prebuilt-workload-name";
const ELASTIC: &str = "kueue.x-k8s.io/elastic-job";
const GROUP: &str = "kueue.x-k8s.io/pod-group-name";
const TOTAL: &str = "kueue.x-k8s.io/pod-group-total-count";
const CLASS: &str = "kueue.x-k8s.io/priority-class";

fn annotated(pairs: &[(&str, &str)]) -> Value {
    json!({"metadata": {"annotations": pairs.iter().copied().collect::<std::collections::BTreeMap<_, _>>()}})
}

fn labelled(key: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

/// What the API server says when the patched job is created; nothing if it takes it.
async fn creating(ground: &Ground, name: &str, patch: &Value) -> Option<String> {
    let mut made = job(name, 3, 1, None);
    merge(&mut made, patch);
    ground.try_create(made).await.err()
}

fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, patch) => into.clone_from(patch),
    }
}

#[tokio::test]
async fn a_job_that_makes_no_sense_is_refused_with_the_field_and_the_rule() {
    let ground = Ground::new("refused", 1).await;
    let indexed = |completions: u32| {
        let mut patch = annotated(&[(SYNC, "true")]);
        patch["spec"] = json!({"completionMode": "Indexed", "completions": completions});
        patch
    };
    let long = format!("example.com/{}", "g".repeat(52));
    let cases = [
        ("queue", labelled("kueue.x-k8s.io/queue-name", "No.Such"), Some("must be the name of a LocalQueue")),
        ("prebuilt", annotated(&[(PREBUILT, "-x-")]), Some("must be the name of a Workload")),
        ("no-time", labelled(TIME, "0"), Some("must be a whole number of seconds greater than 0")),
        ("time", labelled(TIME, "60"), None),
        ("least-all", annotated(&[(LEAST, "3")]), Some("greater than 0 and less than 3")),
        ("least-none", annotated(&[(LEAST, "0")]), Some("greater than 0 and less than 3")),
        ("least-word", annotated(&[(LEAST, "some")]), Some("greater than 0 and less than 3")),
        ("least", annotated(&[(LEAST, "2")]), None),
        ("both", annotated(&[(LEAST, "2"), (ELASTIC, "true")]), Some("exclude each other")),
        ("sync-word", annotated(&[(SYNC, "perhaps")]), Some("must be true or false")),
        ("sync-plain", annotated(&[(SYNC, "true")]), Some("only an Indexed Job may have it")),
        ("sync-odd", indexed(2), Some("must equal parallelism")),
        ("sync", indexed(3), None),
        ("gate-word", annotated(&[(GATES, "budget")]), Some("must be a domain and a path")),
        (
            "gate-none",
            annotated(&[(GATES, "example.com/a,,example.com/b")]),
            Some("must be a domain and a path"),
        ),
        ("gate-long", annotated(&[(GATES, &long)]), Some("at most 63 characters")),
        ("gate-twice", annotated(&[(GATES, "a.b/c, a.b/c")]), Some("names a gate twice")),
        ("gate", annotated(&[(GATES, "a.b/c, example.com/budget")]), None),
        ("gate-empty", annotated(&[(GATES, "")]), None),
    ];
    for (name, patch, refusal) in cases {
        let said = creating(&ground, name, &patch).await;
        let as_it_should = match (refusal, &said) {
            (Some(refusal), Some(said)) => said.contains(refusal),
            (refusal, said) => refusal.is_none() && said.is_none(),
        };
        assert!(as_it_should, "{name}: {said:?}");
    }
}

#[tokio::test]
async fn a_change_of_a_job_is_refused_where_it_would_get_around_its_quota() {
    let ground = Ground::new("unchanged", 3).await;
    let refused = async |name: &str, patch: Value, refusal: &str| {
        let said = ground.try_patch("Job", name, patch.clone()).await.expect_err(&patch.to_string());
        assert!(said.contains(refusal), "{patch}: {said}");
    };
    ground.create(job("runs", 3, 1, None)).await;
    ground.runs("runs").await;
    for (patch, refusal) in [
        (labelled("kueue.x-k8s.io/queue-name", "other"), "may change only while the Job is suspended"),
        (annotated(&[(PREBUILT, "other")]), "may change only while the Job is suspended"),
        (labelled(TIME, "60"), "may change only while the Job is suspended"),
        (labelled(CLASS, "high"), "may be added only while the Job is suspended"),
        (annotated(&[(ELASTIC, "true")]), "may not change"),
        (annotated(&[(GATES, "example.com/budget")]), "gates may only be taken away"),
    ] {
        refused("runs", patch, refusal).await;
    }
    let mut gated = job("gated", 1, 1, None);
    merge(&mut gated, &annotated(&[(GATES, "a.b/c,a.b/d")]));
    ground.create(gated).await;
    let workload = ground.workload_of("gated").await;
    refused("gated", annotated(&[(GATES, "a.b/c,a.b/e")]), "gates may only be taken away").await;
    let more = annotated(&[(GATES, "a.b/c,a.b/d,a.b/e")]);
    let said = ground.try_patch("Workload", &workload, more).await.expect_err("a new gate");
    assert!(said.contains("gates may only be taken away"), "{said}");
    ground.patch("Job", "gated", annotated(&[(GATES, "a.b/d")])).await;
    ground.patch("Job", "gated", annotated(&[(GATES, "")])).await;
}

#[tokio::test]
async fn what_a_pod_says_of_its_group_stays_once_it_runs_and_its_label_as_long_as_it_is_there() {
    let ground = Ground::new("unmoved", 2).await;
    let of_group =
        |name: &str| json!({ "metadata": { "labels": { GROUP: name }, "annotations": { TOTAL: "1" } } });
    let pod = |name: &str, gpus: u32, more: &Value| {
        let container =
            json!({ "name": "train", "image": "train", "resources": { "limits": { GPU: gpus } } });
        let labels = json!({ "kueue.x-k8s.io/queue-name": QUEUE });
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "labels": labels, "finalizers": ["example.com/stays"] },
            "spec": { "containers": [container] },
        });
        merge(&mut pod, more);
        pod
    };
    let refused = async |name: &str, patch: Value, refusal: &str| {
        let said = ground.try_patch("Pod", name, patch.clone()).await.expect_err(&patch.to_string());
        assert!(said.contains(refusal), "{name} {patch}: {said}");
    };
    ground.create(pod("alone", 1, &json!({}))).await;
    ground.create(pod("member", 1, &of_group("team"))).await;
    ground.create(pod("gated", 8, &of_group("more"))).await;
    for name in ["alone", "member"] {
        ground.sees("Pod", name, "runs", |pod: &Value| pod["spec"]["nodeName"].is_string()).await;
    }
    let stays = "may change only while the pod is gated";
    let hidden = json!({ "metadata": { "labels": { "kueue.x-k8s.io/managed": null } } });
    let place = annotated(&[("kueue.x-k8s.io/podset-preferred-topology", "rack")]);
    let fast = annotated(&[("kueue.x-k8s.io/pod-group-fast-admission", "true")]);
    ground.patch("Pod", "gated", place.clone()).await;
    ground.patch("Pod", "gated", fast.clone()).await;
    ground.delete("Pod", "alone").await;
    for (name, patch, refusal) in [
        ("member", annotated(&[(TOTAL, "2")]), stays),
        ("member", annotated(&[("kueue.x-k8s.io/role-hash", "another")]), stays),
        ("member", fast, stays),
        ("member", place, stays),
        // Also one that is being deleted, for it runs on until it is gone.
        ("alone", of_group("team"), stays),
        ("alone", hidden.clone(), "stays as long as the pod is there"),
        ("gated", hidden, "stays as long as the pod is there"),
    ] {
        refused(name, patch, refusal).await;
    }
    for name in ["alone", "member", "gated"] {
        ground.patch("Pod", name, json!({ "metadata": { "finalizers": null } })).await;
    }
}
