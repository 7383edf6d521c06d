//! Weights and what was used lately, where the configuration turns them on.

use serde_json::{Value, json};

use super::Scenario;
use crate::ground::is;
use crate::shares;

#[tokio::test]
async fn weights_divide_shares_and_who_used_less_goes_first_where_the_queue_says_so() {
    let scenario = Scenario::on(&shares::site().await, "fair-sharing").await;
    scenario.queues().await.unwrap();
    let ground = scenario.ground();
    scenario.gets_in("twice").await;
    scenario.gets_in("once").await;
    let share =
        |of: u64| move |object: &Value| object["status"]["fairSharing"] == json!({ "weightedShare": of });
    // Half of all there is and a quarter of it, in thousandths, by weights of 2 and 1, and of 2 and a half.
    for (kind, name, of) in [
        ("ClusterQueue", "fair-sharing-twice", 250),
        ("ClusterQueue", "fair-sharing-once", 250),
        ("Cohort", "fair-sharing-large", 250),
        ("Cohort", "fair-sharing-small", 500),
    ] {
        ground.sees(kind, name, &format!("has a share of {of}"), share(of)).await;
    }

    for (queue, next, other) in [("by-usage", "younger", "older"), ("by-age", "older", "younger")] {
        scenario.gets_in(&format!("first-{queue}")).await;
        scenario.submit_all(&[&format!("older-{queue}"), &format!("younger-{queue}")]).await;
        let looked_at =
            |workload: &Value| workload["status"]["conditions"].is_array() && !is(workload, "QuotaReserved");
        for name in ["older", "younger"] {
            scenario.sees(&format!("{name}-{queue}"), "waits", looked_at).await;
        }
        scenario.delete(&format!("first-{queue}")).await;
        scenario.admitted(&format!("{next}-{queue}")).await;
        scenario.sees(&format!("{other}-{queue}"), "still waits", looked_at).await;
    }
}
