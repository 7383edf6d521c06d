//! The words of v1beta1.

use serde_json::{Value, json};

use super::{Scenario, checks_work};
use crate::ground::{is, shared};

#[tokio::test]
async fn what_v1beta1_says_in_other_words_means_the_same() {
    let scenario = Scenario::on(&shared().await, "v1beta1").await;
    let ground = scenario.ground();
    // The API server takes note of whom it may ask for a conversion after a moment.
    ground.until("v1beta1 to be taken", async || scenario.queues().await.is_ok()).await;
    let queue = ground.get("ClusterQueue", "old-words-checked").await.unwrap();
    assert_eq!(queue["spec"]["cohortName"], "old-words");
    let search = json!({ "whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch" });
    assert_eq!(queue["spec"]["flavorFungibility"], search);
    let checks = json!({ "admissionChecks": [{ "name": "old-words" }] });
    assert_eq!(queue["spec"]["admissionChecksStrategy"], checks);

    for (name, class) in [
        (
            "urgent",
            json!({ "group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "old-words" }),
        ),
        ("soon", json!({ "group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "old-words-soon" })),
    ] {
        let workload = scenario.gets_in(name).await;
        assert_eq!(workload["spec"]["priorityClassRef"], class);
    }
    checks_work(ground, &["old-words"]).await;
    ground.is_active("old-words-checked").await;
    scenario.submit("plain").await;
    let waits = |workload: &Value| {
        is(workload, "QuotaReserved") && workload["status"]["admissionChecks"][0]["name"] == "old-words"
    };
    let plain = scenario.sees("plain", "waits for its check", waits).await;
    assert_eq!(plain["spec"].get("priorityClassRef"), None);
    let columns = "--output=jsonpath={.spec.cohort} {.spec.flavorFungibility.whenCanPreempt} {.spec.admissionChecks[0]}";
    let shown =
        ground.kubectl(&["get", "clusterqueues.v1beta1.kueue.x-k8s.io", "old-words-checked", columns]).await;
    assert_eq!(shown, "old-words Preempt old-words", "whoever wrote it reads it");
}
