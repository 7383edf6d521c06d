//! What was planned, held against what was seen.
#![allow(clippy::unwrap_used, reason = "clippy.toml allows them in tests; these are their helpers")]

use whalezen_core::{name::WorkloadKey, preempt::Ground, workload::Timestamp};
use whalezen_decisions::{
    line::Given,
    observe::{Act, Kind, Ledger, Outcome},
};

const PATIENCE: i64 = 10;

fn train() -> WorkloadKey {
    WorkloadKey::new("team-a", "train")
}

/// An admission of so many pods in this flavor.
fn admission(flavor: &str, count: u32) -> Act {
    let flavors = [("nvidia.com/gpu".into(), flavor.into())].into();
    let given = Given { name: "main".into(), count, flavors, usage: [].into() };
    Act::Admission { cluster_queue: "team-a".into(), pod_sets: vec![given] }
}

fn preemption(ground: Option<Ground>) -> Act {
    Act::Preemption { ground, preemptor: None }
}

/// What happens, and when.
enum Happens {
    Plans(i64, Act),
    Sees(i64, Act),
    /// The Workload is nothing for the plan any more.
    Leaves(i64),
    Passes(i64),
}

#[test]
fn each_act_comes_to_one_outcome() {
    use Happens::{Leaves, Passes, Plans, Sees};
    let a = || admission("a100", 8);
    let within = || preemption(Some(Ground::InClusterQueue));
    let table = [
        ("the same", vec![Plans(0, a()), Sees(3, a())], vec![Outcome::Agreed]),
        ("another flavor", vec![Plans(0, a()), Sees(3, admission("h100", 8))], vec![Outcome::Otherwise]),
        ("fewer pods", vec![Plans(0, a()), Sees(3, admission("a100", 4))], vec![Outcome::Otherwise]),
        ("nobody planned it", vec![Sees(3, a())], vec![Outcome::Unplanned]),
        ("nothing is seen in time", vec![Plans(0, a()), Passes(9), Passes(10)], vec![Outcome::NotFollowed]),
        (
            "it is seen too late",
            vec![Plans(0, a()), Passes(10), Sees(12, a())],
            vec![Outcome::NotFollowed, Outcome::Late],
        ),
        (
            "another one is seen too late",
            vec![Plans(0, a()), Passes(10), Sees(12, admission("h100", 8))],
            vec![Outcome::NotFollowed, Outcome::Otherwise],
        ),
        (
            "what was given up is not counted again",
            vec![Plans(0, a()), Passes(10), Plans(11, a()), Passes(30)],
            vec![Outcome::NotFollowed],
        ),
        (
            "planned again, it was planned when it was first",
            vec![Plans(0, a()), Plans(9, a()), Passes(10)],
            vec![Outcome::NotFollowed],
        ),
        (
            "planned in another way, its time begins anew",
            vec![Plans(0, a()), Plans(9, admission("h100", 8)), Passes(10), Sees(11, admission("h100", 8))],
            vec![Outcome::Agreed],
        ),
        ("it leaves before", vec![Plans(0, a()), Leaves(3), Passes(20)], vec![Outcome::Overtaken]),
        ("the same victim", vec![Plans(0, within()), Sees(1, within())], vec![Outcome::Agreed]),
        (
            "a victim whose ground is not known",
            vec![Plans(0, within()), Sees(1, preemption(None))],
            vec![Outcome::Agreed],
        ),
        (
            "a victim on another ground",
            vec![Plans(0, within()), Sees(1, preemption(Some(Ground::InCohortReclamation)))],
            vec![Outcome::Otherwise],
        ),
        (
            "an admission is no preemption",
            vec![Plans(0, a()), Sees(1, within()), Sees(2, a())],
            vec![Outcome::Unplanned, Outcome::Agreed],
        ),
    ];
    for (what, happens, expected) in table {
        let mut ledger = Ledger::new(PATIENCE);
        let mut outcomes = Vec::new();
        for happens in happens {
            match happens {
                Plans(at, act) => ledger.planned(&train(), act, Timestamp(at)),
                Sees(at, act) => outcomes.push(ledger.seen(&train(), act, Timestamp(at))),
                Leaves(at) => outcomes.extend(ledger.keep(Timestamp(at), |_, _| false)),
                Passes(at) => outcomes.extend(ledger.due(Timestamp(at))),
            }
        }
        let outcomes: Vec<_> = outcomes.into_iter().map(|comparison| comparison.outcome).collect();
        assert_eq!(outcomes, expected, "{what}");
    }
}

#[test]
fn a_summary_counts_everything_and_shows_the_newest_differences_first() {
    let mut ledger = Ledger::new(PATIENCE);
    ledger.planned(&train(), admission("a100", 8), Timestamp(0));
    ledger.seen(&train(), admission("a100", 8), Timestamp(1));
    for at in 2..300 {
        ledger.seen(&train(), preemption(None), Timestamp(at));
    }
    ledger.planned(&train(), admission("a100", 8), Timestamp(301));
    let summary = ledger.summary();
    assert_eq!(summary.open, 1);
    assert_eq!(summary.counts[Kind::Admission.as_str()][Outcome::Agreed.as_str()], 1);
    assert_eq!(summary.counts[Kind::Preemption.as_str()][Outcome::Unplanned.as_str()], 298);
    assert_eq!(summary.differences.len(), 100);
    assert_eq!(summary.differences[0].at, Timestamp(299));
}

#[test]
fn another_workload_of_the_same_name_is_another_one() {
    let mut ledger = Ledger::new(PATIENCE);
    ledger.planned(&train(), admission("a100", 8), Timestamp(0));
    assert_eq!(ledger.due(Timestamp(10)).len(), 1);
    ledger.forget(&train());
    ledger.planned(&train(), admission("a100", 8), Timestamp(11));
    assert_eq!(ledger.due(Timestamp(21)).len(), 1);
}
