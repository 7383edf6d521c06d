//! Kueue's manifests mean here what they mean to Kueue: the two sets of definitions say the same, property by
//! property.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may panic, and so may what only tests call"
)]

mod facts;
mod kueue_module;
mod module;
mod workload_rules;

use std::collections::{BTreeMap, BTreeSet};

use facts::{Facts, facts};

const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// Where we differ, and why: kind, fact, reason.
const REASONED: &[(&str, &str, &str)] = &[
    (
        "WorkloadPriorityClass",
        "subresources",
        "Kueue's generator writes an empty object, which enables no subresource; we write nothing",
    ),
    (
        "Workload",
        " x-kubernetes-validations",
        "ours ask first what costs little; the tests in workload_rules.rs show that they mean the same",
    ),
];

#[test]
fn the_definitions_are_kueues_property_by_property_in_both_versions() {
    let mut unexplained = Vec::new();
    let mut explained = BTreeSet::new();
    let mut compared = 0;
    for version in VERSIONS {
        let theirs = by_kind(module::definitions().into_values(), version);
        let ours = by_kind(whalezen_crds::kueue::crds().into_iter(), version);
        compared += theirs.values().map(Facts::len).sum::<usize>();
        for kind in theirs.keys().chain(ours.keys()).collect::<BTreeSet<_>>() {
            for (fact, difference) in differences(theirs.get(kind), ours.get(kind)) {
                match REASONED.iter().position(|(k, f, _)| k == kind && *f == fact) {
                    Some(reason) => drop(explained.insert(reason)),
                    None => unexplained.push(format!("{version} {kind}{fact}: {difference}")),
                }
            }
        }
    }

    assert!(unexplained.is_empty(), "{} differences:\n{}", unexplained.len(), unexplained.join("\n"));
    assert_eq!(
        explained.len(),
        REASONED.len(),
        "a reasoned difference is none any more: take it off the list"
    );
    assert!(compared > 5_000, "only {compared} facts were compared: the walk misses something");
}

fn by_kind(crds: impl Iterator<Item = serde_json::Value>, version: &str) -> BTreeMap<String, Facts> {
    crds.map(|crd| (crd["spec"]["names"]["kind"].as_str().unwrap().to_owned(), facts(&crd, version)))
        .collect()
}

/// Facts that only one side has, or that the sides state differently.
fn differences(theirs: Option<&Facts>, ours: Option<&Facts>) -> Vec<(String, String)> {
    let none = Facts::new();
    let (theirs, ours) = (theirs.unwrap_or(&none), ours.unwrap_or(&none));
    theirs
        .keys()
        .chain(ours.keys())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .filter(|fact| theirs.get(*fact) != ours.get(*fact))
        .map(|fact| {
            let say = |facts: &Facts| facts.get(fact).map_or("nothing".to_owned(), ToString::to_string);
            (fact.clone(), format!("Kueue says {}, we say {}", say(theirs), say(ours)))
        })
        .collect()
}

#[test]
fn a_changed_a_missing_and_an_added_fact_are_each_a_difference() {
    let facts =
        |facts: &[(&str, i64)]| facts.iter().map(|(f, v)| ((*f).to_owned(), (*v).into())).collect::<Facts>();
    let theirs = facts(&[(".a maxLength", 1), (".b maxLength", 1), (".c maxLength", 1)]);
    let ours = facts(&[(".a maxLength", 1), (".b maxLength", 2), (".d maxLength", 1)]);

    let found: Vec<String> =
        differences(Some(&theirs), Some(&ours)).into_iter().map(|(fact, _)| fact).collect();

    assert_eq!(found, [".b maxLength", ".c maxLength", ".d maxLength"]);
    assert_eq!(differences(Some(&theirs), None).len(), 3);
}
