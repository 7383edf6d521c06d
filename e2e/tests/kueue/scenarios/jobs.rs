//! What Jobs and pods say by labels and annotations.

use serde_json::{Value, json};

use super::{Scenario, counts};
use crate::ground::{condition, is};

/// A change of who gates an admission.
fn gated_by(gates: &Value) -> Value {
    json!({ "metadata": { "annotations": { "kueue.x-k8s.io/admission-gated-by": gates } } })
}

#[tokio::test]
async fn a_job_says_by_labels_what_it_needs_and_gets_it() {
    let scenario = Scenario::set_up("jobs").await;
    let ground = scenario.ground();
    let unnamed = scenario.gets_in("unnamed").await;
    assert_eq!(unnamed["spec"]["queueName"], "default");

    assert_eq!(counts(&scenario.gets_in("flexible").await), [("main", 4)]);
    let fewer = ground.runs("flexible").await;
    assert_eq!((&fewer["spec"]["parallelism"], &fewer["spec"]["completions"]), (&json!(4), &json!(4)));

    scenario.gets_in("elastic").await;
    ground.runs("elastic").await;
    ground.patch("Job", "elastic", json!({ "spec": { "parallelism": 2 } })).await;
    let larger = ground.runs("elastic").await;
    assert_eq!(larger["status"]["active"], 2, "it grew without a stop");
    ground.counts("jobs-elastic", 0, 1, 2).await;

    scenario.gets_in("short").await;
    let out = |workload: &Value| workload["spec"]["active"] == false && is(workload, "Evicted");
    let out = scenario.sees("short", "is taken out", out).await;
    assert_eq!(out["spec"]["maximumExecutionTimeSeconds"], 2);

    let message = scenario.has_to_wait("gated", "AdmissionGated").await;
    assert_eq!(message, "Admission is gated by: example.com/budget,example.com/safety");
    ground.patch("Job", "gated", gated_by(&json!("example.com/safety"))).await;
    let one_gate = |workload: &Value| {
        condition(workload, "QuotaReserved")
            .is_some_and(|c| c["message"] == "Admission is gated by: example.com/safety")
    };
    scenario.sees("gated", "is gated by one", one_gate).await;
    ground.patch("Job", "gated", gated_by(&Value::Null)).await;
    scenario.admitted("gated").await;
}

#[tokio::test]
async fn pods_are_queued_alone_or_as_the_group_that_they_say_they_are() {
    let scenario = Scenario::set_up("pods").await;
    let ground = scenario.ground();
    let runs = |pod: &Value| pod["status"]["phase"] == "Running";
    let alone = scenario.gets_in("alone").await;
    assert_eq!(
        (&alone["spec"]["priority"], &alone["spec"]["maximumExecutionTimeSeconds"]),
        (&json!(100), &json!(60))
    );
    ground.sees("Pod", "alone", "runs", runs).await;

    scenario.submit("pair-driver").await;
    ground.told("Pod", "pair-driver", "ErrWorkloadCompose", "fewer runnable pods").await;
    scenario.submit("pair-worker").await;
    let pair = ground.sees("Workload", "pair", "is admitted", |w| is(w, "Admitted")).await;
    assert_eq!(counts(&pair).iter().map(|(_, count)| count).sum::<u64>(), 2);
    for pod in ["pair-driver", "pair-worker"] {
        ground.sees("Pod", pod, "runs", runs).await;
    }

    scenario.submit("fast-first").await;
    let fast = ground.sees("Workload", "fast", "is admitted", |w| is(w, "Admitted")).await;
    assert_eq!(counts(&fast), [("worker", 3)], "quota for all of them, of the role that was said");
    ground.sees("Pod", "fast-first", "runs", runs).await;

    scenario.submit("fragile").await;
    let over = ground.sees("Workload", "fragile", "is over", |w| is(w, "Finished")).await;
    assert_eq!(condition(&over, "Finished").unwrap()["message"], "Pods succeeded: 0/1.");
}
