//! On which node, and on which of its GPUs, a task is placed: fragments, best fit, prices and topology in one score.
//!
//! This is the core's own neutral model. It knows nodes with GPUs, [shapes](Shape) of tasks, and gangs of tasks of one
//! shape; what queue or dialect they come from is not its business.
//!
//! ```text
//! TaskMix (what usually comes)  ->  Fragments, one table a kind of GPU        Weights (named, versioned)
//!                                          |                                        |
//! Cluster: nodes  -- changed -->  what each holds for each task of the mix  ->  score of (node, shape)
//!                                                                                   |
//!                                   tournament of the nodes, one a shape   ->   the best node
//!                                   counts of what fits, by domain         ->   the lowest level for a gang
//! ```
//!
//! The score is the growth of the expected fragment (fragmentation gradient descent, Weng et al., USENIX ATC 2023, with
//! the exact real-valued change and not the integer of the artefact), and [other terms](Feature), each with a weight. The
//! smallest score wins. Ties go to the fullest node, then to the one whose state has the smaller fingerprint, and only
//! between nodes that are in the same state to the one that was given first: so which nodes are filled does not depend on
//! names.
//!
//! # Numbers
//!
//! GPUs and CPUs are counted in thousandths, memory in MiB, popularities in 65,536ths, all as integers, and the expected
//! fragment is an exact integer. A score is a sum of products of `f64` in a fixed order, made of nothing but additions and
//! multiplications of numbers that are exact, and is rounded to 2^-32: the same input gives the same bits on every machine that
//! follows IEEE 754. The law `a_cache_is_what_would_be_computed_anew` holds the caches to it.
//!
//! | module | what it holds |
//! |---|---|
//! | `unit` | the compute unit that makes GPU models comparable |
//! | `device` | a GPU and its MIG slots |
//! | `shape` | what a task asks for |
//! | `node` | a node, what is free on it, what fits on it |
//! | `mix` | which tasks usually come, and how often |
//! | `fragment` | the expected fragment of a node, and how it changes |
//! | `devices` | which GPUs of a node a task takes |
//! | `weights` | the terms of a score and their weights |
//! | `score` | the score of a node for a shape |
//! | `ranking` | the nodes in the order of their scores |
//! | `cluster` | all of this, kept up to date |
//! | `domains`, `gang` | where a gang fits, and where it is placed |
//! | [`improve`] | what can be made better when a gang is blocked |

mod cluster;
mod device;
mod devices;
mod domains;
mod fragment;
mod gang;
pub mod improve;
mod mix;
mod node;
mod ranking;
mod score;
mod shape;
mod unit;
mod weights;

pub use self::{
    cluster::{Choice, Cluster, NodeId, PlacementError, ShapeId},
    device::{Gpu, Profile, Slots},
    devices::Devices,
    fragment::fragment_for,
    gang::{Fit, Gang, GangPlacement, Spot},
    mix::{MIX_WEIGHT, TaskMix},
    node::{Capacity, GpuKind, Node},
    shape::{Ask, Link, Models, Part, Shape, ShapeError},
    unit::{ComputeUnits, Rates},
    weights::{Class, Feature, Weights, WeightsError},
};

/// Thousandths of one GPU.
pub const WHOLE_GPU: u32 = 1000;
