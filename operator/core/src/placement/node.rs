//! A node: what it has, what is free, and what fits.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    device::Gpu,
    devices::{self, Devices},
    shape::{Ask, Link, Shape},
};
use crate::name::HostName;

/// The GPUs of a node, which are all alike.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct GpuKind {
    /// Their model.
    pub model: Arc<str>,
    /// The memory of each, in MiB.
    pub memory: u32,
}

/// What there is of something that can be divided, and what of it is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Capacity {
    /// All of it.
    pub all: u32,
    /// What is free of it.
    pub free: u32,
}

impl Capacity {
    /// All free.
    pub fn idle(all: u32) -> Self {
        Self { all, free: all }
    }
}

/// What is free of a node: CPU, memory of the host, and idle GPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    cpu: u32,
    memory: u32,
    idle: u32,
}

impl Room {
    /// How many tasks of this shape fit at once beside GPUs, no more than `most`.
    fn host(self, shape: &Shape, most: u32) -> u32 {
        let times = |free: u32, each: u32| free.checked_div(each).unwrap_or(most);
        times(self.cpu, shape.cpu).min(times(self.memory, shape.memory)).min(most)
    }

    /// How many tasks of this shape fit at once on a node whose GPUs will do, no more than `most`; `None` if that depends on more than is
    /// known here.
    pub(super) fn count(self, shape: &Shape, most: u32) -> Option<u32> {
        let gpus = match shape.gpus {
            Ask::Nothing => most,
            Ask::Whole { count, .. } if shape.link != Link::Required => self.idle.checked_div(count)?,
            _ => return None,
        };
        Some(gpus.min(self.host(shape, most)))
    }
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: HostName,
    /// The domains that it is in, the widest first: a block, a rack. All nodes of a cluster have equally many.
    pub domains: Vec<Arc<str>>,
    /// What its GPUs are.
    pub kind: GpuKind,
    /// CPU, in thousandths.
    pub cpu: Capacity,
    /// Memory, in MiB.
    pub memory: Capacity,
    /// Its GPUs, in the order of their indices. No more than 64.
    pub gpus: Vec<Gpu>,
}

impl Node {
    /// A node with so many idle GPUs, all joined alike. CPU in thousandths, memory in MiB.
    pub fn idle(name: &str, kind: GpuKind, gpus: usize, cpu: u32, memory: u32) -> Self {
        Self {
            name: name.into(),
            domains: Vec::new(),
            kind,
            cpu: Capacity::idle(cpu),
            memory: Capacity::idle(memory),
            gpus: vec![Gpu::IDLE; gpus],
        }
    }

