//! How a queue is stopped.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a queue admits workloads, and what becomes of those it has admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum StopPolicy {
    /// The queue works.
    #[default]
    None,
    /// Nothing new: admitted workloads run to their end, those that hold quota but are not admitted lose it.
    Hold,
    /// Nothing at all: admitted workloads are evicted too.
    HoldAndDrain,
}
