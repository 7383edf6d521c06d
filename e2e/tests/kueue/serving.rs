//! What the operator serves, and to whom.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::ground::Ground;
use crate::objects::{GPU, job, workload_priority_class};

/// What is answered to a request with this token: the status and the body.
async fn get(address: SocketAddr, path: &str, token: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let header = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let request = format!("GET {path} HTTP/1.0\r\nHost: operator\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_reads_why_its_own_workloads_wait_and_an_administrator_everything() {
    let ground = Ground::new("serving", 4).await;
    let mut first = job("first", 1, 4, None);
    first["spec"]["template"]["spec"]["containers"][0]["env"] = json!([
        {"name": "PASSWORD", "value": "hunter2"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "token"}}},
    ]);
    ground.create(first).await;
    ground.admitted("first").await;
    ground.create(job("second", 1, 3, None)).await;
    ground.waits("second", "WaitingForQuota").await;

    let kubectl = async |arguments: &[&str]| ground.site.cluster.kubectl(arguments).await.unwrap();
    kubectl(&["-n", "serving", "create", "serviceaccount", "tenant"]).await;
    let rights = ["--verb=get,list", "--resource=workloads.kueue.x-k8s.io"];
    let subject = "--serviceaccount=serving:tenant";
    kubectl(&[&["-n", "serving", "create", "role", "reader"], &rights[..]].concat()).await;
    kubectl(&["-n", "serving", "create", "rolebinding", "reader", "--role=reader", subject]).await;
    let token = kubectl(&["-n", "serving", "create", "token", "tenant"]).await;
    let token = token.trim();

    let replicas = ground.site.replicas.lock().await;
    let leader = replicas.elected().await.unwrap();
    let address = replicas.address(&leader).unwrap();
    drop(replicas);
    let workload = ground.workload_of("second").await;
    let path = format!("/explain/serving/{workload}");

    assert_eq!(get(address, &path, "").await.0, 401);
    assert_eq!(get(address, &path, "nonsense").await.0, 401);
    let (status, body) = get(address, &path, token).await;
    assert_eq!(status, 200, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["verdict"]["reason"], "WaitingForQuota");
    assert_eq!(answer["quotas"][0]["missing"], "3");
    assert_eq!(answer["quotas"][0]["holders"][0]["clusterQueue"], "serving");
    assert_eq!(get(address, "/explain/serving/nobody", token).await.0, 404);
    assert_eq!(get(address, "/explain/default/nobody", token).await.0, 403);

    assert_eq!(get(address, "/snapshot", token).await.0, 403);
    assert_eq!(get(address, "/observe", token).await.0, 403);
    assert_eq!(get(address, "/decisions?namespace=serving", "").await.0, 401);
    assert_eq!(get(address, "/decisions?namespace=default", token).await.0, 403);
    assert_eq!(get(address, "/decisions", token).await.0, 403);
    let (status, body) = get(address, "/decisions?namespace=serving", token).await;
    assert_eq!(status, 200, "{body}");
    let lines: Vec<Value> = body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1, "{body}");
    let first = format!("serving/{}", ground.workload_of("first").await);
    assert_eq!(
        (&lines[0]["decision"], &lines[0]["mode"], &lines[0]["workload"], &lines[0]["clusterQueue"]),
        (&json!("admitted"), &json!("decide"), &json!(first), &json!("serving"))
    );
    assert_eq!(lines[0]["podSets"][0]["flavors"][GPU], "serving");
    assert_eq!(lines[0]["podSets"][0]["usage"][GPU], "4");
    assert!(["hunter2", "PASSWORD", "TOKEN", "vault"].iter().all(|word| !body.contains(word)), "{body}");
    let (_, body) = get(address, "/decisions?namespace=serving&since=2999-01-01T00:00:00Z", token).await;
    assert_eq!(body, "");

    kubectl(&[&["create", "clusterrole", "serving-reader"], &rights[..]].concat()).await;
    let binding = ["create", "clusterrolebinding", "serving-reader", "--clusterrole=serving-reader", subject];
    kubectl(&binding).await;
    let allowed = async || get(address, "/snapshot", token).await.0 == 200;
    ground.until("the rights' effect", allowed).await;
    let (_, body) = get(address, "/snapshot", token).await;
    let snapshot: Value = serde_json::from_str(&body).unwrap();
    assert!(snapshot["facts"]["queues"]["serving"].is_object());
    assert!(["hunter2", "PASSWORD", "TOKEN", "vault"].iter().all(|word| !body.contains(word)), "{body}");

    let (status, body) = get(address, "/decisions", token).await;
    assert!(status == 200 && body.contains(&first), "who may read everything does: {body}");
    assert_eq!(get(address, "/observe", token).await.0, 404, "this operator decides");

    let (status, metrics) = get(address, "/metrics", "").await;
    assert_eq!(status, 200);
    let admitted = "kueue_admitted_workloads_total{cluster_queue=\"serving\",priority_class=\"\",replica_role=\"leader\"} 1";
    assert!(metrics.lines().any(|line| line == admitted), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_preemption_is_counted_however_soon_the_victim_is_seen_to_stop() {
    let ground = Ground::new("recorded", 4).await;
    let preemption = json!({"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}});
    ground.patch("ClusterQueue", "recorded", preemption).await;
    ground.apply(&workload_priority_class("recorded-high", 100)).await;
    let victims = ["a", "b", "c", "d"];
    for victim in victims {
        ground.create(job(victim, 1, 1, None)).await;
    }
    for round in 1..=2 {
        for victim in victims {
            ground.admitted(victim).await;
        }
        let name = format!("high-{round}");
        let mut high = job(&name, 1, 4, None);
        high["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!("recorded-high");
        ground.create(high).await;
        ground.admitted(&name).await;
        ground.delete("Job", &name).await;
    }
    let replicas = ground.site.replicas.lock().await;
    let leader = replicas.elected().await.unwrap();
    let address = replicas.address(&leader).unwrap();
    drop(replicas);
    let (_, metrics) = get(address, "/metrics", "").await;
    let count = |of: &str| {
        let line = metrics.lines().find(|line| line.contains("\"recorded\"") && line.starts_with(of));
        line.and_then(|line| line.rsplit(' ').next()).map(ToOwned::to_owned)
    };
    assert_eq!(count("kueue_evicted_workloads_total").as_deref(), Some("8"));
    assert_eq!(count("kueue_preempted_workloads_total").as_deref(), Some("8"));
}
