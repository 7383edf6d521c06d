//! What goes wrong on nodes, and that capacity comes back.

use serde_json::json;
use whalezen_crds::scheduling::v1alpha1::{GpuHealth, LAYOUT_APPLIED, LayoutState, READY, STALLED};
use whalezen_mock_nvml::refusal::Refusal;

use crate::post::{Post, condition, layout};

const H100: &str = r#"gpus = [{ model = "H100-80", mig = true }]"#;

#[tokio::test]
async fn an_agent_that_is_killed_between_destroying_and_creating_goes_on_when_it_is_back() {
    let mut post = Post::new(H100).await;
    post.policy(json!({ "defaultConfig": "all-3g.40gb" })).await;
    post.start().await;
    post.until_layout(&["3g.40gb@0 3g.40gb@4"]).await;

    post.fault("nvmlDeviceCreateGpuInstanceWithPlacement", None, None, 600_000, None);
    post.policy(json!({ "defaultConfig": "all-7g.80gb" })).await;
    post.watching("empty GPU", async || {
        let machine = post.control.machine().unwrap();
        let left = &machine.gpu(0).unwrap().instances;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    post.kill().await;
    post.control.heal().unwrap();
    post.start().await;
    post.until_layout(&["7g.80gb@0"]).await;
}

#[tokio::test]
async fn a_layout_is_made_again_after_a_reboot() {
    let mut post = Post::new(H100).await;
    post.policy(json!({ "defaultConfig": "all-3g.40gb" })).await;
    post.start().await;
    let [before] = post.until_layout(&["3g.40gb@0 3g.40gb@4"]).await.try_into().unwrap();
    post.kill().await;
    post.control.reboot().unwrap();
    post.start().await;
    let status = post
        .until("new instances", |status| {
            let mig = status.gpus[0].mig.as_ref().unwrap();
            mig.instances.len() == 2
                && mig.instances.iter().all(|new| before.iter().all(|old| old.uuid != new.uuid))
        })
        .await;
    assert_eq!(layout(&status.gpus[0]), "3g.40gb@0 3g.40gb@4");
    // The driver alone was loaded anew, under a running agent.
    post.control.reboot().unwrap();
    post.watching("the layout on the machine", async || {
        let machine = post.control.machine().unwrap();
        let there = machine.gpu(0).unwrap().instances.len();
        if there == 2 { Ok(()) } else { Err(format!("{there} instances")) }
    })
    .await;
}

#[tokio::test]
async fn a_step_that_fails_is_told_with_its_reason_and_tried_again() {
    let mut post = Post::new(H100).await;
    post.policy(json!({ "defaultConfig": "all-3g.40gb" })).await;
    post.fault("nvmlGpuInstanceCreateComputeInstance", None, Some(Refusal::Unknown), 0, None);
    post.start().await;
    let failed =
        post.until("failure", |status| condition(status, LAYOUT_APPLIED) == ("False", "Failed")).await;
    let progress = failed.gpus[0].mig.as_ref().unwrap().layout.clone().unwrap();
    assert_eq!(progress.state, LayoutState::Failed);
    assert!(progress.message.as_ref().unwrap().starts_with("create 3g.40gb@"), "{progress:?}");
    assert!(progress.message.unwrap().contains("making a compute instance"));
    assert!(progress.next_try.is_some());
    assert_eq!(layout(&failed.gpus[0]), "", "half an instance is taken back");
    post.control.heal().unwrap();
    post.until_layout(&["3g.40gb@0 3g.40gb@4"]).await;
}

#[tokio::test]
async fn a_gpu_that_falls_off_the_bus_is_told_and_the_others_go_on() {
    let mut post = Post::new(r#"gpus = [{ model = "H100-80", mig = true, count = 2 }]"#).await;
    post.policy(json!({ "defaultConfig": "all-3g.40gb" })).await;
    post.start().await;
    let halves = "3g.40gb@0 3g.40gb@4";
    post.until_layout(&[halves, halves]).await;
    post.control.befall(0, 79, None).unwrap();
    let lost = post.until("lost GPU", |status| status.gpus[0].health == GpuHealth::Unhealthy).await;
    assert!(
        ["Xid79", "Lost"].contains(&lost.gpus[0].health_reason.as_deref().unwrap()),
        "{:?}",
        lost.gpus[0]
    );
    assert_eq!(condition(&lost, READY), ("True", "SomeUnhealthy"));

    post.policy(json!({ "defaultConfig": "all-7g.80gb" })).await;
    let status = post.until("the other GPU", |status| layout(&status.gpus[1]) == "7g.80gb@0").await;
    let sick = status.gpus[0].mig.as_ref().unwrap().layout.as_ref().unwrap();
    assert_eq!(sick.state, LayoutState::Waiting, "{sick:?}");

    post.control.reset(0).unwrap();
    post.until_layout(&["7g.80gb@0", "7g.80gb@0"]).await;
    let back = post.until("health", |status| status.gpus[0].health == GpuHealth::Healthy).await;
    assert_eq!(condition(&back, READY), ("True", "Seen"));
}

#[tokio::test]
async fn a_driver_that_hangs_is_told_and_stops_neither_the_other_gpus_nor_the_agent() {
    let mut post = Post::new(r#"gpus = [{ model = "H100-80", mig = true, count = 2 }]"#).await;
    post.policy(json!({ "defaultConfig": "all-3g.40gb" })).await;
    post.start().await;
    let halves = "3g.40gb@0 3g.40gb@4";
    post.until_layout(&[halves, halves]).await;
    // One call hangs for ten times as long as the agent waits.
    post.fault("nvmlDeviceGetMemoryInfo_v2", Some(0), None, 10_000, Some(1));
    let stalled =
        post.until("stalled", |status| condition(status, STALLED) == ("True", "Unresponsive")).await;
    assert_eq!(stalled.gpus[0].health_reason.as_deref(), Some("Unresponsive"));
    assert_eq!(stalled.gpus[1].health, GpuHealth::Healthy);

    post.policy(json!({ "defaultConfig": "all-7g.80gb" })).await;
    let other = post.until("the other GPU", |status| layout(&status.gpus[1]) == "7g.80gb@0").await;
    assert_eq!(condition(&other, STALLED), ("True", "Unresponsive"), "the call still hangs");
    post.until_layout(&["7g.80gb@0", "7g.80gb@0"]).await;
}

#[tokio::test]
async fn without_a_driver_the_agent_says_so_and_waits_for_one() {
    let mut post = Post::new(H100).await;
    post.fault("nvmlInit*", None, Some(Refusal::DriverNotLoaded), 0, None);
    post.start().await;
    let blind = post.until("no driver", |status| condition(status, READY) == ("False", "NoDriver")).await;
    assert_eq!(condition(&blind, STALLED), ("True", "NoDriver"));
    assert!(blind.gpus.is_empty());
    post.control.heal().unwrap();
    post.until("GPU", |status| condition(status, READY) == ("True", "Seen")).await;
}
