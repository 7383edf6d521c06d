//! What the agent serves: devices to the kubelet (what it offers and prefers, the CDI file, its life with a kubelet over
//! the real sockets), numbers to Prometheus, and labels to the node.
#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests; these are their helpers")]
#![allow(clippy::indexing_slicing, reason = "the same")]

mod cdi;
mod ground;
mod kubelet;
mod labels;
mod life;
mod metrics;
mod offers;
mod preference;
mod readback;
mod sensing;
