//! Observe mode beside the real Kueue: it agrees where it plans the same, says where it does not, and writes nothing.
#![allow(clippy::unwrap_used, reason = "clippy.toml allows them in tests; these are their helpers")]

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use whalezen_e2e::beside::Beside;
use whalezen_e2e::{manifests, replayed};

const DEADLINE: Duration = Duration::from_mins(2);

async fn get(address: SocketAddr, path: &str, token: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: operator\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Ok((head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned()))
}

/// Asks until the summary is as it should be.
async fn summary(beside: &Beside, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let seen = timeout(DEADLINE, async {
        loop {
            if let Ok((200, body)) = get(beside.address, "/observe", beside.cluster.token()).await {
                last = serde_json::from_str(&body).unwrap();
                if holds(&last) {
                    return;
                }
            }
            sleep(Duration::from_millis(300)).await;
        }
    });
    assert!(seen.await.is_ok(), "{what} is not seen: {last:#}\n{}", beside.observer.log_tail(30));
    last
}

async fn apply(beside: &Beside, objects: &[Value]) {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    beside.cluster.kubectl_apply_stdin(&list.to_string()).await.unwrap();
}

fn kueue(kind: &str, name: &str, rest: &Value) -> Value {
    let mut object =
        json!({ "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": { "name": name } });
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

/// A Job in the queue, as a webhook would have suspended it.
fn job(name: &str, cpus: u32, class: &str) -> Value {
    let labels = json!({ "kueue.x-k8s.io/queue-name": "main", "kueue.x-k8s.io/priority-class": class });
    let container =
        json!({ "name": "main", "image": "train", "resources": { "requests": { "cpu": cpus.to_string() } } });
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": name, "namespace": "team", "labels": labels },
        "spec": {
            "suspend": true,
            "template": { "spec": { "restartPolicy": "Never", "containers": [container] } },
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observer_agrees_with_kueue_reports_what_differs_and_writes_nothing() {
    let beside = Beside::start().await.unwrap();
    let quota = json!([{ "coveredResources": ["cpu"], "flavors": [
        { "name": "default", "resources": [{ "name": "cpu", "nominalQuota": 4 }] },
    ] }]);
    let class = |name: &str, value: i32| kueue("WorkloadPriorityClass", name, &json!({ "value": value }));
    let mut local = kueue("LocalQueue", "main", &json!({ "spec": { "clusterQueue": "shared" } }));
    local["metadata"]["namespace"] = json!("team");
    apply(
        &beside,
        &[
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team" } }),
            kueue("ResourceFlavor", "default", &json!({ "spec": {} })),
            kueue(
                "ClusterQueue",
                "shared",
                &json!({ "spec": {
                    "namespaceSelector": {}, "resourceGroups": quota,
                    "preemption": { "withinClusterQueue": "LowerPriority" },
                } }),
            ),
            local,
            class("low", 1),
            class("high", 100),
        ],
    )
    .await;
    let count =
        |summary: &Value, kind: &str, outcome: &str| summary["counts"][kind][outcome].as_u64().unwrap();

    // Two fit, and the third, which comes later than they do, waits: Kueue admits two, and so does the plan.
    summary(&beside, "the observer's start", |_| true).await;
    apply(&beside, &[job("first", 2, "low"), job("second", 2, "low")]).await;
    let seen = summary(&beside, "two agreements", |seen| count(seen, "admission", "agreed") == 2).await;
    apply(&beside, &[job("third", 2, "low")]).await;
    assert_eq!(seen["differences"], json!([]), "{seen:#}");

    // One of a higher priority preempts: still the same.
    apply(&beside, &[job("urgent", 2, "high")]).await;
    let seen = summary(&beside, "a preemption and an admission that agree", |seen| {
        count(seen, "preemption", "agreed") == 1 && count(seen, "admission", "agreed") == 3
    })
    .await;
    assert_eq!(seen["differences"], json!([]), "{seen:#}");

    // In a freeze, of which Kueue knows nothing, its next preemption is not planned.
    let definition = manifests("crds").join("scheduling.gen.io_schedulingpolicies.yaml");
    beside.cluster.kubectl_apply_stdin(&fs::read_to_string(definition).unwrap()).await.unwrap();
    let established =
        ["wait", "--for=condition=Established", "--timeout=30s", "crd/schedulingpolicies.scheduling.gen.io"];
    beside.cluster.kubectl(&established).await.unwrap();
    let freeze = json!({
        "apiVersion": "scheduling.gen.io/v1alpha1", "kind": "SchedulingPolicy",
        "metadata": { "name": "freeze" }, "spec": { "freeze": true },
    });
    apply(&beside, &[freeze]).await;
    let knows = async {
        loop {
            let (_, body) = get(beside.address, "/snapshot", beside.cluster.token()).await.unwrap();
            let snapshot: Value = serde_json::from_str(&body).unwrap();
            if snapshot["policy"]["brakes"]["frozen"].is_string() {
                return;
            }
            sleep(Duration::from_millis(300)).await;
        }
    };
    timeout(DEADLINE, knows).await.unwrap();
    apply(&beside, &[job("more-urgent", 2, "high")]).await;
    let seen = summary(&beside, "a preemption that was not planned", |seen| {
        count(seen, "preemption", "unplanned") == 1
    })
    .await;
    assert_eq!(seen["differences"][0]["kind"], "preemption");
    assert_eq!(seen["differences"][0]["outcome"], "unplanned");

    // It is on record, and nobody but administrators reads it.
    let (status, lines) = get(beside.address, "/decisions", beside.cluster.token()).await.unwrap();
    assert_eq!(status, 200);
    let unplanned =
        |line: &str| line.contains(r#""mode":"observe""#) && line.contains(r#""outcome":"unplanned""#);
    assert!(lines.lines().any(unplanned), "{lines}");
    assert_eq!(get(beside.address, "/observe", "nonsense").await.unwrap().0, 401);
    let (_, metrics) = get(beside.address, "/metrics", "").await.unwrap();
    let metric = r#"whalezen_observe_comparisons_total{kind="preemption",outcome="unplanned"} 1"#;
    assert!(metrics.lines().any(|line| line == metric), "{metrics}");

    assert!(beside.requests().unwrap() > 0, "the API server recorded what the observer asked");
    assert_eq!(beside.writes().unwrap(), Vec::<String>::new());
    assert!(replayed(&beside.log).unwrap() > 3, "what it planned can be made again");
    beside.cluster.stop().await.unwrap();
}
