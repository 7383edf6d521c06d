//! How busy the GPUs are, several times a second, in memory alone.
//!
//! Each GPU is asked by a task of its own, so one that does not answer is missed and holds nobody up. Who wants to know
//! reads [`Sensed`]: the metrics, and the node's labels.

pub mod low;
mod sampler;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use self::low::Low;
pub use self::sampler::{Rate, RateError, run};
use crate::device::{Load, Uuid};

/// After how long what was read counts no more.
const STALE: Duration = Duration::from_secs(15);

/// What was read of the GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sensed(BTreeMap<Uuid, Track>);

/// What was read of one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// When it was last read.
    pub at: Instant,
    /// What was read then.
    pub load: Load,
    /// The least free memory of the last minute, in bytes.
    pub free: Low,
}

impl Sensed {
    /// What was read of a GPU, unless that is too long ago.
    pub fn of(&self, gpu: &Uuid, now: Instant) -> Option<&Track> {
        self.0.get(gpu).filter(|track| now.saturating_duration_since(track.at) < STALE)
    }

    /// A GPU was read.
    pub fn note(&mut self, gpu: &Uuid, load: Load, now: Instant) {
        let mut free = self.0.remove(gpu).map(|track| track.free).unwrap_or_default();
        if let Some(bytes) = load.memory_free {
            free.note(bytes, now);
        }
        self.0.insert(gpu.clone(), Track { at: now, load, free });
    }

    /// Forgets GPUs that are not among these.
    pub fn keep(&mut self, gpus: &[Uuid]) {
        self.0.retain(|gpu, _| gpus.contains(gpu));
    }
}
