//! Without preemption, one after another: FCFS, first-fit, shortest job first.

use super::{Policy, keep_running};
use crate::engine::{Cluster, Decision, Phase};

/// Who goes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Who came first.
    Arrival,
    /// Who runs for the least time, as the simulator knows.
    ShortestRun,
}

/// What happens behind one that does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// Everybody waits.
    Strict,
    /// Whoever fits starts.
    FirstFit,
}

/// Starts those that wait in an order, and never stops anybody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InOrder {
    /// Who goes first.
    pub order: Order,
    /// What happens behind one that does not fit.
    pub scan: Scan,
}

impl Policy for InOrder {
    fn name(&self) -> &'static str {
        match (self.order, self.scan) {
            (Order::Arrival, Scan::Strict) => "FCFS",
            (Order::Arrival, Scan::FirstFit) => "first-fit",
            (Order::ShortestRun, Scan::Strict) => "SJF",
            (Order::ShortestRun, Scan::FirstFit) => "SJF, first-fit",
        }
    }

    fn decide(&mut self, cluster: &Cluster<'_>, decision: &mut Decision) {
        let mut free = keep_running(cluster, decision);
        let waiting = cluster.active.values().filter(|active| active.phase == Phase::Waiting);
        let mut waiting: Vec<_> = waiting.map(|active| (active.index, active.job)).collect();
        if self.order == Order::ShortestRun {
            waiting.sort_by_key(|(index, job)| (job.run, *index));
        }
        for (index, job) in waiting {
            if job.gpus <= free {
                free -= job.gpus;
                decision.run.push((index, job.gpus));
            } else if self.scan == Scan::Strict {
                break;
            }
        }
    }
}
