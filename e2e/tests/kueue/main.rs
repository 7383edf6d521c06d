//! The Kueue dialect as its users meet it: a real API server, real Jobs, two replicas of the operator.
//!
//! One cluster serves all tests of a kind. Each test has a [`Ground`](ground::Ground) of its own in it: a
//! namespace, a flavor and queues by one name. What disturbs everybody (a dead leader, a definition that is changed,
//! a cluster without policies) is tried in a cluster apart.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in tests; these are their helpers"
)]

mod apart;
mod bad_input;
mod doubles;
mod every_kind;
mod ground;
mod jobs;
mod journal;
mod kinds;
mod kubectl;
mod kueuectl;
mod leader;
mod life;
mod mig;
mod nodes;
mod objects;
mod pods;
mod policies;
mod preemption;
mod provisioning;
mod queues;
mod scenarios;
mod servers;
mod serving;
mod shares;
mod topology;
mod topology_pods;
mod totals;
mod versions;
mod visibility;
