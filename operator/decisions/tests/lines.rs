//! The lines of the log: their form, their reading, and what a tenant sees of them.
#![allow(clippy::unwrap_used, reason = "clippy.toml allows them in tests; these are their helpers")]

use jiff::Timestamp;
use serde_json::{Value, json};
use whalezen_core::{
    plan::Policy,
    preempt::Ground,
    queue::{Preemption, Reclaim},
    workload::Timestamp as Moment,
};
use whalezen_decisions::line::{self, Decision, InForce, Line, Mode};

fn line(decision: Decision) -> Line {
    Line::new(Moment(1_767_225_600_250), Mode::Decide, decision)
}

/// A victim of team a for somebody of team b.
fn preempted() -> Line {
    let reclaims = Preemption { reclaim: Reclaim::Any, ..Preemption::default() };
    line(Decision::Preempted {
        workload: Some("team-a/train".parse_key()),
        cluster_queue: Some("queue-a".into()),
        lost: [(whalezen_core::name::FlavorResource::new("a100", "nvidia.com/gpu"), "8".to_owned())].into(),
        preemptor: Some("team-b/serve".parse_key()),
        preemptor_cluster_queue: Some("queue-b".into()),
        ground: Ground::InCohortReclamation,
        policy: InForce::new(&reclaims, &Policy::default()),
        planned_at: Timestamp::UNIX_EPOCH,
    })
}

trait ParseKey {
    fn parse_key(&self) -> whalezen_core::name::WorkloadKey;
}

impl ParseKey for str {
    fn parse_key(&self) -> whalezen_core::name::WorkloadKey {
        serde_json::from_value(json!(self)).unwrap()
    }
}

#[test]
fn the_names_of_the_fields_are_a_contract() {
    let expected = json!({
        "version": 1,
        "at": "2026-01-01T00:00:00.25Z",
        "mode": "decide",
        "decision": "preempted",
        "workload": "team-a/train",
        "clusterQueue": "queue-a",
        "lost": { "a100/nvidia.com/gpu": "8" },
        "preemptor": "team-b/serve",
        "preemptorClusterQueue": "queue-b",
        "ground": "InCohortReclamation",
        "policy": {
            "withinClusterQueue": "Never", "reclaimWithinCohort": "Any", "borrowWithinCohort": "Never",
        },
        "plannedAt": "1970-01-01T00:00:00Z",
    });
    let written = serde_json::to_string(&preempted()).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), expected);
    assert_eq!(line::read(&written).collect::<Vec<_>>(), [preempted()]);
}

#[test]
fn half_a_line_is_skipped_and_the_next_one_read() {
    let whole = serde_json::to_string(&line(Decision::Dropped { lines: 3 })).unwrap();
    for cut in 0..whole.len() {
        let text = format!("{whole}\n{}\n{whole}\n{}", &whole[..cut], &whole[..cut]);
        assert_eq!(line::read(&text).count(), 2, "{text}");
    }
}

#[test]
fn a_tenant_sees_its_own_namespace_and_of_the_other_side_no_name() {
    let text = |namespace| preempted().seen_from(namespace).map(|line| serde_json::to_string(&line).unwrap());
    let victim = text("team-a").unwrap();
    assert!(victim.contains("team-a/train") && victim.contains("InCohortReclamation"), "{victim}");
    assert!(
        !victim.contains("team-b") && !victim.contains("serve") && !victim.contains("queue-b"),
        "{victim}"
    );
    let winner = text("team-b").unwrap();
    assert!(winner.contains("team-b/serve"), "{winner}");
    assert!(
        !winner.contains("team-a") && !winner.contains("train") && !winner.contains("queue-a"),
        "{winner}"
    );
    assert_eq!(text("team"), None);
    assert!(preempted().concerns("team-a") && preempted().concerns("team-b") && !preempted().concerns("c"));
}
