//! The terms of a score, and named sets of weights for them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::shape::{Ask, Shape};

/// Tasks for which the terms have weights of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// Those without GPUs.
    Host,
    /// Those with a part of a GPU, or an instance on one.
    Part,
    /// Those with whole GPUs.
    Whole,
}

impl Class {
    /// All of them, in the order in which their weights lie.
    pub const ALL: [Self; 3] = [Self::Host, Self::Part, Self::Whole];

    /// The class of a shape.
    pub fn of(shape: &Shape) -> Self {
        match shape.gpus {
            Ask::Nothing => Self::Host,
            Ask::Part(_) | Ask::Instance(_) => Self::Part,
            Ask::Whole { .. } => Self::Whole,
        }
    }
}

/// A term of a score: something of the node, or of the node as the task would leave it. With a positive weight less of it is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Feature {
    /// By how much the expected fragment grows, in GPUs.
    Fragment,
    /// CPU that is left, in 128 cores.
    Cpu,
    /// GPU that is left, in 8 GPUs.
    Gpu,
    /// What is left of the GPU of which a part is taken, in GPUs.
    Part,
    /// 1 if that GPU was idle.
    Opens,
    /// 1 if nothing ran on the node.
    Idle,
    /// How many GPUs the node has, in 8 GPUs.
    Size,
    /// How many idle GPUs are left, in 8 GPUs.
    Spare,
    /// CPU that is wanting for the tasks that usually come to use what GPU is left, in 128 cores.
    Starved,
    /// CPU that they would leave over, in 128 cores.
    Surplus,
    /// What others would give for the GPUs, by the price of their kind.
    Price,
    /// How much slower the task is there than on the best of its models, times its GPUs.
    Slow,
    /// How far apart the GPUs are: 0 on a PCIe root or an NVLink island, 1 on a node.
    Spread,
    /// Memory of the host that is left, in TiB.
    Memory,
}

impl Feature {
    /// All of them, in the order in which their weights lie.
    pub const ALL: [Self; 14] = [
        Self::Fragment,
        Self::Cpu,
        Self::Gpu,
        Self::Part,
        Self::Opens,
        Self::Idle,
        Self::Size,
        Self::Spare,
        Self::Starved,
        Self::Surplus,
        Self::Price,
        Self::Slow,
        Self::Spread,
        Self::Memory,
    ];
}

/// How many terms there are.
const TERMS: usize = Feature::ALL.len();

/// The weights for one class of tasks, one a term.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Terms([f64; TERMS]);

impl Terms {
    pub(super) fn of(&self, feature: Feature) -> f64 {
        let [
            fragment,
            cpu,
            gpu,
            part,
            opens,
            idle,
            size,
            spare,
            starved,
            surplus,
            price,
            slow,
            spread,
            memory,
        ] = self.0;
        match feature {
            Feature::Fragment => fragment,
            Feature::Cpu => cpu,
            Feature::Gpu => gpu,
            Feature::Part => part,
            Feature::Opens => opens,
            Feature::Idle => idle,
            Feature::Size => size,
            Feature::Spare => spare,
            Feature::Starved => starved,
            Feature::Surplus => surplus,
            Feature::Price => price,
            Feature::Slow => slow,
            Feature::Spread => spread,
            Feature::Memory => memory,
        }
    }
}

/// A named set of weights. Versions of one name follow each other; a file of weights is one such set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "File", into = "File")]
pub struct Weights {
    /// What it is called.
    pub name: String,
    /// Which set of that name it is.
    pub version: u32,
    terms: [Terms; Class::ALL.len()],
}

/// Why weights cannot be used.
#[derive(Debug, Error, PartialEq)]
pub enum WeightsError {
    /// Written for other terms than these.
    #[error("weights of format {0} are not for this program, which reads format {1}")]
    Format(u32, u32),
    /// Not a number, or one with which scores would not stay in their range.
    #[error("the weight of {0:?} for {1:?} is {2}, which is not between -1000 and 1000")]
    Range(Feature, Class, f64),
}

/// Weights as they are written down. What is not named there has no weight.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    /// Which terms there are, and what they mean.
    format: u32,
    name: String,
    version: u32,
    weights: BTreeMap<Class, BTreeMap<Feature, f64>>,
}

/// Changes whenever a term does.
const FORMAT: u32 = 1;

impl TryFrom<File> for Weights {
    type Error = WeightsError;

    fn try_from(file: File) -> Result<Self, WeightsError> {
        if file.format != FORMAT {
            return Err(WeightsError::Format(file.format, FORMAT));
        }
        let mut weights = Self { name: file.name, version: file.version, terms: Default::default() };
        for (class, terms) in file.weights {
            for (feature, weight) in terms {
                weights.set(class, feature, weight)?;
            }
        }
        Ok(weights)
    }
}

