//! What MIG can do with a GPU.
//!
//! Everything here is a function of its arguments: nothing asks a driver, reads a clock or waits. A [`Geometry`] says
//! which profiles a GPU has and where each may lie; the one of a [`Model`] is a table, the one of a GPU at hand is made
//! from what its driver [reports](geometry::Reported), and the driver is right where the two differ.
//!
//! | module | what it holds |
//! |---|---|
//! | [`name`] | names of profiles, as `nvidia-smi` and mig-parted write them and as resources of a node |
//! | [`geometry`] | which profiles a GPU has and where each may lie |
//! | [`model`] | the tables of known models |
//! | [`layout`] | instances that exist together on a GPU |
//! | [`fragments`] | what of a GPU is left, and what it is good for |
//! | [`transition`] | from what a GPU has to what it should have, in the fewest steps |
//! | [`room`] | how one more instance gets onto a GPU |
//! | [`parted`] | mig-parted's configuration file |

pub mod fragments;
pub mod geometry;
pub mod layout;
pub mod model;
pub mod name;
mod occupancy;
pub mod parted;
mod preference;
pub mod room;
mod search;
#[cfg(test)]
mod testing;
pub mod transition;

pub use self::{
    fragments::Fragments,
    geometry::{Geometry, Profile},
    layout::{Counts, Instance, Layout},
    model::Model,
    name::ProfileName,
    room::{Room, make_room},
    search::layouts,
    transition::{Existing, Refusal, Step, Transition, Wanted, transition},
};
