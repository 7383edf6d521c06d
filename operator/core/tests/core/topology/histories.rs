//! What holds of placements whatever happens.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use whalezen_core::{
    name::PodKey,
    plan::{FairStrategy, Policy, plan},
    queue::{Reclaim, WithinQueue},
    state::{Planned, Snapshot, State, Step},
    testing::{
        ObligingApplier, WorkloadBuilder, World, flavor, foreign_pod, key, local_queue, node, queue,
        topology, workload,
    },
    topology::HOST,
    workload::Timestamp,
};

const CPU: &str = "cpu";
const QUEUES: [&str; 3] = ["a", "b", "alone"];
const HOSTS: u8 = 6;

#[derive(Clone, Debug)]
enum Event {
    Submitted { which: u8, queue: usize, priority: i32, pods: u32, cores: i64, near: u8 },
    Finished(u8),
    Gone(u8),
    Planned { stop: bool },
    Node { which: u8, cores: i64 },
    NodeGone(u8),
    Pod { which: u8, host: u8, cores: i64 },
    PodGone(u8),
    Topology { known: bool },
}

fn work() -> impl Strategy<Value = Event> {
    let which = || 0..10_u8;
    prop_oneof![
        6 => (which(), 0..3_usize, 0..3_i32, 1..9_u32, 1..3_i64, 0..12_u8).prop_map(
            |(which, queue, priority, pods, cores, near)| Event::Submitted {
                which, queue, priority, pods, cores, near,
            }
        ),
        2 => which().prop_map(Event::Finished),
        1 => which().prop_map(Event::Gone),
        4 => any::<bool>().prop_map(|stop| Event::Planned { stop }),
    ]
}

fn anything() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => work(),
        1 => (0..HOSTS, 0..7_i64).prop_map(|(which, cores)| Event::Node { which, cores }),
        1 => (0..HOSTS).prop_map(Event::NodeGone),
        1 => (0..5_u8, 0..HOSTS, 0..4_i64).prop_map(|(which, host, cores)| Event::Pod { which, host, cores }),
        1 => (0..5_u8).prop_map(Event::PodGone),
        1 => (0..8_u8).prop_map(|odd| Event::Topology { known: odd > 0 }),
    ]
}

fn host(which: u8, cores: i64) -> whalezen_core::testing::NodeBuilder {
    node(&format!("h{which}")).label("rack", &format!("r{}", which / 3)).has(CPU, cores)
}

/// Two queues in a cohort and one alone, with two flavors that have some of the hosts in common.
fn cluster(fair: bool) -> World {
    let mut world = World::new()
        .with(topology("t", ["rack", HOST]))
        .with(flavor("f").topology("t"))
        .with(flavor("g").topology("t").label("rack", "r1"));
    for name in QUEUES {
        let it = queue(name).group([CPU]).flavor("f", [(CPU, 9)]).flavor("g", [(CPU, 6)]);
        let it = it.preempts(WithinQueue::LowerPriority).reclaims(Reclaim::Any);
        world.tell(if name == "alone" { it } else { it.cohort("all") });
        world.tell(local_queue(&format!("{name}/lq"), name));
    }
    for which in 0..HOSTS {
        world.tell(host(which, 4));
    }
    if fair {
        let strategies = vec![FairStrategy::LessThanOrEqualToFinalShare];
        world.policy = Policy { fair_sharing: Some(strategies), ..Policy::default() };
    }
    world
}

fn near(it: WorkloadBuilder, kind: u8) -> WorkloadBuilder {
    match kind % 6 {
        0 => it.required("rack"),
        1 => it.preferred("rack"),
        2 => it.required(HOST),
        3 => it.unconstrained(),
        4 => it.required("rack").slices(1, HOST),
        _ => it,
    }
}

fn name(which: u8) -> String {
    format!("{}/w{which}", QUEUES[usize::from(which) % 3])
}

fn happens(world: &mut World, event: &Event) {
    world.now = Timestamp(world.now.0 + 1);
    match *event {
        Event::Submitted { which, queue, priority, pods, cores, near: kind } => {
            let name = format!("{}/w{which}", QUEUES[queue]);
            if world.state.workload(&key(&name)).is_none() {
                let it = workload(&name).priority(priority).since(world.now.0);
                let it = near(it.pods("main", pods, [(CPU, cores)]), kind);
                world.tell(if kind >= 6 {
                    near(it.placed_with("g").pods("leader", 1, [(CPU, 1)]), kind).placed_with("g")
                } else {
                    it
                });
            }
        }
        Event::Finished(which) => world.finish(&name(which)),
        Event::Gone(which) => world.delete(&name(which)),
        Event::Planned { stop } => {
            world.step(&mut ObligingApplier);
            if stop {
                world.stop();
            }
        }
        Event::Node { which, cores } => world.tell(host(which, cores)),
        Event::NodeGone(which) => world.state.delete_node(&format!("h{which}").as_str().into()),
        Event::Pod { which, host, cores } => {
            world.tell(foreign_pod(&format!("ns/p{which}"), &format!("h{host}"), [(CPU, cores)]));
        }
        Event::PodGone(which) => world.state.delete_pod(&PodKey::new("ns", format!("p{which}"))),
        Event::Topology { known: true } => world.tell(topology("t", ["rack", HOST])),
        Event::Topology { known: false } => world.state.delete_topology(&"t".into()),
    }
}

