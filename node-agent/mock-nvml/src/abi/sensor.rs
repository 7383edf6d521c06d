//! What a GPU's sensors and counters show: temperature, power, clocks, memory errors, PCIe.

use std::ffi::{c_int, c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlClockType_t, nvmlDevice_t, nvmlEccCounterType_t, nvmlEnableState_t, nvmlMemoryErrorType_t,
    nvmlPcieUtilCounter_t, nvmlPstates_t, nvmlTemperature_t, nvmlTemperatureSensors_t,
    nvmlTemperatureThresholds_t,
};

use super::{export, fill, given, gpu, narrow, version};
use crate::{
    hardware::Hardware,
    machine::Ecc,
    process::{Target, View, ask},
    refusal::Refusal,
};

/// A clock's share of its highest when nothing runs: as low as it goes.
const IDLE_CLOCK: u32 = 345;
/// Bits of `nvmlClocksEventReason*`.
const GPU_IDLE: c_ulonglong = 1;

export! {
    /// The temperature of a GPU in degrees Celsius.
    fn nvmlDeviceGetTemperature(handle: nvmlDevice_t, sensor: nvmlTemperatureSensors_t, celsius: *mut c_uint) {
        let (target, index) = gpu(handle)?;
        only(sensor)?;
        fill(celsius, narrow(ask(NAME, Some(target), |view| temperature(view, index))?))
    }

    /// The temperature of a GPU in degrees Celsius.
    fn nvmlDeviceGetTemperatureV(handle: nvmlDevice_t, temperature: *mut nvmlTemperature_t) {
        given(temperature)?;
        let mut asked = temperature.read();
        if asked.version != version::<nvmlTemperature_t>(1) {
            return Err(Refusal::ArgumentVersionMismatch);
        }
        only(asked.sensorType)?;
        let (target, index) = gpu(handle)?;
        let celsius = ask(NAME, Some(target), |view| self::temperature(view, index))?;
        asked.temperature = c_int::try_from(celsius).unwrap_or(c_int::MAX);
        fill(temperature, asked)
    }

    /// The temperatures at which a GPU slows down or stops.
    fn nvmlDeviceGetTemperatureThreshold(
        handle: nvmlDevice_t, threshold: nvmlTemperatureThresholds_t, celsius: *mut c_uint,
    ) {
        let (target, _) = gpu(handle)?;
        ask(NAME, Some(target), |_| Ok(()))?;
        fill(celsius, match threshold {
            // Shutdown, slowdown, the memory's and the GPU's highest in operation.
            0 => 92,
            1 => 89,
            2 => 95,
            3 => 85,
            4..=7 => return Err(Refusal::NotSupported),
            _ => return Err(Refusal::InvalidArgument),
        })
    }

    /// What a GPU draws, in milliwatts.
    fn nvmlDeviceGetPowerUsage(handle: nvmlDevice_t, milliwatts: *mut c_uint) {
        let (target, index) = gpu(handle)?;
        fill(milliwatts, narrow(ask(NAME, Some(target), |view| {
            view.machine.milliwatts(index, view.now, view.living)
        })?))
    }

    /// What a GPU has drawn since the driver was loaded, in millijoules.
    fn nvmlDeviceGetTotalEnergyConsumption(handle: nvmlDevice_t, millijoules: *mut c_ulonglong) {
        let (target, index) = gpu(handle)?;
        fill(millijoules, ask(NAME, Some(target), |view| view.machine.millijoules(index, view.now))?)
    }

    /// Whether a GPU's power is limited: it always is.
    fn nvmlDeviceGetPowerManagementMode(handle: nvmlDevice_t, mode: *mut nvmlEnableState_t) {
        let (target, _) = gpu(handle)?;
        ask(NAME, Some(target), |_| Ok(()))?;
        fill(mode, 1)
    }

    /// What a GPU may draw, in milliwatts.
    fn nvmlDeviceGetPowerManagementLimit(handle: nvmlDevice_t, milliwatts: *mut c_uint) {
        fill(milliwatts, limit(NAME, handle)?)
    }

    /// What a GPU may draw unless somebody says otherwise, in milliwatts.
    fn nvmlDeviceGetPowerManagementDefaultLimit(handle: nvmlDevice_t, milliwatts: *mut c_uint) {
        fill(milliwatts, limit(NAME, handle)?)
    }

    /// What a GPU may draw by all that limits it, in milliwatts.
    fn nvmlDeviceGetEnforcedPowerLimit(handle: nvmlDevice_t, milliwatts: *mut c_uint) {
        fill(milliwatts, limit(NAME, handle)?)
    }

    /// Between what a GPU's limit can be set, in milliwatts.
    fn nvmlDeviceGetPowerManagementLimitConstraints(handle: nvmlDevice_t, least: *mut c_uint, most: *mut c_uint) {
        given(least)?;
        let limit = limit(NAME, handle)?;
        fill(most, limit)?;
        fill(least, limit / 2)
    }

    /// How fast a GPU's multiprocessors or its memory are clocked, in MHz: as fast as they go when there is work.
    fn nvmlDeviceGetClockInfo(handle: nvmlDevice_t, clock: nvmlClockType_t, mhz: *mut c_uint) {
        let (target, index) = gpu(handle)?;
        fill(mhz, ask(NAME, Some(target), |view| {
            let highest = highest(view.machine.hardware(index)?, clock)?;
            Ok(if clock == MEMORY || is_busy(view, index)? { highest } else { highest.min(IDLE_CLOCK) })
        })?)
    }

    /// How fast a GPU's multiprocessors or its memory can be clocked, in MHz.
    fn nvmlDeviceGetMaxClockInfo(handle: nvmlDevice_t, clock: nvmlClockType_t, mhz: *mut c_uint) {
        let (target, index) = gpu(handle)?;
        fill(mhz, ask(NAME, Some(target), |view| highest(view.machine.hardware(index)?, clock))?)
    }

    /// How much a GPU is allowed: data centre GPUs are always at the top.
    fn nvmlDeviceGetPerformanceState(handle: nvmlDevice_t, state: *mut nvmlPstates_t) {
        let (target, _) = gpu(handle)?;
        ask(NAME, Some(target), |_| Ok(()))?;
        fill(state, 0)
    }

    /// Why a GPU's clocks are not at their highest: because there is no work.
    fn nvmlDeviceGetCurrentClocksEventReasons(handle: nvmlDevice_t, reasons: *mut c_ulonglong) {
        let (target, index) = gpu(handle)?;
        let busy = ask(NAME, Some(target), |view| is_busy(view, index))?;
        fill(reasons, if busy { 0 } else { GPU_IDLE })
    }

    /// Whether a GPU corrects memory errors: it always does.
    fn nvmlDeviceGetEccMode(
        handle: nvmlDevice_t, current: *mut nvmlEnableState_t, pending: *mut nvmlEnableState_t,
    ) {
        given(current)?;
        let (target, _) = gpu(handle)?;
        ask(NAME, Some(target), |_| Ok(()))?;
        fill(pending, 1)?;
        fill(current, 1)
    }

    /// A GPU's memory errors since its last reset, or in all its life.
    fn nvmlDeviceGetTotalEccErrors(
        handle: nvmlDevice_t, kind: nvmlMemoryErrorType_t, counter: nvmlEccCounterType_t, errors: *mut c_ulonglong,
    ) {
        let (target, index) = gpu(handle)?;
        let (recent, ever) = ask(NAME, Some(target), |view| view.machine.ecc(index, view.now))?;
        fill(errors, errors_of(recent, ever, kind, counter)?)
    }

    /// A GPU's memory errors at one place. All are in its memory.
    fn nvmlDeviceGetMemoryErrorCounter(
        handle: nvmlDevice_t, kind: nvmlMemoryErrorType_t, counter: nvmlEccCounterType_t, place: c_uint,
        errors: *mut c_ulonglong,
    ) {
        let (target, index) = gpu(handle)?;
        let (recent, ever) = ask(NAME, Some(target), |view| view.machine.ecc(index, view.now))?;
        let there = errors_of(recent, ever, kind, counter)?;
        fill(errors, match place {
            2 => there,
            0..=7 => 0,
            _ => return Err(Refusal::InvalidArgument),
        })
    }

    /// What a GPU sends (0) or receives (1) over PCIe, in KB/s.
    fn nvmlDeviceGetPcieThroughput(handle: nvmlDevice_t, counter: nvmlPcieUtilCounter_t, kib: *mut c_uint) {
        let (target, index) = gpu(handle)?;
        fill(kib, narrow(ask(NAME, Some(target), |view| {
            let activity = view.machine.activity(index, view.now, view.living)?;
            match counter {
                0 => Ok(activity.pcie_tx_kib),
                1 => Ok(activity.pcie_rx_kib),
                _ => Err(Refusal::InvalidArgument),
            }
        })?))
    }

    /// The generation of a GPU's PCIe link.
    fn nvmlDeviceGetCurrPcieLinkGeneration(handle: nvmlDevice_t, generation: *mut c_uint) {
        fill(generation, hardware(NAME, handle)?.pcie_generation)
    }

    /// The generation of a GPU's PCIe link at best.
    fn nvmlDeviceGetMaxPcieLinkGeneration(handle: nvmlDevice_t, generation: *mut c_uint) {
        fill(generation, hardware(NAME, handle)?.pcie_generation)
    }

    /// The lanes of a GPU's PCIe link.
    fn nvmlDeviceGetCurrPcieLinkWidth(handle: nvmlDevice_t, lanes: *mut c_uint) {
        hardware(NAME, handle)?;
        fill(lanes, LANES)
    }

    /// The lanes of a GPU's PCIe link at best.
    fn nvmlDeviceGetMaxPcieLinkWidth(handle: nvmlDevice_t, lanes: *mut c_uint) {
        hardware(NAME, handle)?;
        fill(lanes, LANES)
    }
}

