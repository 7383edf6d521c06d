//! How a container gets at the devices that the kubelet has chosen for it. Pure.

use whalezen_kubelet_api::device_plugin::{CdiDevice, ContainerAllocateResponse, DeviceSpec};

use super::{
    cdi,
    offer::{Offer, place},
    unit::Unit,
};
use crate::device::Uuid;

/// The variable by which NVIDIA's container runtime and libraries know what a container may see.
pub const VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";

/// By which ways devices are handed to containers. The variable [`VISIBLE_DEVICES`] is set in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ways {
    /// By their CDI names: the container runtime knows CDI and looks into the folder that we write to.
    pub cdi: bool,
    /// By their device files.
    pub files: bool,
}

/// The kubelet wants a device that it cannot have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// It is not, or not any more, offered under the resource.
    #[error("{0} is not offered (any more)")]
    Unknown(String),
    /// It is offered as unhealthy.
    #[error("{id} is unhealthy: {why}")]
    Unhealthy {
        /// The device.
        id: Uuid,
        /// What is wrong with it.
        why: String,
    },
}

/// The answer for one container, with the devices in the order of the node's GPUs whatever the kubelet's is.
pub fn allocate(offer: &Offer, ids: &[String], ways: Ways) -> Result<ContainerAllocateResponse, Refusal> {
    let mut units = Vec::with_capacity(ids.len());
    for id in ids {
        let unit = offer.unit(id).ok_or_else(|| Refusal::Unknown(id.clone()))?;
        if let Some(why) = &unit.unhealthy {
            return Err(Refusal::Unhealthy { id: unit.id.clone(), why: why.to_string() });
        }
        units.push(unit);
    }
    units.sort_by(|a, b| place(a).cmp(&place(b)));
    units.dedup();
    if units.is_empty() {
        return Ok(ContainerAllocateResponse::default());
    }
    let visible = units.iter().map(|unit| unit.id.as_str()).collect::<Vec<_>>().join(",");
    Ok(ContainerAllocateResponse {
        envs: [(VISIBLE_DEVICES.to_owned(), visible)].into(),
        devices: if ways.files { files(offer, &units) } else { Vec::new() },
        cdi_devices: if ways.cdi { units.iter().map(|unit| cdi_device(unit)).collect() } else { Vec::new() },
        ..ContainerAllocateResponse::default()
    })
}

fn cdi_device(unit: &Unit) -> CdiDevice {
    CdiDevice { name: cdi::qualified(&unit.id) }
}

/// Each file once: instances of one GPU share that of the GPU.
fn files(offer: &Offer, units: &[&Unit]) -> Vec<DeviceSpec> {
    let mut specs = Vec::<DeviceSpec>::new();
    for file in offer.driver_files.iter().chain(units.iter().flat_map(|unit| &unit.files)) {
        let path = file.to_string_lossy().into_owned();
        if specs.iter().all(|spec| spec.host_path != path) {
            let (container_path, host_path) = (path.clone(), path);
            specs.push(DeviceSpec { container_path, host_path, permissions: "rw".to_owned() });
        }
    }
    specs
}
