//! Admission fair sharing: `LocalQueues` that consumed less lately go first.
//!
//! The numbers in the tables are what Kueue 0.19's own functions give.

use std::collections::BTreeMap;

use whalezen_core::{
    consumption::{Consumed, Factor, Fine, Memory, Rules},
    queue::{Weight, WithinQueue},
    testing::{
        Answer, QueueBuilder, RefusingApplier, WorkloadBuilder, World, flavor, local_key, local_queue, queue,
        workload,
    },
    workload::{Phase, Timestamp},
};

use crate::GPU;

const MINUTE: i64 = 60_000;

fn rules(half_life: i64, sampling: i64) -> Rules {
    Rules { half_life, sampling, weights: BTreeMap::new() }
}

fn of(resource: &str, amount: &str) -> Consumed {
    [(resource.into(), amount.parse().unwrap())].into_iter().collect()
}

fn text(consumed: &Consumed) -> String {
    consumed.iter().map(|(resource, amount)| format!("{resource}={amount}")).collect::<Vec<_>>().join(",")
}

#[test]
fn what_was_consumed_decays_to_what_is_used_and_is_rounded_as_in_kueue() {
    for (before, used, elapsed, half_life, want) in [
        ("0", "2", 300_000, 604_800_000, "687527n"),
        ("1", "2", 300_000, 604_800_000, "1000343763n"),
        ("4", "0", 600_000, 600_000, "2"),
        ("4", "8", 300_000, 600_000, "5171572874n"),
        ("64Ti", "16Gi", 300_000, 604_800_000, "70344559849132978058069n"),
        ("1234567891n", "7", 137, 10_000, "1289057973n"),
        ("3500m", "1500m", 1000, 3000, "3087401051n"),
        ("9P", "1P", 299_999, 3_600_000, "8550995955328839950m"),
        ("5", "5", 300_000, 600_000, "4999999999n"),
        ("7", "1", 0, 600_000, "7"),
        ("7", "1", 1_000_000_000_000, 600_000, "1"),
        ("7E", "1", 1, 604_800_000, "6999999991977463100000000001n"),
        ("3", "5", 1000, 0, "3"),
    ] {
        let decayed = rules(half_life, 1).decayed(&of("r", before), &of("r", used), elapsed);
        assert_eq!(text(&decayed), format!("r={want}"), "{before} and {used} after {elapsed} of {half_life}");
    }
}

#[test]
fn the_penalty_is_what_will_have_been_consumed_after_one_interval() {
    for (requests, sampling, half_life, want) in [
        ("4", 300_000, 600_000, "1171572875n"),
        ("2", 300_000, 604_800_000, "687527n"),
        ("1500m", 1000, 10_000, "100450512n"),
        ("64Gi", 300_000, 3_600_000, "3856927863962371692n"),
        ("8", 60_000, 0, "0"),
        ("1", 250, 5000, "34063671n"),
    ] {
        let penalty = rules(half_life, sampling).penalty(&of("r", requests));
        assert_eq!(text(&penalty), format!("r={want}"), "{requests}");
    }
}

#[test]
fn amounts_are_written_as_kubernetes_writes_them_and_read_back() {
    for (read, written) in [
        ("0", "0"),
        ("1.5", "1500m"),
        ("2000", "2k"),
        ("1n", "1n"),
        ("16Gi", "17179869184"),
        ("3e21", "3000E"),
    ] {
        let fine: Fine = read.parse().unwrap();
        assert_eq!(fine.to_string(), written);
        assert_eq!(written.parse(), Ok(fine));
    }
    assert!("-1".parse::<Fine>().is_err() && "x".parse::<Fine>().is_err());
}

