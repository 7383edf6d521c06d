//! The load of Kueue's harness for placement, without an API server: what planning it costs.
//!
//! `cargo bench -p whalezen-core --bench gangs`. 15,000 gangs in 30 queues of 5 cohorts, on 640 hosts in ten racks, come
//! and run at the harness's pace, in virtual time. Each event is followed by the plans that it leads to, so this is more
//! than an operator does, which takes many events at once.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "it prints what it measured")]

use std::{collections::BTreeMap, fs, time::Duration};

use whalezen_core::{
    plan::plan,
    queue::{Reclaim, WithinQueue},
    testing::{
        ObligingApplier, WorkloadBuilder, World, flavor, key, local_queue, node, queue, topology, workload,
    },
    topology::HOST,
    workload::{Phase, Timestamp},
};

/// In quarters of cores.
const CPU: &str = "cpu";
const COHORTS: usize = 5;
const QUEUES: usize = 30;

/// A size of gangs: every how many milliseconds one of each kind comes, how long it runs, its priority, its pods, what
/// each requests, the size of a slice, and how many of each kind there are.
struct Size {
    name: &'static str,
    every: i64,
    runs: i64,
    priority: i32,
    pods: u32,
    request: i64,
    slice: u32,
    count: [i64; 3],
}

const SIZES: [Size; 3] = [
    Size {
        name: "small",
        every: 100,
        runs: 200,
        priority: 50,
        pods: 2,
        request: 2,
        slice: 1,
        count: [120, 120, 110],
    },
    Size {
        name: "medium",
        every: 500,
        runs: 500,
        priority: 100,
        pods: 4,
        request: 5,
        slice: 2,
        count: [34, 33, 33],
    },
    Size {
        name: "large",
        every: 1200,
        runs: 1000,
        priority: 200,
        pods: 8,
        request: 10,
        slice: 4,
        count: [17, 17, 16],
    },
];

enum Event {
    Comes(Box<WorkloadBuilder>),
    Ends(String),
}

#[derive(Default)]
struct Clock {
    events: BTreeMap<(i64, usize), Event>,
    number: usize,
}

impl Clock {
    fn at(&mut self, moment: i64, event: Event) {
        self.number += 1;
        self.events.insert((moment, self.number), event);
    }
}

fn hosts() -> World {
    let mut world = World::new().with(topology("t", ["block", "rack", HOST])).with(flavor("f").topology("t"));
    for index in 0..640 {
        let rack = format!("r{}", index / 64);
        world.tell(node(&format!("h{index:03}")).label("block", "b").label("rack", &rack).has(CPU, 384));
    }
    for index in 0..QUEUES {
        let name = format!("q{index:02}");
        let cq = queue(&name).cohort(&format!("cohort-{}", index % COHORTS));
        let cq = cq.group([CPU]).flavor("f", [(CPU, 80)]).borrow("f", CPU, 400);
        world.tell(cq.preempts(WithinQueue::LowerPriority).reclaims(Reclaim::Any));
        world.tell(local_queue(&format!("{name}/lq"), &name));
    }
    world.state.settle();
    world
}

fn submissions() -> Clock {
    let mut clock = Clock::default();
    for queue in 0..QUEUES {
        for size in &SIZES {
            for (kind, count) in size.count.into_iter().enumerate() {
                for index in 0..count {
                    let moment = (index + 1) * size.every;
                    let name = format!("q{queue:02}/{}-{kind}-{index}", size.name);
                    let it = workload(&name).priority(size.priority).since(moment);
                    let it = it.pods("main", size.pods, [(CPU, size.request)]);
                    let it = match kind {
                        0 => it.required("rack"),
                        1 => it.preferred("rack"),
                        _ => it.slices(size.slice, "rack"),
                    };
                    clock.at(moment, Event::Comes(Box::new(it)));
                }
            }
        }
    }
    clock
}

fn runs(name: &str) -> i64 {
    SIZES.iter().find(|size| name.contains(size.name)).expect("it is of a size").runs
}

/// What this thread has used of the processor; so it needs Linux.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or_default();
    Duration::from_nanos(nanoseconds)
}

/// Since when a workload holds its quota, if it does.
fn holds_since(world: &World, name: &str) -> Option<i64> {
    match &world.state.workload(&key(name))?.phase {
        Phase::Reserved { since, .. } => Some(since.0),
        Phase::Pending | Phase::Finished => None,
    }
}

fn main() {
    let (mut world, mut clock) = (hosts(), submissions());
    let (mut planning, mut telling) = (Duration::ZERO, Duration::ZERO);
    let (mut plans, mut admitted, mut evicted, mut ended) = (0, 0, 0, 0);
    while let Some(((moment, _), event)) = clock.events.pop_first() {
        world.now = Timestamp(moment);
        let begun = cpu_time();
        match event {
            Event::Comes(it) => world.tell(*it),
            // Who was stopped meanwhile begins anew.
            Event::Ends(name) if holds_since(&world, &name) == Some(moment - runs(&name)) => {
                world.finish(&name);
                ended += 1;
            }
            Event::Ends(_) => continue,
        }
        world.state.settle();
        telling += cpu_time().saturating_sub(begun);
        loop {
            if world.state.awake_lines().next().is_none() {
                break;
            }
            let begun = cpu_time();
            let plan = plan(&world.state, world.now, &world.policy);
            planning += cpu_time().saturating_sub(begun);
            plans += 1;
            let begun = cpu_time();
            world.apply(&plan, &mut ObligingApplier);
            for evict in &plan.evict {
                world.requeue(&evict.workload.to_string());
            }
            world.state.settle();
            telling += cpu_time().saturating_sub(begun);
            admitted += plan.admit.len();
            evicted += plan.evict.len();
            for admit in &plan.admit {
                let name = admit.workload.to_string();
                clock.at(moment + runs(&name), Event::Ends(name));
            }
        }
    }
    println!("{ended} gangs ended, {admitted} admitted, {evicted} evicted, in {plans} plans");
    println!("planning:             {planning:?}, {:?} a plan", planning / plans);
    println!("telling and settling: {telling:?}");
}
