//! The library, loaded as the agent loads it: through `nvml-wrapper`.

// What tests share fails as they do: by panicking.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod bench;
mod faults;
mod instances;
mod processes;
mod sensing;
