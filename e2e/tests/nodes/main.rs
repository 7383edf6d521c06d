//! Real kubelets, containerd and runc: pods run, nodes fail and come back, and nothing is left behind.
//!
//! On a machine that cannot have such nodes these tests say so on standard error and pass; with
//! `WHALEZEN_REQUIRE_REAL_NODES` set, as in continuous integration, they fail there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in tests; these are their helpers"
)]

mod devices;
mod ground;
mod life;
mod nothing_left;
mod on_nodes;
mod pods;
