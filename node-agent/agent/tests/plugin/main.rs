//! The device plugin: what it offers and prefers, the CDI file, and its life with a kubelet over the real sockets.
#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests; these are their helpers")]
#![allow(clippy::indexing_slicing, reason = "the same")]

mod cdi;
mod ground;
mod kubelet;
mod life;
mod offers;
mod preference;
mod readback;
