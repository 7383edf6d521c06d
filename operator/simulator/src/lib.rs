//! The scheduler away from the cluster: decisions played again, and policies tried in virtual time.
//!
//! What the operator decides is a function of its state, so a state that was kept gives the same decision again
//! ([`replay`]), and so does one that was kept with all that happened since ([`journal`]). What it *would* do with other
//! jobs is simulated: a [`trace`] is played on a pool of GPUs by the [`engine`] under a [`policy`], and several tenants'
//! jobs on one cluster that they [share](sharing). Where it would place tasks is tried by filling a cluster ([`fgd`]), and
//! the weights for that are learned there ([`train`]).

pub mod compare;
pub mod dice;
pub mod elastic_memory;
pub mod engine;
pub mod fgd;
pub mod figures;
pub mod journal;
pub mod philly;
pub mod policy;
pub mod progress;
pub mod replay;
pub mod report;
pub mod run;
pub mod sharing;
pub mod summary;
pub mod table;
pub mod trace;
pub mod traces;
pub mod train;
pub mod whale;
