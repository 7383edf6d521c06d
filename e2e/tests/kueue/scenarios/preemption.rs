//! Who has to stop for whom.

use serde_json::json;

use super::Scenario;
use crate::ground::{condition, text};

#[tokio::test]
async fn in_a_queue_nobody_stops_or_who_is_less_urgent_or_who_is_newer() {
    let scenario = Scenario::set_up("preemption").await;
    scenario.gets_in("spared").await;
    scenario.has_to_wait("waits", "WaitingForQuota").await;

    scenario.gets_in("low").await;
    scenario.gets_in("high").await;
    scenario.is_preempted("low", "InClusterQueue").await;

    scenario.has_to_wait("older", "AdmissionGated").await;
    let older = scenario.sees("older", "is there", |_| true).await;
    let created: jiff::Timestamp = text(&older, "/metadata/creationTimestamp").parse().unwrap();
    // Ages are told apart by the second.
    let next = async || jiff::Timestamp::now().as_second() > created.as_second();
    scenario.ground().until("the next second", next).await;
    scenario.gets_in("newer").await;
    let free = json!({ "metadata": { "annotations": { "kueue.x-k8s.io/admission-gated-by": null } } });
    scenario.ground().patch("Job", "older", free).await;
    scenario.admitted("older").await;
    scenario.is_preempted("newer", "InClusterQueue").await;
    assert!(scenario.is_undisturbed("spared").await);
}

#[tokio::test]
async fn an_owner_takes_its_quota_back_from_anybody_from_some_or_from_nobody() {
    let scenario = Scenario::set_up("reclaiming").await;
    scenario.gets_in("guest-any").await;
    scenario.gets_in("owner-any").await;
    scenario.is_preempted("guest-any", "InCohortReclamation").await;

    scenario.gets_in("guest-low").await;
    scenario.gets_in("guest-middle").await;
    scenario.gets_in("owner-first").await;
    scenario.is_preempted("guest-low", "InCohortReclamation").await;
    scenario.has_to_wait("owner-second", "WaitingForQuota").await;
    assert!(scenario.is_undisturbed("guest-middle").await);

    scenario.gets_in("guest-of-a-saint").await;
    scenario.has_to_wait("a-saint", "WaitingForQuota").await;
    assert!(scenario.is_undisturbed("guest-of-a-saint").await);
}

#[tokio::test]
async fn who_borrows_has_others_stop_up_to_a_priority_or_not_at_all() {
    let scenario = Scenario::set_up("borrowing").await;
    for other in ["others-low", "others-middle"] {
        scenario.gets_in(other).await;
    }
    scenario.has_to_wait("of-the-shy", "WaitingForQuota").await;
    scenario.gets_in("of-the-bold").await;
    scenario.is_preempted("others-low", "InCohortReclaimWhileBorrowing").await;
    scenario.has_to_wait("of-the-bold-too", "WaitingForQuota").await;
    assert!(scenario.is_undisturbed("others-middle").await);
    let victim = scenario.sees("others-low", "is there", |_| true).await;
    let message = text(condition(&victim, "Preempted").unwrap(), "/message");
    assert!(message.contains("preemptor path: /borrowing/borrowing-bold"), "{message}");
}