const LANES: c_uint = 16;
const MEMORY: nvmlClockType_t = 2;

fn hardware(name: &str, handle: nvmlDevice_t) -> Result<Hardware, Refusal> {
    let (target, index): (Target, usize) = gpu(handle)?;
    ask(name, Some(target), |view| view.machine.hardware(index))
}

fn limit(name: &str, handle: nvmlDevice_t) -> Result<c_uint, Refusal> {
    Ok(narrow(1_000 * hardware(name, handle)?.limit_watts))
}

fn temperature(view: &View<'_>, index: usize) -> Result<u64, Refusal> {
    view.machine.celsius(index, view.now, view.living)
}

/// Refuses a sensor other than the one there is.
fn only(sensor: nvmlTemperatureSensors_t) -> Result<(), Refusal> {
    if sensor == 0 { Ok(()) } else { Err(Refusal::InvalidArgument) }
}

fn is_busy(view: &View<'_>, index: usize) -> Result<bool, Refusal> {
    Ok(view.machine.activity(index, view.now, view.living)?.utilization > 0)
}

fn highest(hardware: Hardware, clock: nvmlClockType_t) -> Result<c_uint, Refusal> {
    match clock {
        // Graphics, multiprocessors and video go together.
        0 | 1 | 3 => Ok(hardware.clock_mhz),
        MEMORY => Ok(hardware.memory_clock_mhz),
        _ => Err(Refusal::InvalidArgument),
    }
}

/// What a counter shows: corrected (0) or not (1), since the last reset (0) or ever (1).
pub(super) fn errors_of(
    recent: Ecc,
    ever: Ecc,
    kind: c_uint,
    counter: c_uint,
) -> Result<c_ulonglong, Refusal> {
    let ecc = match counter {
        0 => recent,
        1 => ever,
        _ => return Err(Refusal::InvalidArgument),
    };
    match kind {
        0 => Ok(ecc.corrected),
        1 => Ok(ecc.uncorrected),
        _ => Err(Refusal::InvalidArgument),
    }
}