#[test]
fn the_rank_is_the_weighted_sum_over_the_weight_of_the_local_queue() {
    let consumed = |cpu: &str, gpu: &str| -> Consumed {
        [("cpu".into(), cpu.parse().unwrap()), ("gpu".into(), gpu.parse().unwrap())].into_iter().collect()
    };
    for (cpu, gpu, weights, weight, want) in [
        ("0", "2", &[][..], 1_000_000_000, 2.0),
        ("4", "2", &[("cpu", 1.0), ("gpu", 5.0)], 1_000_000_000, 14.0),
        ("0", "10", &[("gpu", 0.0)], 1_000_000_000, 0.0),
        ("0", "3", &[("gpu", 4.0)], 2_000_000_000, 6.0),
        ("4", "0", &[], 500_000_000, 8.0),
        ("0", "0", &[], 0, f64::INFINITY),
    ] {
        let weights =
            weights.iter().map(|(name, weight)| ((*name).into(), Factor::new(*weight).unwrap())).collect();
        let rules = Rules { weights, ..rules(1000, 1) };
        let rank = rules.rank(&consumed(cpu, gpu), Weight(weight)).as_f64();
        assert!(rank.total_cmp(&want).is_eq(), "{rank} is not {want}");
    }
    assert_eq!((Factor::new(-0.5), Factor::new(f64::NAN)), (None, None));
}

/// A ClusterQueue with so many GPUs and the `LocalQueues` `heavy` and `light`, of which `heavy` has consumed 8 GPUs.
fn world_of(gpus: i64, rules: Rules, shape: impl Fn(QueueBuilder) -> QueueBuilder) -> World {
    let cq = shape(queue("cq").group([GPU]).flavor("f", [(GPU, gpus)]));
    let mut world = World::new().with(flavor("f")).with(cq);
    world.state.remember(Some(rules));
    for name in ["heavy", "light"] {
        world.tell(local_queue(&format!("ns/{name}"), "cq"));
    }
    world.state.recall(&local_key("ns/heavy"), of(GPU, "8"));
    world
}

fn world(gpus: i64) -> World {
    world_of(gpus, rules(10 * MINUTE, 5 * MINUTE), QueueBuilder::by_consumption)
}

/// A workload of a LocalQueue, named after it, which asks for so many GPUs.
fn wants(name: &str, gpus: i64) -> WorkloadBuilder {
    let (queue, _) = name.split_once('-').unwrap();
    workload(&format!("ns/{name}")).queue(queue).pods("main", 1, [(GPU, gpus)])
}

fn memory<'a>(world: &'a World, name: &str) -> &'a Memory {
    world.state.memory(&local_key(&format!("ns/{name}"))).unwrap()
}

fn consumed(world: &World, name: &str) -> String {
    text(memory(world, name).consumed().unwrap().0)
}

fn total(world: &World, name: &str) -> String {
    text(&memory(world, name).total())
}

fn at(world: &mut World, minutes: i64) {
    world.now = Timestamp(minutes * MINUTE);
    world.state.settle();
    world.state.account(world.now);
}

#[test]
fn a_local_queue_that_consumed_much_yields_whatever_its_priority_and_its_time() {
    let mut world = world(1)
        .with(wants("heavy-1", 1).priority(9).since(1))
        .with(wants("light-1", 1).priority(-9).since(5));
    assert_eq!(world.run(), ["ns/light-1"]);
}

#[test]
fn of_those_who_consumed_alike_priority_and_time_decide() {
    let mut world = world(4).with(wants("light-late", 1).since(3)).with(wants("light-high", 1).priority(1));
    world.tell(local_queue("ns/other", "cq"));
    world.tell(wants("other-early", 1).since(2));
    assert_eq!(world.run(), ["ns/light-high", "ns/other-early", "ns/light-late"]);
}

#[test]
fn without_rules_or_where_the_queue_does_not_say_so_it_does_not_matter() {
    for (rules, by_consumption) in [(None, true), (Some(rules(MINUTE, MINUTE)), false)] {
        let mut world = world_of(1, self::rules(MINUTE, MINUTE), |queue| {
            if by_consumption { queue.by_consumption() } else { queue }
        });
        world.state.remember(rules);
        world.tell(wants("heavy-1", 1).since(1));
        world.tell(wants("light-1", 1).since(2));
        assert_eq!(world.run(), ["ns/heavy-1"]);
    }
}

#[test]
fn a_weight_divides_what_counts_and_at_none_one_goes_last() {
    for (weight, first) in [(4_000_000_000, "ns/heavy-1"), (2_000_000_000, "ns/light-1"), (0, "ns/light-1")] {
        let mut world = world(1).with(local_queue("ns/heavy", "cq").weight(weight));
        world.state.recall(&local_key("ns/light"), of(GPU, if weight == 0 { "900" } else { "3" }));
        world.tell(wants("heavy-1", 1));
        world.tell(wants("light-1", 1));
        assert_eq!(world.run(), [first], "{weight}");
    }
}

