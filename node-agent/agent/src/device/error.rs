//! Why a call about a GPU did not succeed.

use std::time::Duration;

use thiserror::Error;
use whalezen_mig::{Instance, ProfileName};

use super::Uuid;

/// Why a call about a GPU did not succeed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DeviceError {
    /// There is no NVIDIA driver, or its library cannot be loaded.
    #[error("NVIDIA's driver is not there: {0}")]
    NoDriver(String),
    /// There is no such GPU any more.
    #[error("there is no GPU {0}")]
    Gone(Uuid),
    /// The GPU has fallen off the bus.
    #[error("{0} has fallen off the bus")]
    Lost(Uuid),
    /// The driver has not answered in time. The call may still take effect.
    #[error("{call} has not answered for {} s", .waited.as_secs())]
    Unresponsive {
        /// Which call.
        call: &'static str,
        /// How long it has been waited for.
        waited: Duration,
    },
    /// The GPU has to be reset before it goes on.
    #[error("{0} has to be reset")]
    ResetNeeded(Uuid),
    /// Somebody uses what was to be changed.
    #[error("{0}: in use")]
    InUse(&'static str),
    /// There is no room for the instance.
    #[error("there is no room for {0}, says the driver")]
    NoRoom(Instance),
    /// The GPU has no such profile.
    #[error("the GPU has no MIG profile {0}")]
    NoProfile(ProfileName),
    /// What was to be changed is not what it was when that was decided.
    #[error("{0} is not what it was")]
    Changed(Instance),
    /// The driver does not do that on this GPU, or not now.
    #[error("{0}: not supported")]
    NotSupported(&'static str),
    /// The agent has no right to it.
    #[error("{0}: no permission; it takes root and the MIG capability")]
    NotPermitted(&'static str),
    /// Anything else.
    #[error("{call}: {reason}")]
    Failed {
        /// Which call.
        call: &'static str,
        /// What NVML said.
        reason: String,
    },
}
