//! Who is preempted for whom, and what becomes of both.

mod brakes;
mod cohort;
mod fair;
mod queue;
mod reservation;
mod yields;

use whalezen_core::{
    preempt::Ground,
    testing::{ObligingApplier, QueueBuilder, WorkloadBuilder, World, flavor, local_queue, queue, workload},
};

use crate::GPU;

/// A queue with this many GPUs in the cohort `all`.
fn member(name: &str, gpus: i64) -> QueueBuilder {
    queue(name).cohort("all").group([GPU]).flavor("f", [(GPU, gpus)])
}

/// Queues, each reached through the namespace and LocalQueue of its name.
fn world<const N: usize>(queues: [(&str, QueueBuilder); N]) -> World {
    queues.into_iter().fold(World::new().with(flavor("f")), |world, (name, queue)| {
        world.with(queue).with(local_queue(&format!("{name}/lq"), name))
    })
}

/// `queue/name` waits since `since` for this many GPUs.
fn wants(name: &str, gpus: i64, priority: i32) -> WorkloadBuilder {
    workload(name).priority(priority).pods("main", 1, [(GPU, gpus)])
}

/// `queue/name` holds this many GPUs of its queue.
fn holds(name: &str, gpus: i64, priority: i32) -> WorkloadBuilder {
    let queue = name.split('/').next().unwrap_or_default();
    wants(name, gpus, priority).holding(queue, "f")
}

/// One plan, written: who was told to stop, and on what ground.
fn victims(world: &mut World) -> Vec<(String, Ground)> {
    let plan = world.step(&mut ObligingApplier);
    let mut victims: Vec<_> =
        plan.evict.iter().map(|evict| (evict.workload.to_string(), evict.ground)).collect();
    victims.sort();
    victims
}

/// The names of those told to stop in one plan.
fn names(world: &mut World) -> Vec<String> {
    victims(world).into_iter().map(|(name, _)| name).collect()
}