#[test]
fn whoever_gets_something_is_charged_at_once_so_that_equals_take_turns() {
    let mut world = world(100);
    world.tell(local_queue("ns/other", "cq"));
    for name in ["light-1", "light-2", "light-3", "other-1", "other-2", "other-3"] {
        world.tell(wants(name, 2));
    }
    let turns = ["ns/light-1", "ns/other-1", "ns/light-2", "ns/other-2", "ns/light-3", "ns/other-3"];
    let planned = world.plan();
    assert_eq!(planned.admit.iter().map(|admit| admit.workload.to_string()).collect::<Vec<_>>(), turns);
    assert_eq!(world.run(), turns);
    assert_eq!(total(&world, "light"), format!("{GPU}=1757359311n"), "three penalties");
}

#[test]
fn with_a_half_life_of_nothing_all_are_equal() {
    let mut world = world_of(1, rules(0, MINUTE), QueueBuilder::by_consumption)
        .with(wants("heavy-1", 1).since(1))
        .with(wants("light-1", 1).since(2));
    assert_eq!(world.run(), ["ns/heavy-1"]);
    at(&mut world, 1);
    assert_eq!(consumed(&world, "heavy"), "");
}

#[test]
fn usage_is_looked_at_every_interval_and_half_of_it_is_left_after_a_half_life() {
    let mut world = world(8).with(wants("light-1", 4));
    world.run();
    at(&mut world, 0);
    // What it was charged is part of it now.
    assert_eq!(consumed(&world, "light"), format!("{GPU}=1171572875n"));
    at(&mut world, 4);
    assert_eq!(consumed(&world, "heavy"), format!("{GPU}=8"), "not yet");
    at(&mut world, 5);
    assert_eq!(consumed(&world, "heavy"), format!("{GPU}=5656854249n"));
    assert_eq!(consumed(&world, "light"), format!("{GPU}=1999999999n"));
    world.finish("ns/light-1");
    at(&mut world, 10);
    assert_eq!(consumed(&world, "heavy"), format!("{GPU}=3999999999n"));
    assert_eq!(consumed(&world, "light"), format!("{GPU}=1414213561n"));
    world.tell(local_queue("ns/heavy", "cq").stopped());
    at(&mut world, 60);
    assert_eq!(consumed(&world, "heavy"), format!("{GPU}=3999999999n"), "of one that is stopped nothing is");
}

#[test]
fn after_a_restart_the_status_says_what_was_consumed_until_more_is_known() {
    let mut world = world(2);
    assert_eq!(memory(&world, "heavy").consumed(), None);
    world.state.recall(&local_key("ns/heavy"), of(GPU, "6"));
    at(&mut world, 100);
    assert_eq!(consumed(&world, "heavy"), format!("{GPU}=6"), "the time between does not count");
    world.state.recall(&local_key("ns/heavy"), of(GPU, "1"));
    assert_eq!(consumed(&world, "heavy"), format!("{GPU}=6"), "that is an echo of what was written before");
    world.state.stop_accounting();
    world.state.recall(&local_key("ns/heavy"), of(GPU, "1"));
    at(&mut world, 101);
    assert_eq!(consumed(&world, "heavy"), format!("{GPU}=1"), "another has led meanwhile");
    world.state.delete_local_queue(&local_key("ns/heavy"));
    assert_eq!(world.state.memory(&local_key("ns/heavy")), None);
}

#[test]
fn a_penalty_goes_with_what_it_was_for() {
    type Change = fn(&mut World);
    let keeps: &[(&str, Change)] = &[
        ("evicted and queued again", |world| world.requeue("ns/light-1")),
        ("deactivated and holding", |world| world.change("ns/light-1", |it| it.active = false)),
    ];
    let drops: &[(&str, Change)] = &[
        ("deleted", |world| world.delete("ns/light-1")),
        ("finished", |world| world.finish("ns/light-1")),
        ("moved", |world| world.change("ns/light-1", |it| it.queue = local_key("ns/heavy"))),
        ("deactivated", |world| {
            world.change("ns/light-1", |it| (it.active, it.phase) = (false, Phase::Pending));
        }),
    ];
    let charged = format!("{GPU}=585786437n");
    for (changes, want) in [(keeps, &*charged), (drops, "")] {
        for (what, change) in changes {
            let mut world = world(8).with(wants("light-1", 2));
            let admit = world.plan().admit.remove(0);
            assert!(world.state.assume(&admit));
            let mut reserved = world.accepted(&admit).unwrap();
            if let Phase::Reserved { admitted, .. } = &mut reserved.phase {
                *admitted = false;
            }
            world.state.confirm(reserved);
            assert_eq!(total(&world, "light"), format!("{GPU}=585786437n"));
            change(&mut world);
            let left = total(&world, "light").replace(&format!("{GPU}=0"), "");
            assert_eq!(left, want, "{what}");
        }
    }
}

