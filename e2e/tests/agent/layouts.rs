//! The wanted layout is made real, and nothing that is in use is touched.

use serde_json::json;
use whalezen_crds::scheduling::v1alpha1::{
    InstanceOrigin, LAYOUT_APPLIED, LayoutSource, READY, RECONCILING, STALLED,
};

use crate::post::{Post, condition, layout, message};

const H100: &str = r#"gpus = [{ model = "H100-80", mig = true }]"#;

#[tokio::test]
async fn kubectl_shows_what_is_in_the_cluster() {
    let post = Post::started(r#"gpus = [{ model = "H100-80", count = 4 }]"#).await;
    let status = post.until("ready agent", |status| condition(status, READY) == ("True", "Seen")).await;

    assert_eq!(condition(&status, LAYOUT_APPLIED), ("True", "Applied"));
    assert_eq!((condition(&status, RECONCILING).0, condition(&status, STALLED).0), ("False", "False"));
    assert_eq!((status.gpus.len(), status.links.len()), (4, 6));
    assert!(status.links.iter().all(|link| link.nvlinks > 0), "{:?}", status.links);
    assert!(status.gpus.iter().all(|gpu| gpu.nvlink_island == Some(0)));
    let gpu = &status.gpus[3];
    assert_eq!((gpu.index, gpu.model.as_str()), (3, "NVIDIA H100 80GB HBM3"));
    let profiles = &gpu.mig.as_ref().unwrap().profiles;
    assert!(profiles.iter().any(|profile| profile.name == "3g.40gb" && profile.starts == [0, 4]));

    let table = post.cluster.kubectl(&["get", "gpunodes", &post.name, "-o", "wide"]).await.unwrap();
    let mut lines = table.lines();
    let heading: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let columns =
        ["NAME", "GPUS", "MODEL", "MIG", "FREE", "READY", "LAYOUT", "UNHEALTHY", "DRIVER", "CUDA", "AGE"];
    assert_eq!(heading, columns);
    let row = lines.next().unwrap();
    for word in ["4", "NVIDIA H100 80GB HBM3", "Disabled", "4/4", "True", "Applied", "12.8"] {
        assert!(row.contains(word), "{word} is not in {row}");
    }
    let node = post.gpu_node().await.unwrap();
    let owner = &node.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Node", post.name.as_str()));
}

#[tokio::test]
async fn a_policy_that_is_changed_does_what_it_says_and_what_is_in_use_keeps_its_uuid() {
    let mut post = Post::new(H100).await;
    post.policy(json!({ "defaultConfig": "all-3g.40gb" })).await;
    post.start().await;
    let [first] = post.until_layout(&["3g.40gb@0 3g.40gb@4"]).await.try_into().unwrap();
    assert!(first.iter().all(|instance| instance.origin == InstanceOrigin::Agent && !instance.busy));
    let busy = first[1].clone();
    post.program(0, &busy);

    let layout_of =
        json!([{ "migEnabled": true, "migDevices": { "1g.10gb": 2, "3g.40gb": 1, "2g.20gb": 0 } }]);
    post.policy(json!({ "defaultLayout": layout_of })).await;
    let status = post
        .until("the small ones", |status| {
            layout(&status.gpus[0]).matches("1g.10gb").count() == 2
                && condition(status, LAYOUT_APPLIED) == ("True", "Applied")
        })
        .await;
    let instances = &status.gpus[0].mig.as_ref().unwrap().instances;
    let kept = instances.iter().find(|instance| instance.start == 4).unwrap();
    assert_eq!((kept.uuid.as_ref(), kept.busy), (busy.uuid.as_ref(), true));
    let table = post.cluster.kubectl(&["get", "gpunodes", &post.name]).await.unwrap();
    assert!(table.contains("1g.10gb:2,3g.40gb:1") && table.contains("2/3"), "{table}");

    // What is in use and in the way is waited for, and made when it has gone.
    post.policy(json!({ "defaultConfig": "all-7g.80gb" })).await;
    let waiting =
        post.until("waiting", |status| condition(status, LAYOUT_APPLIED) == ("False", "InUse")).await;
    assert!(message(&waiting, LAYOUT_APPLIED).contains("3g.40gb@4"), "{}", message(&waiting, LAYOUT_APPLIED));
    let still = &waiting.gpus[0].mig.as_ref().unwrap().instances;
    assert!(still.iter().any(|instance| instance.uuid == busy.uuid));
    post.end_programs();
    post.until_layout(&["7g.80gb@0"]).await;
}

#[tokio::test]
async fn what_the_scheduler_assigns_goes_before_the_default_and_a_pin_before_both() {
    let mut post = Post::new(r#"gpus = [{ model = "H100-80", mig = true, count = 2 }]"#).await;
    let policy = json!({ "mode": "Dynamic", "defaultConfig": "all-1g.10gb" });
    post.policy(policy.clone()).await;
    post.start().await;
    let small = (0..7).map(|start| format!("1g.10gb@{start}")).collect::<Vec<_>>().join(" ");
    post.until_layout(&[&small, &small]).await;
    let uuid = post.gpu_node().await.unwrap().status.unwrap().gpus[0].uuid.clone();

    post.assign(json!({ "gpus": [{ "uuid": uuid, "instances": [
        { "profile": "3g.40gb", "start": 4, "assignment": { "workload": { "namespace": "team", "name": "job" } } },
        { "profile": "1g.10gb", "start": 0 },
    ] }] }))
    .await;
    post.until_layout(&["1g.10gb@0 3g.40gb@4", &small]).await;
    let node = post.gpu_node().await.unwrap();
    let status = node.status.unwrap();
    assert_eq!(status.observed_generation, node.metadata.generation);
    let source = |gpu: usize| status.gpus[gpu].mig.as_ref().unwrap().layout.as_ref().unwrap().source;
    assert_eq!((source(0), source(1)), (LayoutSource::Assignment, LayoutSource::Default));

    let mut pinned = policy;
    pinned["pins"] = json!([{ "uuid": uuid, "migEnabled": true, "migDevices": { "7g.80gb": 1 } }]);
    post.policy(pinned).await;
    post.until_layout(&["7g.80gb@0", &small]).await;

    // What nobody wants any more falls back to the default.
    post.policy(json!({ "mode": "Dynamic", "defaultConfig": "all-1g.10gb" })).await;
    post.assign(json!({ "gpus": [] })).await;
    post.until_layout(&[&small, &small]).await;
}

#[tokio::test]
async fn a_layout_that_cannot_be_is_refused_with_the_reason_and_leaves_all_as_it_is() {
    let mut post = Post::new(H100).await;
    post.policy(json!({ "mode": "Dynamic", "defaultConfig": "all-3g.40gb" })).await;
    post.start().await;
    let [before] = post.until_layout(&["3g.40gb@0 3g.40gb@4"]).await.try_into().unwrap();
    let uuid = post.gpu_node().await.unwrap().status.unwrap().gpus[0].uuid.clone();
    let table = [
        (json!([{ "profile": "3g.71gb", "start": 4 }]), "3g.71gb"),
        (json!([{ "profile": "3g.40gb", "start": 2 }]), "begins at one of 0, 4"),
        (json!([{ "profile": "4g.40gb", "start": 0 }, { "profile": "4g.40gb", "start": 4 }]), "4g.40gb"),
        (json!([{ "profile": "1c.3g.40gb", "start": 0 }]), "part of a GPU instance"),
    ];
    for (instances, why) in table {
        post.assign(json!({ "gpus": [{ "uuid": uuid, "instances": instances }] })).await;
        let status = post
            .until(why, |status| {
                condition(status, LAYOUT_APPLIED) == ("False", "Refused")
                    && message(status, STALLED).contains(why)
            })
            .await;
        assert_eq!(status.gpus[0].mig.as_ref().unwrap().instances, before, "{why}");
    }
    post.assign(json!({ "gpus": [{ "uuid": "GPU-00000000-0000", "instances": [] }] })).await;
    let why = "GPU-00000000-0000, which is not here";
    let gone = post.until(why, |status| message(status, LAYOUT_APPLIED).contains(why)).await;
    assert_eq!(condition(&gone, STALLED), ("True", "Refused"));
    assert_eq!(gone.gpus[0].mig.as_ref().unwrap().instances, before);
}

#[tokio::test]
async fn the_mig_mode_is_changed_only_where_a_policy_lets_the_agent() {
    let mut post = Post::new(r#"gpus = [{ model = "H100-80" }, { model = "A100-40" }]"#).await;
    let policy = |mode_change| json!({ "defaultConfig": "all-enabled", "modeChange": mode_change });
    post.policy(policy("Never")).await;
    post.start().await;
    let never = post.until("refusal", |status| condition(status, STALLED) == ("True", "Refused")).await;
    assert!(message(&never, STALLED).contains("modeChange Never"), "{}", message(&never, STALLED));
    assert!(never.gpus.iter().all(|gpu| !gpu.mig.as_ref().unwrap().enabled));

    post.policy(policy("WhenCordoned")).await;
    post.until("waiting", |status| condition(status, LAYOUT_APPLIED) == ("False", "InUse")).await;
    post.cluster.kubectl(&["cordon", &post.name]).await.unwrap();
    let changed = post.until("MIG", |status| status.gpus[0].mig.as_ref().unwrap().enabled).await;
    assert!(!changed.gpus[1].mig.as_ref().unwrap().enabled, "Ampere needs a reset");
    let pending =
        post.until("pending", |status| status.gpus[1].mig.as_ref().unwrap().pending == Some(true)).await;
    assert!(message(&pending, LAYOUT_APPLIED).contains("reset"), "{}", message(&pending, LAYOUT_APPLIED));
    post.control.reset(1).unwrap();
    post.until_layout(&["", ""]).await;
    post.cluster.kubectl(&["uncordon", &post.name]).await.unwrap();
}
