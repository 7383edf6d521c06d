//! The cluster in virtual time: jobs come, a [`Policy`](crate::policy::Policy) says who runs on how many GPUs, and the
//! clock jumps from event to event.
//!
//! GPUs are alike here, and work is counted in GPU-milliseconds, so everything is an integer and a run gives the same
//! outcome wherever it is made. A job that is stopped holds its GPUs while it saves its state, and again while it
//! restores it; it makes no progress in either. One that is resized makes progress in proportion to its GPUs and loses
//! what [`Costs::resize`] says.

mod active;
mod outcome;
mod queue;
mod run;

pub use active::{Active, Phase};
pub use outcome::{Finished, Level, Outcome, Segment};
pub use queue::EventQueue;
pub use run::{Cluster, Decision, EngineError, simulate};

/// Milliseconds of virtual time, or between two moments of it.
pub type Millis = i64;

/// A second.
pub const SECOND: Millis = 1000;
/// A minute.
pub const MINUTE: Millis = 60 * SECOND;
/// An hour.
pub const HOUR: Millis = 60 * MINUTE;

/// A job of a trace, by its place in the order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobIndex(pub usize);

/// What it costs to change one's mind about a running job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// For so long a stopped job holds its GPUs to save its state.
    pub save: Millis,
    /// For so long a job that ran before holds its GPUs to restore its state.
    pub restore: Millis,
    /// What a resized job loses, as time on all GPUs that it asked for.
    pub resize: Millis,
}

/// The cluster that is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool {
    /// How many GPUs it has.
    pub gpus: i64,
    /// How many of them stand in one node. Only who is resized in whole nodes asks.
    pub per_node: i64,
    /// What stopping, starting again and resizing cost.
    pub costs: Costs,
}

impl Pool {
    /// So many GPUs, eight a node, on which changing one's mind costs nothing.
    pub fn of(gpus: i64) -> Self {
        Self { gpus, per_node: 8, costs: Costs::default() }
    }

    /// The same GPUs with these costs.
    pub fn with_costs(self, costs: Costs) -> Self {
        Self { costs, ..self }
    }
}
