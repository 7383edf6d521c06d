//! The six policies of the paper as its artefact has them: an integer score from 0 to 100 for each node that fits, the largest
//! wins, and of equals the one with the smallest name.
//!
//! | policy | what it prefers |
//! |---|---|
//! | Random | any node that fits, and any GPU |
//! | `DotProd` | where what is free and what is asked for have the smallest product |
//! | `GpuClustering` | nodes with tasks of this size only, then with such among others, then idle ones, then others; in each the fullest |
//! | `GpuPacking` | a shared GPU, then a free one on a node in use, then an idle node |
//! | `BestFit` | where the least is left |
//! | FGD | where the expected fragment grows least |

use std::collections::BTreeMap;

use crate::dice::Dice;

use super::{
    field::{Field, size},
    trace::Task,
};

/// A published policy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Published {
    /// Anywhere.
    Random,
    /// Tetris' product of what is free and what is asked for.
    DotProduct,
    /// Tasks of one size together.
    GpuClustering,
    /// Shared GPUs first.
    GpuPacking,
    /// The least left.
    BestFit,
    /// Fragmentation gradient descent.
    Fgd,
}

impl Published {
    /// All of them, in the order of the paper.
    pub const ALL: [Self; 6] =
        [Self::Random, Self::DotProduct, Self::GpuClustering, Self::GpuPacking, Self::BestFit, Self::Fgd];

    /// What the artefact calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "Random",
            Self::DotProduct => "DotProd",
            Self::GpuClustering => "GpuClustering",
            Self::GpuPacking => "GpuPacking",
            Self::BestFit => "BestFit",
            Self::Fgd => "FGD",
        }
    }
}

/// What the vectors of nodes and tasks are divided by: the largest node.
const CPU: f64 = 128_000.0;
const GPU: f64 = 8_000.0;

/// The score of a node that fits, and, where the policy says which, the GPU of which a part is taken.
pub fn score(policy: Published, node: &Field, task: &Task, fragments: &Fragments) -> (i64, Option<usize>) {
    let free = node.gpu();
    let part = tightest(node, task);
    let points = match policy {
        Published::DotProduct => {
            let product = f64::from(node.cpu) / CPU * (f64::from(task.cpu) / CPU)
                + f64::from(free) / GPU * (f64::from(task.total()) / GPU);
            truncated(100.0 * (1.0 - product / 2.0))
        }
        Published::BestFit => {
            let left =
                f64::from(node.cpu - task.cpu) / CPU * 0.5 + f64::from(free - task.total()) / GPU * 0.5;
            truncated((1.0 - left) * 100.0)
        }
        Published::GpuClustering if task.gpus > 0 => {
            let fullness = 25 * (8000 - i64::from(free)) / 8000;
            let has_such = node.sizes.contains_key(&size(task));
            fullness
                + match (has_such, node.sizes.len()) {
                    (true, 1) => 75,
                    (true, _) => 50,
                    (false, 0) => 25,
                    (false, _) => 0,
                }
        }
        Published::GpuPacking if task.gpus > 0 => packing(node, task),
        // Two have no opinion on tasks without GPUs, and one has none at all.
        Published::Random | Published::GpuClustering | Published::GpuPacking => 0,
        Published::Fgd => return fragments.score(node, task),
    };
    (points, part)
}

fn packing(node: &Field, task: &Task) -> i64 {
    let idle = i64::from(node.idle_gpus());
    if idle == i64::try_from(node.gpus.len()).unwrap_or_default() {
        return (33 - idle).max(idle);
    }
    let mut gpus: Vec<_> = node.gpus.iter().copied().filter(|free| *free >= task.milli).collect();
    gpus.sort_unstable();
    gpus.truncate(usize::try_from(task.gpus).unwrap_or_default());
    let opened: i64 = gpus.iter().map(|free| i64::from(*free == 1000)).sum();
    if opened > 0 {
        return (50 - opened).max(33);
    }
    let left: i64 = gpus.iter().map(|free| i64::from(free * 100 / 1000)).sum();
    (100 - left / 10).max(50)
}

/// The GPU of which a part is taken by those who have no say of their own: the first with the least left that fits.
fn tightest(node: &Field, task: &Task) -> Option<usize> {
    let gpus = node.gpus.iter().enumerate().filter(|(_, free)| task.is_shared() && **free >= task.milli);
    gpus.min_by_key(|(index, free)| (**free, *index)).map(|(index, _)| index)
}

