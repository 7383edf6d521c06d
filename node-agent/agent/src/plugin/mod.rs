//! The device plugin: offers the node's GPUs and MIG instances to the kubelet under NVIDIA's names, and hands them to
//! the containers that the kubelet chose.
//!
//! ```text
//! View --inventory--> Inventory
//! Inventory --offers--> resource -> Offer --Registrar--> kubelet: ListAndWatch, GetPreferredAllocation, Allocate
//!          \--cdi::spec--> whalezen.json --> container runtime
//! ```
//!
//! [`unit`], [`inventory`], [`offer`], [`preference`], [`allocation`] and the contents of [`cdi`] are pure. [`set`] runs the plugins.
//! Who got what is not known here: a plugin is never told which pod asks. [`given`] reads it back.

pub mod allocation;
pub mod cdi;
pub mod given;
pub mod inventory;
pub mod kubelet;
pub mod offer;
pub mod preference;
pub mod registrar;
pub mod service;
pub mod set;
pub mod unit;
