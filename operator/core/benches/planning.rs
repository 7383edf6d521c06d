//! A plan among 100,000 waiting workloads in 1,000 queues: how long the slowest take, and what a workload costs in
//! memory.
//!
//! `cargo bench -p whalezen-core --bench planning`. Each round ends one workload and plans what follows from it; the
//! rounds are those of a cluster that is full. Memory is what the process grew by, so it needs Linux.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "it prints what it measured")]

use std::{fs, time::Instant};

use whalezen_core::{
    queue::{Reclaim, WithinQueue},
    testing::{ObligingApplier, World, flavor, local_queue, queue, workload},
};

const QUEUES: usize = 1_000;
const COHORTS: usize = 10;
const WORKLOADS: usize = 100_000;
const ROUNDS: usize = 2_000;
const CPU: &str = "cpu";

fn main() {
    let mut world = World::new().with(flavor("f"));
    for index in 0..QUEUES {
        let name = format!("q{index:04}");
        let cq =
            queue(&name).cohort(&format!("cohort-{}", index % COHORTS)).group([CPU]).flavor("f", [(CPU, 20)]);
        world.tell(cq.borrow("f", CPU, 100).preempts(WithinQueue::LowerPriority).reclaims(Reclaim::Any));
        world.tell(local_queue(&format!("{name}/lq"), &name));
    }
    world.state.settle();
    let before = resident();
    for index in 0..WORKLOADS {
        let name = format!("q{:04}/w{index:06}", index % QUEUES);
        let class = index / QUEUES % 20;
        let (priority, cores) = match class {
            0..14 => (50, 1),
            14..18 => (100, 5),
            _ => (200, 20),
        };
        let since = i64::try_from(index).unwrap_or_default();
        world.tell(workload(&name).priority(priority).since(since).pods("main", 1, [(CPU, cores)]));
    }
    let begun = Instant::now();
    let first = world.step(&mut ObligingApplier);
    let first_took = begun.elapsed();
    world.run();
    let bytes = resident().saturating_sub(before) as f64 / WORKLOADS as f64;

    let mut took = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let Some(ended) = world.state.workloads().find(|key| world.state.admission(key).is_some()).cloned()
        else {
            break;
        };
        world.finish(&ended.to_string());
        let begun = Instant::now();
        let plan = world.plan();
        took.push(begun.elapsed());
        world.apply(&plan, &mut ObligingApplier);
        world.stop();
    }
    took.sort();
    let at = |part: usize| took.get((took.len() * part / 100).min(took.len().saturating_sub(1))).copied();
    println!("{WORKLOADS} workloads in {QUEUES} queues of {COHORTS} cohorts");
    println!("the first plan, of everybody:     {first_took:?}, {} admitted", first.admit.len());
    println!("a plan after one ended:           p50 {:?}, p99 {:?}, of {}", at(50), at(99), took.len());
    println!("memory for each workload:         {bytes:.0} bytes");
}

/// The memory of this process, in bytes.
fn resident() -> usize {
    const PAGE: usize = 4096;
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * PAGE
}
