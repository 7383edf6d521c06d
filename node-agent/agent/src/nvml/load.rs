//! How busy a GPU is.

use nvml_wrapper::{
    Device,
    enum_wrappers::device::{PcieUtilCounter, TemperatureSensor},
    error::NvmlError,
};

use super::{activity::Asking, failed, raw};
use crate::device::{DeviceError, InstanceLoad, Load, Uuid};

/// Everything that the GPU tells of its load. Without activity what goes over PCIe is asked for by calls that take the
/// driver 20 ms each.
pub(super) fn read(
    gpu: &Uuid,
    device: &Device<'static>,
    mut activity: Option<Asking<'_>>,
) -> Result<Load, DeviceError> {
    let memory = device.memory_info().map_err(|error| failed(gpu, "asking for the load", &error))?;
    let utilization = told(gpu, device.utilization_rates())?;
    let pcie = |counter| match activity {
        Some(_) => Ok(None),
        None => told(gpu, device.pcie_throughput(counter)),
    };
    Ok(Load {
        gpu_percent: utilization.as_ref().map(|rates| rates.gpu),
        memory_percent: utilization.as_ref().map(|rates| rates.memory),
        memory_used: Some(memory.used),
        memory_free: Some(memory.free),
        power_mw: told(gpu, device.power_usage())?,
        temperature_c: told(gpu, device.temperature(TemperatureSensor::Gpu))?,
        pcie_tx_kbps: pcie(PcieUtilCounter::Send)?,
        pcie_rx_kbps: pcie(PcieUtilCounter::Receive)?,
        activity: activity.as_mut().and_then(|asking| asking.gpu(device)),
        instances: instances(device, activity.as_mut()),
    })
}

fn instances(parent: &Device<'static>, mut activity: Option<&mut Asking<'_>>) -> Vec<InstanceLoad> {
    if !parent.mig_mode().is_ok_and(|mode| mode.current == 1) {
        return Vec::new();
    }
    let devices = (0..parent.mig_device_count().unwrap_or_default()).filter_map(|index| {
        let device = parent.mig_device_by_index(index).ok()?;
        let uuid = Uuid::from(device.uuid().ok()?);
        let (gpu_instance, _) = raw::numbers(&device).ok()?;
        let memory = device.memory_info().ok();
        Some(InstanceLoad {
            gpu_instance,
            memory_used: memory.as_ref().map(|memory| memory.used),
            memory_free: memory.as_ref().map(|memory| memory.free),
            activity: activity.as_mut().and_then(|asking| asking.instance(parent, gpu_instance, &uuid)),
            uuid,
        })
    });
    devices.collect()
}

/// A GPU that is lost is an error; a number that it does not tell is none.
fn told<T>(gpu: &Uuid, value: Result<T, NvmlError>) -> Result<Option<T>, DeviceError> {
    match value {
        Ok(value) => Ok(Some(value)),
        Err(error @ NvmlError::GpuLost) => Err(failed(gpu, "asking for the load", &error)),
        Err(_) => Ok(None),
    }
}
