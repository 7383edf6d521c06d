//! What is there to serve.

use super::{Scenario, counts};
use crate::ground::is;
use crate::{doubles, kinds};

#[tokio::test]
async fn what_serves_is_queued_pod_by_pod_whole_or_group_by_group() {
    let scenario = Scenario::set_up("serving").await;
    let ground = scenario.ground();
    kinds::define(ground, "leaderworkerset").await;
    let _controller = doubles::leader_worker_sets(ground);

    scenario.submit("web").await;
    ground.counts("served", 0, 2, 2).await;
    assert_eq!(counts(&scenario.gets_in("db").await), [("main", 2)]);
    ground.counts("served", 0, 3, 4).await;
    scenario.submit("llm").await;
    ground.counts("served", 0, 4, 7).await;

    scenario.submit("endless").await;
    let ended = |pod: &serde_json::Value| pod["status"]["phase"] == "Succeeded";
    ground.sees("Pod", "endless", "has ended", ended).await;
    ground.counts("served", 0, 5, 8).await;
    let group = ground.get("Workload", "endless").await.unwrap();
    assert!(is(&group, "Admitted") && !is(&group, "Finished"), "{group:#}");
}
