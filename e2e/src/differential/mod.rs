//! The same quota problems for Kueue's own binary and for our operator.
//!
//! Random [problems](problem) are played on one API server, each with queues and cohorts of its own, first with the
//! one manager and then with the other. After every act of a problem both are waited for until they [rest](probe),
//! and must have given the same workloads the same flavors and evicted the same ones for the same reasons.

mod board;
mod explained;
mod facts;
mod generate;
mod objects;
mod outcome;
mod owner;
mod pair;
mod patience;
mod play;
mod probe;
mod problem;
mod report;
mod seen;
mod shrink;
mod site;

pub use generate::generate;
pub use outcome::{Difference, Move, Step, Trace, beside, difference};
pub use pair::{Case, Pair};
pub use problem::{Act, Family, Problem, Seed};
pub use report::Report;
pub use shrink::shrink;
