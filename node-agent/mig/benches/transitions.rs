//! What it costs to plan for the GPUs of a node.
//!
//! `cargo bench -p whalezen-mig`. The node has eight H200, each with another layout of which some is busy; the mixes that
//! are wanted are taken in turn from all there are, so that a round is no luckier than another. The aim is a millisecond
//! for all eight, whatever is wanted: `make bench NAME=mig` looks for the worst.
#![allow(missing_docs, reason = "criterion's macros make functions without")]

use std::{collections::BTreeSet, hint::black_box};

use criterion::{Criterion, criterion_group, criterion_main};
use whalezen_mig::{Existing, Fragments, Geometry, Layout, Model, Wanted, layouts, make_room, transition};

const GPUS: usize = 8;

fn existing(layout: &Layout) -> Vec<Existing> {
    let instances = layout.instances().iter().enumerate();
    instances.map(|(index, &instance)| Existing { instance, busy: index % 3 == 0 }).collect()
}

fn a_node(criterion: &mut Criterion, geometry: &Geometry) {
    let all = layouts(geometry);
    let wanted: BTreeSet<_> = all.iter().map(Layout::counts).collect();
    let wanted: Vec<_> = wanted.into_iter().map(Wanted::Counts).collect();
    // Steps through both lists that have no divisor in common with their lengths.
    let mut turns = all.iter().cycle().step_by(7).map(existing).zip(wanted.iter().cycle().step_by(11));
    criterion.bench_function("transitions of 8 GPUs", |bencher| {
        bencher.iter(|| {
            for (existing, wanted) in turns.by_ref().take(GPUS) {
                let _refused = black_box(transition(geometry, &existing, wanted));
            }
        });
    });
    let mut turns = all.iter().cycle().step_by(7).map(existing);
    criterion.bench_function("room for each profile on 8 GPUs", |bencher| {
        bencher.iter(|| {
            for existing in turns.by_ref().take(GPUS) {
                for profile in geometry.profiles() {
                    let _refused = black_box(make_room(geometry, &existing, profile.name));
                }
            }
        });
    });
    let mut turns = all.iter().cycle().step_by(7);
    criterion.bench_function("fragments of 8 GPUs", |bencher| {
        bencher.iter(|| {
            for layout in turns.by_ref().take(GPUS) {
                let _ = black_box(Fragments::of(geometry, layout));
            }
        });
    });
}

fn transitions(criterion: &mut Criterion) {
    if let Ok(geometry) = Model::H200.geometry() {
        a_node(criterion, &geometry);
    }
}

criterion_group!(benches, transitions);
criterion_main!(benches);
