//! What is seen now, in one value: the agent's loop makes it anew after every look, and whoever hands devices out or
//! measures them follows it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    claims::Claims,
    device::{Driver, Gpu, Link, Uuid},
};

/// What is seen now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The driver; `None` while it is not there.
    pub driver: Option<Driver>,
    /// The GPUs, by index. One that does not answer is here as it was last seen.
    pub gpus: Vec<SeenGpu>,
    /// How the GPUs reach each other.
    pub links: Vec<Link>,
    /// The devices (GPUs and MIG devices) that nobody may be given: they are about to be destroyed, or are for one pod
    /// alone. Whoever hands devices out looks here at the very moment.
    pub withheld: BTreeSet<Uuid>,
    /// Which MIG devices are made for one pod alone: device, then namespace and name of the pod.
    pub assigned: BTreeMap<Uuid, (String, String)>,
    /// Who has what.
    pub claims: Claims,
}

/// A GPU as it was last seen.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenGpu {
    /// What was seen.
    pub gpu: Gpu,
    /// What is wrong with it; `None` if it takes work.
    pub trouble: Option<Trouble>,
}

/// What is wrong with a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// For programs, such as `Xid79` or `Lost`.
    pub reason: String,
    /// For people.
    pub message: String,
}
