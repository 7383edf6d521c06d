//! Shares: which of two `LocalQueues` goes first, and what their status and that of those above them says.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::ground::{Ground, Site, is};
use crate::journal::replay_all;
use crate::objects::{GPU, cluster_queue, flavor, in_queue, job, kueue, local_queue};

/// A site where quota is shared fairly, and what is consumed is remembered.
pub async fn site() -> Arc<Site> {
    static SITE: OnceCell<Arc<Site>> = OnceCell::const_new();
    Arc::clone(SITE.get_or_init(|| Site::start_with(4, true, "shares.yaml")).await)
}

/// What a LocalQueue's status says that it consumed, in billionths of a GPU.
fn consumed(queue: &Value) -> u64 {
    let amounts = &queue["status"]["fairSharing"]["admissionFairSharingStatus"]["consumedResources"];
    let amount = amounts[GPU].as_str().unwrap_or_default();
    let (number, unit) = amount.split_at(amount.find(|c: char| !c.is_ascii_digit()).unwrap_or(amount.len()));
    let unit = match unit {
        "n" => 1,
        "u" => 1000,
        "m" => 1_000_000,
        _ => 1_000_000_000,
    };
    number.parse().unwrap_or(0) * unit
}

/// Whether somebody has looked at a Job's Workload, and it waits.
fn waits(workload: &Value) -> bool {
    workload["status"]["conditions"].is_array() && !is(workload, "QuotaReserved")
}

#[tokio::test]
async fn of_two_local_queues_the_one_that_used_less_goes_first_and_the_shares_are_shown() {
    let site = site().await;
    let ground = Ground::bare(&site, "shares").await;
    ground.apply(&flavor("shares")).await;
    ground.apply(&kueue("Cohort", "shares", json!({"spec": {}}))).await;
    for name in ["shares", "lender"] {
        let mut queue = cluster_queue(name, "shares", 2);
        queue["spec"]["cohortName"] = json!("shares");
        queue["spec"]["admissionScope"] = json!({"admissionMode": "UsageBasedAdmissionFairSharing"});
        ground.apply(&queue).await;
    }
    for name in ["heavy", "light"] {
        ground.apply(&local_queue("shares", name, "shares")).await;
    }
    ground.create(in_queue(job("first", 2, 2, None), "heavy")).await;
    ground.runs("first").await;
    ground.sees("LocalQueue", "heavy", "has consumed something", |queue| consumed(queue) > 0).await;
    let share =
        |want: u64| move |object: &Value| object["status"]["fairSharing"] == json!({"weightedShare": want});
    ground.sees("ClusterQueue", "shares", "borrows half of all", share(500)).await;
    ground.sees("Cohort", "shares", "borrows nothing", share(0)).await;

    ground.create(in_queue(job("second", 2, 2, None), "heavy")).await;
    ground.workload("second", "waits", waits).await;
    ground.create(in_queue(job("other", 2, 2, None), "light")).await;
    ground.workload("other", "waits", waits).await;
    ground.delete("Job", "first").await;
    ground.runs("other").await;
    assert!(!is(&ground.workload("second", "waits", waits).await, "QuotaReserved"));
    ground.sees("LocalQueue", "light", "has consumed something too", |queue| consumed(queue) > 0).await;
    ground.delete("Job", "other").await;
    ground.runs("second").await;
    ground.sees("ClusterQueue", "shares", "borrows half of all again", share(500)).await;
    ground.delete("Job", "second").await;
    ground.sees("ClusterQueue", "shares", "borrows nothing any more", share(0)).await;
    replay_all(&site).await;
}
