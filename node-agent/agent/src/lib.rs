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
//! | [`device`] | what the agent sees of GPUs and does to them, and the threads that NVML's calls run on |
//! | [`nvml`] | NVIDIA's library behind that seam |
//! | [`layout`] | what is wanted of a GPU and what to do next for it; pure |
//! | [`claims`] | which container has which device |
//! | [`view`] | what is seen now, for whoever hands devices out or measures them |

pub mod claims;
pub mod device;
pub mod layout;
pub mod nvml;
pub mod view;
