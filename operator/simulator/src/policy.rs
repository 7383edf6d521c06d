//! Who runs: the policies that are compared, each as it was published.
//!
//! A [`Policy`] is asked after everything that happens at a moment, and says who is to run on how many GPUs. It sees
//! what is submitted, what was got so far, and through [`Active::time_left`] what only a simulator knows; the policies
//! that look there say so ("known sizes").

mod attained;
mod backfill;
mod in_order;
mod kind;
mod optimised;
mod predicted;
mod remaining;

pub use attained::TwoDimensionalLas;
pub use backfill::{Conservative, Easy};
pub use in_order::{InOrder, Order, Scan};
pub use kind::Kind;
pub use optimised::Optimised;
pub use predicted::Predicted;
pub use remaining::{Measure, Remaining};

use crate::engine::{Active, Cluster, Decision, Millis};

/// Says who runs.
pub trait Policy {
    /// What it is called in tables.
    fn name(&self) -> &'static str;

    /// A job arrived.
    fn arrived(&mut self, _job: &Active<'_>, _now: Millis) {}

    /// A job is done; it held its GPUs until now.
    fn finished(&mut self, _job: &Active<'_>, _now: Millis) {}

    /// Who is to run from now on; `decision` is empty.
    fn decide(&mut self, cluster: &Cluster<'_>, decision: &mut Decision);
}

/// Lets everybody that runs go on, and says how many GPUs are left.
fn keep_running(cluster: &Cluster<'_>, decision: &mut Decision) -> i64 {
    let mut free = cluster.pool.gpus;
    for active in cluster.active.values().filter(|active| active.is_on()) {
        decision.run.push((active.index, active.held));
        free -= active.held;
    }
    free
}

#[cfg(test)]
mod tests;
