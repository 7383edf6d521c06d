//! `whalezen-agent`: what runs on every node with NVIDIA GPUs.
//!
//! ```text
//! NVML -> device -> view -> layout (pure) -> steps -> device -> NVML
//!                    |                                   |
//!                    +-> GPUNode status  <- read back <--+
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`agent`] | the loop: look, decide, act, look again, say what came of it |
//! | [`device`] | what the agent sees of GPUs and does to them, and the threads that NVML's calls run on |
//! | [`nvml`] | NVIDIA's library behind that seam |
//! | [`layout`] | what is wanted of a GPU and what to do next for it; pure |
//! | [`health`] | which GPUs take no new work |
//! | [`inventory`] | looking at all GPUs at once |
//! | [`report`] | what the status of the GPUNode says; pure |
//! | [`claims`] | which container has which device |
//! | [`labels`] | the node's labels |
//! | [`metrics`] | the live numbers, for Prometheus |
//! | [`plugin`] | hands devices out by the kubelet, and reads back who got what |
//! | [`sense`] | how busy the GPUs are, in memory |
//! | [`xid`] | the last error that each GPU reported |
//! | [`serving`] | device plugin, metrics and labels, put together |
//! | [`view`] | what is seen now, for whoever hands devices out or measures them |

pub mod agent;
pub mod claims;
pub mod device;
pub mod health;
pub mod inventory;
pub mod labels;
pub mod layout;
pub mod metrics;
pub mod nvml;
pub mod plugin;
pub mod report;
pub mod sense;
pub mod serving;
pub mod view;
pub mod xid;
