//! Manifests of v1beta1, and what becomes of them.

use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::ground::{Ground, QUEUE, Site, text};
use crate::objects::{GPU, flavor, job};

/// A kind as v1beta1 has it.
fn old(ground: &Ground, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("kueue.x-k8s.io", "v1beta1", kind));
    let client = ground.site.cluster.client();
    match kind {
        "LocalQueue" | "Workload" => Api::namespaced_with(client, &ground.name, &resource),
        _ => Api::all_with(client, &resource),
    }
}

fn v1beta1(kind: &str, name: &str, rest: Value) -> Value {
    let mut object =
        json!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}});
    let Value::Object(rest) = rest else { panic!("{rest} has no fields") };
    object.as_object_mut().unwrap().extend(rest);
    object
}

/// The replicas make the certificate, and the API server takes note of whom to trust, after a moment.
async fn applied(ground: &Ground, object: &Value) -> Value {
    let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
    let params = PatchParams::apply("a-person").force();
    let mut made = Value::Null;
    ground
        .until("a v1beta1 object to be taken", async || {
            let applied = old(ground, kind).patch(name, &params, &Patch::Apply(object)).await;
            match applied {
                Ok(object) => made = serde_json::to_value(object).unwrap(),
                Err(problem) => eprintln!("{kind} {name}: {problem}"),
            }
            !made.is_null()
        })
        .await;
    made
}

#[tokio::test]
async fn a_quick_start_of_v1beta1_applies_is_shown_as_v1beta2_and_works() {
    let ground = Ground::empty("old-quick-start").await;
    let name = ground.name.clone();
    let mut old_flavor = flavor(&name);
    old_flavor["apiVersion"] = json!("kueue.x-k8s.io/v1beta1");
    applied(&ground, &old_flavor).await;
    let queue = v1beta1(
        "ClusterQueue",
        &name,
        json!({"spec": {
            "namespaceSelector": {},
            "cohort": "old-team",
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
            "resourceGroups": [{
                "coveredResources": [GPU],
                "flavors": [{"name": name, "resources": [{"name": GPU, "nominalQuota": 2}]}],
            }],
        }}),
    );
    let shown = applied(&ground, &queue).await;
    assert_eq!(shown["spec"]["cohort"], "old-team");
    assert_eq!(shown["spec"]["flavorFungibility"]["whenCanBorrow"], "Borrow", "whoever wrote it reads it");
    applied(&ground, &v1beta1("LocalQueue", QUEUE, json!({"spec": {"clusterQueue": name}}))).await;

    let queue = ground.is_active(&name).await;
    assert_eq!(queue["apiVersion"], "kueue.x-k8s.io/v1beta2");
    assert_eq!(queue["spec"]["cohortName"], "old-team");
    assert_eq!(queue["spec"]["flavorFungibility"]["whenCanBorrow"], "MayStopSearch");

    ground.create(job("runs", 1, 2, None)).await;
    ground.admitted("runs").await;
    ground.create(job("waits", 1, 1, None)).await;
    ground.counts(&name, 1, 1, 2).await;
    ground
        .until("what the LocalQueue uses", async || {
            let local = old(&ground, "LocalQueue").get(QUEUE).await.unwrap();
            local.data["status"]["flavorUsage"][0]["resources"][0]["total"] == "2"
        })
        .await;
    let workload = old(&ground, "Workload").get(&ground.workload_of("runs").await).await.unwrap();
    assert_eq!(workload.data["spec"]["priorityClassSource"], "");
    assert_eq!(workload.data["status"]["admission"]["clusterQueue"], name);
    let table = ground.kubectl(&["get", "clusterqueues.v1beta1.kueue.x-k8s.io", &name]).await;
    assert!(table.contains("old-team"), "the column shows the field of the version: {table}");
}

#[tokio::test]
async fn a_writer_of_v1beta1_does_not_undo_what_it_cannot_see() {
    let ground = Ground::new("old-writer", 1).await;
    let policy = json!({"migration": {"mode": "TryPreferredFlavors"}});
    ground.patch("ClusterQueue", "old-writer", json!({"spec": {"concurrentAdmissionPolicy": policy}})).await;
    let queues = old(&ground, "ClusterQueue");
    ground.until("v1beta1", async || queues.get("old-writer").await.is_ok()).await;
    let mut seen = queues.get("old-writer").await.unwrap();
    assert_eq!(seen.data["spec"].get("concurrentAdmissionPolicy"), None);
    seen.data["spec"]["cohort"] = json!("old-writers");
    queues.replace("old-writer", &PostParams::default(), &seen).await.unwrap();
    let queue = ground.get("ClusterQueue", "old-writer").await.unwrap();
    assert_eq!(queue["spec"]["cohortName"], "old-writers");
    assert_eq!(queue["spec"]["concurrentAdmissionPolicy"], policy);
    assert_eq!(queue["metadata"].get("annotations"), None, "nothing of the conversion is stored");
}

/// What a certificate is worth to the test: the Secret's version, and what is in it.
async fn certificate(site: &Site) -> (String, String) {
    let secrets: Api<DynamicObject> = Api::namespaced_with(
        site.cluster.client(),
        "whalezen-system",
        &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret")),
    );
    let secret = secrets.get("whalezen-operator-certificate").await.unwrap();
    let secret = serde_json::to_value(secret).unwrap();
    (text(&secret, "/metadata/resourceVersion").to_owned(), text(&secret, "/data/tls.crt").to_owned())
}

#[tokio::test]
async fn certificates_are_replaced_before_they_end_and_without_replicas_v1beta2_goes_on() {
    let flags = ["--serving-certificate-minutes=1"];
    let site = Site::start_with_flags(1, false, "configuration.yaml", &flags).await;
    let ground = Ground::bare(&site, "short-lived").await;
    ground.queues(1).await;
    let queues = old(&ground, "ClusterQueue");
    ground.until("v1beta1", async || queues.get("short-lived").await.is_ok()).await;
    let mut certificates = vec![certificate(&site).await];
    let begun = Instant::now();
    let mut failed = Vec::new();
    while begun.elapsed() < Duration::from_mins(1) {
        if let Err(problem) = queues.get("short-lived").await {
            failed.push(format!("{:?}: {problem}", begun.elapsed()));
        }
        let now = certificate(&site).await;
        if certificates.last() != Some(&now) {
            certificates.push(now);
        }
        sleep(Duration::from_millis(250)).await;
    }
    assert_eq!(failed, Vec::<String>::new());
    // Every 40 seconds, and each version of the Secret is another certificate: nobody fights.
    assert!((2..=3).contains(&certificates.len()), "{}", certificates.len());

    site.replicas.lock().await.kill_all().unwrap();
    ground.patch("ClusterQueue", "short-lived", json!({"spec": {"stopPolicy": "Hold"}})).await;
    let queue = ground.get("ClusterQueue", "short-lived").await.unwrap();
    assert_eq!(queue["spec"]["stopPolicy"], "Hold", "v1beta2 needs nobody");
    let refused = queues.get("short-lived").await.unwrap_err().to_string();
    assert!(refused.contains("conversion webhook"), "{refused}");
}
