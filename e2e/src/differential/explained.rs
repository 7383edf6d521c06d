//! Why two managers may differ on a problem: the list is `explained.yaml`, and here are the rules in it.
//!
//! A rule holds by what is in the problem and in the two traces, never by what another run gives: a test that was
//! too hasty must not look like a choice.

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::facts::{Facts, of};
use super::pair::Case;

const LIST: &str = include_str!("explained.yaml");

/// One entry of the list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Explanation {
    rule: Rule,
    /// The words with which `docs/compatibility.md` begins to tell about it.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and for the test that looks it up"))]
    documented: String,
    reason: String,
}

/// What a difference has to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Rule {
    /// Other victims, of which the order of victims does not say who goes first.
    EqualVictims,
    /// Workloads that have waited in strict queues have other flavors.
    StrictHeadAmongFlavors,
    /// A workload ends whose LocalQueue is stopped, and only ours gives what it had to somebody.
    LostWakeUp,
    /// Ours gives more, or a flavor that comes earlier, while the head of another strict queue waits.
    StrictHeadReserves,
    /// Kueue gives it to another queue, after somebody who cannot be helped took the turn of ours.
    TurnSpent,
    /// Kueue gives what a victim held to somebody else than the one for whom it had to stop, or others get other flavors
    /// beside that one: in Kueue they compete for what the victim held, and go on behind its flavors.
    KeptForPreemptor,
}

/// The reason for a difference, if it is known.
pub fn explanation(case: &Case) -> Result<Option<String>> {
    let Some(facts) = Facts::of(case) else { return Ok(None) };
    Ok(list()?.into_iter().find(|known| known.rule.holds(&facts)).map(|known| known.reason))
}

fn list() -> Result<Vec<Explanation>> {
    serde_saphyr::from_str(LIST).context("explained.yaml")
}

