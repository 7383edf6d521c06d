//! A `libnvidia-ml.so.1` with true MIG semantics, for machines without a GPU.
//!
//! The library refuses what the hardware refuses, with the same codes: a place that is taken, an instance that is used,
//! MIG that is off, a caller that is not root. Every process that loads it sees the same machine, whose state is a file;
//! what the machine is says a TOML file that `WHALEZEN_MOCK_NVML` names. `docs/mock-nvml.md` is its manual.
//!
//! | module | what it holds |
//! |---|---|
//! | [`machine`] | the machine and what may be done with it. Pure |
//! | [`config`], [`wave`], [`hardware`] | what a machine is, how busy it is over time, what a model has |
//! | [`store`] | the file with the state, for several processes |
//! | [`control`] | what tests do with a machine from outside; the binary `whalezen-mock-gpu` is this as commands |
//! | [`process`] | what one process knows: whether it is initialised, what its handles stand for |
//! | [`abi`] | the exported functions of `nvml.h`: only what is here is exported, so that a caller finds missing what is |

pub mod abi;
pub mod config;
pub mod control;
pub mod hardware;
mod host;
pub mod machine;
pub mod process;
pub mod refusal;
pub mod store;
pub mod wave;
