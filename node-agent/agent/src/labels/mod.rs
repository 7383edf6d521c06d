//! The node's labels: what a pod may select a node by, in the manner of Node Feature Discovery. Pure but for
//! [`publish`].
//!
//! | label | what it says |
//! |---|---|
//! | `gpu.memory.free.percent` | of the memory of all GPUs that take work, how much was free throughout the last minute |
//! | `gpu.features.nvlink` | whether any two GPUs are joined by NVLink |
//! | `nvidia.com/gpu.product`, `.count`, `.memory`, `nvidia.com/mig.capable`, `mig.strategy` | as NVIDIA's GPU Feature Discovery says it, where that is not there |

mod facts;
pub mod free;
pub mod publish;

use std::{collections::BTreeMap, time::Instant};

pub use self::facts::product;
use self::free::{Threshold, settle};
use crate::{sense::Sensed, view::View};

/// How much of the GPUs' memory is free, in percent: a whole number, for `Gt` and `Lt` of a node affinity.
pub const FREE_PERCENT: &str = "gpu.memory.free.percent";

/// Whether any two GPUs are joined by NVLink.
pub const NVLINK: &str = "gpu.features.nvlink";

/// Labels by name.
pub type Labels = BTreeMap<String, String>;

/// The labels that the node is to have from us. `ours` are those that it has from us now. `theirs`: those that it has
/// from others, which are left to them.
pub fn wanted(
    view: &View,
    sensed: &Sensed,
    now: Instant,
    ours: &Labels,
    theirs: &Labels,
    threshold: Threshold,
) -> Labels {
    // Without a driver nothing is known: who selects a node by a GPU must not get it.
    if view.driver.is_none() || view.gpus.is_empty() {
        return Labels::new();
    }
    let mut labels = Labels::new();
    let linked = view.links.iter().any(|link| link.nvlinks > 0);
    labels.insert(NVLINK.to_owned(), linked.to_string());
    if let Some(free) = free::percent(view, sensed, now) {
        let before = ours.get(FREE_PERCENT).and_then(|text| text.parse().ok());
        labels.insert(FREE_PERCENT.to_owned(), settle(before, free, threshold).to_string());
    }
    if !facts::is_discovered(theirs) {
        labels.extend(facts::labels(view));
    }
    labels.retain(|name, _| !theirs.contains_key(name));
    labels
}
