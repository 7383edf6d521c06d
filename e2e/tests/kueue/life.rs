//! What befalls a Workload beside its queue: stopped queues, checks by other controllers, time that is over, pods that
//! never get ready.

use serde_json::{Value, json};

use crate::ground::{Ground, QUEUE, Site, condition, is, text};
use crate::objects::{cluster_queue, job, kueue};

/// The reason of a condition, if that is in this state.
fn reason<'a>(object: &'a Value, type_: &str, status: &str) -> &'a str {
    let condition = condition(object, type_).filter(|condition| condition["status"] == status);
    condition.map_or("", |condition| text(condition, "/reason"))
}

#[tokio::test]
async fn a_drained_queue_stops_whoever_runs_and_they_come_back_when_it_opens() {
    let ground = Ground::new("drained", 2).await;
    ground.create(job("job", 2, 1, None)).await;
    ground.runs("job").await;
    for (kind, name, word, restarted) in [
        ("ClusterQueue", "drained", "ClusterQueueStopped", "ClusterQueueRestarted"),
        ("LocalQueue", QUEUE, "LocalQueueStopped", "LocalQueueRestarted"),
    ] {
        ground.patch(kind, name, json!({"spec": {"stopPolicy": "HoldAndDrain"}})).await;
        let stopped = ground
            .workload("job", "was told to stop and gave its quota back", |workload| {
                reason(workload, "Evicted", "True") == word && !is(workload, "QuotaReserved")
            })
            .await;
        assert_eq!(reason(&stopped, "Requeued", "False"), word);
        assert_eq!(reason(&stopped, "QuotaReserved", "False"), "Suspended");
        ground.until("the end of its pods", async || ground.pods("job").await.is_empty()).await;
        ground.patch(kind, name, json!({"spec": {"stopPolicy": "None"}})).await;
        let again = ground.admitted("job").await;
        assert_eq!(reason(&again, "Requeued", "True"), restarted);
        assert!(!is(&again, "Evicted"));
        ground.runs("job").await;
    }
    let evictions = ground.admitted("job").await["status"]["schedulingStats"]["evictions"].clone();
    assert_eq!(evictions.as_array().unwrap().len(), 2, "{evictions:#}");
}

