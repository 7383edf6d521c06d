//! NVIDIA's own tools on the node.

use serde_json::json;
use whalezen_crds::scheduling::v1alpha1::{LAYOUT_APPLIED, STALLED};

use crate::post::{Post, condition, message};

const CONFIG: &str = "nvidia.com/mig.config";
const STATE: &str = "nvidia.com/mig.config.state";
const MANAGER: &str = "nvidia.com/gpu.deploy.mig-manager";
const PLUGIN: &str = "nvidia.com/gpu.deploy.device-plugin";

#[tokio::test]
async fn a_node_of_the_mig_manager_is_left_alone_until_a_person_says_otherwise() {
    let mut post = Post::new(r#"gpus = [{ model = "H100-80", mig = true }]"#).await;
    post.label(
        json!({ MANAGER: "true", CONFIG: "all-3g.40gb", STATE: "pending", PLUGIN: "paused-for-mig-change" }),
    )
    .await;
    post.start().await;
    let away = post.until("rival", |status| condition(status, STALLED) == ("True", "ManagedByOthers")).await;
    assert_eq!(condition(&away, LAYOUT_APPLIED), ("False", "ManagedByOthers"));
    assert!(message(&away, STALLED).contains("scheduling.gen.io/mig-manager=whalezen"));
    assert_eq!(away.summary.unwrap().mig, "Empty");
    assert_eq!(post.label_of(PLUGIN).await.as_deref(), Some("paused-for-mig-change"));

    post.label(json!({ "scheduling.gen.io/mig-manager": "whalezen" })).await;
    post.until_layout(&["3g.40gb@0 3g.40gb@4"]).await;
    until_label(&post, STATE, Some("success")).await;
    // The manager was stopped in the middle and left its clients so: the node would show no GPU for ever.
    until_label(&post, PLUGIN, Some("true")).await;
}

#[tokio::test]
async fn the_label_of_a_configuration_is_obeyed_and_its_state_is_true() {
    let mut post = Post::new(r#"gpus = [{ model = "H100-80", mig = true }]"#).await;
    let file = post.cluster.state_dir().join("mig-parted.yaml");
    let halves = r#"
version: v1
mig-configs:
  halves:
    - devices: all
      mig-enabled: true
      mig-devices: {"3g.40gb": 2}
"#;
    std::fs::write(&file, halves).unwrap();
    post.flags.push(format!("--mig-config-file={}", file.display()));
    post.label(json!({ CONFIG: "halves" })).await;
    post.start().await;
    post.until_layout(&["3g.40gb@0 3g.40gb@4"]).await;
    until_label(&post, STATE, Some("success")).await;

    post.label(json!({ CONFIG: "no-such-layout" })).await;
    until_label(&post, STATE, Some("failed")).await;
    let refused = post.until("refusal", |status| condition(status, STALLED) == ("True", "Refused")).await;
    assert!(message(&refused, STALLED).contains("no-such-layout"));

    post.label(json!({ CONFIG: "all-7g.80gb" })).await;
    post.until_layout(&["7g.80gb@0"]).await;
    until_label(&post, STATE, Some("success")).await;
    post.label(json!({ CONFIG: null })).await;
    until_label(&post, STATE, None).await;
}

/// Tools of NVIDIA's that run see new instances only when they begin anew, and are never left stopped.
#[tokio::test]
async fn nvidias_tools_begin_anew_after_a_change_and_an_agent_that_was_killed_leaves_none_stopped() {
    let mut post = Post::new(r#"gpus = [{ model = "H100-80", mig = true }]"#).await;
    post.label(json!({ PLUGIN: "true", CONFIG: "all-3g.40gb" })).await;
    post.start().await;
    until_label(&post, PLUGIN, Some("paused-for-mig-change")).await;
    post.kill().await;
    assert_eq!(post.label_of(PLUGIN).await.as_deref(), Some("paused-for-mig-change"));
    post.start().await;
    post.until_layout(&["3g.40gb@0 3g.40gb@4"]).await;
    until_label(&post, PLUGIN, Some("true")).await;
}

async fn until_label(post: &Post, key: &str, value: Option<&str>) {
    post.watching(&format!("label {key}={value:?}"), async || {
        let there = post.label_of(key).await;
        if there.as_deref() == value { Ok(()) } else { Err(format!("{there:?}")) }
    })
    .await;
}
