//! The score of a node for a shape: what it costs to place one such task there.

use super::{
    WHOLE_GPU,
    devices::{self, Devices},
    fragment::{Fragments, Standing, Step},
    mix::MIX_WEIGHT,
    node::{GpuKind, Node},
    shape::{Ask, Shape},
    weights::{Feature, Terms},
};

/// A score as it is compared: in 2^-32, the smaller the better.
pub(super) type Score = i64;

/// What the terms are measured in.
const CPU_UNIT: f64 = 128_000.0;
const GPU_UNIT: f64 = 8_000.0;
const MEMORY_UNIT: f64 = 1_048_576.0;

/// What scores depend on beside the node and the shape, for nodes of one kind.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) gpu: GpuKind,
    pub(super) fragments: Fragments,
    /// The price of one GPU, in thousandths.
    pub(super) price: u32,
}

/// A shape on the nodes of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    /// What it takes of each GPU.
    pub(super) per_gpu: u32,
    /// How much slower it is than on the fastest of its models, in thousandths.
    slowness: u32,
}

impl Fit {
    /// `None` if it does not run on this kind.
    pub(super) fn new(shape: &Shape, kind: &GpuKind) -> Option<Self> {
        Some(Self { per_gpu: shape.per_gpu(kind)?, slowness: shape.models.slowness(&kind.model) })
    }
}

/// What scores of one shape have in common.
#[derive(Clone, Copy)]
pub(super) struct Scorer<'a> {
    pub(super) terms: &'a Terms,
    /// How much CPU the tasks of the mix ask for on average for each GPU, in thousandths.
    pub(super) cpu_per_gpu: u32,
}

