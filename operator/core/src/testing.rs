//! What tests of the core, and of what is built on it, are written with: builders for the things that people
//! declare, and a [`World`] that does to the state what watches and the applier would.
//!
//! ```
//! use whalezen_core::testing::{World, flavor, local_queue, queue, workload};
//!
//! let mut world = World::new()
//!     .with(flavor("a100"))
//!     .with(queue("team-a").group(["nvidia.com/gpu"]).flavor("a100", [("nvidia.com/gpu", 8)]))
//!     .with(local_queue("ns/lq", "team-a"))
//!     .with(workload("ns/one").queue("lq").pods("main", 8, [("nvidia.com/gpu", 1)]))
//!     .with(workload("ns/two").queue("lq").since(1).pods("main", 1, [("nvidia.com/gpu", 1)]));
//! world.run();
//! assert_eq!(world.holders(), ["ns/one"]);
//! world.finish("ns/one");
//! world.run();
//! assert_eq!(world.holders(), ["ns/two"]);
//! ```
//!
//! Amounts are in whole units: cores, bytes, devices.

mod build;
mod nodes;
mod workload;
mod world;

pub use self::{
    build::{
        CohortBuilder, FlavorBuilder, LocalQueueBuilder, NamespaceBuilder, QueueBuilder, amount, cohort,
        flavor, key, local_key, local_queue, namespace, queue,
    },
    nodes::{NodeBuilder, foreign_pod, node, topology},
    workload::{WorkloadBuilder, workload},
    world::{Answer, Applier, Fact, ObligingApplier, RefusingApplier, World},
};
