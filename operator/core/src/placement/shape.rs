//! What a task asks for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{WHOLE_GPU, device::Profile, node::GpuKind, unit::ComputeUnits};

/// How much of one GPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Part {
    /// In thousandths of its time and memory.
    Milli(u32),
    /// In MiB of its memory: how many thousandths that is depends on the model.
    Memory(u32),
}

/// What a task asks for of the GPUs of its node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Nothing.
    Nothing,
    /// A part of one.
    Part(Part),
    /// So many, each for itself alone and with at least so much memory in MiB.
    Whole {
        /// How many.
        count: u32,
        /// The least memory of each, in MiB; 0 for any.
        memory: u32,
    },
    /// An instance on a GPU in MIG mode.
    Instance(Profile),
}

/// Whether its GPUs have to be joined by NVLink.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Link {
    /// It does not matter.
    #[default]
    Any,
    /// One island is better than several.
    Preferred,
    /// All in one island, or not at all.
    Required,
}

/// The GPU models that a task may run on, and how fast it is there, relative to each other, in thousandths. None is any
/// model, and none better than another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Models(Vec<(Arc<str>, u32)>);

impl Models {
    /// These models, each as fast as the others.
    pub fn any_of<'a>(models: impl IntoIterator<Item = &'a str>) -> Self {
        Self::with_speeds(models.into_iter().map(|model| (model, WHOLE_GPU)))
    }

    /// These models, with how fast the task is on each, in thousandths.
    pub fn with_speeds<'a>(models: impl IntoIterator<Item = (&'a str, u32)>) -> Self {
        let mut models: Vec<_> = models.into_iter().map(|(model, speed)| (Arc::from(model), speed)).collect();
        models.sort();
        models.dedup_by(|a, b| a.0 == b.0);
        Self(models)
    }

    /// These models, each as fast as its compute units say. One of which nothing is known is left out.
    pub fn by_units<'a>(models: impl IntoIterator<Item = &'a str>, units: &ComputeUnits) -> Self {
        Self::with_speeds(models.into_iter().filter_map(|model| Some((model, units.of(model)?))))
    }

    /// Whether every model will do.
    pub fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this model will do.
    pub fn allows(&self, model: &str) -> bool {
        self.is_any() || self.0.iter().any(|(name, _)| **name == *model)
    }

    /// How much slower the task is here than on the fastest of its models, in thousandths of that one's speed. Without
    /// speeds of its own it is never slower.
    pub(super) fn slowness(&self, model: &str) -> u32 {
        let best = self.0.iter().map(|(_, speed)| *speed).max().unwrap_or_default();
        let own = self.0.iter().find(|(name, _)| **name == *model).map_or(best, |(_, speed)| *speed);
        if best == 0 {
            0
        } else {
            u32::try_from(u64::from(best - own) * 1000 / u64::from(best)).unwrap_or(1000)
        }
    }
}

/// What one task asks for. Tasks of one shape are placed alike.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Thousandths of a CPU.
    pub cpu: u32,
    /// Memory of the host, in MiB.
    pub memory: u32,
    /// GPUs.
    pub gpus: Ask,
    /// Which models will do.
    pub models: Models,
    /// How its GPUs have to be joined.
    pub link: Link,
}

/// Why a shape is none.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ShapeError {
    /// A part of a GPU that is nothing, or more than one.
    #[error("a part of a GPU is 1 to 1000 thousandths, and not {0}")]
    Part(u32),
    /// No GPUs asked for, or more than any node could be said to have.
    #[error("a task asks for 1 to 64 whole GPUs, and not {0}")]
    Count(u32),
    /// A part of a GPU's memory that is nothing.
    #[error("a part of a GPU's memory is at least 1 MiB")]
    NoMemory,
    /// A profile that has no room on any GPU.
    #[error("{0:?} fits on no GPU")]
    Profile(Profile),
}

impl Shape {
    /// A shape of this much CPU (thousandths), host memory (MiB) and GPUs, on any model.
    pub fn new(cpu: u32, memory: u32, gpus: Ask) -> Self {
        Self { cpu, memory, gpus, models: Models::default(), link: Link::Any }
    }

    /// On these models only.
    pub fn on(self, models: Models) -> Self {
        Self { models, ..self }
    }

    /// With its GPUs joined like this.
    pub fn linked(self, link: Link) -> Self {
        Self { link, ..self }
    }

    /// Whether it asks for something that can be.
    pub fn check(&self) -> Result<(), ShapeError> {
        match self.gpus {
            Ask::Part(Part::Milli(milli)) if milli == 0 || milli > WHOLE_GPU => Err(ShapeError::Part(milli)),
            Ask::Part(Part::Memory(0)) => Err(ShapeError::NoMemory),
            Ask::Whole { count, .. } if count == 0 || count > 64 => Err(ShapeError::Count(count)),
            Ask::Instance(profile) if super::Slots::ALL.start(profile).is_none() => {
                Err(ShapeError::Profile(profile))
            }
            _ => Ok(()),
        }
    }

