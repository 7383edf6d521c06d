//! The cluster as the published policies see it: CPU, memory and the free part of each GPU, and nothing of topology.

use std::collections::BTreeMap;

use super::trace::{Task, TraceNode};

/// A node with what is free on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Free CPU, in thousandths.
    pub cpu: u32,
    /// Free memory, in MiB.
    pub memory: u32,
    /// What is free of each GPU, in thousandths.
    pub gpus: Vec<u32>,
    /// The model of the GPUs.
    pub model: String,
    /// How many tasks with GPUs run there, by how many GPUs they have; those with a part of one count as 0.
    pub sizes: BTreeMap<u32, u32>,
}

impl Field {
    /// A node with nothing on it.
    pub fn idle(node: &TraceNode) -> Self {
        Self {
            cpu: node.cpu,
            memory: node.memory,
            gpus: (0..node.gpus).map(|_| 1000).collect(),
            model: node.model.clone(),
            sizes: BTreeMap::new(),
        }
    }

    /// What is free of all its GPUs.
    pub fn gpu(&self) -> u32 {
        self.gpus.iter().sum()
    }

    /// How many GPUs are wholly free.
    pub fn idle_gpus(&self) -> u32 {
        self.gpus.iter().map(|free| u32::from(*free == 1000)).sum()
    }

    /// Whether a task may run there and fits.
    pub fn fits(&self, task: &Task) -> bool {
        self.cpu >= task.cpu && self.memory >= task.memory && self.has_gpus(task)
    }

    /// Whether it has the GPUs that a task asks for.
    pub fn has_gpus(&self, task: &Task) -> bool {
        let enough: u32 = self.gpus.iter().map(|free| u32::from(*free >= task.milli)).sum();
        task.gpus == 0 || self.allows(task) && enough >= task.gpus
    }

    /// Whether its GPUs are of a model that will do.
    pub fn allows(&self, task: &Task) -> bool {
        let mut models = task.models().peekable();
        models.peek().is_none() || models.any(|model| model == self.model)
    }

    /// Takes what a task takes: a part of the GPU of this index, or the first GPUs that are wholly free.
    pub fn take(&mut self, task: &Task, part: Option<usize>) {
        self.cpu -= task.cpu;
        self.memory -= task.memory;
        if task.gpus == 0 {
            return;
        }
        if task.is_shared() {
            if let Some(free) = part.and_then(|index| self.gpus.get_mut(index)) {
                *free -= task.milli;
            }
        } else {
            let idle = self.gpus.iter_mut().filter(|free| **free == 1000);
            idle.take(usize::try_from(task.gpus).unwrap_or_default()).for_each(|free| *free = 0);
        }
        *self.sizes.entry(size(task)).or_default() += 1;
    }
}

/// How large a task is for those who put tasks of one size together.
pub fn size(task: &Task) -> u32 {
    if task.is_shared() { 0 } else { task.gpus }
}
