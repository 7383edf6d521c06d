//! The API types that `WhaleZEN` reads and writes, one module per API group and version, and the generator of
//! `manifests/crds`.
//!
//! A type here is the contract, nothing more: field for field what the API server stores, with the doc
//! comments that `kubectl explain` prints. What the objects *mean* is the business of the dialects.
//!
//! Two rules keep the Rust shape and the schema the same thing:
//! - A field that the schema defaults is a plain value whose Rust default is that default; any other optional
//!   field is an `Option`, an empty `Vec` or an empty map. An object read from YAML without an API server in
//!   between therefore means the same.
//! - Every constraint stands on the field it constrains, as a `schemars` attribute or as one of the
//!   [`schema::mark`] transforms; the only table is the one for Kubernetes' own types.

mod definition;
mod resource;

pub mod kueue;
pub mod manifest;
pub mod scheduling;
pub mod schema;
pub mod visibility;

pub use definition::{Column, CustomResource, Definition, crd_json};

/// The definitions of every kind in this crate, sorted by name: what `manifests/crds` holds.
pub fn all() -> Vec<serde_json::Value> {
    let mut crds = kueue::crds();
    crds.extend(scheduling::v1alpha1::crds());
    crds.sort_by_key(definition::name);
    crds
}
