//! What the agent sees of GPUs and does to them.
//!
//! [`Devices`] is the seam: behind it is NVIDIA's library ([`crate::nvml`]) or, in tests, something else. Its calls block,
//! and a call to NVML may hang for as long as the driver likes; [`Lanes`] runs them where that hurts nobody else.

mod error;
mod gpu;
mod lanes;
mod load;

use std::time::Duration;

use whalezen_mig::Instance;

pub use self::{
    error::DeviceError,
    gpu::{Compute, Driver, Gpu, Link, Mig, MigInstance, Path, Pci, Process, System, Uuid},
    lanes::{Lane, Lanes},
    load::{Activity, InstanceLoad, Load},
};

/// The GPUs of a node. Every call may block.
pub trait Devices: Send + Sync + 'static {
    /// The driver and the GPUs that it knows, by index.
    fn system(&self) -> Result<System, DeviceError>;

    /// What one GPU is and has on it, read anew.
    fn gpu(&self, gpu: &Uuid) -> Result<Gpu, DeviceError>;

    /// How the GPUs reach each other, each pair once.
    fn links(&self) -> Result<Vec<Link>, DeviceError>;

    /// Makes an instance at its place, whole, with one compute instance. On an error nothing of it stays, unless the
    /// GPU itself is gone.
    fn create(&self, gpu: &Uuid, instance: Instance) -> Result<MigInstance, DeviceError>;

    /// Makes the compute instance of an instance that has none: whoever made it was stopped midway.
    fn complete(&self, gpu: &Uuid, instance: &MigInstance) -> Result<MigInstance, DeviceError>;

    /// Destroys an instance that was seen, if it is still the same: numbers are used again.
    fn destroy(&self, gpu: &Uuid, instance: &MigInstance) -> Result<(), DeviceError>;

    /// Turns MIG mode on or off. [`DeviceError::ResetNeeded`] says that the driver has noted it and the GPU has to be
    /// reset for it.
    fn set_mig_mode(&self, gpu: &Uuid, enabled: bool) -> Result<(), DeviceError>;

    /// How busy a GPU is at this moment.
    fn load(&self, gpu: &Uuid) -> Result<Load, DeviceError>;

    /// Listens to errors that the GPUs report, until `hear` says `false`. It is called for each, and without one at
    /// least every `patience`.
    fn listen(
        &self,
        patience: Duration,
        hear: &mut dyn FnMut(Option<Event>) -> bool,
    ) -> Result<(), DeviceError>;
}

/// An error that a GPU reports by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which GPU.
    pub gpu: Uuid,
    /// What.
    pub kind: EventKind,
}

/// What a GPU reports by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An Xid, NVIDIA's number of an error.
    Xid(u64),
    /// A memory error that could not be corrected.
    DoubleBitEcc,
}
