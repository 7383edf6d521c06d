//! How much memory is free, as a label that does not flutter. Pure.

use std::time::Instant;

use crate::{sense::Sensed, view::View};

/// How far the truth may be from the label before that is changed, in percentage points: 1 to 50.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold(u8);

/// No threshold of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the label of free memory changes by 1 to 50 percentage points, not by {0}")]
pub struct ThresholdError(u8);

impl Threshold {
    /// So many percentage points.
    pub fn new(points: u8) -> Result<Self, ThresholdError> {
        if (1..=50).contains(&points) { Ok(Self(points)) } else { Err(ThresholdError(points)) }
    }
}

impl Default for Threshold {
    /// Five percentage points: a node whose memory fills at once costs one write, and one that is used evenly none.
    fn default() -> Self {
        Self(5)
    }
}

/// Of the memory of all GPUs that take work, how many percent were free throughout the last minute, rounded down. `None`
/// if there is no such GPU, or one of them has not been read lately.
pub fn percent(view: &View, sensed: &Sensed, now: Instant) -> Option<u8> {
    let (mut free, mut total) = (0_u128, 0_u128);
    for seen in view.gpus.iter().filter(|seen| seen.trouble.is_none()) {
        let lowest = sensed.of(&seen.gpu.uuid, now)?.free.lowest()?;
        free += u128::from(lowest.min(seen.gpu.memory));
        total += u128::from(seen.gpu.memory);
    }
    u8::try_from((free * 100).checked_div(total)?).ok()
}

/// What the label is to say. It stays while the truth is nearer than the threshold; and what is all free, or all taken,
/// is said at once.
pub fn settle(said: Option<u8>, truth: u8, Threshold(threshold): Threshold) -> u8 {
    match said {
        Some(said) if said <= 100 && said.abs_diff(truth) < threshold && !matches!(truth, 0 | 100) => said,
        _ => truth,
    }
}