/// How many cores of each host those take who hold quota.
fn cores(world: &World) -> BTreeMap<String, i64> {
    let mut cores = BTreeMap::new();
    for key in world.state.workloads() {
        let Some(admission) = world.state.admission(key) else { continue };
        let pod_sets = world.state.pod_sets(key).unwrap();
        for (given, asked) in admission.pod_sets.iter().zip(pod_sets.iter()) {
            let placement = given.placement.as_ref().unwrap();
            let placed: u32 = placement.spots.iter().map(|spot| spot.count).sum();
            assert_eq!(placed, given.count, "{key}");
            for spot in &placement.spots {
                *cores.entry(spot.values[0].to_string()).or_default() +=
                    asked.per_pod[&CPU.into()].0 / 1000 * i64::from(spot.count);
            }
        }
    }
    cores
}

proptest! {
    #[test]
    fn what_is_taken_of_the_nodes_is_what_the_facts_say(fair: bool, events in vec(anything(), 0..40)) {
        let mut world = cluster(fair);
        for event in &events {
            happens(&mut world, event);
            world.state.settle();
            prop_assert_eq!(world.state.audit(), Ok(()), "after {:?}", event);
        }
    }

    #[test]
    fn no_host_is_promised_twice(fair: bool, events in vec(work(), 0..40)) {
        let mut world = cluster(fair);
        for event in &events {
            happens(&mut world, event);
            let cores = cores(&world);
            prop_assert!(cores.values().all(|cores| *cores <= 4), "after {:?}: {:?}", event, cores);
        }
    }

    #[test]
    fn at_rest_nobody_who_waits_would_find_a_place(fair: bool, events in vec(anything(), 0..40)) {
        let mut world = cluster(fair);
        for event in &events {
            happens(&mut world, event);
        }
        prop_assert!(world.comes_to_rest(), "it goes round in circles");
        prop_assert_eq!(world.state.reservations().count(), 0, "nobody waits for others to stop who do not");
        let fresh = State::from_snapshot(world.state.snapshot().clone());
        prop_assert_eq!(plan(&fresh, world.now, &world.policy).admit, vec![]);
    }

    #[test]
    fn a_snapshot_and_what_happened_since_give_the_same_places(
        fair: bool,
        before in vec(anything(), 0..20),
        since in vec(anything(), 0..40),
    ) {
        let mut world = cluster(fair);
        for event in &before {
            happens(&mut world, event);
        }
        world.state.settle();
        let snapshot = Snapshot::of(&world.state, world.now, &world.policy);
        let read: Snapshot = serde_json::from_str(&serde_json::to_string(&snapshot).unwrap()).unwrap();
        prop_assert_eq!(&read, &snapshot);
        let mut again = read.state();
        world.state.start_recording();
        for event in &since {
            happens(&mut world, event);
        }
        world.state.settle();
        for step in world.state.take_steps() {
            match step {
                Step::Told(event) => {
                    let text = serde_json::to_string(&event).unwrap();
                    again.tell(serde_json::from_str(&text).unwrap());
                }
                Step::Planned(planned) => {
                    let Planned { at, policy, plan: made } = *planned;
                    let replayed = plan(&again, at, &policy);
                    prop_assert_eq!(&replayed, &made);
                    again.follow(&replayed, at, &policy);
                }
            }
        }
        let of = |state: &State| Snapshot::of(state, world.now, &world.policy);
        prop_assert_eq!(of(&again), of(&world.state));
    }

    #[test]
    fn every_victim_serves_somebody_who_finds_a_place_then(events in vec(work(), 0..30)) {
        // With fair sharing somebody else may have a right to what it would borrow.
        let mut world = cluster(false);
        for event in &events {
            happens(&mut world, event);
        }
        prop_assert!(world.comes_to_rest());
        world.tell(workload("a/urgent").priority(9).since(world.now.0).pods("main", 4, [(CPU, 2)]).required("rack"));
        let plan = world.step(&mut ObligingApplier);
        prop_assert!(plan.evict.iter().all(|evict| evict.preemptor.to_string() == "a/urgent"));
        world.stop();
        let admitted = world.run();
        prop_assert!(plan.evict.is_empty() || admitted.contains(&"a/urgent".to_owned()), "{:?}", plan.evict);
    }

    #[test]
    fn however_plans_are_cut_they_give_the_same_places(fair: bool, events in vec(anything(), 0..30), budget in 0..6_u32) {
        let end = |budget| {
            let mut world = cluster(fair);
            for event in &events {
                happens(&mut world, event);
            }
            world.policy.budget = budget;
            world.run();
            let place = |key: &whalezen_core::name::WorkloadKey| (key.to_string(), world.place_of(&key.to_string(), "main"));
            world.state.workloads().map(place).collect::<Vec<_>>()
        };
        prop_assert_eq!(end(1000), end(budget));
    }
}
