//! `SchedulingPolicies` as people write them, and the brakes that they are.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in tests; these are their helpers"
)]

use serde_json::{Value, json};
use whalezen_core::{
    brakes::{Brakes, Past},
    workload::Timestamp,
};
use whalezen_crds::scheduling::v1alpha1::SchedulingPolicy;
use whalezen_dialects::policies::Policies;

/// Ten seconds into 2026.
const NOW: Timestamp = Timestamp(1_767_225_610_000);

fn policy(name: &str, spec: &Value) -> SchedulingPolicy {
    serde_json::from_value(json!({
        "apiVersion": "scheduling.gen.io/v1alpha1", "kind": "SchedulingPolicy",
        "metadata": { "name": name, "uid": format!("uid-{name}"), "generation": 3 },
        "spec": spec,
    }))
    .unwrap()
}

fn breaker() -> Value {
    json!({ "circuitBreaker": { "evictions": 2, "windowSeconds": 60 } })
}

fn past(seconds_ago: &[i64]) -> Vec<Past> {
    let past = |seconds: &i64| Past { at: Timestamp(NOW.0 - seconds * 1000), queue: "cq".into() };
    seconds_ago.iter().map(past).collect()
}

/// Policies of which the breaker has just tripped.
fn tripped() -> Policies {
    let mut policies = Policies::default();
    policies.apply(&policy("p", &breaker()));
    assert_eq!(policies.trip(&past(&[59, 1]).iter(), NOW).len(), 1);
    policies
}

#[test]
fn without_a_policy_there_are_no_brakes() {
    assert_eq!(Policies::default().brakes(), Brakes::default());
}

#[test]
fn a_freeze_and_the_limits_of_all_policies_hold_together() {
    let mut policies = Policies::default();
    policies.apply(&policy("a", &json!({ "evictionLimits": { "perHour": 5 } })));
    policies
        .apply(&policy("b", &json!({ "freeze": true, "evictionLimits": { "perClusterQueuePerHour": 0 } })));
    let brakes = policies.brakes();
    assert_eq!(brakes.frozen.as_deref(), Some("SchedulingPolicy b freezes it"));
    let limits: Vec<_> =
        brakes.limits.iter().map(|l| (&*l.policy, l.by_queue, l.evictions, l.within)).collect();
    assert_eq!(limits, [("a", false, 5, 3_600_000), ("b", true, 0, 3_600_000)]);
    policies.delete("b");
    assert_eq!(policies.brakes().frozen, None);
}

#[test]
fn a_breaker_trips_at_its_number_of_evictions_in_its_window_and_says_so_once() {
    for (ago, trips) in [(&[1][..], 0), (&[60, 1], 0), (&[59, 1], 1)] {
        let mut policies = Policies::default();
        policies.apply(&policy("p", &breaker()));
        assert_eq!(policies.trip(&past(ago).iter(), NOW).len(), trips, "{ago:?}");
    }
    let mut policies = tripped();
    assert_eq!(policies.trip(&past(&[59, 1]).iter(), NOW), []);
    let frozen = policies.brakes().frozen.unwrap();
    assert!(
        frozen.starts_with("the circuit breaker of SchedulingPolicy p tripped, for 2 were preempted"),
        "{frozen}"
    );
}

#[test]
fn that_it_tripped_stands_in_the_status_and_survives_a_restart() {
    let mut policies = tripped();
    let write = policies.status("p", NOW).unwrap();
    let condition = &write.body["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"], &condition["observedGeneration"]),
        (&json!("CircuitBreakerTripped"), &json!("True"), &json!("EvictionStorm"), &json!(3))
    );
    policies.written("p", &write.body);
    assert_eq!(policies.status("p", NOW), None, "it is written once");

    let mut shown = policy("p", &breaker());
    shown.status = serde_json::from_value(write.body["status"].clone()).unwrap();
    let mut anew = Policies::default();
    anew.apply(&shown);
    assert_eq!(anew.brakes().frozen, policies.brakes().frozen);
}

#[test]
fn a_person_resets_it_by_a_later_moment_and_what_was_before_does_not_count() {
    for (moment, frozen) in [("2026-01-01T00:00:09Z", true), ("2026-01-01T00:00:11Z", false), ("soon", true)]
    {
        let mut policies = tripped();
        let mut reset = policy("p", &breaker());
        let annotations = json!({ "scheduling.gen.io/reset-circuit-breaker": moment });
        reset.metadata.annotations = serde_json::from_value(annotations).unwrap();
        policies.apply(&reset);
        assert_eq!(policies.brakes().frozen.is_some(), frozen, "{moment}");
        let later = Timestamp(NOW.0 + 2000);
        assert_eq!(policies.trip(&past(&[59, 1]).iter(), later), [], "{moment}");
    }
}

#[test]
fn one_without_a_breaker_has_no_status() {
    let mut policies = Policies::default();
    policies.apply(&policy("p", &json!({ "freeze": true })));
    assert_eq!(policies.status("p", NOW), None);
}
