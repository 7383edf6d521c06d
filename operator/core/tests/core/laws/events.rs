//! Laws of the state and its plans under random histories.

use std::collections::BTreeSet;

use proptest::prelude::*;
use whalezen_core::{
    name::FlavorResource,
    plan::{FairStrategy, plan},
    quantity::Amount,
    state::{Snapshot, State},
    testing::{ObligingApplier, World, flavor, local_key, local_queue, queue, workload},
    workload::{Timestamp, total},
};

use super::histories::{History, anything, history, keys, work};
use crate::GPU;

fn limits() -> impl Strategy<Value = [Option<i64>; 2]> {
    let limit = || prop_oneof![Just(None), (0..6_i64).prop_map(Some)];
    [limit(), limit()]
}

proptest! {
    #[test]
    fn whatever_happens_what_is_derived_is_what_the_facts_say(shape: u8, limits in limits(), events in history(anything(), 40)) {
        let mut history = History::of_cluster(shape, limits);
        for event in &events {
            history.happens(event);
            history.world.state.settle();
            prop_assert_eq!(history.world.state.audit(), Ok(()), "after {:?}", event);
        }
    }

    #[test]
    fn a_snapshot_replays_to_the_same_plan(shape: u8, limits in limits(), events in history(anything(), 60)) {
        let mut history = History::of_cluster(shape, limits);
        history.happen(&events);
        let planned = history.world.plan();
        let world = &history.world;
        let snapshot = Snapshot::of(&world.state, world.now, &world.policy);
        let read: Snapshot = serde_json::from_str(&serde_json::to_string(&snapshot).unwrap()).unwrap();
        prop_assert_eq!(&read, &snapshot);
        prop_assert_eq!(serde_json::to_string(&read.plan()).unwrap(), serde_json::to_string(&planned).unwrap());
        prop_assert_eq!(Snapshot::of(&read.state(), read.now, &read.policy), snapshot);
    }

    #[test]
    fn once_a_declaration_has_changed_a_plan_depends_on_the_facts_alone(shape: u8, limits in limits(), events in history(anything(), 60)) {
        // Until then also on who was looked at before and sleeps: whoever does not costs its queue a turn.
        let mut history = History::of_cluster(shape, limits);
        history.happen(&events);
        history.world.policy.budget = 1000;
        history.world.tell(flavor("new"));
        let planned = history.world.plan();
        let facts = history.world.state.snapshot().clone();
        let replayed = plan(&State::from_snapshot(facts), history.world.now, &history.world.policy);
        prop_assert_eq!(&planned, &replayed);
    }

    #[test]
    fn at_rest_nobody_who_waits_would_fit(shape: u8, limits in limits(), events in history(anything(), 60)) {
        let mut history = History::of_cluster(shape, limits);
        history.happen(&events);
        prop_assert!(history.comes_to_rest(), "it goes round in circles");
        prop_assert_eq!(history.world.state.awake_lines().count(), 0, "everybody was looked at");
        prop_assert_eq!(history.world.state.reservations().count(), 0, "nobody waits for others to stop who do not");
        let fresh = State::from_snapshot(history.world.state.snapshot().clone());
        let planned = plan(&fresh, history.world.now, &history.world.policy);
        prop_assert_eq!(planned.admit, vec![]);
    }

    #[test]
    fn at_rest_every_condition_shows_the_reason_to_wait(shape: u8, limits in limits(), events in history(anything(), 60)) {
        let mut history = History::of_cluster(shape, limits);
        history.happen(&events);
        prop_assert!(history.comes_to_rest(), "it goes round in circles");
        history.world.state.take_reports(usize::MAX);
        for key in keys() {
            if let Some(verdict) = history.world.state.verdict(&key) {
                let shown = history.world.state.workload(&key).and_then(|workload| workload.reported);
                prop_assert_eq!(shown, Some(verdict.told()), "{}: {}", key, verdict.message);
            }
        }
        prop_assert_eq!(history.world.state.take_reports(usize::MAX), vec![]);
    }

    #[test]
    fn while_quota_stays_nobody_ever_uses_more_than_borrowing_allows(
        shape: u8,
        limits in limits(),
        events in history(work(), 60),
    ) {
        let mut history = History::of_cluster(shape, limits);
        for event in &events {
            history.happens(event);
            let state = &mut history.world.state;
            state.settle();
            for flavor in ["f0", "f1", "f2"] {
                let key = FlavorResource::new(flavor, GPU);
                let mut total = 0;
                for name in ["q0", "q1", "q2"] {
                    let leaf = state.forest().leaf(&name.into()).unwrap();
                    prop_assert!(state.forest().available(state.used(), leaf, &key) >= Amount::ZERO);
                    let quota = state.queue(&name.into()).unwrap().quotas().get(&key).copied().unwrap_or_default();
                    let used = state.used().get(leaf, &key);
                    if name == "q2" {
                        prop_assert!(used <= quota.nominal);
                    } else {
                        total += used.0 - quota.nominal.0;
                        prop_assert!(quota.borrowing_limit.is_none_or(|limit| used <= quota.nominal + limit));
                    }
                }
                prop_assert!(total <= 0, "a cohort uses more than it owns");
            }
        }
    }

    #[test]
    fn every_victim_serves_somebody_who_is_admitted_then(
        shape: u8,
        fair: bool,
        limits in limits(),
        events in history(work(), 40),
    ) {
        let mut history = History::of_cluster(shape, limits);
        history.happen(&events);
        prop_assert!(history.comes_to_rest());
        let world = &mut history.world;
        world.policy.fair_sharing = fair.then(|| vec![FairStrategy::LessThanOrEqualToFinalShare, FairStrategy::LessThanInitialShare]);
        world.tell(whalezen_core::testing::workload("n0/urgent").priority(9).pods("main", 2, [(GPU, 2)]));
        let plan = world.step(&mut ObligingApplier);
        let victims: BTreeSet<_> = plan.evict.iter().map(|evict| &evict.workload).collect();
        prop_assert_eq!(victims.len(), plan.evict.len(), "nobody is told twice");
        prop_assert!(plan.evict.iter().all(|evict| evict.preemptor.to_string() == "n0/urgent"));
        let told = world.evicted();
        prop_assert_eq!(told.len(), plan.evict.len());
        world.stop();
        let admitted = world.run();
        prop_assert!(told.is_empty() || admitted.contains(&"n0/urgent".to_owned()), "{:?} were told for nothing", told);
        prop_assert_eq!(world.state.audit(), Ok(()));
    }

    #[test]
    fn a_gang_is_given_everything_it_needs_or_nothing(
        shape: u8,
        limits in limits(),
        events in history(anything(), 40),
    ) {
        let mut history = History::of_cluster(shape, limits);
        history.happen(&events);
        history.world.policy.budget = 1000;
        for admit in history.world.plan().admit {
            let pod_sets = history.world.state.pod_sets(&admit.workload).unwrap();
            prop_assert_eq!(admit.admission.pod_sets.len(), pod_sets.len());
            for (given, asked) in admit.admission.pod_sets.iter().zip(pod_sets.iter()) {
                prop_assert_eq!(&given.name, &asked.name);
                let enough = asked.min_count.unwrap_or(asked.count)..=asked.count;
                prop_assert!(enough.contains(&given.count), "{} of {:?}", given.count, asked);
                let total = total(&asked.per_pod, given.count).unwrap();
                for (resource, amount) in total.into_iter().filter(|(_, amount)| *amount > Amount::ZERO) {
                    prop_assert!(given.flavors.contains_key(&resource));
                    prop_assert_eq!(given.usage.get(&resource), Some(&amount));
                }
            }
        }
    }

    #[test]
    fn however_plans_are_cut_they_reach_the_same_end(
        shape: u8,
        limits in limits(),
        events in history(anything(), 40),
        budget in 0..6_u32,
    ) {
        let end = |budget| {
            let mut history = History::of_cluster(shape, limits);
            history.happen(&events);
            history.world.policy.budget = budget;
            let admitted = history.world.run();
            (admitted, history.world.evicted(), history.world.holders())
        };
        prop_assert_eq!(end(1000), end(budget));
    }

    #[test]
    fn a_fair_queue_with_room_for_all_admits_in_its_order(
        shape in 0..2_u8,
        waiting in proptest::collection::vec((-2..3_i32, 0..9_i64, 1..4_i64), 0..24),
    ) {
        let cq = queue("cq").group([GPU]).flavor("f", [(GPU, 1000)]);
        let mut world = World::new().with(flavor("f")).with(local_queue("ns/lq", "cq"));
        world.tell(if shape == 0 { cq } else { cq.strict() });
        let mut order = Vec::new();
        for (index, (priority, since, gpus)) in waiting.into_iter().enumerate() {
            let name = format!("ns/w{index:02}");
            world.tell(workload(&name).priority(priority).since(since).pods("main", 1, [(GPU, gpus)]));
            order.push((-priority, since, name));
        }
        order.sort();
        let order: Vec<_> = order.into_iter().map(|(.., name)| name).collect();
        prop_assert_eq!(world.run(), order);
    }

    #[test]
    fn with_room_for_all_the_local_queue_that_consumed_least_has_the_next_turn(
        strict: bool,
        consumed in proptest::array::uniform3(0..40_i64),
        weights in proptest::array::uniform3(0..3_u64),
        waiting in proptest::collection::vec((0..3_usize, -2..3_i32, 0..9_i64, 1..4_i64), 0..24),
    ) {
        use whalezen_core::{consumption::{Consumed, Fine, Rules}, queue::Weight};
        let gpus = |amount: i64| -> Consumed { [(GPU.into(), Fine::of(&GPU.into(), Amount(amount)))].into_iter().collect() };
        let rules = Rules { half_life: 7000, sampling: 1000, weights: std::collections::BTreeMap::new() };
        let cq = queue("cq").by_consumption().group([GPU]).flavor("f", [(GPU, 1000)]);
        let mut world = World::new().with(flavor("f")).with(if strict { cq.strict() } else { cq });
        world.state.remember(Some(rules.clone()));
        let mut lanes: Vec<(Consumed, Weight, Vec<_>)> = Vec::new();
        for index in 0..3 {
            let weight = weights[index] * 1_000_000_000;
            world.tell(local_queue(&format!("ns/lq{index}"), "cq").weight(weight));
            world.state.recall(&local_key(&format!("ns/lq{index}")), gpus(consumed[index]));
            lanes.push((gpus(consumed[index]), Weight(weight), Vec::new()));
        }
        for (index, (lane, priority, since, amount)) in waiting.into_iter().enumerate() {
            let name = format!("ns/w{index:02}");
            let it = workload(&name).queue(&format!("lq{lane}")).priority(priority).since(since);
            world.tell(it.pods("main", 1, [(GPU, amount)]));
            lanes[lane].2.push((-priority, since, name, amount));
        }
        let mut order = Vec::new();
        while let Some((next, lane)) = lanes
            .iter()
            .enumerate()
            .filter_map(|(lane, (consumed, weight, waiting))| Some(((rules.rank(consumed, *weight), waiting.iter().min()?.clone()), lane)))
            .min()
        {
            let (consumed, _, waiting) = &mut lanes[lane];
            waiting.retain(|other| *other != next.1);
            consumed.add(&rules.penalty(&gpus(next.1.3)));
            order.push(next.1.2);
        }
        prop_assert_eq!(world.run(), order);
    }

    #[test]
    fn what_is_remembered_does_not_depend_on_the_order_in_which_admissions_are_seen(
        seen in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle(),
        elapsed in 0..100_000_i64,
    ) {
        use whalezen_core::consumption::Rules;
        let remembered = |seen: &[usize]| {
            let mut world = World::new().with(flavor("f")).with(queue("cq").by_consumption().group([GPU]).flavor("f", [(GPU, 1000)]));
            world.state.remember(Some(Rules { half_life: 60_000, sampling: 10_000, weights: std::collections::BTreeMap::new() }));
            for name in ["ns/a", "ns/b"] {
                world.tell(local_queue(name, "cq"));
            }
            for index in 0..6_u32 {
                let it = workload(&format!("ns/w{index}")).queue(if index % 2 == 0 { "a" } else { "b" });
                world.tell(it.pods("main", 1 + index, [(GPU, 1)]));
            }
            let plan = world.plan();
            assert!(plan.admit.iter().all(|admit| world.state.assume(admit)));
            let answers: Vec<_> = plan.admit.iter().filter_map(|admit| world.accepted(admit)).collect();
            for index in seen {
                world.state.confirm(answers[*index].clone());
            }
            world.state.settle();
            world.state.account(Timestamp(elapsed));
            ["ns/a", "ns/b"].map(|name| world.state.memory(&local_key(name)).cloned())
        };
        prop_assert_eq!(remembered(&seen), remembered(&[0, 1, 2, 3, 4, 5]));
    }
}
