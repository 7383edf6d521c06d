//! Every decision can be made again from what the operator kept of it, also when the replica that made it was killed.

use std::{fs, time::Duration};

use serde_json::json;
use tokio::time::timeout;
use whalezen_e2e::replayed;

use crate::{
    ground::{Ground, QUEUE, Site, is},
    objects::{cluster_queue, flavor, job, local_queue, workload_priority_class},
};

/// Within this time another replica leads.
const TAKEOVER: Duration = Duration::from_secs(20);

/// Plays the journals of all replicas again, and gives how many plans each made.
pub async fn replay_all(site: &Site) -> Vec<u64> {
    let logs = site.replicas.lock().await.logs();
    logs.iter().map(|log| replayed(log).unwrap()).collect()
}

#[tokio::test]
async fn all_decisions_of_a_leader_that_was_killed_and_of_the_next_can_be_made_again() {
    // What LocalQueues consume is remembered here: that is a part of what decisions are made from.
    let site = Site::start_with(2, true, "shares.yaml").await;
    let ground = Ground::bare(&site, "journal").await;
    ground.apply(&flavor("journal")).await;
    let mut queue = cluster_queue("journal", "journal", 8);
    queue["spec"]["admissionScope"] = json!({"admissionMode": "UsageBasedAdmissionFairSharing"});
    queue["spec"]["preemption"] = json!({"withinClusterQueue": "LowerPriority"});
    ground.apply(&queue).await;
    ground.apply(&local_queue("journal", QUEUE, "journal")).await;
    ground.is_active("journal").await;
    ground.apply(&workload_priority_class("journal-high", 100)).await;
    let high = |name: &str, runs| {
        let mut job = job(name, 2, 2, runs);
        job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!("journal-high");
        job
    };

    let mut secretive = job("low-0", 1, 4, None);
    secretive["spec"]["template"]["spec"]["containers"][0]["env"] = json!([
        {"name": "PASSWORD", "value": "hunter2"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "token"}}},
    ]);
    secretive["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["--key=hunter2"]);
    ground.create(secretive).await;
    ground.create(job("low-1", 1, 4, Some("3s"))).await;
    ground.runs("low-0").await;
    ground.runs("low-1").await;
    ground.create(job("low-2", 1, 4, Some("1s"))).await;
    ground.create(high("high-0", Some("3s"))).await;
    // Somebody stops for it, and somebody waits, when the leader dies.
    ground.admitted("high-0").await;
    {
        let mut replicas = site.replicas.lock().await;
        replicas.kill_leader().await.unwrap();
        for number in 3..6 {
            ground.create(job(&format!("low-{number}"), 1, 2, Some("1s"))).await;
        }
        timeout(TAKEOVER, replicas.elected()).await.unwrap().unwrap();
    }
    site.note_logs().await;
    ground.create(high("high-1", Some("1s"))).await;
    ground.finished("high-1", "Succeeded").await;
    for number in 1..6 {
        ground.finished(&format!("low-{number}"), "Succeeded").await;
    }
    ground.workload("low-0", "runs again or still", |workload| is(workload, "Admitted")).await;
    // The other one, too, ends as in a power cut.
    site.replicas.lock().await.kill_all().unwrap();

    let plans = replay_all(&site).await;
    assert!(plans.len() == 2 && plans.iter().all(|plans| *plans > 3), "{plans:?}");
    for log in site.replicas.lock().await.logs() {
        for file in fs::read_dir(log).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            let secrets = ["hunter2", "PASSWORD", "TOKEN", "vault"];
            assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
        }
    }
}
