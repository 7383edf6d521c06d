//! Preemption with real Jobs: who has to stop stops, keeps its place, and runs again with nothing lost.

use serde_json::{Value, json};

use crate::{
    ground::{Ground, QUEUE, condition, is, text},
    objects::{cluster_queue, in_queue, job, local_queue, workload_priority_class},
};

const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";

/// A Job of this `WorkloadPriorityClass`.
fn of_class(mut job: Value, class: &str) -> Value {
    job["metadata"]["labels"][PRIORITY_CLASS] = json!(class);
    job
}

fn suspended(job: &Value) -> bool {
    job["spec"]["suspend"] == true && job["status"]["active"].as_u64().unwrap_or_default() == 0
}

/// Pods that ended, well or badly.
fn ended(job: &Value) -> (u64, u64) {
    let count = |what: &str| job["status"][what].as_u64().unwrap_or_default();
    (count("succeeded"), count("failed"))
}

#[tokio::test]
async fn a_job_of_lower_priority_stops_for_one_of_higher_and_runs_again_afterwards() {
    let ground = Ground::new("preempts", 4).await;
    ground.apply(&workload_priority_class("preempts-high", 100)).await;
    ground
        .patch(
            "ClusterQueue",
            "preempts",
            json!({"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}),
        )
        .await;
    ground.create(job("low", 2, 2, None)).await;
    let before = ground.runs("low").await;
    ground.create(of_class(job("high", 2, 2, None), "preempts-high")).await;

    let stopped = ground.sees("Job", "low", "stops", suspended).await;
    assert_eq!(ended(&stopped), (0, 0), "its pods are deleted, and nothing counts as failed");
    ground.runs("high").await;
    let victim =
        ground.workload("low", "waits again", |w| is(w, "Requeued") && !is(w, "QuotaReserved")).await;
    let preemptor = ground.admitted("high").await;
    let evicted = condition(&victim, "Evicted").unwrap();
    assert_eq!(evicted["reason"], "Preempted");
    let message = text(evicted, "/message");
    for part in [
        format!("(UID: {},", text(&preemptor, "/metadata/uid")),
        "due to prioritization in the ClusterQueue".to_owned(),
        "preemptor path: /preempts; preemptee path: /preempts".to_owned(),
    ] {
        assert!(message.contains(&part), "{message}");
    }
    assert_eq!(condition(&victim, "Preempted").unwrap()["reason"], "InClusterQueue");
    let name = ground.workload_of("low").await;
    ground.told("Workload", &name, "Preempted", "Preempted to accommodate a workload").await;
    ground
        .told("Workload", &ground.workload_of("high").await, "PreemptedWorkload", "Preempted workload")
        .await;
    ground.counts("preempts", 1, 1, 4).await;

    ground.delete("Job", "high").await;
    let again = ground.runs("low").await;
    assert_eq!(ended(&again), ended(&before));
    let workload = ground.admitted("low").await;
    for over in ["Evicted", "Preempted"] {
        assert!(!is(&workload, over), "{over} is over: {workload:#}");
    }
}

#[tokio::test]
async fn a_queue_takes_its_quota_back_from_who_borrows_it_and_the_first_victim_does_not_return() {
    let ground = Ground::empty("reclaims").await;
    ground.apply(&crate::objects::flavor("reclaims")).await;
    for (queue, gpus, reclaim) in [("owner", 4, "Any"), ("guest", 0, "Never")] {
        let name = format!("reclaims-{queue}");
        let mut object = cluster_queue(&name, "reclaims", gpus);
        object["spec"]["cohortName"] = json!("reclaims");
        object["spec"]["preemption"] = json!({"reclaimWithinCohort": reclaim});
        ground.apply(&object).await;
        ground.apply(&local_queue("reclaims", if queue == "owner" { QUEUE } else { queue }, &name)).await;
    }
    for name in ["one", "two"] {
        ground.create(in_queue(job(name, 1, 2, None), "guest")).await;
        ground.runs(name).await;
    }
    ground.create(job("owns", 2, 2, None)).await;
    ground.runs("owns").await;
    for name in ["one", "two"] {
        let victim = ground.workload(name, "waits", |w| is(w, "Requeued") && !is(w, "QuotaReserved")).await;
        assert_eq!(condition(&victim, "Preempted").unwrap()["reason"], "InCohortReclamation");
    }
    ground.counts("reclaims-owner", 0, 1, 4).await;
    ground.counts("reclaims-guest", 2, 0, 0).await;
    ground.delete("Job", "owns").await;
    ground.runs("one").await;
    ground.runs("two").await;
}

#[tokio::test]
async fn in_a_freeze_a_preemptor_waits_and_says_why_and_after_it_goes_on() {
    // A policy is for the whole cluster: others must not be held back by it.
    let site = crate::ground::Site::start(2, true).await;
    let ground = Ground::bare(&site, "frozen").await;
    ground.queues(2).await;
    ground.apply(&workload_priority_class("frozen-high", 100)).await;
    ground
        .patch(
            "ClusterQueue",
            "frozen",
            json!({"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}),
        )
        .await;
    let policy = |freeze: bool| {
        json!({
            "apiVersion": "scheduling.gen.io/v1alpha1", "kind": "SchedulingPolicy",
            "metadata": {"name": "careful"},
            "spec": {"freeze": freeze, "circuitBreaker": {"evictions": 1, "windowSeconds": 600}},
        })
    };
    ground.apply(&policy(true)).await;
    let closed =
        |policy: &Value| condition(policy, "CircuitBreakerTripped").is_some_and(|c| c["status"] == "False");
    ground.sees("SchedulingPolicy", "careful", "has been read", closed).await;
    ground.create(job("low", 1, 2, None)).await;
    ground.runs("low").await;
    ground.create(of_class(job("high", 1, 2, None), "frozen-high")).await;
    let held_back = ground
        .workload("high", "says why", |w| {
            condition(w, "QuotaReserved").is_some_and(|c| text(c, "/message").contains("careful freezes it"))
        })
        .await;
    assert!(!is(&held_back, "QuotaReserved"));
    assert!(!suspended(&ground.get("Job", "low").await.unwrap()));

    ground.apply(&policy(false)).await;
    ground.runs("high").await;
    ground.sees("SchedulingPolicy", "careful", "tripped at one", |p| is(p, "CircuitBreakerTripped")).await;
    crate::journal::replay_all(&site).await;
}
