//! The last Xid, NVIDIA's number of an error, that each GPU reported since the agent runs.

use std::collections::BTreeMap;

use crate::{
    device::{Event, EventKind, Uuid},
    metrics::float,
};

/// The last Xid of each GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Xids(BTreeMap<Uuid, u64>);

/// A memory error that could not be corrected, as the driver numbers it.
const DOUBLE_BIT_ECC: u64 = 48;

impl Xids {
    /// A GPU has reported something.
    pub fn note(&mut self, event: &Event) {
        let xid = match event.kind {
            EventKind::Xid(xid) => xid,
            EventKind::DoubleBitEcc => DOUBLE_BIT_ECC,
        };
        self.0.insert(event.gpu.clone(), xid);
    }

    /// The last one of a GPU, or 0.
    pub fn last(&self, gpu: &Uuid) -> f64 {
        self.0.get(gpu).copied().map_or(0.0, float)
    }
}