/// Any GPU of which a part can be taken.
pub fn any_gpu(node: &Field, task: &Task, dice: &mut Dice) -> Option<usize> {
    let fits = |(_, free): &(usize, &u32)| task.is_shared() && **free >= task.milli;
    let gpus: Vec<_> = node.gpus.iter().enumerate().filter(fits).map(|(index, _)| index).collect();
    let any = dice.below(gpus.len());
    gpus.get(any).copied()
}

/// As Go's conversion to an integer does it.
#[allow(clippy::cast_possible_truncation, reason = "scores are between 0 and 100")]
fn truncated(score: f64) -> i64 {
    score as i64
}

/// The tasks that usually come, as the artefact counts fragments with them: in floating point.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    /// What a task takes of each GPU, each value once.
    milli: Vec<u32>,
    tasks: Vec<Usual>,
    /// Which of them may run, by model.
    allowed: BTreeMap<String, Vec<bool>>,
}

#[derive(Clone, Debug)]
struct Usual {
    task: Task,
    popularity: f64,
    /// Where its value is in the list.
    milli: usize,
}

impl Fragments {
    /// The most popular tasks that make up `percent` of these, on nodes of these models.
    pub fn new(tasks: &[Task], percent: usize, nodes: &[Field]) -> Self {
        let mut counts: BTreeMap<Task, usize> = BTreeMap::new();
        for task in tasks {
            *counts.entry(Task { memory: 0, ..task.clone() }).or_default() += 1;
        }
        let mut popular: Vec<_> = counts.into_iter().collect();
        // Of two that are equally popular the larger one first, in the artefact's order of requests.
        let request = |task: &Task| (task.cpu, task.milli, task.gpus, task.spec.clone());
        popular.sort_by(|(a, many), (b, few)| few.cmp(many).then_with(|| request(b).cmp(&request(a))));
        let mut covered = 0;
        popular.retain(|(_, count)| {
            let wanted = covered * 100 < tasks.len() * percent;
            covered += if wanted { *count } else { 0 };
            wanted
        });
        let mut milli: Vec<_> = popular.iter().map(|(task, _)| task.milli).collect();
        milli.sort_unstable();
        milli.dedup();
        let share = |count: usize| {
            let number = |count: usize| u32::try_from(count).map_or(f64::MAX, f64::from);
            number(count) / number(covered)
        };
        let tasks: Vec<_> = popular
            .into_iter()
            .map(|(task, count)| Usual {
                milli: milli.binary_search(&task.milli).unwrap_or_default(),
                popularity: share(count),
                task,
            })
            .collect();
        let mut allowed = BTreeMap::new();
        for node in nodes {
            if !allowed.contains_key(&node.model) {
                allowed
                    .insert(node.model.clone(), tasks.iter().map(|usual| node.allows(&usual.task)).collect());
            }
        }
        Self { milli, tasks, allowed }
    }

    /// The expected fragment of a node with these GPUs and this much CPU, in thousandths of a GPU.
    pub fn expected(&self, model: &str, cpu: u32, gpus: &[u32]) -> f64 {
        let total: u32 = gpus.iter().sum();
        let fitting = |milli: &u32| {
            gpus.iter()
                .filter(|free| *free >= milli)
                .fold((0, 0), |(count, sum), free| (count + 1, sum + free))
        };
        let by_milli: Vec<(u32, u32)> = self.milli.iter().map(fitting).collect();
        let allowed = self.allowed.get(model).map(Vec::as_slice).unwrap_or_default();
        let mut fragment = 0.0;
        for (usual, allowed) in self.tasks.iter().zip(allowed) {
            let Some((count, usable)) = by_milli.get(usual.milli) else { continue };
            let task = &usual.task;
            let fits = task.gpus > 0 && *allowed && cpu >= task.cpu && *count >= task.gpus;
            fragment += usual.popularity * f64::from(if fits { total - usable } else { total });
        }
        fragment
    }

