//! The policies by name.

use clap::ValueEnum;
use whalezen_core::sequence::Grid;

use super::{
    Conservative, Easy, InOrder, Measure, Optimised, Order, Policy, Predicted, Remaining, Scan,
    TwoDimensionalLas,
};
use crate::engine::Pool;

/// A policy that can be chosen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum Kind {
    /// First come, first served: nobody passes anybody
    Fcfs,
    /// First come, first served, but whoever fits starts
    FirstFit,
    /// EASY backfilling with exact estimates
    Easy,
    /// Conservative backfilling with exact estimates
    Conservative,
    /// Shortest job first, strictly, sizes known
    Sjf,
    /// Shortest remaining time first, preemptive, sizes known
    Srtf,
    /// Shortest remaining service (GPUs times time) first, preemptive, sizes known
    Srsf,
    /// Two-dimensional least attained service of Tiresias, preemptive, sizes unknown
    Las,
    /// Ours: the least mean completion time by search, with checkpoint costs, preemptive, sizes known
    Optimised,
    /// Ours: the least Gittins index times GPUs first, preemptive, sizes predicted from the jobs so far
    Predicted,
}

impl Kind {
    /// The policy, for a pool.
    pub fn policy(self, pool: Pool) -> Box<dyn Policy> {
        let in_order = |order, scan| Box::new(InOrder { order, scan });
        match self {
            Self::Fcfs => in_order(Order::Arrival, Scan::Strict),
            Self::FirstFit => in_order(Order::Arrival, Scan::FirstFit),
            Self::Easy => Box::new(Easy),
            Self::Conservative => Box::new(Conservative::new(pool.gpus)),
            Self::Sjf => in_order(Order::ShortestRun, Scan::Strict),
            Self::Srtf => Box::new(Remaining(Measure::Time)),
            Self::Srsf => Box::new(Remaining(Measure::Service)),
            Self::Las => Box::new(TwoDimensionalLas::default()),
            Self::Predicted => Box::new(Predicted::default()),
            Self::Optimised => Box::new(Optimised::new(Grid::Any)),
        }
    }
}

/// As it is written on the command line.
impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