    /// In these domains.
    pub fn within<'a>(self, domains: impl IntoIterator<Item = &'a str>) -> Self {
        Self { domains: domains.into_iter().map(Arc::from).collect(), ..self }
    }

    /// How much of its GPUs is free, in thousandths of one.
    pub fn free_gpu(&self) -> u32 {
        self.gpus.iter().map(|gpu| gpu.free).sum()
    }

    /// How many of its GPUs are idle.
    pub fn idle_gpus(&self) -> u32 {
        self.gpus.iter().map(|gpu| u32::from(gpu.is_idle())).sum()
    }

    /// Whether it has room beside GPUs.
    pub(super) fn has_host_room(&self, shape: &Shape) -> bool {
        self.cpu.free >= shape.cpu && self.memory.free >= shape.memory
    }

    /// Whether a task fits, of which `per_gpu` is [what it takes](Shape::per_gpu) of each GPU here.
    pub(super) fn fits(&self, shape: &Shape, per_gpu: u32) -> bool {
        self.has_host_room(shape)
            && match shape.gpus {
                Ask::Nothing => true,
                Ask::Part(_) => self.gpus.iter().any(|gpu| gpu.part() >= per_gpu),
                Ask::Whole { count, .. } => self.idle_gpus_together(shape.link) >= count,
                Ask::Instance(profile) => {
                    self.gpus.iter().any(|gpu| gpu.slots.is_some_and(|slots| slots.start(profile).is_some()))
                }
            }
    }

    /// How many idle GPUs one task could have that wants them joined like this.
    fn idle_gpus_together(&self, link: Link) -> u32 {
        if link == Link::Required { devices::largest_island(self) } else { self.idle_gpus() }
    }

    /// What of it most counts need, beside each other in memory.
    pub(super) fn room(&self) -> Room {
        Room { cpu: self.cpu.free, memory: self.memory.free, idle: self.idle_gpus() }
    }

    /// How many tasks of this shape fit at once, no more than `most`.
    pub(super) fn count(&self, shape: &Shape, per_gpu: u32, most: u32) -> u32 {
        if let Some(count) = self.room().count(shape, most) {
            return count;
        }
        let times = |free: u32, each: u32| free.checked_div(each).unwrap_or(most);
        let host = self.room().host(shape, most);
        match shape.gpus {
            Ask::Nothing => host,
            Ask::Part(_) => self.gpus.iter().map(|gpu| times(gpu.part(), per_gpu)).sum::<u32>().min(host),
            Ask::Whole { count, .. } => {
                devices::islands(self).map(|idle| times(idle, count)).sum::<u32>().min(host)
            }
            Ask::Instance(profile) => {
                let of = |gpu: &Gpu| {
                    let Some(mut slots) = gpu.slots else { return 0 };
                    let mut count = 0;
                    while let Some(taken) =
                        slots.start(profile).and_then(|start| profile.slices(start.into()))
                    {
                        slots.free &= !taken;
                        count += 1;
                    }
                    count
                };
                self.gpus.iter().map(of).sum::<u32>().min(host)
            }
        }
    }

    /// Takes what a task of this shape takes on these devices. `false`, and nothing is taken, if that is not free.
    pub(super) fn take(&mut self, shape: &Shape, per_gpu: u32, devices: &Devices) -> bool {
        if !self.has_host_room(shape) || !devices.are_free(self, shape, per_gpu) {
            return false;
        }
        self.cpu.free -= shape.cpu;
        self.memory.free -= shape.memory;
        devices.each(self, shape, |gpu, slices| {
            gpu.free -= if slices == 0 { per_gpu } else { 0 };
            if let Some(slots) = &mut gpu.slots {
                slots.free &= !slices;
                gpu.free = slots.milli();
            }
        });
        true
    }

    /// Gives back what a task took. `false`, and nothing changes, if it cannot have been taken.
    pub(super) fn give(&mut self, shape: &Shape, per_gpu: u32, devices: &Devices) -> bool {
        let fits = |capacity: Capacity, amount: u32| capacity.all - capacity.free.min(capacity.all) >= amount;
        if !fits(self.cpu, shape.cpu)
            || !fits(self.memory, shape.memory)
            || !devices.are_taken(self, shape, per_gpu)
        {
            return false;
        }
        self.cpu.free += shape.cpu;
        self.memory.free += shape.memory;
        devices.each(self, shape, |gpu, slices| {
            gpu.free += if slices == 0 { per_gpu } else { 0 };
            if let Some(slots) = &mut gpu.slots {
                slots.free |= slices;
                gpu.free = slots.milli();
            }
        });
        true
    }

    /// A number that is the same for two nodes of one kind in the same state, whatever their names and in whatever order
    /// their GPUs are, and differs otherwise but for chance (FNV-1a, 64 bits).
    pub(super) fn fingerprint(&self) -> u64 {
        let mut gpus: Vec<_> = self
            .gpus
            .iter()
            .map(|gpu| {
                [
                    gpu.free,
                    gpu.slots.map_or(256, |slots| slots.free.into()),
                    gpu.island.into(),
                    gpu.root.into(),
                    gpu.numa.into(),
                ]
            })
            .collect();
        gpus.sort_unstable();
        let host = [self.cpu.all, self.cpu.free, self.memory.all, self.memory.free, self.kind.memory];
        let numbers = host.into_iter().chain(gpus.into_iter().flatten()).flat_map(u32::to_le_bytes);
        self.kind.model.bytes().chain([0]).chain(numbers).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}
