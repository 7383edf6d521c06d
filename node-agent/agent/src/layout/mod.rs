//! Which layout a GPU is to have, and what to do next for it. Pure: everything is a function of what was seen.
//!
//! | module | what it decides |
//! |---|---|
//! | [`policies`] | which MIGPolicy is about a GPU |
//! | [`wish`] | what is wanted: a pin, an assignment, the node's label, a default, in this order |
//! | [`decide`] | what to do next: nothing, wait, or acts on the GPU |
//! | [`memory`] | what has to be remembered from one look to the next |
//! | [`neighbours`] | NVIDIA's own tools on the node: who they are, and what they are told |
//!
//! Every look begins anew from what NVML shows. An act is tried at most once in a look, and what it did is what the next
//! look sees; so it makes no difference whether the agent, or the node, was stopped in between.

pub mod decide;
pub mod memory;
pub mod neighbours;
pub mod policies;
pub mod wish;

#[cfg(test)]
mod laws;
#[cfg(test)]
pub(crate) mod testing;

use std::time::Duration;

/// A moment, as the time since the agent began. It comes from a clock that nobody sets.
pub type Moment = Duration;
