//! Which container has which device.
//!
//! The kubelet hands devices out and tells afterwards to whom (the pod-resources API). What is not known counts as held:
//! nothing is destroyed on a guess.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use thiserror::Error;
use whalezen_crds::scheduling::v1alpha1::Holder;

use crate::device::Uuid;

/// Which container has which device, at one moment. Devices are GPUs and MIG devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claims {
    /// The kubelet has said so; a device that is not named here is free.
    Known(BTreeMap<Uuid, Vec<Holder>>),
    /// The kubelet has not said anything: any device may be held.
    Unknown(String),
}

impl Claims {
    /// Who is known to hold a device.
    pub fn of(&self, device: &Uuid) -> &[Holder] {
        match self {
            Self::Known(holders) => holders.get(device).map_or(&[], Vec::as_slice),
            Self::Unknown(_) => &[],
        }
    }

    /// Whether a device may be in somebody's hands.
    pub fn may_hold(&self, device: &Uuid) -> bool {
        match self {
            Self::Known(_) => !self.of(device).is_empty(),
            Self::Unknown(_) => true,
        }
    }
}

impl Default for Claims {
    fn default() -> Self {
        Self::Unknown("the kubelet has not been asked yet".to_owned())
    }
}

/// Why it is not known who has what.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("it is not known which pods have which devices: {0}")]
pub struct ClaimError(pub String);

/// Who knows which container has which device.
pub trait ClaimSource: Send + Sync + 'static {
    /// What the kubelet says now.
    fn claims(&self) -> BoxFuture<'_, Result<Claims, ClaimError>>;
}

/// For a node on which nobody hands devices out: no pod has any.
#[derive(Clone, Copy, Debug, Default)]
pub struct NobodyHandsOut;

impl ClaimSource for NobodyHandsOut {
    fn claims(&self) -> BoxFuture<'_, Result<Claims, ClaimError>> {
        Box::pin(async { Ok(Claims::Known(BTreeMap::new())) })
    }
}
