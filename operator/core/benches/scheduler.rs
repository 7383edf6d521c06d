//! What one step of the scheduler costs: an event, a cycle, a search for victims, an order by shares.
//!
//! `cargo bench -p whalezen-core`. The sizes are those of a large cluster; what counts is how a number changes
//! with the code, on the same machine.
#![allow(
    missing_docs,
    clippy::indexing_slicing,
    reason = "criterion's macros make functions without; clippy.toml allows indexing in tests"
)]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use whalezen_core::{
    plan::{FairStrategy, Policy, plan},
    queue::{Reclaim, WithinQueue},
    state::{Event, Snapshot},
    testing::{
        ObligingApplier, QueueBuilder, World, flavor, foreign_pod, key, local_queue, node, queue, topology,
        workload,
    },
    topology::{Ask, HOST, Profile},
    workload::Phase,
};

const CPU: &str = "cpu";

/// Queues in one cohort, each reached through the namespace and LocalQueue of its name.
fn cohort(queues: usize, nominal: i64, shape: impl Fn(QueueBuilder) -> QueueBuilder) -> World {
    let mut world = World::new().with(flavor("f"));
    for index in 0..queues {
        let name = format!("q{index:04}");
        world.tell(shape(queue(&name).cohort("all").group([CPU]).flavor("f", [(CPU, nominal)])));
        world.tell(local_queue(&format!("{name}/lq"), &name));
    }
    world.state.settle();
    world
}

fn one_event(criterion: &mut Criterion) {
    let mut world = cohort(1000, 20, |queue| queue);
    for index in 0..50_000_i32 {
        let (queue, class) = (index % 1000, index / 1000 % 3);
        let name = format!("q{queue:04}/w{index:05}");
        world.tell(workload(&name).priority(class).since(index.into()).pods(
            "main",
            1,
            [(CPU, 1 + i64::from(class))],
        ));
    }
    world.run();
    let waiting = world.state.workloads().find(|key| world.state.admission(key).is_none()).cloned();
    let waiting = waiting.and_then(|key| world.state.workload(&key).cloned());
    let Some(mut waiting) = waiting else { return };
    criterion.bench_function("one event about a waiting workload among 50,000", |bencher| {
        bencher.iter(|| {
            waiting.version = world.next_version();
            world.state.apply_workload(black_box(waiting.clone()));
            world.state.settle();
        });
    });
    world.state.start_recording();
    criterion.bench_function("the same, put on record", |bencher| {
        bencher.iter(|| {
            waiting.version = world.next_version();
            world.state.apply_workload(black_box(waiting.clone()));
            world.state.settle();
            black_box(world.state.take_steps());
        });
    });
    let event = Event::Workload(Box::new(waiting));
    criterion.bench_function("its line in the journal", |bencher| {
        bencher.iter(|| black_box(serde_json::to_vec(black_box(&event)).ok()));
    });
    criterion.bench_function("a snapshot of 50,000 workloads", |bencher| {
        bencher.iter_with_large_drop(|| Snapshot::of(&world.state, world.now, &world.policy));
    });
}

fn one_cycle(criterion: &mut Criterion) {
    let mut world = cohort(30, 20, |queue| queue.preempts(WithinQueue::LowerPriority).reclaims(Reclaim::Any));
    for index in 0..15_000 {
        let name = format!("q{:04}/w{index:05}", index % 30);
        let (priority, cores) = [(50, 1), (100, 5), (200, 20)][index % 3];
        world.tell(workload(&name).priority(priority).since(index as i64).pods("main", 1, [(CPU, cores)]));
    }
    world.comes_to_rest();
    let holders = world.holders();
    let Some(first) = holders.first() else { return };
    criterion.bench_function("a workload ends and the plan after it, 15,000 in 30 queues", |bencher| {
        bencher.iter_batched(
            || {
                let mut world = world.clone();
                world.change(first, |workload| workload.phase = Phase::Finished);
                world
            },
            |mut world| {
                let plan = world.step(&mut ObligingApplier);
                (world, plan)
            },
            BatchSize::LargeInput,
        );
    });
}

