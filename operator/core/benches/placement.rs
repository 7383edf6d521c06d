//! What a placement costs on 10,240 nodes with 8 GPUs each, of which 92 % are taken: on which level a gang fits, where all of it
//! is placed, and where one task is placed. Percentiles, because the slowest are what people wait for.
//!
//! `cargo bench -p whalezen-core --bench placement`. The time is what the thread had of a processor, so that what else runs on the machine is
//! not measured. Gangs of 1 to 512 GPUs come and go; whatever is decided is also placed,
//! so every decision meets caches in which something has changed.
#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "it prints what it measured, and what it was given is sound"
)]

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use whalezen_core::placement::{
    Ask, Choice, Cluster, Gang, GangPlacement, GpuKind, Node, Part, Shape, ShapeId, TaskMix, Weights,
};

const BLOCKS: usize = 80;
const LEAVES: usize = 8;
const NODES: usize = 16;
const GPUS: usize = 8;
const DECISIONS: usize = 20_000;

/// A sequence of numbers that looks random (Knuth's 64-bit linear congruence, its upper half).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % count.max(1)
    }
}

/// What the thread has had of a processor.
fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// What it has had since then.
fn since(begun: Duration) -> Duration {
    now().saturating_sub(begun)
}

/// Something that runs.
struct Running {
    shape: ShapeId,
    choices: Vec<Choice>,
    gpus: usize,
}

fn cluster() -> Cluster {
    let kind = GpuKind { model: "A100".into(), memory: 81_920 };
    let mut nodes = Vec::with_capacity(BLOCKS * LEAVES * NODES);
    for block in 0..BLOCKS {
        for leaf in 0..LEAVES {
            for node in 0..NODES {
                let name = format!("b{block:02}-l{leaf}-n{node:02}");
                let idle = Node::idle(&name, kind.clone(), GPUS, 128_000, 1_048_576);
                nodes.push(idle.within([format!("b{block:02}").as_str(), format!("l{leaf}").as_str()]));
            }
        }
    }
    // One shape a size of GPUs, and parts of one, as popular as small gangs are.
    let shapes = sizes().into_iter().chain([part(250), part(500)]);
    let mix = TaskMix::of(shapes, 100);
    Cluster::new(nodes, &mix, Weights::default()).expect("nodes that are alike")
}

fn sizes() -> [Shape; 4] {
    [1, 2, 4, 8].map(|count| Shape::new(count * 12_000, count * 65_536, Ask::Whole { count, memory: 0 }))
}

fn part(milli: u32) -> Shape {
    Shape::new(4000, 16_384, Ask::Part(Part::Milli(milli)))
}

fn main() {
    let mut cluster = cluster();
    let shapes = sizes().map(|shape| (cluster.shape(&shape).expect("a sound shape"), shape.count()));
    let parts = [250, 500].map(|milli| cluster.shape(&part(milli)).expect("a sound shape"));
    let all = BLOCKS * LEAVES * NODES * GPUS;
    let wanted = all * 92 / 100;
    let mut numbers = Numbers(20_261_130);
    let mut running: Vec<Running> = Vec::new();
    let mut used = 0;
    let (mut levels, mut whole, mut single) = (Vec::new(), Vec::new(), Vec::new());
    let mut failed = 0;
    while levels.len() < DECISIONS {
        // 1, 2, 4 ... 512 GPUs, each size half as likely as the one before, but none less than 1 in 64.
        let size = 1_usize << (0..9).find(|_| numbers.below(2) == 0 && numbers.below(64) != 0).unwrap_or(9);
        let (shape, each) =
            shapes.iter().rev().find(|(_, each)| *each as usize <= size).copied().unwrap_or(shapes[0]);
        let count = u32::try_from(size).unwrap_or_default() / each;
        let full = used + size > wanted;
        while used + size > wanted && !running.is_empty() {
            let gone = running.swap_remove(numbers.below(running.len()));
            gone.choices.iter().for_each(|choice| cluster.remove(gone.shape, choice).expect("it was placed"));
            used -= gone.gpus;
        }
        let gang = Gang { shape, count, min_count: count, widest: 0 };
        let begun = now();
        let fit = cluster.fit(&gang);
        let level = since(begun);
        let begun = now();
        let placement: Option<GangPlacement> = cluster.choose_gang(&gang);
        if full {
            levels.push(level);
            whole.push(level + since(begun));
        }
        match (fit, placement) {
            (Some(_), Some(placement)) => {
                let choices = cluster.place_gang(shape, &placement).expect("it fits");
                running.push(Running { shape, choices, gpus: size });
                used += size;
            }
            _ => failed += 1,
        }
        if full {
            let shape = parts[numbers.below(parts.len())];
            let begun = now();
            let choice = cluster.choose(shape);
            single.push(since(begun));
            // It is gone at once: only the decision is wanted.
            if let Some(choice) = choice {
                cluster.place(shape, &choice).expect("it fits");
                cluster.remove(shape, &choice).expect("it was placed");
            }
        }
    }
    println!("{} nodes, {all} GPUs, {used} taken; {failed} gangs found no place", BLOCKS * LEAVES * NODES);
    print("the level of a gang", &mut levels);
    print("the whole placement of a gang", &mut whole);
    print("one task with a part of a GPU", &mut single);
}

fn print(what: &str, took: &mut [Duration]) {
    took.sort_unstable();
    let at = |thousandths: usize| {
        took.get((took.len() * thousandths / 1000).min(took.len() - 1)).copied().unwrap_or_default()
    };
    let mean = took.iter().sum::<Duration>() / u32::try_from(took.len()).unwrap_or(1);
    println!(
        "{what:32} mean {mean:>9.1?}   p50 {:>9.1?}   p99 {:>9.1?}   p99.9 {:>9.1?}   most {:>9.1?}   of {}",
        at(500),
        at(990),
        at(999),
        at(1000),
        took.len()
    );
}
