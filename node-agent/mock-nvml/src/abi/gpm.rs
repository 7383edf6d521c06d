//! GPM: how busy a GPU or an instance was between two samples. Hopper and later have it.

use std::ffi::{CStr, c_char, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlGpmMetric_t, nvmlGpmMetric_t__bindgen_ty_1, nvmlGpmMetricsGet_t, nvmlGpmSample_t,
    nvmlGpmSupport_t,
};
use whalezen_mig::model::Architecture;

use super::{export, fill, given, gpu};
use crate::{
    machine::load::Totals,
    process::{Registry, View, ask},
    refusal::Refusal,
};

/// What was done until a moment.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sample {
    gpu: usize,
    /// Id and birth of the GPU instance, unless it is of the whole GPU.
    instance: Option<(u32, u64)>,
    at: u64,
    totals: Totals,
}

/// Samples; one that was made is empty until it is taken.
static SAMPLES: Registry<Option<Sample>, 8> = Registry::empty();

export! {
    /// Whether a GPU has GPM.
    fn nvmlGpmQueryDeviceSupport(handle: nvmlDevice_t, support: *mut nvmlGpmSupport_t) {
        given(support)?;
        let mut asked = support.read();
        if asked.version != 1 {
            return Err(Refusal::ArgumentVersionMismatch);
        }
        let (target, index) = gpu(handle)?;
        asked.isSupportedDevice = ask(NAME, Some(target), |view| has_gpm(view, index))?.into();
        fill(support, asked)
    }

    /// Makes an empty sample.
    fn nvmlGpmSampleAlloc(sample: *mut nvmlGpmSample_t) {
        given(sample)?;
        ask(NAME, None, |_| Ok(()))?;
        fill(sample, std::ptr::without_provenance_mut(SAMPLES.make(None)))
    }

    /// Frees a sample.
    fn nvmlGpmSampleFree(sample: nvmlGpmSample_t) {
        SAMPLES.free(sample.addr())
    }

    /// Takes a sample of a GPU.
    fn nvmlGpmSampleGet(handle: nvmlDevice_t, sample: nvmlGpmSample_t) {
        let (target, index) = gpu(handle)?;
        let taken = ask(NAME, Some(target), |view| {
            supported(view, index)?;
            let totals = view.machine.totals(index, view.now)?;
            Ok(Sample { gpu: index, instance: None, at: view.now, totals })
        })?;
        SAMPLES.with(sample.addr(), |sample| *sample = Some(taken))
    }

    /// Takes a sample of a GPU instance.
    fn nvmlGpmMigSampleGet(handle: nvmlDevice_t, id: c_uint, sample: nvmlGpmSample_t) {
        let (target, index) = gpu(handle)?;
        let taken = ask(NAME, Some(target), |view| {
            supported(view, index)?;
            let gpu = view.gpu(index)?;
            gpu.has_mig()?;
            let birth = gpu.instance(id)?.birth;
            let totals = view.machine.instance_totals(index, id, view.now)?;
            Ok(Sample { gpu: index, instance: Some((id, birth)), at: view.now, totals })
        })?;
        SAMPLES.with(sample.addr(), |sample| *sample = Some(taken))
    }

    /// What was done between two samples of the same GPU or instance.
    fn nvmlGpmMetricsGet(request: *mut nvmlGpmMetricsGet_t) {
        given(request)?;
        if (&raw const (*request).version).read() != 1 {
            return Err(Refusal::ArgumentVersionMismatch);
        }
        ask(NAME, None, |_| Ok(()))?;
        let taken = |sample: nvmlGpmSample_t| SAMPLES.with(sample.addr(), |sample| *sample)?.ok_or(Refusal::NoData);
        let (first, second) = (taken((*request).sample1)?, taken((*request).sample2)?);
        if (first.gpu, first.instance) != (second.gpu, second.instance) || second.at <= first.at {
            return Err(Refusal::InvalidArgument);
        }
        let wanted = (*request).numMetrics as usize;
        let metrics = &mut (*request).metrics;
        for metric in metrics.get_mut(..wanted).ok_or(Refusal::InvalidArgument)? {
            *metric = answer(metric.metricId, first, second);
        }
        Ok(())
    }
}

fn has_gpm(view: &View<'_>, index: usize) -> Result<bool, Refusal> {
    Ok(view.machine.model(index)?.architecture() != Architecture::Ampere)
}

fn supported(view: &View<'_>, index: usize) -> Result<(), Refusal> {
    if has_gpm(view, index)? { Ok(()) } else { Err(Refusal::NotSupported) }
}

/// A metric's name in short and in full, its unit, and what it is of two totals.
struct Metric {
    short: &'static CStr,
    long: &'static CStr,
    unit: &'static CStr,
    total: fn(&Totals) -> u64,
    divisor: f64,
}

const PERCENT: f64 = 1.0;
/// Rates are kept in KiB/s and shown in MiB/s.
const MIB: f64 = 1024.0;

fn metric(id: c_uint) -> Option<Metric> {
    let metric = |short, long, unit, total, divisor| Some(Metric { short, long, unit, total, divisor });
    let percent = |short, long, total| metric(short, long, c"%", total, PERCENT);
    let rate = |short, long, total| metric(short, long, c"MiB/s", total, MIB);
    match id {
        1 => percent(c"Graphics Util", c"Graphics Engine Utilization", |totals| totals.utilization),
        2 => percent(c"SM Util", c"SM Utilization", |totals| totals.utilization),
        10 => percent(c"DRAM BW Util", c"DRAM Bandwidth Utilization", |totals| totals.memory_bandwidth),
        20 => rate(c"PCIe TX/s", c"PCIe Transmit Throughput", |totals| totals.pcie_tx),
        21 => rate(c"PCIe RX/s", c"PCIe Receive Throughput", |totals| totals.pcie_rx),
        60 => rate(c"NVLink RX/s", c"NVLink Total Receive Throughput", |totals| totals.nvlink_rx),
        61 => rate(c"NVLink TX/s", c"NVLink Total Transmit Throughput", |totals| totals.nvlink_tx),
        _ => None,
    }
}

fn answer(id: c_uint, first: Sample, second: Sample) -> nvmlGpmMetric_t {
    let Some(metric) = metric(id) else {
        let none = std::ptr::null_mut::<c_char>();
        return nvmlGpmMetric_t {
            metricId: id,
            nvmlReturn: Refusal::NotSupported.code(),
            value: 0.0,
            metricInfo: nvmlGpmMetric_t__bindgen_ty_1 { shortName: none, longName: none, unit: none },
        };
    };
    let done = (metric.total)(&second.totals).saturating_sub((metric.total)(&first.totals));
    // A mean of percents or of KiB/s, to a thousandth: far from where a double rounds.
    #[allow(clippy::cast_precision_loss)]
    let mean = (done as f64) / ((second.at - first.at) as f64);
    nvmlGpmMetric_t {
        metricId: id,
        nvmlReturn: 0,
        value: mean / metric.divisor,
        metricInfo: nvmlGpmMetric_t__bindgen_ty_1 {
            shortName: metric.short.as_ptr().cast_mut(),
            longName: metric.long.as_ptr().cast_mut(),
            unit: metric.unit.as_ptr().cast_mut(),
        },
    }
}
