//! The expected fragment of a node: how much of its free GPUs a task drawn from the mix could not use.
//!
//! For one task (Weng et al., USENIX ATC 2023, section 4): if it asks for no GPU, or does not fit on the node for want of
//! CPU, of GPUs or of the right model, all that is free of the node's GPUs is a fragment. Else those GPUs are of which less is
//! free than it takes of each. Beyond the paper: whoever requires NVLink cannot use an idle GPU whose island has too few idle
//! ones, a GPU in MIG mode is of use to instances only, and whether memory of the host is left does not count.
//!
//! The expectation is kept as what *can* be used. Tasks that differ in nothing but CPU are one *group*: what they can use of
//! the GPUs is the same, and how many of them have CPU enough is a sum of popularities looked up by what is free. So a change
//! costs one step a group and not one a task.

use super::{
    WHOLE_GPU,
    device::Profile,
    mix::{MIX_WEIGHT, TaskMix},
    node::{GpuKind, Node},
    shape::{Ask, Link, Shape},
};

/// How much of a node's free GPUs is a fragment for one task, in thousandths of a GPU. The definition itself.
pub fn fragment_for(node: &Node, shape: &Shape) -> u32 {
    let free = node.free_gpu();
    let Some(per_gpu) = shape.per_gpu(&node.kind) else { return free };
    if shape.gpus == Ask::Nothing
        || node.cpu.free < shape.cpu
        || !node.fits(&Shape { cpu: 0, memory: 0, ..shape.clone() }, per_gpu)
    {
        return free;
    }
    free - usable(node, Use::of(shape, per_gpu)).milli
}

/// How a group of tasks uses GPUs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Use {
    /// So many, of each at least so much.
    Plain { milli: u32, count: u32 },
    /// So many in one island, all of each.
    Linked { count: u32 },
    /// An instance.
    Instance(Profile),
}

impl Use {
    fn of(shape: &Shape, per_gpu: u32) -> Self {
        match shape.gpus {
            Ask::Instance(profile) => Self::Instance(profile),
            Ask::Whole { count, .. } if shape.link == Link::Required => Self::Linked { count },
            _ => Self::Plain { milli: per_gpu, count: shape.count() },
        }
    }
}

/// What a group can use of a node's GPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Usable {
    /// So much of them, in thousandths.
    milli: u32,
    /// So many of them.
    count: u32,
}

fn usable(node: &Node, usage: Use) -> Usable {
    let mut usable = Usable::default();
    for gpu in &node.gpus {
        let used = match usage {
            Use::Plain { milli, .. } => gpu.slots.is_none() && gpu.free >= milli,
            Use::Linked { count } => {
                let idle = |other: &&super::Gpu| other.island == gpu.island && other.is_idle();
                gpu.is_idle()
                    && node.gpus.iter().filter(idle).count() >= usize::try_from(count).unwrap_or(usize::MAX)
            }
            Use::Instance(profile) => gpu.slots.is_some_and(|slots| slots.start(profile).is_some()),
        };
        if used {
            usable.milli += gpu.free;
            usable.count += 1;
        }
    }
    usable
}

/// Tasks of the mix that use GPUs alike.
#[derive(Clone, Debug)]
struct Group {
    usage: Use,
    /// How many GPUs one of them needs.
    needs: u32,
    /// How popular those are together that make do with so much CPU or less, by rising CPU.
    by_cpu: Vec<(u32, i64)>,
}

impl Group {
    /// How popular those are together that have CPU enough.
    fn popularity(&self, cpu: u32) -> i64 {
        // The most demanding first: on most nodes there is enough for them.
        self.by_cpu.iter().rev().find(|(least, _)| *least <= cpu).map_or(0, |(_, popularity)| *popularity)
    }
}

/// The mix as the nodes of one kind see it.
#[derive(Clone, Debug)]
pub(super) struct Fragments {
    groups: Vec<Group>,
    /// Whether all groups are plain, so that a change can be computed by steps.
    is_plain: bool,
}

