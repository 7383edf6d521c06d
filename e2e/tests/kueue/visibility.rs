//! Who waits, as the API server answers for the operator.

use serde_json::{Value, json};

use crate::ground::{Ground, QUEUE};
use crate::objects::{job, kueue, local_queue};

const GROUP: &str = "/apis/visibility.kueue.x-k8s.io/v1beta2";

/// What the API server answers with.
async fn raw(ground: &Ground, path: &str) -> Result<Value, String> {
    let answer = ground.site.cluster.kubectl(&["get", "--raw", path]).await;
    answer.map(|text| serde_json::from_str(&text).unwrap()).map_err(|problem| problem.to_string())
}

/// The API server goes on trying until the operator has a certificate that it trusts.
async fn available(ground: &Ground) {
    ground.until("the aggregated API", async || raw(ground, GROUP).await.is_ok()).await;
}

fn rows(summary: &Value) -> Vec<(String, i64, i64)> {
    let number = |item: &Value, field: &str| item[field].as_i64().unwrap();
    let row = |item: &Value| {
        let owner = item["metadata"]["ownerReferences"][0]["name"].as_str().unwrap().to_owned();
        (owner, number(item, "positionInClusterQueue"), number(item, "positionInLocalQueue"))
    };
    summary["items"].as_array().unwrap().iter().map(row).collect()
}

#[tokio::test]
async fn who_waits_is_listed_in_the_order_in_which_it_is_tried_with_offset_and_limit() {
    let ground = Ground::new("visible", 1).await;
    available(&ground).await;
    ground.apply(&local_queue("visible", "other", "visible")).await;
    ground.apply(&kueue("WorkloadPriorityClass", "visible-high", json!({"value": 100}))).await;
    ground.create(job("runs", 1, 1, None)).await;
    ground.admitted("runs").await;
    ground.create(job("first", 1, 1, None)).await;
    ground.counts("visible", 1, 1, 1).await;
    // Times have seconds.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let mut second = job("second", 1, 1, None);
    second["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = json!("other");
    ground.create(second).await;
    let mut urgent = job("urgent", 1, 1, None);
    urgent["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!("visible-high");
    ground.create(urgent).await;
    ground.counts("visible", 3, 1, 1).await;

    let of_queue = format!("{GROUP}/clusterqueues/visible/pendingworkloads");
    let expected = [("urgent".to_owned(), 0, 0), ("first".to_owned(), 1, 1), ("second".to_owned(), 2, 0)];
    ground
        .until("everybody who waits", async || {
            raw(&ground, &of_queue).await.is_ok_and(|summary| rows(&summary) == expected)
        })
        .await;
    let page = raw(&ground, &format!("{of_queue}?offset=1&limit=1")).await.unwrap();
    assert_eq!(rows(&page), expected[1..2]);
    assert_eq!(page["kind"], "PendingWorkloadsSummary");
    let of_local = format!("{GROUP}/namespaces/visible/localqueues/{QUEUE}/pendingworkloads");
    let page = raw(&ground, &format!("{of_local}?offset=1")).await.unwrap();
    assert_eq!(rows(&page), expected[1..2]);
    assert_eq!(page["items"][0]["localQueueName"], QUEUE);
    assert_eq!(page["items"][0]["priority"], 0);

    let missing =
        raw(&ground, &format!("{GROUP}/clusterqueues/visible-to-nobody/pendingworkloads")).await.unwrap_err();
    assert!(missing.contains("NotFound"), "{missing}");
    let nonsense = raw(&ground, &format!("{of_queue}?limit=many")).await.unwrap_err();
    assert!(nonsense.contains("is no number"), "{nonsense}");
}

#[tokio::test]
async fn only_those_who_may_see_who_waits() {
    let ground = Ground::new("visible-to", 1).await;
    available(&ground).await;
    let of_queue = format!("{GROUP}/clusterqueues/visible-to/pendingworkloads");
    let of_local = format!("{GROUP}/namespaces/visible-to/localqueues/{QUEUE}/pendingworkloads");
    ground.kubectl(&["create", "serviceaccount", "tenant"]).await;
    let binding = ["create", "rolebinding", "tenant", "--clusterrole=whalezen-queue-viewer"];
    ground.kubectl(&[&binding[..], &["--serviceaccount=visible-to:tenant"]].concat()).await;
    let tenant = "--as=system:serviceaccount:visible-to:tenant";
    let ask = async |path: &str| ground.site.cluster.kubectl(&["get", "--raw", path, tenant]).await;
    ground.until("the role's effect", async || ask(&of_local).await.is_ok()).await;
    let refused = ask(&of_queue).await.unwrap_err().to_string();
    assert!(refused.contains("Forbidden") || refused.contains("forbidden"), "{refused}");

    // Whoever comes past the API server is nobody, whatever the headers say.
    let [first, ..] = ground.site.replicas.lock().await.endpoints()[..] else { panic!("nothing is served") };
    let mut config = kube::Config::new(format!("https://127.0.0.1:{first}").parse().unwrap());
    config.accept_invalid_certs = true;
    let request = http::Request::get(&of_queue).header("X-Remote-User", "admin");
    let request = request.header("X-Remote-Group", "system:masters").body(Vec::new()).unwrap();
    let answer = kube::Client::try_from(config).unwrap().request_text(request).await;
    let Err(kube::Error::Api(status)) = answer else { panic!("{answer:?}") };
    assert_eq!(status.code, 401, "{status:?}");
}