impl From<Weights> for File {
    fn from(weights: Weights) -> Self {
        let of = |class| {
            let terms = Feature::ALL.into_iter().map(|feature| (feature, weights.get(class, feature)));
            (class, terms.filter(|(_, weight)| *weight != 0.0).collect())
        };
        Self {
            format: FORMAT,
            version: weights.version,
            weights: Class::ALL.into_iter().map(of).collect(),
            name: weights.name,
        }
    }
}

impl Default for Weights {
    /// Nothing learned: fragments; a little best fit so that equals are not scattered; GPUs that are left without the CPU to
    /// use them, which fragments see only when it is too late; and what a task says itself.
    fn default() -> Self {
        let mut weights = Self { name: "default".to_owned(), version: 1, terms: Default::default() };
        let terms = [
            (Feature::Fragment, 1.0),
            (Feature::Cpu, 0.04),
            (Feature::Gpu, 0.05),
            (Feature::Starved, 0.3),
            (Feature::Price, 0.05),
            (Feature::Slow, 1.0),
            (Feature::Spread, 0.1),
        ];
        for (class, (feature, weight)) in
            Class::ALL.into_iter().flat_map(|class| terms.map(|term| (class, term)))
        {
            weights.put(class, feature, weight);
        }
        weights
    }
}

impl Weights {
    /// A set with no weight for anything, to be filled.
    pub fn none(name: &str, version: u32) -> Self {
        Self { name: name.to_owned(), version, terms: Default::default() }
    }

    /// The same weights under another name.
    pub fn named(self, name: &str, version: u32) -> Self {
        Self { name: name.to_owned(), version, ..self }
    }

    /// The weight of a term for a class of tasks.
    pub fn get(&self, class: Class, feature: Feature) -> f64 {
        self.of(class).of(feature)
    }

    /// Sets it.
    pub fn set(&mut self, class: Class, feature: Feature, weight: f64) -> Result<(), WeightsError> {
        if !(-1000.0..=1000.0).contains(&weight) {
            return Err(WeightsError::Range(feature, class, weight));
        }
        self.put(class, feature, weight);
        Ok(())
    }

    fn put(&mut self, class: Class, feature: Feature, weight: f64) {
        let terms = Class::ALL.into_iter().zip(&mut self.terms).find(|(own, _)| *own == class);
        let place = terms.and_then(|(_, terms)| {
            Feature::ALL.into_iter().zip(&mut terms.0).find(|(own, _)| *own == feature)
        });
        if let Some((_, place)) = place {
            *place = weight;
        }
    }

    pub(super) fn of(&self, class: Class) -> &Terms {
        let [host, part, whole] = &self.terms;
        match class {
            Class::Host => host,
            Class::Part => part,
            Class::Whole => whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_as_they_were_written() {
        let mut weights = Weights::default();
        weights.set(Class::Part, Feature::Starved, -0.123_456_789).unwrap();
        let text = serde_json::to_string_pretty(&weights).unwrap();
        assert_eq!(serde_json::from_str::<Weights>(&text).unwrap(), weights);
        assert!(text.contains("\"starved\": -0.123456789"), "{text}");
        for class in Class::ALL {
            for (index, feature) in (1_u32..).zip(Feature::ALL) {
                let mut weights = Weights::none("x", 1);
                weights.set(class, feature, f64::from(index)).unwrap();
                assert!(
                    (weights.get(class, feature) - f64::from(index)).abs() < f64::EPSILON,
                    "{class:?} {feature:?}"
                );
            }
        }
    }

    #[test]
    fn what_would_not_mean_the_same_here_is_refused() {
        let read = |text: &str| serde_json::from_str::<Weights>(text).map_err(|error| error.to_string());
        let with = |format: u32, terms: &str| {
            read(&format!(
                r#"{{"format": {format}, "name": "x", "version": 1, "weights": {{"part": {terms}}}}}"#
            ))
        };
        assert!(with(1, r#"{"fragment": 1.0}"#).is_ok());
        assert!(with(2, r#"{"fragment": 1.0}"#).unwrap_err().contains("format 2"));
        assert!(with(1, r#"{"luck": 1.0}"#).unwrap_err().contains("luck"));
        assert!(with(1, r#"{"fragment": 1e9}"#).unwrap_err().contains("between"));
        assert!(Weights::default().set(Class::Part, Feature::Cpu, f64::NAN).is_err());
        assert!(read("{}").is_err());
    }
}
