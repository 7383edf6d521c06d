//! Flavors, cohorts and queues: who gets what, in which order, and who may not at all.

use serde_json::{Value, json};

use super::{Scenario, flavor};
use crate::ground::is;
use crate::objects::{A100, PRODUCT};

#[tokio::test]
async fn pods_get_a_flavor_that_they_tolerate_and_what_it_adds() {
    let scenario = Scenario::set_up("flavors").await;
    assert_eq!(flavor(&scenario.gets_in("careful").await), "flavors-reserved");
    let cheap = scenario.gets_in("cheap").await;
    assert_eq!(flavor(&cheap), "flavors-spot");
    let assigned = &cheap["status"]["admission"]["podSetAssignments"][0]["flavors"];
    assert_eq!((&assigned["cpu"], &assigned["memory"]), (&json!("flavors-cpu"), &json!("flavors-cpu")));
    let message = scenario.has_to_wait("confused", "NoMatchingFlavor").await;
    assert!(message.contains("doesn't match node affinity"), "{message}");

    let careful = scenario.ground().runs("careful").await;
    let pod = &careful["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"], json!({ PRODUCT: A100, "kubernetes.io/arch": "amd64" }));
    let given = json!([
        { "key": "example.com/network", "operator": "Equal", "value": "bad", "effect": "NoExecute", "tolerationSeconds": 300 },
        { "key": "example.com/maintenance", "operator": "Exists" },
    ]);
    assert_eq!(pod["tolerations"], given);
    let cheap = scenario.ground().runs("cheap").await;
    assert_eq!(cheap["spec"]["template"]["spec"]["nodeSelector"]["whalezen.dev/pool"], "a100");
}

#[tokio::test]
async fn a_queue_borrows_preempts_or_goes_on_to_the_next_flavor_as_its_policy_says() {
    let scenario = Scenario::set_up("fungibility").await;
    for (queue, first) in [("borrows", "fungibility-new"), ("goes-on", "fungibility-old")] {
        assert_eq!(flavor(&scenario.gets_in(queue).await), first, "{queue}");
    }
    assert_eq!(flavor(&scenario.gets_in("preempted").await), "fungibility-new");
    assert_eq!(flavor(&scenario.gets_in("preempts").await), "fungibility-new");
    goes_on_to(&scenario, "preempted", "fungibility-old").await;

    assert_eq!(flavor(&scenario.gets_in("spared").await), "fungibility-new");
    assert_eq!(flavor(&scenario.gets_in("spares").await), "fungibility-old");
    assert!(scenario.is_undisturbed("spared").await);

    assert_eq!(flavor(&scenario.gets_in("beside-a-loan").await), "fungibility-old");
    assert_eq!(flavor(&scenario.gets_in("takes-a-loan").await), "fungibility-new");
    assert!(scenario.is_undisturbed("beside-a-loan").await);

    assert_eq!(flavor(&scenario.gets_in("victim").await), "fungibility-old");
    assert_eq!(flavor(&scenario.gets_in("takes-a-victim").await), "fungibility-old");
    goes_on_to(&scenario, "victim", "fungibility-new").await;
}

/// Sees that somebody who had to stop runs on another flavor.
async fn goes_on_to(scenario: &Scenario, name: &str, other: &str) {
    let moved = |workload: &Value| is(workload, "Admitted") && flavor(workload) == other;
    let workload = scenario.sees(name, &format!("runs on {other}"), moved).await;
    assert_eq!(workload["status"]["schedulingStats"]["evictions"][0]["reason"], "Preempted");
}

#[tokio::test]
async fn a_tree_of_cohorts_lends_within_the_limits_of_each_level() {
    let scenario = Scenario::set_up("cohorts").await;
    scenario.gets_in("large").await;
    for name in ["too-large", "too-large-for-speech", "too-large-for-product"] {
        scenario.has_to_wait(name, "ExceedsMaxQuota").await;
    }
    let message = scenario.has_to_wait("of-product", "WaitingForQuota").await;
    assert!(message.contains("2 more needed"), "research has the company's two: {message}");
    let queue = scenario.ground().counts("cohorts-vision", 1, 1, 5).await;
    assert_eq!(queue["status"]["flavorsUsage"][0]["resources"][0]["borrowed"], "4");
    scenario.delete("large").await;
    scenario.admitted("of-product").await;
}

#[tokio::test]
async fn a_queue_keeps_its_order_or_lets_small_jobs_pass_and_priority_goes_first() {
    let scenario = Scenario::set_up("queueing").await;
    for queue in ["strict", "best-effort"] {
        scenario.gets_in(&format!("{queue}-first")).await;
        scenario.has_to_wait(&format!("{queue}-large"), "WaitingForQuota").await;
    }
    scenario.gets_in("best-effort-small").await;
    scenario.has_to_wait("strict-small", "PendingEvaluation").await;
    scenario.submit("soon").await;
    scenario.has_to_wait("urgent", "WaitingForQuota").await;
    let mut last = "strict-first";
    for (next, priority) in [("urgent", 1000), ("soon", 100), ("strict-large", 0), ("strict-small", 0)] {
        scenario.delete(last).await;
        let workload = scenario.admitted(next).await;
        assert_eq!(workload["spec"]["priority"], priority);
        last = next;
    }
}

#[tokio::test]
async fn a_selector_says_which_namespaces_may_use_a_queue() {
    let scenario = Scenario::set_up("namespaces").await;
    for queue in ["by-label", "by-expressions"] {
        scenario.gets_in(&format!("of-the-team-{queue}")).await;
        let message = scenario.has_to_wait(&format!("of-a-guest-{queue}"), "Misconfigured").await;
        assert_eq!(message, "The workload namespace doesn't match ClusterQueue selector");
    }
    scenario.has_to_wait("of-anybody", "Misconfigured").await;
}

#[tokio::test]
async fn a_queue_that_is_stopped_here_or_for_everybody_admits_nobody() {
    let scenario = Scenario::set_up("stopped").await;
    scenario.gets_in("job-open").await;
    for queue in ["on-hold-here", "drained-here"] {
        let message = scenario.has_to_wait(&format!("job-{queue}"), "Suspended").await;
        assert_eq!(message, format!("LocalQueue {queue} is stopped"));
    }
    for queue in ["on-hold", "drained"] {
        scenario.has_to_wait(&format!("job-{queue}"), "Suspended").await;
        let message = scenario.ground().is_inactive(&format!("stopped-{queue}"), "Stopped").await;
        assert_eq!(message, "Can't admit new workloads: is stopped.");
    }
    assert!(scenario.is_undisturbed("job-open").await);
    let opened = json!({ "spec": { "stopPolicy": "None" } });
    scenario.ground().patch("ClusterQueue", "stopped-drained", opened.clone()).await;
    scenario.admitted("job-drained").await;
    scenario.ground().patch("LocalQueue", "drained-here", opened).await;
    scenario.admitted("job-drained-here").await;
}
