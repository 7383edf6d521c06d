//! Kueue's API group, `kueue.x-k8s.io`.
//!
//! Names, shapes and limits are Kueue 0.19.2's, so that its manifests apply unchanged; a test compares the
//! definitions with those in Kueue's own module. The words are ours.

#![allow(
    clippy::doc_markdown,
    reason = "the docs are also the text of `kubectl explain`, where backticks are noise"
)]

pub mod constants;
pub mod v1beta2;
