//! Kueue's own command line, unchanged.

use serde_json::Value;

use crate::ground::{Ground, QUEUE, is};
use crate::objects::{flavor, job};

impl Ground {
    async fn kueuectl(&self, arguments: &[&str]) -> String {
        self.site.cluster.kueuectl(arguments).await.unwrap()
    }
}

/// The columns of the line that begins with a name.
fn row<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let line = table.lines().find(|line| line.starts_with(name));
    line.unwrap_or_else(|| panic!("{name} is not in\n{table}")).split_whitespace().collect()
}

#[tokio::test]
async fn kueuectl_creates_queues_that_work() {
    let ground = Ground::empty("ctl-create").await;
    ground.apply(&flavor("ctl-create")).await;
    let quota = "--nominal-quota=ctl-create:nvidia.com/gpu=1";
    ground.kueuectl(&["create", "clusterqueue", "ctl-create", quota]).await;
    let queue = ["create", "localqueue", QUEUE, "--namespace=ctl-create", "--clusterqueue=ctl-create"];
    ground.kueuectl(&queue).await;
    ground.is_active("ctl-create").await;
    ground.create(job("job", 1, 1, Some("100ms"))).await;
    ground.finished("job", "Succeeded").await;
}

#[tokio::test]
async fn kueuectl_lists_stops_and_resumes() {
    let ground = Ground::new("ctl", 1).await;
    ground.create(job("runs", 1, 1, None)).await;
    ground.admitted("runs").await;
    ground.create(job("waits", 1, 1, None)).await;
    ground.counts("ctl", 1, 1, 1).await;

    let queues = ground.kueuectl(&["list", "clusterqueue"]).await;
    assert!(row(&queues, "ctl ").contains(&"true"), "{queues}");
    let queues = ground.kueuectl(&["list", "localqueue", "--namespace=ctl"]).await;
    assert_eq!(row(&queues, QUEUE)[1..4], ["ctl", "1", "1"], "{queues}");
    let (runs, waits) = (ground.workload_of("runs").await, ground.workload_of("waits").await);
    let list = ["list", "workload", "--namespace=ctl"];
    ground
        .until("the place in the queue", async || {
            let table = ground.site.cluster.kueuectl(&list).await.unwrap_or_default();
            let columns: Vec<&str> = table.lines().filter(|line| line.starts_with(&waits)).collect();
            columns.concat().split_whitespace().collect::<Vec<_>>().windows(2).any(|w| w == ["PENDING", "0"])
        })
        .await;
    let table = ground.kueuectl(&list).await;
    assert!(row(&table, &runs).contains(&"ADMITTED"), "{table}");

    ground.kueuectl(&["stop", "clusterqueue", "ctl"]).await;
    let stopped = |queue: &Value| !is(queue, "Active");
    ground.sees("ClusterQueue", "ctl", "is stopped", stopped).await;
    ground.workload("runs", "is evicted", |workload| is(workload, "Evicted")).await;
    ground.kueuectl(&["resume", "clusterqueue", "ctl"]).await;
    ground.is_active("ctl").await;

    ground.kueuectl(&["stop", "localqueue", QUEUE, "--namespace=ctl", "--keep-already-running"]).await;
    let stopped = ground.get("LocalQueue", QUEUE).await.unwrap();
    assert_eq!(stopped["spec"]["stopPolicy"], "Hold");
    ground.kueuectl(&["resume", "localqueue", QUEUE, "--namespace=ctl"]).await;

    ground.kueuectl(&["stop", "workload", &runs, "--namespace=ctl"]).await;
    ground.sees("Workload", &runs, "is taken out", |workload| workload["spec"]["active"] == false).await;
    ground.kueuectl(&["resume", "workload", &runs, "--namespace=ctl"]).await;
    ground.sees("Workload", &runs, "is back", |workload| workload["spec"]["active"] == true).await;
}
