//! One agent on a node, and few writes.

use serde_json::json;
use whalezen_crds::scheduling::v1alpha1::READY;

use crate::post::{Post, condition};

const H100: &str = r#"gpus = [{ model = "H100-80", mig = true }]"#;

#[tokio::test]
async fn a_second_agent_on_a_node_says_so_and_waits_until_the_first_has_ended() {
    let mut post = Post::new(H100).await;
    let first = post.start().await;
    post.until("ready", |status| condition(status, READY).0 == "True").await;
    let second = post.start().await;
    post.watching("the second one's word", async || {
        let waits = second.log_contains("another agent runs on this node");
        if waits { Ok(()) } else { Err(second.log_tail(5)) }
    })
    .await;
    assert!(second.log_contains(&format!("process {}", first.pid())), "{}", second.log_tail(5));

    first.kill().unwrap();
    first.wait().await.unwrap();
    post.policy(json!({ "defaultConfig": "all-7g.80gb" })).await;
    post.until_layout(&["7g.80gb@0"]).await;
    assert!(second.is_running());
}

#[tokio::test]
async fn an_idle_agent_looks_and_does_not_write() {
    let mut post = Post::new(H100).await;
    post.policy(json!({ "defaultConfig": "all-3g.40gb" })).await;
    post.start().await;
    post.until_layout(&["3g.40gb@0 3g.40gb@4"]).await;
    // A fault counts the calls that it sees; this one makes them a millisecond longer.
    let looks = |post: &Post| post.control.machine().unwrap().faults.first().map_or(0, |fault| fault.seen);
    post.fault("nvmlDeviceGetCount_v2", None, None, 1, Some(u64::MAX));
    let from = post.gpu_node().await.unwrap().metadata.resource_version;
    post.watching(
        "thirty looks",
        async || if looks(&post) >= 30 { Ok(()) } else { Err(looks(&post).to_string()) },
    )
    .await;
    assert_eq!(post.gpu_node().await.unwrap().metadata.resource_version, from);
}

#[tokio::test]
async fn a_gpunode_that_somebody_deletes_is_made_again() {
    let post = Post::started(H100).await;
    post.until("ready", |status| condition(status, READY).0 == "True").await;
    let before = post.gpu_node().await.unwrap().metadata.uid;
    post.gpu_nodes().delete(&post.name, &kube::api::DeleteParams::default()).await.unwrap();
    post.watching("another GPUNode", async || {
        let now = post.gpu_node().await;
        let other = now.as_ref().is_some_and(|node| node.metadata.uid != before && node.status.is_some());
        if other { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
}
