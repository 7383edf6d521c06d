//! WhaleZEN's own API group, `scheduling.gen.io`.

#![allow(
    clippy::doc_markdown,
    reason = "the docs are also the text of `kubectl explain`, where backticks are noise"
)]

pub mod v1alpha1;