    fn score(&self, node: &Field, task: &Task) -> (i64, Option<usize>) {
        let before = self.expected(&node.model, node.cpu, &node.gpus);
        let cpu = node.cpu - task.cpu;
        let points = |gpus: &[u32]| {
            let shrinks = (before - self.expected(&node.model, cpu, gpus)) / 1000.0;
            truncated(1.0 / (1.0 + (-shrinks).exp()) * 100.0)
        };
        if !task.is_shared() {
            let mut after = node.clone();
            after.take(task, None);
            return (points(&after.gpus), None);
        }
        let mut best: Option<(i64, usize)> = None;
        let mut gpus = node.gpus.clone();
        for (index, free) in node.gpus.iter().enumerate().filter(|(_, free)| **free >= task.milli) {
            // Equal GPUs have equal scores, and the first wins.
            if node.gpus.iter().take(index).any(|earlier| earlier == free) {
                continue;
            }
            let set = |gpus: &mut [u32], to: u32| {
                if let Some(gpu) = gpus.get_mut(index) {
                    *gpu = to;
                }
            };
            set(&mut gpus, free - task.milli);
            let points = points(&gpus);
            set(&mut gpus, *free);
            if best.is_none_or(|(most, _)| points > most) {
                best = Some((points, index));
            }
        }
        best.map_or((0, None), |(points, index)| (points, Some(index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(cpu: u32, gpus: &[u32]) -> Field {
        Field { cpu, memory: 1 << 20, gpus: gpus.to_vec(), model: "G2".to_owned(), sizes: BTreeMap::new() }
    }

    fn task(cpu: u32, gpus: u32, milli: u32) -> Task {
        Task { cpu, memory: 1, gpus, milli, spec: String::new() }
    }

    fn points(policy: Published, node: &Field, task: &Task) -> i64 {
        score(policy, node, task, &Fragments::default()).0
    }

    #[test]
    fn packing_prefers_shared_gpus_then_free_ones_on_used_nodes_then_idle_nodes() {
        let part = task(0, 1, 300);
        for (gpus, want) in [
            (&[500, 1000][..], 95), // half of a GPU is left of the one it takes: 50 / 10 less than 100
            (&[300, 1000], 97),
            (&[200, 1000], 49),
            (&[1000, 1000], 31),
            (&[1000; 8], 25),
        ] {
            assert_eq!(points(Published::GpuPacking, &node(0, gpus), &part), want, "{gpus:?}");
        }
        assert_eq!(points(Published::GpuPacking, &node(0, &[0, 1000, 1000]), &task(0, 2, 1000)), 48);
        assert_eq!(points(Published::GpuPacking, &node(9, &[1000]), &task(9, 0, 0)), 0);
    }

    #[test]
    fn clustering_prefers_tasks_of_its_size_then_mixed_then_idle_nodes() {
        let with = |sizes: &[u32]| Field {
            sizes: sizes.iter().map(|size| (*size, 1)).collect(),
            ..node(0, &[1000; 4])
        };
        let score = |sizes: &[u32]| points(Published::GpuClustering, &with(sizes), &task(0, 2, 1000));
        // Half of the largest node's GPUs are free: 12 points for that.
        assert_eq!([score(&[2]), score(&[0, 2]), score(&[]), score(&[0])], [87, 62, 37, 12]);
    }

    #[test]
    fn best_fit_and_the_dot_product_are_those_of_the_largest_node() {
        let node = node(64_000, &[1000; 4]);
        assert_eq!(points(Published::BestFit, &node, &task(0, 0, 0)), 50);
        assert_eq!(points(Published::BestFit, &node, &task(64_000, 4, 1000)), 100);
        assert_eq!(points(Published::DotProduct, &node, &task(64_000, 4, 1000)), 75);
        assert_eq!(points(Published::DotProduct, &node, &task(0, 0, 0)), 100);
    }

    #[test]
    fn the_expected_fragment_follows_the_definition() {
        let usual = [task(4000, 1, 500), task(4000, 1, 500), task(8000, 2, 1000), task(1000, 0, 0)];
        let fragments = Fragments::new(&usual, 100, &[node(0, &[])]);
        // Half of the tasks find 300 of no use, a quarter finds only one of two GPUs, a quarter needs none.
        let expected = fragments.expected("G2", 8000, &[300, 1000]);
        assert!((expected - (0.5 * 300.0 + 0.25 * 1300.0 + 0.25 * 1300.0)).abs() < 1e-9, "{expected}");
        let without_cpu = fragments.expected("G2", 3999, &[300, 1000]);
        assert!((without_cpu - 1300.0).abs() < 1e-9, "{without_cpu}");
    }

    #[test]
    fn fgd_takes_the_gpu_that_leaves_the_smaller_fragment() {
        let usual = [task(0, 1, 500), task(0, 1, 1000)];
        let fragments = Fragments::new(&usual, 100, &[node(0, &[])]);
        let (_, gpu) = score(Published::Fgd, &node(0, &[1000, 500]), &usual[0], &fragments);
        assert_eq!(gpu, Some(1));
    }
}