    /// How many thousandths of a GPU of this kind it takes of each; `None` if no such GPU will do.
    pub(super) fn per_gpu(&self, kind: &GpuKind) -> Option<u32> {
        if self.gpus != Ask::Nothing && !self.models.allows(&kind.model) {
            return None;
        }
        match self.gpus {
            Ask::Nothing => Some(0),
            Ask::Part(Part::Milli(milli)) => Some(milli),
            Ask::Part(Part::Memory(memory)) => {
                let milli =
                    (u64::from(memory) * u64::from(WHOLE_GPU)).div_ceil(u64::from(kind.memory.max(1)));
                u32::try_from(milli).ok().filter(|milli| *milli <= WHOLE_GPU)
            }
            Ask::Whole { memory, .. } => (kind.memory >= memory).then_some(WHOLE_GPU),
            Ask::Instance(profile) => Some(u32::from(profile.size) * WHOLE_GPU / 8),
        }
    }

    /// How many GPUs it takes.
    pub fn count(&self) -> u32 {
        match self.gpus {
            Ask::Nothing => 0,
            Ask::Part(_) | Ask::Instance(_) => 1,
            Ask::Whole { count, .. } => count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(model: &str, memory: u32) -> GpuKind {
        GpuKind { model: model.into(), memory }
    }

    #[test]
    fn a_part_by_memory_is_as_many_thousandths_as_the_model_makes_of_it() {
        let shape = Shape::new(0, 0, Ask::Part(Part::Memory(8192)));
        assert_eq!(shape.per_gpu(&kind("T4", 16384)), Some(500));
        assert_eq!(shape.per_gpu(&kind("A100", 40960)), Some(200));
        assert_eq!(shape.per_gpu(&kind("A100", 81920)), Some(100));
        assert_eq!(shape.per_gpu(&kind("tiny", 8000)), None, "it has not so much");
        assert_eq!(shape.per_gpu(&kind("unknown", 0)), None);
        assert_eq!(
            Shape::new(0, 0, Ask::Part(Part::Memory(1))).per_gpu(&kind("T4", 16384)),
            Some(1),
            "rounded up"
        );
    }

    #[test]
    fn a_model_or_a_memory_that_will_not_do_is_none() {
        let shape =
            Shape::new(0, 0, Ask::Whole { count: 4, memory: 40_000 }).on(Models::any_of(["A100", "H100"]));
        assert_eq!(shape.per_gpu(&kind("A100", 40_960)), Some(1000));
        assert_eq!(shape.per_gpu(&kind("A100", 20_000)), None);
        assert_eq!(shape.per_gpu(&kind("V100", 40_960)), None);
        assert_eq!(
            Shape::new(1, 1, Ask::Nothing).on(Models::any_of(["A100"])).per_gpu(&kind("V100", 1)),
            Some(0)
        );
    }

    #[test]
    fn slowness_is_measured_against_the_fastest_of_the_models() {
        let models = Models::with_speeds([("A100", 1000), ("V100", 400), ("H100", 2000)]);
        assert_eq!(
            [models.slowness("H100"), models.slowness("A100"), models.slowness("V100")],
            [0, 500, 800]
        );
        assert_eq!(Models::default().slowness("anything"), 0);
        assert_eq!(Models::with_speeds([("A", 0)]).slowness("A"), 0);
        let by_units = Models::by_units(["A100", "T4", "unheard-of"], &ComputeUnits::default());
        assert_eq!((by_units.slowness("A100"), by_units.slowness("T4")), (0, 793));
        assert!(!by_units.allows("unheard-of"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let check = |gpus| Shape::new(0, 0, gpus).check();
        assert_eq!(check(Ask::Part(Part::Milli(0))), Err(ShapeError::Part(0)));
        assert_eq!(check(Ask::Part(Part::Milli(1001))), Err(ShapeError::Part(1001)));
        assert_eq!(check(Ask::Part(Part::Memory(0))), Err(ShapeError::NoMemory));
        assert_eq!(check(Ask::Whole { count: 0, memory: 0 }), Err(ShapeError::Count(0)));
        assert_eq!(check(Ask::Whole { count: 65, memory: 0 }), Err(ShapeError::Count(65)));
        assert!(check(Ask::Instance(Profile { size: 4, starts: 0x80 })).is_err());
        for fine in [Ask::Nothing, Ask::Part(Part::Milli(1000)), Ask::Whole { count: 8, memory: 0 }] {
            assert_eq!(check(fine), Ok(()));
        }
    }
}
