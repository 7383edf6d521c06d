//! Weights that are learned: searched for on a mixture of workloads, and kept only if they beat the default ones on others.
//!
//! The search is an evolution strategy that needs no gradient and adapts its steps ([`search`]). A candidate is worth what it
//! gets allocated more than the published FGD does ([`worth`]), averaged over the mixture, and what it loses anywhere counts
//! three times: weights that gain on one workload by losing on another are of no use. Every
//! generation plays arrivals that none before it played.
//!
//! Whatever is found is [judged](judge) on seeds and mixes that the search has not seen.

pub mod command;
pub mod judge;
pub mod search;
pub mod worth;
