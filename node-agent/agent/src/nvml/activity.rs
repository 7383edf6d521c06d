//! How busy the parts of a GPU were: NVML's GPM (GPU performance monitoring), which is the difference of two samples.
//! The sample of the time before is kept. What is made of it is an average of the whole time between, so nothing is
//! missed however seldom one looks.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use nvml_wrapper::{
    Device, Nvml,
    enums::gpm::GpmMetricId,
    gpm::{GpmSample, gpm_metrics_get},
};

use crate::device::{Activity, Uuid};

/// A sample that is older says nothing of now.
const OLD: Duration = Duration::from_secs(30);

/// What is asked for.
const ASKED: [GpmMetricId; 8] = [
    GpmMetricId::GraphicsUtil,
    GpmMetricId::SmUtil,
    GpmMetricId::AnyTensorUtil,
    GpmMetricId::DramBwUtil,
    GpmMetricId::PcieTxPerSec,
    GpmMetricId::PcieRxPerSec,
    GpmMetricId::NvlinkTotalTxPerSec,
    GpmMetricId::NvlinkTotalRxPerSec,
];

/// Rates are in MiB per second.
const RATE: f64 = 1_048_576.0;

/// What is kept of a GPU.
enum Kept {
    /// It does not count.
    Unsupported,
    /// The last sample of each device: of the GPU itself and of its MIG devices.
    Samples(BTreeMap<Uuid, (Instant, GpmSample<'static>)>),
}

/// The samples of the time before, by GPU.
#[derive(Default)]
pub(super) struct Samples(Mutex<BTreeMap<Uuid, Kept>>);

/// The samples of one GPU, while it is asked.
pub(super) struct Asking<'a> {
    nvml: &'static Nvml,
    samples: &'a Samples,
    gpu: &'a Uuid,
    before: BTreeMap<Uuid, (Instant, GpmSample<'static>)>,
    now: BTreeMap<Uuid, (Instant, GpmSample<'static>)>,
}

impl Samples {
    /// Begins to ask a GPU, unless it does not count. The samples are taken out meanwhile: nobody waits for NVML with
    /// the lock held.
    pub(super) fn ask<'a>(
        &'a self,
        nvml: &'static Nvml,
        gpu: &'a Uuid,
        device: &Device<'static>,
    ) -> Option<Asking<'a>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(gpu);
        let before = match kept {
            Some(Kept::Samples(before)) => before,
            None if device.gpm_support().unwrap_or(false) => BTreeMap::new(),
            Some(Kept::Unsupported) | None => {
                self.keep(gpu, Kept::Unsupported);
                return None;
            }
        };
        Some(Asking { nvml, samples: self, gpu, before, now: BTreeMap::new() })
    }

    fn keep(&self, gpu: &Uuid, kept: Kept) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(gpu.clone(), kept);
    }
}

impl Asking<'_> {
    /// The activity of the whole GPU.
    pub(super) fn gpu(&mut self, device: &Device<'static>) -> Option<Activity> {
        let sample = device.gpm_sample().ok()?;
        self.since_before(self.gpu.clone(), sample)
    }

    /// The activity of a MIG device, which has this GPU instance to itself.
    pub(super) fn instance(&mut self, device: &Device<'static>, id: u32, uuid: &Uuid) -> Option<Activity> {
        let sample = device.gpm_mig_sample(id).ok()?;
        self.since_before(uuid.clone(), sample)
    }

    fn since_before(&mut self, of: Uuid, sample: GpmSample<'static>) -> Option<Activity> {
        let before = self.before.remove(&of).filter(|(at, _)| at.elapsed() < OLD);
        let activity = before.and_then(|(_, before)| between(self.nvml, &before, &sample));
        self.now.insert(of, (Instant::now(), sample));
        activity
    }
}

impl Drop for Asking<'_> {
    /// Keeps the new samples. Those of instances that are gone go with the old ones.
    fn drop(&mut self) {
        self.samples.keep(self.gpu, Kept::Samples(std::mem::take(&mut self.now)));
    }
}

fn between(nvml: &'static Nvml, before: &GpmSample<'static>, now: &GpmSample<'static>) -> Option<Activity> {
    let metrics = gpm_metrics_get(nvml, before, now, &ASKED).ok()?;
    let mut activity = Activity::default();
    for metric in metrics.into_iter().flatten() {
        let value = metric.value;
        match metric.metric_id {
            GpmMetricId::GraphicsUtil => activity.graphics = share(value),
            GpmMetricId::SmUtil => activity.sm = share(value),
            GpmMetricId::AnyTensorUtil => activity.tensor = share(value),
            GpmMetricId::DramBwUtil => activity.dram = share(value),
            GpmMetricId::PcieTxPerSec => activity.pcie_tx = rate(value),
            GpmMetricId::PcieRxPerSec => activity.pcie_rx = rate(value),
            GpmMetricId::NvlinkTotalTxPerSec => activity.nvlink_tx = rate(value),
            GpmMetricId::NvlinkTotalRxPerSec => activity.nvlink_rx = rate(value),
            _ => {}
        }
    }
    Some(activity)
}

/// Percent in hundredths of one. No number, and one that is no share, is none.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 10,000")]
fn share(percent: f64) -> Option<u32> {
    (0.0..=100.5).contains(&percent).then(|| (percent.min(100.0) * 100.0).round() as u32)
}

/// MiB per second in bytes per second.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a thousand GiB per second")]
fn rate(mib: f64) -> Option<u64> {
    (0.0..1e9).contains(&mib).then(|| (mib * RATE).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_rates_are_whole_numbers_and_nonsense_is_none() {
        for (percent, expected) in [
            (0.0, Some(0)),
            (12.345, Some(1235)),
            (100.0, Some(10_000)),
            (100.2, Some(10_000)),
            (-1.0, None),
            (4e9, None),
            (f64::NAN, None),
        ] {
            assert_eq!(share(percent), expected, "{percent}");
        }
        assert_eq!((rate(1.5), rate(f64::INFINITY), rate(-0.1)), (Some(1_572_864), None, None));
    }
}
