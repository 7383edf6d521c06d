//! Workloads that somebody made by hand.

use serde_json::{Value, json};

use super::{Scenario, counts};
use crate::ground::{condition, is};
use crate::shares;

/// Whether a Workload was told to stop because its time is over.
fn is_out_of_time(workload: &Value) -> bool {
    workload["spec"]["active"] == false
        && condition(workload, "Evicted")
            .is_some_and(|c| c["reason"] == "DeactivatedDueToMaximumExecutionTimeExceeded")
}

#[tokio::test]
async fn workloads_made_by_hand_are_admitted_by_priority_with_fewer_pods_and_for_their_time() {
    let scenario = Scenario::set_up("workloads").await;
    scenario.gets_in("first").await;
    scenario.has_to_wait("flexible", "ExceedsMaxQuota").await;
    for name in ["soon", "urgent"] {
        scenario.has_to_wait(name, "WaitingForQuota").await;
    }
    scenario.has_to_wait("inactive", "Deactivated").await;
    let mut last = "first";
    for (next, given) in
        [("urgent", &[("main", 1)][..]), ("soon", &[("main", 1)]), ("flexible", &[("workers", 3)])]
    {
        scenario.delete(last).await;
        assert_eq!(counts(&scenario.admitted(next).await), given);
        last = next;
    }
    scenario.delete(last).await;
    assert_eq!(counts(&scenario.gets_in("short").await), [("driver", 1), ("workers", 2)]);
    let told = scenario.sees("short", "is told to stop", is_out_of_time).await;
    assert!(is(&told, "QuotaReserved"), "nobody but who made it knows whether its pods are gone");
    scenario.delete("short").await;
    scenario.gets_in("gated").await;
    scenario.delete("gated").await;
    scenario.ground().patch("Workload", "inactive", json!({ "spec": { "active": true } })).await;
    scenario.admitted("inactive").await;
}

#[tokio::test]
async fn a_boost_counts_like_priority_where_it_is_on() {
    let scenario = Scenario::on(&shares::site().await, "priority-boost").await;
    scenario.queues().await.unwrap();
    scenario.gets_in("first").await;
    for name in ["urgent", "boosted"] {
        scenario.has_to_wait(name, "WaitingForQuota").await;
    }
    scenario.delete("first").await;
    let boosted = scenario.admitted("boosted").await;
    assert_eq!(boosted["spec"]["priority"], 10);
    let urgent = scenario.sees("urgent", "is there", |_| true).await;
    assert!(!is(&urgent, "QuotaReserved"));
}