fn victims(criterion: &mut Criterion) {
    let mut world =
        cohort(10, 100, |queue| queue.preempts(WithinQueue::LowerPriority).reclaims(Reclaim::Any));
    for index in 0..1000 {
        let queue = index % 9 + 1;
        let name = format!("q{queue:04}/w{index:04}");
        world.tell(
            workload(&name)
                .priority(index % 7)
                .pods("main", 1, [(CPU, 1)])
                .holding(&format!("q{queue:04}"), "f")
                .holding_since(index.into()),
        );
    }
    world.tell(workload("q0000/it").priority(9).pods("main", 1, [(CPU, 100)]));
    world.state.settle();
    assert_eq!(
        plan(&world.state, world.now, &world.policy).evict.len(),
        100,
        "there is something to search for"
    );
    criterion.bench_function("a search for 100 victims among 1,000 candidates", |bencher| {
        bencher.iter(|| black_box(plan(&world.state, world.now, &world.policy)));
    });
}

fn fair_order(criterion: &mut Criterion) {
    let strategies = vec![FairStrategy::LessThanOrEqualToFinalShare, FairStrategy::LessThanInitialShare];
    let policy = Policy { fair_sharing: Some(strategies), ..Policy::default() };
    let mut world = cohort(1000, 2, |queue| queue);
    for index in 0..1000 {
        let name = format!("q{index:04}/w");
        world.tell(workload(&name).since(index).pods("main", 1, [(CPU, 1 + index % 5)]));
    }
    world.state.settle();
    criterion.bench_function("a cycle of 1,000 queues in the order of their shares", |bencher| {
        bencher.iter(|| black_box(plan(&world.state, world.now, &policy)));
    });
}

/// 640 hosts of 96 cores in ten racks, of which each is a fifth full.
fn hosts() -> World {
    let mut world = World::new().with(topology("t", ["block", "rack", HOST])).with(flavor("f").topology("t"));
    world.tell(queue("q").group([CPU]).flavor("f", [(CPU, 100_000)]));
    world.tell(local_queue("ns/lq", "q"));
    for index in 0..640 {
        let name = format!("h{index:03}");
        let host = node(&name).label("block", "b").label("rack", &format!("r{}", index / 64));
        world.tell(host.has(CPU, 96));
        world.tell(foreign_pod(&format!("ns/{name}"), &name, [(CPU, 16 + index % 8)]));
    }
    world.state.settle();
    world
}

fn placement(criterion: &mut Criterion) {
    let mut world = hosts();
    for (name, it) in [
        ("required in a rack", workload("ns/it").pods("main", 64, [(CPU, 60)]).required("rack")),
        ("preferred in a rack", workload("ns/it").pods("main", 64, [(CPU, 60)]).preferred("rack")),
        ("anywhere", workload("ns/it").pods("main", 64, [(CPU, 60)]).unconstrained()),
    ] {
        world.tell(it);
        world.state.settle();
        let pod_sets = world.state.pod_sets(&key("ns/it")).map(|pod_sets| pod_sets.to_vec());
        let ask = |pod_set| Ask { pod_set, flavor: "f".into(), implied: false };
        let asks: Vec<Ask> = pod_sets.unwrap_or_default().into_iter().map(ask).collect();
        let trees = world.state.trees();
        assert!(trees.place(&asks, world.state.taken(), Profile::default()).is_ok());
        criterion.bench_function(&format!("a place for 64 pods on 640 hosts, {name}"), |bencher| {
            bencher.iter(|| black_box(trees.place(&asks, world.state.taken(), Profile::default())));
        });
        criterion.bench_function(&format!("a plan that gives it, {name}"), |bencher| {
            bencher.iter(|| black_box(plan(&world.state, world.now, &world.policy)));
        });
        world.delete("ns/it");
    }
    criterion.bench_function("a node of 640 that changes", |bencher| {
        let mut cores = 96;
        bencher.iter(|| {
            cores = if cores == 96 { 95 } else { 96 };
            world.tell(node("h000").label("block", "b").label("rack", "r0").has(CPU, cores));
            world.state.settle();
        });
    });
}

criterion_group!(benches, one_event, one_cycle, victims, fair_order, placement);
criterion_main!(benches);
