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
    testing::{ObligingApplier, QueueBuilder, World, flavor, local_queue, queue, workload},
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

criterion_group!(benches, one_event, one_cycle, victims, fair_order);
criterion_main!(benches);