impl Scorer<'_> {
    /// The score of the best way to place one task of this shape on this node, and the GPUs that it takes then; `None` if
    /// it does not fit. `scratch` is overwritten.
    pub(super) fn score(
        &self,
        node: &Node,
        (kind, standing): (&Kind, &Standing),
        (shape, fit): (&Shape, Fit),
        scratch: &mut Vec<i64>,
    ) -> Option<(Score, Devices)> {
        if !node.has_host_room(shape) {
            return None;
        }
        let Fit { per_gpu, slowness } = fit;
        let terms = self.terms;
        let count = shape.count();
        let cpu = node.cpu.free - shape.cpu;
        let gpu = node.free_gpu().checked_sub(per_gpu * count)?;
        let idle = node.idle_gpus();
        let all = u32::try_from(node.gpus.len()).unwrap_or(u32::MAX);
        let wanted = u64::from(gpu) * u64::from(self.cpu_per_gpu) / u64::from(WHOLE_GPU);
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        let untouched = idle == all && node.cpu.free == node.cpu.all;
        let taken = f64::from(per_gpu * count) / 1000.0;
        let common = terms.of(Feature::Cpu) * (f64::from(cpu) / CPU_UNIT)
            + terms.of(Feature::Gpu) * (f64::from(gpu) / GPU_UNIT)
            + terms.of(Feature::Idle) * f64::from(u32::from(untouched))
            + terms.of(Feature::Size) * (f64::from(all) / 8.0)
            + terms.of(Feature::Starved) * (f64::from(wanted.saturating_sub(cpu)) / CPU_UNIT)
            + terms.of(Feature::Surplus) * (f64::from(cpu.saturating_sub(wanted)) / CPU_UNIT)
            + terms.of(Feature::Price) * (f64::from(kind.price) / 1000.0 * taken)
            + terms.of(Feature::Slow) * (f64::from(slowness) / 1000.0 * taken)
            + terms.of(Feature::Memory) * (f64::from(node.memory.free - shape.memory) / MEMORY_UNIT);
        kind.fragments.popularities(cpu, scratch);
        let popularities = scratch.as_slice();
        let fragment = |step: Step, devices: &Devices| {
            let growth = if kind.fragments.is_plain() {
                kind.fragments.grows_by(standing, popularities, step)
            } else {
                let mut after = node.clone();
                after.take(shape, per_gpu, devices);
                kind.fragments.standing(&after).fragment() - standing.fragment()
            };
            terms.of(Feature::Fragment) * gpus(growth)
        };
        let spare = |left: u32| terms.of(Feature::Spare) * (f64::from(left) / 8.0);
        match shape.gpus {
            Ask::Nothing => {
                let devices = Devices::None;
                Some((fixed(common + fragment(Step::Nothing, &devices) + spare(idle)), devices))
            }
            Ask::Whole { count, .. } => {
                let (bits, spread) = devices::whole(node, count, shape.link)?;
                let devices = Devices::Whole(bits);
                let spread = terms.of(Feature::Spread) * (f64::from(spread) / 2.0);
                Some((
                    fixed(common + fragment(Step::Whole { count }, &devices) + spare(idle - count) + spread),
                    devices,
                ))
            }
            Ask::Part(_) => {
                // GPUs of which equally much is free are the same to all terms: the first of them stands for all.
                let fits = |gpu: &super::Gpu| gpu.part() >= per_gpu && gpu.slots.is_none();
                let first = |index: usize, free: u32| {
                    !node.gpus.iter().take(index).any(|gpu| fits(gpu) && gpu.free == free)
                };
                let candidates =
                    node.gpus.iter().enumerate().filter(|(index, gpu)| fits(gpu) && first(*index, gpu.free));
                let scores = candidates.zip(0_u32..).filter_map(|((index, gpu), _)| {
                    let devices = Devices::Part(u32::try_from(index).ok()?);
                    let opens = u32::from(gpu.free == WHOLE_GPU);
                    let score = common
                        + fragment(Step::Part { of: gpu.free, milli: per_gpu }, &devices)
                        + spare(idle - opens)
                        + terms.of(Feature::Part) * (f64::from(gpu.free - per_gpu) / 1000.0)
                        + terms.of(Feature::Opens) * f64::from(opens);
                    Some((fixed(score), devices))
                });
                // The first of equals, in the order of what is free: the tightest.
                scores.min_by_key(|(score, devices)| (*score, free_of(node, *devices)))
            }
            Ask::Instance(profile) => {
                let starts = node
                    .gpus
                    .iter()
                    .zip(0_u32..)
                    .filter_map(|(gpu, index)| Some((gpu, index, gpu.slots?.start(profile)?)));
                let scores = starts.map(|(gpu, index, start)| {
                    let devices = Devices::Instance(index, start);
                    let score = common
                        + fragment(Step::Nothing, &devices)
                        + spare(idle)
                        + terms.of(Feature::Part) * (f64::from(gpu.free.saturating_sub(per_gpu)) / 1000.0)
                        + terms.of(Feature::Opens) * f64::from(u32::from(gpu.free == WHOLE_GPU));
                    (fixed(score), devices)
                });
                scores.min_by_key(|(score, devices)| (*score, free_of(node, *devices)))
            }
        }
    }
}

/// How much is free of the first of these.
fn free_of(node: &Node, devices: Devices) -> u32 {
    let index = devices.indices().next().and_then(|index| usize::try_from(index).ok());
    index.and_then(|index| node.gpus.get(index)).map_or(u32::MAX, |gpu| gpu.free)
}

/// A growth in [`MIX_WEIGHT`]hs of thousandths, in GPUs.
#[allow(clippy::cast_precision_loss, reason = "a node has 64 GPUs at most, so this is below 2^43")]
fn gpus(growth: i64) -> f64 {
    growth as f64 / (MIX_WEIGHT * i64::from(WHOLE_GPU)) as f64
}

/// A sum as it is compared.
#[allow(clippy::cast_possible_truncation, reason = "it saturates, and weights are bounded")]
fn fixed(score: f64) -> Score {
    (score * 4_294_967_296.0).round() as Score
}