#[tokio::test]
async fn a_workload_runs_when_a_controller_of_its_check_lets_it_and_stops_when_that_takes_it_back() {
    let ground = Ground::empty("checked").await;
    let check = kueue("AdmissionCheck", "checked", json!({"spec": {"controllerName": "example.com/test"}}));
    ground.queues(2).await;
    ground
        .apply(&{
            let mut queue = cluster_queue("checked", "checked", 2);
            queue["spec"]["admissionChecksStrategy"] = json!({"admissionChecks": [{"name": "checked"}]});
            queue
        })
        .await;
    let message = ground.is_inactive("checked", "AdmissionCheckNotFound").await;
    assert!(message.contains("references missing AdmissionCheck(s): checked"), "{message}");
    ground.apply(&check).await;
    ground.is_inactive("checked", "AdmissionCheckInactive").await;
    ground.create(job("job", 1, 1, None)).await;
    ground.waits("job", "Suspended").await;
    let active = json!({"type": "Active", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    ground.patch_status("AdmissionCheck", "checked", json!({"conditions": [active]})).await;

    let pending = |workload: &Value| {
        is(workload, "QuotaReserved")
            && !is(workload, "Evicted")
            && workload["status"]["admissionChecks"][0]["state"] == "Pending"
    };
    let reserved = ground.workload("job", "holds quota and waits for its check", pending).await;
    assert_eq!(reason(&reserved, "Admitted", "False"), "UnsatisfiedAdmissionChecks");
    assert_eq!(ground.get("Job", "job").await.unwrap()["spec"]["suspend"], true);
    let name = text(&reserved, "/metadata/name").to_owned();
    let answer = async |state: &str, more: Value| {
        let mut answer = json!({
            "name": "checked", "state": state, "message": "said the test",
            "lastTransitionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
        answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ground.patch_status("Workload", &name, json!({"admissionChecks": [answer]})).await;
    };
    let updates = json!({"podSetUpdates": [{"name": "main", "labels": {"checked": "yes"}}]});
    answer("Ready", updates).await;
    let started = ground.runs("job").await;
    assert_eq!(started["spec"]["template"]["metadata"]["labels"]["checked"], "yes");

    answer("Retry", json!({"requeueAfterSeconds": 2})).await;
    let evicted = ground
        .workload("job", "was told to stop", |workload| {
            reason(workload, "Evicted", "True") == "AdmissionCheck" && !is(workload, "QuotaReserved")
        })
        .await;
    let said = "Evicted due to AdmissionCheck in Retry state: \"checked\" (said the test)";
    assert_eq!(condition(&evicted, "Evicted").unwrap()["message"], said);
    let job_now = ground.sees("Job", "job", "is suspended", |job| job["spec"]["suspend"] == true).await;
    assert!(job_now["spec"]["template"]["metadata"]["labels"]["checked"].is_null());
    let back = ground.workload("job", "holds quota again", pending).await;
    assert_eq!(reason(&back, "Requeued", "True"), "BackoffFinished");

    answer("Rejected", json!({})).await;
    let out = ground
        .workload("job", "was deactivated", |workload| {
            workload["spec"]["active"] == false && !is(workload, "QuotaReserved")
        })
        .await;
    assert_eq!(reason(&out, "Evicted", "True"), "DeactivatedDueToAdmissionCheck");
}

#[tokio::test]
async fn a_job_whose_time_is_over_is_deactivated() {
    let ground = Ground::new("timed", 1).await;
    let mut timed = job("job", 1, 1, None);
    timed["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = json!("3");
    ground.create(timed).await;
    ground.runs("job").await;
    let out = ground
        .workload("job", "was deactivated and gave its quota back", |workload| {
            workload["spec"]["active"] == false && !is(workload, "QuotaReserved")
        })
        .await;
    let word = "DeactivatedDueToMaximumExecutionTimeExceeded";
    assert_eq!(reason(&out, "Evicted", "True"), word);
    assert_eq!(reason(&out, "QuotaReserved", "False"), "Deactivated");
    ground.told("Workload", text(&out, "/metadata/name"), &format!("EvictedDueTo{word}"), "exceeding").await;
    ground.until("the end of its pods", async || ground.pods("job").await.is_empty()).await;
    ground.counts("timed", 0, 0, 0).await;
}

#[tokio::test]
async fn a_gated_job_queues_when_its_gate_is_gone() {
    let ground = Ground::new("gated", 1).await;
    let mut gated = job("job", 1, 1, None);
    gated["metadata"]["annotations"] = json!({"kueue.x-k8s.io/admission-gated-by": "example.com/budget"});
    ground.create(gated).await;
    let message = ground.waits("job", "AdmissionGated").await;
    assert_eq!(message, "Admission is gated by: example.com/budget");
    let none = json!({"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": null}}});
    ground.patch("Job", "job", none).await;
    ground.runs("job").await;
}

#[tokio::test]
async fn pods_are_waited_for_and_who_never_gets_them_comes_back_and_is_then_taken_out() {
    let site = Site::start_with(1, true, "impatient.yaml").await;
    let ground = Ground::bare(&site, "impatient").await;
    ground.queues(2).await;
    ground.create(job("good", 1, 1, None)).await;
    let ready = |workload: &Value| is(workload, "PodsReady");
    let good = ground.workload("good", "has its pods ready", ready).await;
    assert_eq!(reason(&good, "PodsReady", "True"), "Started");

    let mut nowhere = job("nowhere", 1, 1, None);
    nowhere["spec"]["template"]["spec"]["nodeSelector"] = json!({"no": "node"});
    ground.create(nowhere).await;
    let late = ground
        .workload("nowhere", "was told to stop", |workload| {
            reason(workload, "Evicted", "True") == "PodsReadyTimeout"
        })
        .await;
    assert_eq!(late["status"]["requeueState"]["count"], 1);
    let out = ground
        .workload("nowhere", "was taken out", |workload| {
            workload["spec"]["active"] == false && !is(workload, "QuotaReserved")
        })
        .await;
    assert_eq!(reason(&out, "Evicted", "True"), "DeactivatedDueToRequeuingLimitExceeded");
    assert!(out["status"]["requeueState"].is_null(), "{out:#}");
    assert!(is(&ground.get("Workload", text(&good, "/metadata/name")).await.unwrap(), "Admitted"));
    crate::journal::replay_all(&site).await;
}