impl Rule {
    fn holds(self, facts: &Facts<'_>) -> bool {
        let (only_ours, only_theirs) = (facts.only_ours(), facts.only_theirs());
        match self {
            Self::EqualVictims => {
                let (ours, theirs) = facts.other_victims();
                only_ours.is_empty()
                    && only_theirs.is_empty()
                    && ours.iter().any(|one| theirs.iter().any(|other| facts.are_equal_victims(one, other)))
            }
            Self::StrictHeadAmongFlavors => {
                let has_waited = |name: &&str| {
                    facts.is_strict(name) && facts.has_several_flavors(name) && !facts.arrives_now(name)
                };
                let others = facts.ours_differently();
                only_ours.is_empty()
                    && only_theirs.is_empty()
                    && !others.is_empty()
                    && others.iter().all(has_waited)
            }
            Self::LostWakeUp => {
                facts.ends_in_stopped_queue() && only_theirs.is_empty() && !only_ours.is_empty()
            }
            Self::StrictHeadReserves => {
                let gained = facts.ours_differently();
                let head_waits_beside = |name: &&str| {
                    facts
                        .waiting()
                        .map(of)
                        .any(|head| facts.is_strict(head) && !facts.are_together(head, name))
                };
                only_theirs.is_empty() && !gained.is_empty() && gained.iter().all(head_waits_beside)
            }
            Self::TurnSpent => {
                !only_ours.is_empty()
                    && only_ours.iter().all(|name| {
                        facts.waiting().map(of).any(|vain| {
                            !facts.is_strict(vain)
                                && facts.are_together(vain, name)
                                && facts.is_before(vain, name)
                        })
                    })
                    && only_theirs
                        .iter()
                        .all(|theirs| only_ours.iter().all(|ours| !facts.are_together(theirs, ours)))
            }
            Self::KeptForPreemptor => facts.is_kept_for().is_some_and(|preemptor| {
                let others = facts.ours_differently();
                let is_given_away = !only_theirs.is_empty()
                    && !only_theirs.contains(&preemptor)
                    && only_ours.iter().all(|ours| *ours == preemptor);
                let is_competed_for = only_theirs.is_empty()
                    && only_ours.is_empty()
                    && !others.is_empty()
                    && facts.ours.holders.contains_key(preemptor)
                    && !others.contains(&preemptor);
                is_given_away || is_competed_for
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use whalezen_crds::kueue::v1beta2::{
        ClusterQueue, ClusterQueueSpec, FlavorQuotas, QueueingStrategy, ResourceGroup, StopPolicy, Workload,
        WorkloadSpec,
    };

    use super::super::outcome::{Difference, Step, Trace};
    use super::super::problem::{Act, Family, Problem, Seed};
    use super::*;

    const EVICTED: &str = "cpu of f0, evicted: Preempted InClusterQueue";

    /// A queue with two flavors.
    fn queue(name: &str, queueing_strategy: QueueingStrategy) -> ClusterQueue {
        let flavors = ["f0", "f1"].map(|name| FlavorQuotas { name: name.to_owned(), resources: Vec::new() });
        let group = ResourceGroup { covered_resources: vec!["cpu".to_owned()], flavors: flavors.into() };
        let resource_groups = vec![group];
        ClusterQueue::new(name, ClusterQueueSpec { resource_groups, queueing_strategy, ..Default::default() })
    }

    fn submit(name: &str, queue: &str, priority: i32) -> Act {
        let spec = WorkloadSpec {
            queue_name: Some(queue.to_owned()),
            priority: Some(priority),
            ..WorkloadSpec::default()
        };
        Act::Submit(Box::new(Workload::new(name, spec)))
    }

    fn step(act: &str, holders: &[(&str, &str)]) -> Step {
        let owned = |(name, words): &(&str, &str)| ((*name).to_owned(), (*words).to_owned());
        Step { act: act.to_owned(), holders: holders.iter().map(owned).collect(), ..Step::default() }
    }

    /// The last step is the one that differs; `before` are the ones that do not.
    fn case(strategy: QueueingStrategy, acts: Vec<Act>, before: &[Step], [ours, theirs]: [Step; 2]) -> Case {
        let problem = Problem {
            seed: Seed { family: Family::Preemption, number: 0 },
            flavors: Vec::new(),
            cohorts: Vec::new(),
            queues: vec![queue("a", strategy), queue("b", strategy)],
            acts,
        };
        let difference = Some(Difference { step: before.len() });
        let trace = |last| Trace { steps: before.iter().cloned().chain([last]).collect() };
        let (ours, theirs) = (trace(ours), trace(theirs));
        Case { problem, ours, theirs, difference }
    }

    fn rule_of(case: &Case) -> Option<Rule> {
        let facts = Facts::of(case)?;
        list().unwrap().iter().map(|known| known.rule).find(|rule| rule.holds(&facts))
    }

    #[test]
    fn every_choice_in_the_list_is_documented() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/compatibility.md");
        let page = std::fs::read_to_string(page).unwrap();
        for known in list().unwrap() {
            assert!(page.contains(&known.documented), "{:?}: {}", known.rule, known.documented);
        }
    }

    #[test]
    fn what_no_rule_is_about_is_a_difference() {
        let acts = vec![submit("w1", "a", 0)];
        let steps = [step("submit w1", &[("w1", "cpu of f0")]), step("submit w1", &[])];
        assert_eq!(rule_of(&case(QueueingStrategy::BestEffortFifo, acts, &[], steps)), None);
    }

    #[test]
    fn other_victims_are_explained_by_equal_times_and_priorities_only() {
        let held_since = |seconds: [i64; 2]| {
            let acts = vec![submit("w1", "a", 0), submit("w2", "a", 0), submit("w3", "a", 9)];
            let mut before = step("submit w2", &[("w1", "cpu of f0"), ("w2", "cpu of f0")]);
            let since = ["w1", "w2"].into_iter().zip(seconds);
            before.since =
                since.map(|(name, at)| (name.to_owned(), Timestamp::from_second(at).unwrap())).collect();
            let steps = [
                step("submit w3", &[("w1", EVICTED), ("w2", "cpu of f0")]),
                step("submit w3", &[("w1", "cpu of f0"), ("w2", EVICTED)]),
            ];
            rule_of(&case(
                QueueingStrategy::BestEffortFifo,
                acts,
                &[step("submit w1", &[("w1", "cpu of f0")]), before],
                steps,
            ))
        };
        assert_eq!(held_since([7, 7]), Some(Rule::EqualVictims));
        assert_eq!(held_since([7, 8]), None);
    }

    #[test]
    fn what_a_victim_frees_is_for_its_preemptor_and_for_nobody_else() {
        let given_to = |whom: &str| {
            let acts = ["w1", "w2", "w3"].map(|name| submit(name, "a", 0)).into();
            let mut before = step("submit w3", &[("w1", EVICTED)]);
            before.preemptors.insert("w1".to_owned(), "w2".to_owned());
            let waits = step("submit w2", &[("w1", "cpu of f0")]);
            let first = step("submit w1", &[("w1", "cpu of f0")]);
            let steps =
                [step("w1 is let go", &[(whom, "cpu of f0")]), step("w1 is let go", &[("w1", "cpu of f0")])];
            rule_of(&case(QueueingStrategy::BestEffortFifo, acts, &[first, waits, before], steps))
        };
        assert_eq!(given_to("w2"), Some(Rule::KeptForPreemptor));
        assert_eq!(given_to("w3"), None);
    }

    #[test]
    fn who_competes_with_a_preemptor_for_what_its_victim_frees_goes_on_behind_that() {
        let beside = |preemptor: [&str; 2]| {
            let acts = ["w1", "w2"].map(|name| submit(name, "a", 0)).into();
            let mut before = step("submit w2", &[("w1", EVICTED)]);
            before.preemptors.insert("w1".to_owned(), "w2".to_owned());
            let first = step("submit w1", &[("w1", "cpu of f0")]);
            let [ours, theirs] = preemptor;
            let steps = [
                step("w1 is let go", &[("w1", "cpu of f1"), ("w2", ours)]),
                step("w1 is let go", &[("w1", "cpu of f2"), ("w2", theirs)]),
            ];
            rule_of(&case(QueueingStrategy::BestEffortFifo, acts, &[first, before], steps))
        };
        assert_eq!(beside(["cpu of f0", "cpu of f0"]), Some(Rule::KeptForPreemptor));
        assert_eq!(beside(["cpu of f0", "cpu of f2"]), None);
    }

    #[test]
    fn a_strict_head_holds_others_up_only_in_another_queue() {
        let waits_in = |queue: &str, strategy| {
            let acts = vec![submit("w1", queue, 0), submit("w2", "b", 0)];
            let steps = [step("submit w2", &[("w2", "cpu of f0")]), step("submit w2", &[])];
            rule_of(&case(strategy, acts, &[step("submit w1", &[])], steps))
        };
        assert_eq!(waits_in("a", QueueingStrategy::StrictFifo), Some(Rule::StrictHeadReserves));
        assert_eq!(waits_in("b", QueueingStrategy::StrictFifo), None);
        assert_eq!(waits_in("a", QueueingStrategy::BestEffortFifo), None);
        // There somebody was tried in vain before.
        assert_eq!(waits_in("b", QueueingStrategy::BestEffortFifo), Some(Rule::TurnSpent));
    }

    #[test]
    fn a_strict_head_that_has_waited_may_be_anywhere_among_its_flavors() {
        let given = |strategy, waited| {
            let (at, before): (_, &[Step]) =
                if waited { ("edit queue b", &[step("submit w1", &[])]) } else { ("submit w1", &[]) };
            let steps = [step(at, &[("w1", "cpu of f0")]), step(at, &[("w1", "cpu of f1")])];
            rule_of(&case(strategy, vec![submit("w1", "a", 0)], before, steps))
        };
        assert_eq!(given(QueueingStrategy::StrictFifo, true), Some(Rule::StrictHeadAmongFlavors));
        assert_eq!(given(QueueingStrategy::StrictFifo, false), None);
        assert_eq!(given(QueueingStrategy::BestEffortFifo, true), None);
    }

    #[test]
    fn an_end_in_a_stopped_queue_wakes_nobody_in_kueue() {
        let ends = |policy| {
            let acts = vec![
                submit("w1", "a", 0),
                Act::StopLocalQueue("a".to_owned(), policy),
                submit("w2", "b", 0),
                Act::Finish(0),
            ];
            let holds: &[(&str, &str)] = &[("w1", "cpu of f0")];
            let before = ["submit w1", "local queue a", "submit w2"].map(|act| step(act, holds));
            let steps = [step("w1 finishes", &[("w2", "cpu of f0")]), step("w1 finishes", &[])];
            rule_of(&case(QueueingStrategy::BestEffortFifo, acts, &before, steps))
        };
        assert_eq!(ends(StopPolicy::Hold), Some(Rule::LostWakeUp));
        assert_eq!(ends(StopPolicy::None), None);
    }
}
