//! What is wrong ends in a condition and a message a person can act on, and holds nobody else up.

use serde_json::{Value, json};

use crate::ground::{Ground, QUEUE, condition, is};
use crate::objects::{GPU, cluster_queue, flavor, in_queue, job, kueue, local_queue};

/// A job goes through the ground's own queue as if nothing were wrong.
async fn others_go_on(ground: &Ground, name: &str) {
    ground.create(job(name, 1, 1, Some("100ms"))).await;
    ground.finished(name, "Succeeded").await;
}

#[tokio::test]
async fn a_job_in_a_queue_that_leads_nowhere_is_told_where_the_way_ends_and_goes_on_when_it_is_made() {
    let ground = Ground::new("nowhere", 2).await;
    ground.create(in_queue(job("lost", 1, 1, None), "no-such-queue")).await;
    assert_eq!(ground.waits("lost", "Misconfigured").await, "LocalQueue no-such-queue doesn't exist");
    ground.told("Workload", &ground.workload_of("lost").await, "Pending", "LocalQueue no-such-queue").await;
    others_go_on(&ground, "meanwhile").await;

    ground.apply(&local_queue("nowhere", "no-such-queue", "no-such-cluster-queue")).await;
    let says = |workload: &Value| {
        condition(workload, "QuotaReserved")
            .is_some_and(|c| c["message"] == "ClusterQueue no-such-cluster-queue doesn't exist")
    };
    let gone = |queue: &Value| {
        condition(queue, "Active")
            .is_some_and(|c| c["reason"] == "ClusterQueueDoesNotExist" && c["status"] == "False")
    };
    ground.sees("LocalQueue", "no-such-queue", "says what is missing", gone).await;
    ground.workload("lost", "is told what is missing now", says).await;
    ground.apply(&cluster_queue("no-such-cluster-queue", "nowhere", 1)).await;
    ground.runs("lost").await;
}

