//! Which tasks usually come, and how often.

use std::collections::BTreeMap;

use super::shape::{Ask, Shape};

/// What the popularities of a mix add up to.
pub const MIX_WEIGHT: i64 = 65_536;

/// The shapes that most tasks have, each with its popularity in [`MIX_WEIGHT`]hs. Fragments are counted for these.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskMix {
    shapes: Vec<(Shape, i64)>,
}

impl TaskMix {
    /// The most popular shapes, until they make up `percent` of all tasks. Of two that are equally popular the larger one
    /// comes first, as shapes are ordered. Memory of the host makes no difference: it has no part in fragments.
    pub fn of(tasks: impl IntoIterator<Item = Shape>, percent: u32) -> Self {
        let mut counts: BTreeMap<Shape, i64> = BTreeMap::new();
        for shape in tasks {
            *counts.entry(Shape { memory: 0, ..shape }).or_default() += 1;
        }
        let all: i64 = counts.values().sum();
        let mut popular: Vec<_> = counts.into_iter().collect();
        popular.sort_by(|(a, many), (b, few)| few.cmp(many).then_with(|| b.cmp(a)));
        let mut covered = 0;
        popular.retain(|(_, count)| {
            let wanted = covered * 100 < all * i64::from(percent.min(100));
            covered += if wanted { *count } else { 0 };
            wanted
        });
        Self { shapes: shares(popular, covered) }
    }

    /// The shapes with their popularities.
    pub fn shapes(&self) -> impl Iterator<Item = (&Shape, i64)> {
        self.shapes.iter().map(|(shape, weight)| (shape, *weight))
    }

    /// How much CPU tasks with GPUs ask for on average, in thousandths for each whole GPU; 0 if none has GPUs.
    pub fn cpu_per_gpu(&self) -> u32 {
        let (mut cpu, mut gpus) = (0, 0);
        for (shape, weight) in &self.shapes {
            let milli = match shape.gpus {
                Ask::Part(super::Part::Milli(milli)) => milli,
                Ask::Whole { count, .. } => count * super::WHOLE_GPU,
                // How much that is depends on the node, and instances are no part of this.
                Ask::Nothing | Ask::Part(super::Part::Memory(_)) | Ask::Instance(_) => continue,
            };
            cpu += i64::from(shape.cpu) * weight;
            gpus += i64::from(milli) * weight;
        }
        u32::try_from((cpu * i64::from(super::WHOLE_GPU)).checked_div(gpus).unwrap_or_default())
            .unwrap_or(u32::MAX)
    }
}

/// Counts as parts of [`MIX_WEIGHT`] that add up to it exactly: what rounding down leaves goes to the largest remainders, and
/// of equal ones to the first.
fn shares(counts: Vec<(Shape, i64)>, all: i64) -> Vec<(Shape, i64)> {
    if all <= 0 {
        return Vec::new();
    }
    let mut order: Vec<(i64, usize)> =
        counts.iter().enumerate().map(|(index, (_, count))| (-(count * MIX_WEIGHT % all), index)).collect();
    order.sort_unstable();
    let mut shares: Vec<_> =
        counts.into_iter().map(|(shape, count)| (shape, count * MIX_WEIGHT / all)).collect();
    let left = MIX_WEIGHT - shares.iter().map(|(_, share)| *share).sum::<i64>();
    for (_, index) in order.into_iter().take(usize::try_from(left).unwrap_or_default()) {
        if let Some((_, share)) = shares.get_mut(index) {
            *share += 1;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Part;

    fn shape(cpu: u32) -> Shape {
        Shape::new(cpu, 0, Ask::Part(Part::Milli(500)))
    }

    fn weights(mix: &TaskMix) -> Vec<(u32, i64)> {
        mix.shapes().map(|(shape, weight)| (shape.cpu, weight)).collect()
    }

    #[test]
    fn the_most_popular_shapes_are_kept_until_they_cover_enough() {
        let tasks = [(1, 6), (2, 3), (3, 1)].iter().flat_map(|(cpu, count)| vec![shape(*cpu); *count]);
        let mix = TaskMix::of(tasks.clone(), 90);
        assert_eq!(weights(&mix), [(1, 43_691), (2, 21_845)]);
        assert_eq!(TaskMix::of(tasks.clone(), 91).shapes().count(), 3);
        assert_eq!(TaskMix::of(tasks, 0).shapes().count(), 0);
        assert_eq!(TaskMix::of([], 95).shapes().count(), 0);
    }

    #[test]
    fn popularities_add_up() {
        for count in 1..50 {
            let mix = TaskMix::of((1..=count).map(shape), 100);
            assert_eq!(mix.shapes().map(|(_, weight)| weight).sum::<i64>(), MIX_WEIGHT);
        }
    }

    #[test]
    fn the_cpu_of_a_gpu_is_that_of_the_average_task_with_one() {
        let mix = TaskMix::of(
            [
                Shape::new(8000, 0, Ask::Whole { count: 1, memory: 0 }),
                shape(1000),
                Shape::new(64_000, 0, Ask::Nothing),
            ],
            100,
        );
        assert_eq!(mix.cpu_per_gpu(), 6000);
        assert_eq!(TaskMix::default().cpu_per_gpu(), 0);
    }
}
