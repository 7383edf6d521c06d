//! Node agents as processes, each on a machine that the mock of NVML plays, against the real API server. The nodes are
//! nothing but objects: no kubelet hands devices out here.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may panic, and so may what only tests call"
)]

mod apart;
mod faults;
mod layouts;
mod neighbours;
mod post;
mod rights;
