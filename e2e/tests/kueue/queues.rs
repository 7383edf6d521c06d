//! Queues, quota and flavors: what an administrator changes while work waits and runs.

use serde_json::{Value, json};

use crate::ground::{Ground, QUEUE, condition, is, is_current, text, used};
use crate::objects::{GPU, cluster_queue, flavor, in_queue, job, kueue, local_queue};

/// A change of the quota of a ClusterQueue with one flavor.
fn quota(flavor: &str, quota: &Value) -> Value {
    let mut resource = json!({"name": GPU});
    resource.as_object_mut().unwrap().extend(quota.as_object().unwrap().clone());
    let flavors = json!([{"name": flavor, "resources": [resource]}]);
    json!({"spec": {"resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}]}})
}

/// A ClusterQueue in a cohort, with limits where they are given, and a LocalQueue of the same name.
async fn member(ground: &Ground, name: &str, cohort: &str, given: Value) {
    let mut queue = kueue("ClusterQueue", name, quota(&ground.name, &given));
    queue["spec"]["cohortName"] = json!(cohort);
    queue["spec"]["namespaceSelector"] = json!({});
    ground.apply(&queue).await;
    ground.apply(&local_queue(&ground.name, name, name)).await;
    ground.is_active(name).await;
}

#[tokio::test]
async fn the_status_of_queues_counts_who_waits_and_what_is_used_and_borrowed() {
    let ground = Ground::empty("status").await;
    ground.apply(&flavor("status")).await;
    member(&ground, "status-a", "status", json!({"nominalQuota": 2})).await;
    member(&ground, "status-b", "status", json!({"nominalQuota": 3})).await;
    ground.create(in_queue(job("large", 2, 2, None), "status-a")).await;
    ground.admitted("large").await;
    ground.create(in_queue(job("waits", 1, 2, None), "status-a")).await;
    ground.waits("waits", "WaitingForQuota").await;

    let queue = ground.counts("status-a", 1, 1, 4).await;
    for list in ["flavorsReservation", "flavorsUsage"] {
        let wanted = json!([{"name": "status", "resources": [{"name": GPU, "total": "4", "borrowed": "2"}]}]);
        assert_eq!(queue["status"][list], wanted, "{list}");
    }
    let local = ground
        .sees("LocalQueue", "status-a", "counts them too", |queue| {
            queue["status"]["pendingWorkloads"] == 1 && queue["status"]["admittedWorkloads"] == 1
        })
        .await;
    for list in ["flavorsReservation", "flavorsUsage"] {
        let wanted = json!([{"name": "status", "resources": [{"name": GPU, "total": "4"}]}]);
        assert_eq!(local["status"][list], wanted, "{list}");
    }
    assert_eq!(local["status"]["reservingWorkloads"], 1);
    for queue in [&queue, &local] {
        assert!(is(queue, "Active") && is_current(queue), "{queue:#}");
    }
    assert_eq!(condition(&queue, "Active").unwrap()["reason"], "Ready");

    // The condition follows the spec even where nothing else changes.
    let changed =
        ground.patch("ClusterQueue", "status-b", json!({"spec": {"queueingStrategy": "StrictFIFO"}})).await;
    assert_ne!(changed["metadata"]["generation"], 1);
    ground.is_active("status-b").await;

    let table = ground.kubectl(&["get", "clusterqueue", "status-a", "--output=wide"]).await;
    let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0].join(" "), "NAME COHORT STRATEGY PENDING WORKLOADS ADMITTED WORKLOADS");
    assert_eq!(words[1], ["status-a", "status", "BestEffortFIFO", "1", "1"]);
}

#[tokio::test]
async fn more_quota_lets_in_who_waits_and_less_lets_nobody_in_until_it_is_enough() {
    let ground = Ground::new("resized", 2).await;
    ground.create(job("first", 1, 2, None)).await;
    ground.runs("first").await;
    ground.create(job("second", 1, 2, None)).await;
    ground.waits("second", "WaitingForQuota").await;
    ground.patch("ClusterQueue", "resized", quota("resized", &json!({"nominalQuota": 4}))).await;
    ground.runs("second").await;

    ground.patch("ClusterQueue", "resized", quota("resized", &json!({"nominalQuota": 1}))).await;
    ground.is_active("resized").await;
    ground.create(job("third", 1, 1, None)).await;
    ground.waits("third", "WaitingForQuota").await;
    ground.counts("resized", 1, 2, 4).await;
    ground.delete("Job", "first").await;
    // Half of it is gone, and it is still too much.
    ground.counts("resized", 1, 1, 2).await;
    ground.waits("third", "WaitingForQuota").await;
    assert!(!is(&ground.workload("second", "is there", |_| true).await, "Evicted"));
    ground.delete("Job", "second").await;
    ground.runs("third").await;
    ground.counts("resized", 0, 1, 1).await;
}

#[tokio::test]
async fn a_flavor_that_appears_late_activates_its_queue_and_lets_in_who_waits() {
    let ground = Ground::empty("late").await;
    ground.apply(&cluster_queue("late", "late", 1)).await;
    ground.apply(&local_queue("late", QUEUE, "late")).await;
    let message = ground.is_inactive("late", "FlavorNotFound").await;
    assert_eq!(message, "Can't admit new workloads: references missing ResourceFlavor(s): late.");
    let inactive = |queue: &Value| {
        condition(queue, "Active")
            .is_some_and(|c| c["status"] == "False" && c["reason"] == "ClusterQueueIsInactive")
    };
    ground.sees("LocalQueue", QUEUE, "is inactive too", inactive).await;
    ground.create(job("job", 1, 1, None)).await;
    let message = ground.waits("job", "Suspended").await;
    assert!(message.contains("references missing ResourceFlavor(s): late"), "{message}");
    ground.apply(&flavor("late")).await;
    ground.runs("job").await;
    ground.is_active("late").await;
    ground.sees("LocalQueue", QUEUE, "is active", |queue| is(queue, "Active")).await;
}

#[tokio::test]
async fn in_a_cohort_idle_quota_is_borrowed_within_both_limits() {
    let ground = Ground::empty("cohort").await;
    ground.apply(&flavor("cohort")).await;
    member(&ground, "cohort-borrower", "cohort", json!({"nominalQuota": 2, "borrowingLimit": 3})).await;
    member(&ground, "cohort-lender", "cohort", json!({"nominalQuota": 8, "lendingLimit": 2})).await;
    ground.create(in_queue(job("too-large", 1, 5, None), "cohort-borrower")).await;
    let message = ground.waits("too-large", "ExceedsMaxQuota").await;
    assert!(message.contains("maximum capacity (4)"), "the lender lends no more than 2: {message}");
    ground.create(in_queue(job("fits", 1, 4, None), "cohort-borrower")).await;
    ground.admitted("fits").await;

    // The lender lends more; what may be borrowed is then the borrower's own limit.
    let mut more = quota("cohort", &json!({"nominalQuota": 8, "lendingLimit": 8}));
    more["spec"]["cohortName"] = json!("cohort");
    ground.patch("ClusterQueue", "cohort-lender", more).await;
    let message = ground.waits("too-large", "WaitingForQuota").await;
    assert!(message.contains("4 more needed"), "{message}");
    ground.create(in_queue(job("one", 1, 1, None), "cohort-borrower")).await;
    ground.admitted("one").await;
    let queue = ground.counts("cohort-borrower", 1, 2, 5).await;
    assert_eq!(queue["status"]["flavorsUsage"][0]["resources"][0]["borrowed"], "3");

    // What is lent is not there for the lender.
    ground.create(in_queue(job("own", 1, 6, None), "cohort-lender")).await;
    let message = ground.waits("own", "WaitingForQuota").await;
    assert!(message.contains("1 more needed"), "{message}");
    ground.delete("Job", "one").await;
    ground.runs("own").await;
}

#[tokio::test]
async fn strict_fifo_keeps_everybody_behind_its_head_and_best_effort_does_not() {
    let ground = Ground::new("fifo", 2).await;
    let strict = json!({"spec": {"queueingStrategy": "StrictFIFO"}});
    ground.patch("ClusterQueue", "fifo", strict).await;
    ground.is_active("fifo").await;
    ground.create(job("holder", 1, 1, None)).await;
    ground.runs("holder").await;
    ground.create(job("head", 1, 2, None)).await;
    ground.waits("head", "WaitingForQuota").await;
    let mut behind = job("behind", 1, 1, None);
    // Creation times count seconds, and of two of one second the name decides.
    behind["metadata"]["name"] = json!("small");
    ground.create(behind).await;
    let message = ground.waits("small", "PendingEvaluation").await;
    assert!(message.contains("StrictFIFO") && message.contains("fifo/job-head-"), "{message}");
    ground.counts("fifo", 2, 1, 1).await;

    ground.patch("ClusterQueue", "fifo", json!({"spec": {"queueingStrategy": "BestEffortFIFO"}})).await;
    ground.runs("small").await;
    ground.counts("fifo", 1, 2, 2).await;
    ground.delete("Job", "holder").await;
    ground.delete("Job", "small").await;
    ground.runs("head").await;
}

#[tokio::test]
async fn flavors_are_tried_in_order_and_resource_groups_are_assigned_each_by_itself() {
    let ground = Ground::empty("groups").await;
    for name in ["groups-first", "groups-second", "groups-cpu"] {
        ground.apply(&flavor(name)).await;
    }
    let given = |flavor: &str, resource: &str, amount: &str| json!({"name": flavor, "resources": [{"name": resource, "nominalQuota": amount}]});
    ground
        .apply(&kueue("ClusterQueue", "groups", json!({"spec": {"namespaceSelector": {}, "resourceGroups": [
            {"coveredResources": [GPU], "flavors": [given("groups-first", GPU, "1"), given("groups-second", GPU, "2")]},
            {"coveredResources": ["cpu"], "flavors": [given("groups-cpu", "cpu", "4")]},
        ]}})))
        .await;
    ground.apply(&local_queue("groups", QUEUE, "groups")).await;
    let with_cpu = |name: &str| {
        let mut job = job(name, 1, 1, None);
        job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": "1500m"});
        job
    };
    for (name, flavor) in [("a", "groups-first"), ("b", "groups-second")] {
        ground.create(with_cpu(name)).await;
        let workload = ground.admitted(name).await;
        let flavors = &workload["status"]["admission"]["podSetAssignments"][0]["flavors"];
        assert_eq!(*flavors, json!({GPU: flavor, "cpu": "groups-cpu"}));
    }
    ground.create(with_cpu("c")).await;
    let message = ground.waits("c", "WaitingForQuota").await;
    assert!(message.contains("cpu in flavor groups-cpu, 500m more needed"), "{message}");
    let queue = ground
        .sees("ClusterQueue", "groups", "has counted", |queue| queue["status"]["admittedWorkloads"] == 2)
        .await;
    for (index, resource, amount) in [(0, GPU, "1"), (1, GPU, "1"), (2, "cpu", "3")] {
        assert_eq!(used(&queue, "flavorsUsage", index, resource), amount, "{queue:#}");
    }
    ground.delete("Job", "b").await;
    ground.admitted("c").await;
}

#[tokio::test]
async fn a_job_goes_only_where_the_flavors_taints_and_labels_let_it() {
    let ground = Ground::empty("taints").await;
    let mut tainted = flavor("taints-spot");
    tainted["spec"] = json!({
        "nodeLabels": {"whalezen.dev/kind": "spot"},
        "nodeTaints": [{"key": "spot", "value": "yes", "effect": "NoSchedule"}],
    });
    ground.apply(&tainted).await;
    ground.apply(&cluster_queue("taints", "taints-spot", 4)).await;
    ground.apply(&local_queue("taints", QUEUE, "taints")).await;
    ground.is_active("taints").await;
    ground.create(job("plain", 1, 1, None)).await;
    let message = ground.waits("plain", "NoMatchingFlavor").await;
    assert!(message.contains("untolerated taint") && message.contains("taints-spot"), "{message}");
    let mut elsewhere = job("elsewhere", 1, 1, None);
    let pod = &mut elsewhere["spec"]["template"]["spec"];
    pod["tolerations"] = json!([{"key": "spot", "operator": "Exists"}]);
    pod["nodeSelector"] = json!({"whalezen.dev/kind": "reserved"});
    ground.create(elsewhere).await;
    let message = ground.waits("elsewhere", "NoMatchingFlavor").await;
    assert!(message.contains("doesn't match node affinity"), "{message}");
    let mut tolerant = job("tolerant", 1, 1, None);
    tolerant["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "spot", "operator": "Exists"}]);
    ground.create(tolerant).await;
    ground.admitted("tolerant").await;
}

#[tokio::test]
async fn a_deleted_cluster_queue_and_its_flavor_stay_until_nobody_uses_them() {
    let ground = Ground::new("leaving", 1).await;
    ground.create(job("runs", 1, 1, None)).await;
    ground.runs("runs").await;
    for kind in ["ClusterQueue", "ResourceFlavor"] {
        let kept =
            |object: &Value| object["metadata"]["finalizers"] == json!(["kueue.x-k8s.io/resource-in-use"]);
        ground.sees(kind, "leaving", "has its finalizer", kept).await;
    }
    ground.delete("ResourceFlavor", "leaving").await;
    ground.delete("ClusterQueue", "leaving").await;
    ground.is_inactive("leaving", "Terminating").await;
    ground.create(job("late", 1, 1, None)).await;
    let message = ground.waits("late", "Suspended").await;
    assert!(message.contains("terminating"), "{message}");
    assert!(ground.get("ResourceFlavor", "leaving").await.is_some(), "its queue is still there");
    let job = ground.get("Job", "runs").await.unwrap();
    assert_eq!((&job["spec"]["suspend"], &job["status"]["active"]), (&json!(false), &json!(1)));

    ground.delete("Job", "runs").await;
    ground.gone("ClusterQueue", "leaving").await;
    ground.gone("ResourceFlavor", "leaving").await;
    let message = ground.waits("late", "Misconfigured").await;
    assert_eq!(message, "ClusterQueue leaving doesn't exist");
    let gone = |queue: &Value| {
        condition(queue, "Active")
            .is_some_and(|c| c["reason"] == "ClusterQueueDoesNotExist" && c["status"] == "False")
    };
    ground.sees("LocalQueue", QUEUE, "says that its ClusterQueue is gone", gone).await;
    ground.queues(1).await;
    ground.runs("late").await;
}

#[tokio::test]
async fn a_queue_on_hold_admits_nobody_and_lets_run_what_runs() {
    let ground = Ground::new("hold", 2).await;
    ground.create(job("runs", 1, 1, None)).await;
    ground.runs("runs").await;
    ground.patch("LocalQueue", QUEUE, json!({"spec": {"stopPolicy": "Hold"}})).await;
    let stopped = |queue: &Value| {
        condition(queue, "Active").is_some_and(|c| c["status"] == "False" && c["reason"] == "Stopped")
    };
    ground.sees("LocalQueue", QUEUE, "is stopped", stopped).await;
    ground.create(job("waits", 1, 1, None)).await;
    assert_eq!(ground.waits("waits", "Suspended").await, "LocalQueue main is stopped");
    ground.patch("ClusterQueue", "hold", json!({"spec": {"stopPolicy": "Hold"}})).await;
    assert_eq!(ground.is_inactive("hold", "Stopped").await, "Can't admit new workloads: is stopped.");
    ground.patch("LocalQueue", QUEUE, json!({"spec": {"stopPolicy": "None"}})).await;
    let inactive = |workload: &Value| {
        condition(workload, "QuotaReserved")
            .is_some_and(|c| c["status"] == "False" && c["reason"] == "Suspended")
    };
    ground.workload("waits", "still waits", inactive).await;
    ground.counts("hold", 1, 1, 1).await;
    let job = ground.get("Job", "runs").await.unwrap();
    assert_eq!((&job["spec"]["suspend"], &job["status"]["active"]), (&json!(false), &json!(1)));
    ground.patch("ClusterQueue", "hold", json!({"spec": {"stopPolicy": "None"}})).await;
    ground.runs("waits").await;
    ground.counts("hold", 0, 2, 2).await;
}

#[tokio::test]
async fn a_namespace_that_the_selector_does_not_match_waits_until_it_does() {
    let ground = Ground::new("selector", 1).await;
    let labels = json!({"spec": {"namespaceSelector": {"matchLabels": {"team": "selected"}}}});
    ground.patch("ClusterQueue", "selector", labels).await;
    ground.is_active("selector").await;
    ground.create(job("job", 1, 1, None)).await;
    let message = ground.waits("job", "Misconfigured").await;
    assert_eq!(message, "The workload namespace doesn't match ClusterQueue selector");
    ground.patch("Namespace", "selector", json!({"metadata": {"labels": {"team": "selected"}}})).await;
    ground.runs("job").await;
}

#[tokio::test]
async fn a_queue_that_changes_its_cohort_takes_its_quota_and_its_usage_along() {
    let ground = Ground::empty("moving").await;
    ground.apply(&flavor("moving")).await;
    member(&ground, "moving-a", "moving-x", json!({"nominalQuota": 2})).await;
    member(&ground, "moving-b", "moving-x", json!({"nominalQuota": 2})).await;
    member(&ground, "moving-c", "moving-y", json!({"nominalQuota": 2})).await;
    ground.create(in_queue(job("borrows", 1, 4, None), "moving-a")).await;
    ground.runs("borrows").await;
    ground.create(in_queue(job("blocked", 1, 2, None), "moving-b")).await;
    ground.waits("blocked", "WaitingForQuota").await;

    // The borrower leaves: what it borrowed is charged where it goes, and is free where it was.
    ground.patch("ClusterQueue", "moving-a", json!({"spec": {"cohortName": "moving-y"}})).await;
    ground.runs("blocked").await;
    ground.create(in_queue(job("late", 1, 1, None), "moving-c")).await;
    ground.waits("late", "WaitingForQuota").await;
    let queue = ground.counts("moving-a", 0, 1, 4).await;
    assert_eq!(queue["status"]["flavorsUsage"][0]["resources"][0]["borrowed"], "2");
    ground.delete("Job", "borrows").await;
    ground.runs("late").await;
}

#[tokio::test]
async fn quota_of_a_cohort_itself_is_shared_by_the_queues_below_it() {
    let ground = Ground::empty("tree").await;
    ground.apply(&flavor("tree")).await;
    let mut shared = kueue("Cohort", "tree-root", quota("tree", &json!({"nominalQuota": 3})));
    ground.apply(&shared).await;
    ground.apply(&kueue("Cohort", "tree-leaf", json!({"spec": {"parentName": "tree-root"}}))).await;
    member(&ground, "tree-a", "tree-leaf", json!({"nominalQuota": 0})).await;
    member(&ground, "tree-b", "tree-root", json!({"nominalQuota": 0})).await;
    ground.create(in_queue(job("a", 1, 2, None), "tree-a")).await;
    ground.runs("a").await;
    ground.create(in_queue(job("b", 1, 2, None), "tree-b")).await;
    let message = ground.waits("b", "WaitingForQuota").await;
    assert!(message.contains("1 more needed"), "{message}");
    shared["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = json!(4);
    ground.apply(&shared).await;
    ground.runs("b").await;
    // A flavor that only a cohort names is in use too.
    assert_eq!(text(&ground.get("ResourceFlavor", "tree").await.unwrap(), "/metadata/name"), "tree");
}
