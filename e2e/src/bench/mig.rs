//! How long it takes to plan for the GPUs of a node, at worst.
//!
//! There is no peer to run beside it: mig-parted plans by doing, on the GPU itself. Every transition that one GPU can
//! have, with one instance of it busy or none, is planned and timed; what eight GPUs take at worst is eight times the
//! longest.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use whalezen_mig::{Counts, Existing, Geometry, Layout, Model, Wanted, layouts, make_room, transition};

use super::{Benchmark, Measurement, Options};

const GPUS: u32 = 8;

/// Each is done so often, and counts with the shortest time: the longer ones were waiting for a core.
const TIMES: usize = 5;

/// The transitions of GPUs.
pub struct Transitions;

impl Benchmark for Transitions {
    fn name(&self) -> &'static str {
        "mig/transitions"
    }

    fn about(&self) -> &'static str {
        "every change of an H200's MIG layout, planned"
    }

    fn run<'a>(&'a self, _options: &'a Options) -> BoxFuture<'a, Result<Vec<Measurement>>> {
        async { tokio::task::spawn_blocking(measure).await? }.boxed()
    }
}

fn measure() -> Result<Vec<Measurement>> {
    let geometry = Model::H200.geometry()?;
    let all = layouts(&geometry);
    let mixes: Vec<_> = all.iter().map(Layout::counts).collect::<BTreeSet<_>>().into_iter().collect();
    let mut plans = Times::default();
    let mut rooms = Times::default();
    for layout in &all {
        for busy in 0..=layout.instances().len() {
            let instances = layout.instances().iter().enumerate();
            let existing: Vec<_> =
                instances.map(|(index, &instance)| Existing { instance, busy: index == busy }).collect();
            plan_all(&geometry, &existing, &mixes, &mut plans);
            for profile in geometry.profiles() {
                rooms.time(|| drop(black_box(make_room(&geometry, &existing, profile.name))));
            }
        }
    }
    println!("{} transitions: {plans}", plans.count);
    println!("{} searches for room for one more: {rooms}", rooms.count);
    let measure = |what: &str, value: Duration, aim: Option<f64>| Measurement {
        name: format!("mig/transitions/{what}"),
        value: value.as_secs_f64() * 1e3,
        unit: "ms".to_owned(),
        reference: aim,
        reference_name: aim.map(|_| "the aim".to_owned()),
    };
    Ok(vec![
        measure("longest_of_8_gpus", plans.longest * GPUS, Some(1.0)),
        measure("mean_of_8_gpus", plans.mean() * GPUS, None),
        measure("longest_room", rooms.longest, None),
    ])
}

fn plan_all(geometry: &Geometry, existing: &[Existing], mixes: &[Counts], times: &mut Times) {
    for mix in mixes {
        let wanted = Wanted::Counts(mix.clone());
        times.time(|| drop(black_box(transition(geometry, existing, &wanted))));
    }
}

/// How long things took.
#[derive(Default)]
struct Times {
    count: u32,
    total: Duration,
    longest: Duration,
}

impl Times {
    fn time(&mut self, mut work: impl FnMut()) {
        let once = |_| {
            let begun = Instant::now();
            work();
            begun.elapsed()
        };
        let took = (0..TIMES).map(once).min().unwrap_or_default();
        self.count += 1;
        self.total += took;
        self.longest = self.longest.max(took);
    }

    fn mean(&self) -> Duration {
        self.total.checked_div(self.count).unwrap_or_default()
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1?} each, the longest {:.1?}", self.mean(), self.longest)
    }
}