/// What each group can use of a node's GPUs; what a change is computed from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Standing {
    usable: Vec<Usable>,
    /// What can be used, expected over the mix, in [`MIX_WEIGHT`]hs of thousandths.
    expected: i64,
    free: u32,
}

impl Standing {
    /// The expected fragment, in [`MIX_WEIGHT`]hs of thousandths of a GPU.
    pub(super) fn fragment(&self) -> i64 {
        i64::from(self.free) * MIX_WEIGHT - self.expected
    }
}

/// A task that is to be placed, as far as fragments are concerned.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// It takes no GPU.
    Nothing,
    /// It takes so much of a GPU of which so much is free.
    Part { of: u32, milli: u32 },
    /// It takes so many idle ones.
    Whole { count: u32 },
}

impl Fragments {
    pub(super) fn new(mix: &TaskMix, kind: &GpuKind) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let mut tasks: Vec<_> = mix
            .shapes()
            .filter(|(shape, _)| shape.gpus != Ask::Nothing)
            .filter_map(|(shape, popularity)| {
                let per_gpu = shape.per_gpu(kind)?;
                Some((Use::of(shape, per_gpu), shape.count(), shape.cpu, popularity))
            })
            .collect();
        tasks.sort_unstable();
        for (usage, needs, cpu, popularity) in tasks {
            if groups.last().is_none_or(|group| (group.usage, group.needs) != (usage, needs)) {
                groups.push(Group { usage, needs, by_cpu: Vec::new() });
            }
            if let Some(group) = groups.last_mut() {
                let before = group.by_cpu.last().map_or(0, |(_, popularity)| *popularity);
                group.by_cpu.push((cpu, before + popularity));
            }
        }
        let is_plain = groups.iter().all(|group| matches!(group.usage, Use::Plain { .. }));
        Self { groups, is_plain }
    }

    /// What the groups can use of a node.
    pub(super) fn standing(&self, node: &Node) -> Standing {
        let usable: Vec<_> = self.groups.iter().map(|group| usable(node, group.usage)).collect();
        let expected = self
            .groups
            .iter()
            .zip(&usable)
            .filter(|(group, usable)| usable.count >= group.needs)
            .map(|(group, usable)| group.popularity(node.cpu.free) * i64::from(usable.milli))
            .sum();
        Standing { usable, expected, free: node.free_gpu() }
    }

    /// Whether [`Self::grows_by`] knows every step; else the standing after it has to be computed.
    pub(super) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// How popular those of each group are together for whom there is CPU enough.
    pub(super) fn popularities(&self, cpu: u32, into: &mut Vec<i64>) {
        into.clear();
        into.extend(self.groups.iter().map(|group| group.popularity(cpu)));
    }

    /// By how much the expected fragment of a node grows with a step, in [`MIX_WEIGHT`]hs of thousandths of a GPU;
    /// `popularities` are [those](Self::popularities) for the CPU that the step leaves. Exact.
    pub(super) fn grows_by(&self, standing: &Standing, popularities: &[i64], step: Step) -> i64 {
        let mut expected = 0;
        let mut taken = 0;
        let groups = self.groups.iter().zip(&standing.usable).zip(popularities);
        match step {
            Step::Nothing => {
                for ((group, usable), popularity) in groups {
                    expected +=
                        if usable.count >= group.needs { popularity * i64::from(usable.milli) } else { 0 };
                }
            }
            Step::Part { of, milli } => {
                taken = milli;
                let after = of - milli;
                for ((group, usable), popularity) in groups {
                    let Use::Plain { milli: least, .. } = group.usage else { continue };
                    let (was, is) = (u32::from(of >= least), u32::from(after >= least));
                    let left = usable.milli - was * of + is * after;
                    expected +=
                        if usable.count + is >= group.needs + was { popularity * i64::from(left) } else { 0 };
                }
            }
            Step::Whole { count } => {
                taken = count * WHOLE_GPU;
                for ((group, usable), popularity) in groups {
                    let left = usable.milli - taken;
                    expected +=
                        if usable.count >= group.needs + count { popularity * i64::from(left) } else { 0 };
                }
            }
        }
        standing.expected - expected - i64::from(taken) * MIX_WEIGHT
    }
}