#[test]
fn an_admission_that_is_refused_costs_nothing() {
    for with in [Answer::Refused, Answer::Conflict] {
        let mut world = world(8).with(wants("light-1", 2));
        world.step(&mut RefusingApplier { times: 1, with });
        assert_eq!(total(&world, "light"), format!("{GPU}=0"), "{with:?}");
    }
}

#[test]
fn in_strict_order_the_first_of_the_lightest_holds_up_all_the_others() {
    let strict = |queue: QueueBuilder| queue.by_consumption().strict();
    let mut world = world_of(4, rules(10 * MINUTE, 5 * MINUTE), strict)
        .with(wants("light-big", 9))
        .with(wants("light-next", 1).since(1))
        .with(wants("heavy-1", 1).priority(5));
    assert_eq!(world.run(), [""; 0]);
    let told = world.verdict("ns/heavy-1").unwrap().message;
    assert!(told.starts_with("waits behind ns/light-big"), "{told}");
    assert_eq!(world.state.awake(&"cq".into()), 0);
    // The order is another one now, and nobody else has changed.
    world.state.stop_accounting();
    world.state.recall(&local_key("ns/light"), of(GPU, "9"));
    assert_eq!(world.run(), ["ns/heavy-1"]);
    assert!(world.verdict("ns/light-next").unwrap().message.starts_with("waits behind ns/light-big"));
}

#[test]
fn of_a_cluster_queue_those_are_preempted_first_whose_local_queue_consumed_most() {
    let within = |queue: QueueBuilder| queue.by_consumption().preempts(WithinQueue::LowerPriority);
    let mut world = world_of(4, rules(10 * MINUTE, 5 * MINUTE), within)
        .with(wants("light-low", 2).priority(1).holding("cq", "f"))
        .with(wants("heavy-high", 2).priority(2).holding("cq", "f"))
        .with(wants("light-urgent", 2).priority(3));
    assert_eq!(world.run(), [""; 0]);
    assert_eq!(world.evicted(), ["ns/heavy-high"]);
}

#[test]
fn whoever_had_others_stop_for_it_is_not_overtaken_by_them() {
    let within = |queue: QueueBuilder| queue.by_consumption().preempts(WithinQueue::LowerPriority);
    let mut world = world_of(2, rules(10 * MINUTE, 5 * MINUTE), within)
        .with(wants("light-low", 2).holding("cq", "f"))
        .with(wants("heavy-high", 2).priority(2));
    assert_eq!(world.run(), [""; 0]);
    assert_eq!(world.evicted(), ["ns/light-low"]);
    world.stop();
    world.tell(wants("light-high", 2).priority(9));
    world.state.settle();
    let waiting = world.state.waiting(&"cq".into()).unwrap();
    let waiting: Vec<_> = waiting.into_iter().map(|workload| workload.key.to_string()).collect();
    assert_eq!(waiting, ["ns/light-high", "ns/heavy-high", "ns/light-low"]);
    world.delete("ns/light-high");
    assert_eq!(world.run(), ["ns/heavy-high"]);
    assert!(world.comes_to_rest());
}

#[test]
fn an_explanation_counts_those_ahead_in_the_order_that_holds() {
    let mut world = world(0).with(wants("heavy-1", 1).priority(3)).with(wants("light-1", 1));
    world.tell(wants("light-2", 1).since(4));
    world.run();
    let ahead = |name: &str| world.state.explain(&whalezen_core::testing::key(name)).unwrap().ahead;
    assert_eq!(["ns/light-1", "ns/light-2", "ns/heavy-1"].map(ahead), [0, 1, 2]);
}