#[tokio::test]
async fn requests_that_cannot_be_counted_are_named_and_nobody_waits_behind_them() {
    let ground = Ground::new("requests", 2).await;
    let requesting = |name: &str, pods: u32, resource: &str, amount: &str| {
        let mut job = job(name, pods, 1, None);
        job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = json!({resource: amount});
        job
    };
    let most = i64::MAX.to_string();
    ground.create(requesting("cpu", 1, "cpu", &most)).await;
    let message = ground.waits("cpu", "Misconfigured").await;
    let wanted = format!("pod set main: container train requests cpu: \"{most}\" is too large");
    assert!(message.contains(&wanted) || message.contains("too large"), "{message}");
    ground.create(requesting("sum", 2, "memory", &most)).await;
    let message = ground.waits("sum", "Misconfigured").await;
    assert!(message.contains("memory") && message.contains("exceed"), "{message}");
    let mut other = job("other", 1, 1, None);
    other["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"limits": {"example.com/license": 1}});
    ground.create(other).await;
    let message = ground.waits("other", "NoMatchingFlavor").await;
    assert!(message.contains("resource example.com/license unavailable in ClusterQueue"), "{message}");
    ground.create(job("too-many", 1000, 1, None)).await;
    let message = ground.waits("too-many", "ExceedsMaxQuota").await;
    assert!(message.contains("maximum capacity (2)"), "{message}");
    others_go_on(&ground, "meanwhile").await;
}

#[tokio::test]
async fn a_workload_made_by_hand_with_negative_requests_is_told_and_one_in_order_is_admitted() {
    let ground = Ground::new("by-person", 2).await;
    let workload = |name: &str, amount: &str| {
        let containers = json!([{"name": "c", "image": "i", "resources": {"requests": {GPU: amount}}}]);
        let template = json!({"spec": {"containers": containers, "restartPolicy": "Never"}});
        kueue(
            "Workload",
            name,
            json!({"spec": {
                "queueName": QUEUE, "podSets": [{"name": "main", "count": 1, "template": template}],
            }}),
        )
    };
    ground.apply(&workload("negative", "-1")).await;
    let told = |workload: &Value| {
        condition(workload, "QuotaReserved")
            .is_some_and(|c| c["status"] == "False" && c["reason"] == "Misconfigured")
    };
    let negative = ground.sees("Workload", "negative", "is told what is wrong", told).await;
    let message = condition(&negative, "QuotaReserved").unwrap()["message"].as_str().unwrap();
    assert!(message.contains("container c requests nvidia.com/gpu: \"-1\" is negative"), "{message}");
    let refused = ground.try_apply(&workload("unparsable", "many")).await.unwrap_err();
    assert!(refused.contains("spec.podSets[0]"), "{refused}");
    ground.apply(&workload("good", "2")).await;
    ground.sees("Workload", "good", "is admitted", |workload| is(workload, "Admitted")).await;
    ground.counts("by-person", 0, 1, 2).await;
    ground.delete("Workload", "good").await;
    ground.counts("by-person", 0, 0, 0).await;
}

#[tokio::test]
async fn a_cluster_queue_that_cannot_be_honoured_says_why_and_is_active_when_it_is_put_right() {
    let ground = Ground::new("specs", 2).await;
    ground.apply(&flavor("specs-other")).await;
    let given = |flavor: &str, resource: &str, amount: &str| json!({"name": flavor, "resources": [{"name": resource, "nominalQuota": amount}]});
    let group = |resource: &str, flavors: Value| json!({"coveredResources": [resource], "flavors": flavors});
    let queue = |groups: Value| {
        kueue(
            "ClusterQueue",
            "specs-bad",
            json!({"spec": {"namespaceSelector": {}, "resourceGroups": groups}}),
        )
    };
    let most = format!("{}", i64::MAX);
    let one = |amount: &str| json!([group(GPU, json!([given("specs", GPU, amount)]))]);
    let same_flavor = json!([
        group(GPU, json!([given("specs", GPU, "1")])),
        group("cpu", json!([given("specs", "cpu", "1")]))
    ]);
    let same_resource = json!([
        group(GPU, json!([given("specs", GPU, "1")])),
        group(GPU, json!([given("specs-other", GPU, "1")]))
    ]);
    let other_resource = json!([group(GPU, json!([given("specs", "cpu", "1")]))]);
    for (what, groups, says) in [
        ("negative", one("-1"), "negative"),
        ("too large", json!([group("cpu", json!([given("specs", "cpu", &most)]))]), "too large"),
        ("a flavor twice", same_flavor, "flavor specs is listed more than once"),
        (
            "a resource twice",
            same_resource,
            "resource nvidia.com/gpu is covered by more than one resource group",
        ),
        ("another resource", other_resource, "specs"),
    ] {
        ground.apply(&queue(groups)).await;
        let message = ground.is_inactive("specs-bad", "InvalidSpec").await;
        assert!(message.contains(says), "{what}: {message}");
    }
    // What the schema can tell is refused at once.
    let refused = ground.try_apply(&queue(one("plenty"))).await.unwrap_err();
    assert!(refused.contains("nominalQuota"), "{refused}");
    others_go_on(&ground, "meanwhile").await;
    ground.apply(&queue(one("1"))).await;
    ground.is_active("specs-bad").await;

    let checks = json!({"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "specs-check"}]}}});
    ground.patch("ClusterQueue", "specs-bad", checks).await;
    let message = ground.is_inactive("specs-bad", "AdmissionCheckNotFound").await;
    assert!(message.contains("specs-check"), "{message}");
    ground.patch("ClusterQueue", "specs-bad", json!({"spec": {"admissionChecksStrategy": null}})).await;
    ground.is_active("specs-bad").await;
}

#[tokio::test]
async fn quotas_of_a_cohort_whose_sum_cannot_be_counted_still_admit_what_fits() {
    let ground = Ground::empty("sums").await;
    ground.apply(&flavor("sums")).await;
    for name in ["sums-a", "sums-b"] {
        let mut queue = cluster_queue(name, "sums", 0);
        queue["spec"]["cohortName"] = json!("sums");
        queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] =
            json!(i64::MAX.to_string());
        ground.apply(&queue).await;
        ground.apply(&local_queue("sums", name, name)).await;
        ground.is_active(name).await;
    }
    ground.create(in_queue(job("job", 1, 1, None), "sums-a")).await;
    ground.runs("job").await;
    ground.counts("sums-a", 0, 1, 1).await;
}

#[tokio::test]
async fn a_cohort_cycle_stops_the_queues_below_it_until_it_is_broken() {
    let ground = Ground::new("cycle", 1).await;
    let cohort = |name: &str, parent: &str| kueue("Cohort", name, json!({"spec": {"parentName": parent}}));
    ground.apply(&cohort("cycle-x", "cycle-y")).await;
    let mut queue = cluster_queue("cycle-queue", "cycle", 1);
    queue["spec"]["cohortName"] = json!("cycle-x");
    ground.apply(&queue).await;
    ground.apply(&local_queue("cycle", "below", "cycle-queue")).await;
    ground.is_active("cycle-queue").await;
    ground.create(in_queue(job("runs", 1, 1, None), "below")).await;
    ground.runs("runs").await;

    ground.apply(&cohort("cycle-y", "cycle-x")).await;
    let message = ground.is_inactive("cycle-queue", "CohortCycle").await;
    assert!(message.contains("cohort cycle-x is its own ancestor"), "{message}");
    ground.create(in_queue(job("waits", 1, 1, None), "below")).await;
    let message = ground.waits("waits", "Suspended").await;
    assert!(message.contains("cycle-x is its own ancestor"), "{message}");
    others_go_on(&ground, "meanwhile").await;
    assert_eq!(ground.get("Job", "runs").await.unwrap()["spec"]["suspend"], false, "what runs goes on");

    ground.delete("Cohort", "cycle-y").await;
    ground.is_active("cycle-queue").await;
    ground.waits("waits", "WaitingForQuota").await;
    ground.delete("Job", "runs").await;
    ground.runs("waits").await;
}
