//! Field values: single figures of a GPU, asked for by number, several at once.

use std::ffi::{c_int, c_uint};

use nvml_wrapper_sys::bindings::{field_id, nvmlDevice_t, nvmlFieldValue_t, nvmlValue_t};
use whalezen_mig::model::Architecture;

use super::{export, given, gpu, narrow, sensor::errors_of};
use crate::{
    host,
    machine::topology::LinkEnd,
    process::{View, ask},
    refusal::Refusal,
};

/// The most fields that are asked for at once.
const MOST: usize = 1 << 16;
/// The scope that means all NVLinks.
const ALL_LINKS: c_uint = c_uint::MAX;

export! {
    /// Fills in fields. One that a GPU does not have is refused by itself.
    fn nvmlDeviceGetFieldValues(handle: nvmlDevice_t, count: c_int, values: *mut nvmlFieldValue_t) {
        given(values)?;
        let count = usize::try_from(count).ok().filter(|count| (1..=MOST).contains(count));
        let count = count.ok_or(Refusal::InvalidArgument)?;
        let (target, index) = gpu(handle)?;
        // SAFETY: the caller has as many as it says.
        let fields = std::slice::from_raw_parts_mut(values, count);
        let micros = i64::try_from(host::unix_micros()).unwrap_or(i64::MAX);
        ask(NAME, Some(target), |view| {
            for field in fields {
                field.timestamp = micros;
                field.latencyUsec = 0;
                match value(view, index, field.fieldId, field.scopeId) {
                    Ok(value) => {
                        (field.valueType, field.value) = value.tagged();
                        field.nvmlReturn = 0;
                    }
                    Err(refusal) => field.nvmlReturn = refusal.code(),
                }
            }
            Ok(())
        })
    }
}

/// What a field holds.
enum Value {
    Int(c_uint),
    Long(u64),
}

impl Value {
    /// The header's number of the type, and the value.
    fn tagged(self) -> (c_uint, nvmlValue_t) {
        match self {
            // In the low half, as little-endian machines have it, so that nothing of the high one is left to chance.
            Self::Int(value) => (1, nvmlValue_t { ullVal: value.into() }),
            Self::Long(value) => (3, nvmlValue_t { ullVal: value }),
        }
    }
}

fn value(view: &View<'_>, gpu: usize, field: c_uint, scope: c_uint) -> Result<Value, Refusal> {
    use field_id as id;
    let machine = view.machine;
    let hardware = machine.hardware(gpu)?;
    let errors = |kind, counter| {
        let (recent, ever) = machine.ecc(gpu, view.now)?;
        errors_of(recent, ever, kind, counter).map(Value::Long)
    };
    let milliwatts = |watts: u64| Value::Int(narrow(1_000 * watts));
    let link = || machine.link_end(gpu, scope);
    Ok(match field {
        // Errors are corrected, and MIG's profiles can be asked for while it is off: on every model.
        id::NVML_FI_DEV_ECC_CURRENT
        | id::NVML_FI_DEV_ECC_PENDING
        | id::NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE => Value::Int(1),
        id::NVML_FI_DEV_ECC_SBE_VOL_TOTAL | id::NVML_FI_DEV_ECC_SBE_VOL_DEV => errors(0, 0)?,
        id::NVML_FI_DEV_ECC_DBE_VOL_TOTAL | id::NVML_FI_DEV_ECC_DBE_VOL_DEV => errors(1, 0)?,
        id::NVML_FI_DEV_ECC_SBE_AGG_TOTAL | id::NVML_FI_DEV_ECC_SBE_AGG_DEV => errors(0, 1)?,
        id::NVML_FI_DEV_ECC_DBE_AGG_TOTAL | id::NVML_FI_DEV_ECC_DBE_AGG_DEV => errors(1, 1)?,
        // The memory is a little hotter than the rest.
        id::NVML_FI_DEV_MEMORY_TEMP => Value::Int(narrow(machine.celsius(gpu, view.now, view.living)? + 5)),
        id::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION | id::NVML_FI_DEV_ENERGY => {
            Value::Long(machine.millijoules(gpu, view.now)?)
        }
        id::NVML_FI_DEV_POWER_AVERAGE | id::NVML_FI_DEV_POWER_INSTANT => {
            Value::Int(narrow(machine.milliwatts(gpu, view.now, view.living)?))
        }
        id::NVML_FI_DEV_POWER_MIN_LIMIT => milliwatts(hardware.limit_watts / 2),
        id::NVML_FI_DEV_POWER_MAX_LIMIT
        | id::NVML_FI_DEV_POWER_DEFAULT_LIMIT
        | id::NVML_FI_DEV_POWER_CURRENT_LIMIT
        | id::NVML_FI_DEV_POWER_REQUESTED_LIMIT => milliwatts(hardware.limit_watts),
        id::NVML_FI_DEV_NVLINK_LINK_COUNT => Value::Int(hardware.nvlinks),
        id::NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON => Value::Int(narrow(hardware.nvlink_mbps)),
        id::NVML_FI_DEV_NVLINK_GET_SPEED => {
            Value::Int(if link()?.is_some() { narrow(hardware.nvlink_mbps) } else { 0 })
        }
        id::NVML_FI_DEV_NVLINK_GET_STATE => Value::Int(link()?.is_some().into()),
        id::NVML_FI_DEV_NVLINK_GET_VERSION => {
            link()?;
            Value::Int(hardware.nvlink_version)
        }
        id::NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT => {
            let switched = |link: &u32| matches!(machine.link_end(gpu, *link), Ok(Some(LinkEnd::Switch(_))));
            Value::Int(narrow((0..hardware.nvlinks).filter(switched).count() as u64))
        }
        id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX | id::NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_TX => {
            carried(view, gpu, scope, machine.totals(gpu, view.now)?.nvlink_tx)?
        }
        id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX | id::NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_RX => {
            carried(view, gpu, scope, machine.totals(gpu, view.now)?.nvlink_rx)?
        }
        id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES => bytes(machine.totals(gpu, view.now)?.pcie_tx),
        id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES => bytes(machine.totals(gpu, view.now)?.pcie_rx),
        id::NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED => {
            Value::Int((machine.model(gpu)?.architecture() != Architecture::Ampere).into())
        }
        _ => return Err(Refusal::NotSupported),
    })
}

/// What one NVLink, or all of them, have carried in KiB: each has its equal part.
fn carried(view: &View<'_>, gpu: usize, scope: c_uint, total: u64) -> Result<Value, Refusal> {
    let all = total / 1_000;
    if scope == ALL_LINKS {
        return Ok(Value::Long(all));
    }
    let connected = view.machine.link_end(gpu, scope)?.is_some();
    let links = u64::from(view.machine.active_links(gpu)?).max(1);
    Ok(Value::Long(if connected { all / links } else { 0 }))
}

/// KiB/s times milliseconds, in bytes.
fn bytes(total: u64) -> Value {
    let bytes = u128::from(total) * 1_024 / 1_000;
    Value::Long(u64::try_from(bytes).unwrap_or(u64::MAX))
}
