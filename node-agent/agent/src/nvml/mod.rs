//! NVIDIA's library behind [`Devices`].
//!
//! | module | what it does |
//! |---|---|
//! | `facts` | what a GPU is, and the links between GPUs |
//! | `instances` | MIG instances: what is there, making and destroying |
//! | `raw` | the calls that nvml-wrapper has no safe function for; the only place with `unsafe` |
//! | `load` | how busy a GPU is |
//! | `activity` | how busy the parts of a GPU were since the last look |

mod activity;
mod facts;
mod instances;
mod load;
mod raw;
mod waiting;

pub use waiting::Waiting;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use nvml_wrapper::{Device, Nvml, bitmasks::event::EventTypes, error::NvmlError};
use whalezen_mig::Instance;

use crate::device::{
    DeviceError, Devices, Driver, Event, EventKind, Gpu, Link, Load, MigInstance, System, Uuid,
};

/// The library, loaded and initialised.
pub struct Library {
    /// For as long as the program runs: samples of it are kept beside it, and a library that was loaded is never unloaded.
    nvml: &'static Nvml,
    samples: activity::Samples,
    /// At which index each GPU was last found: finding one by its UUID can take the driver seconds.
    indexes: Mutex<BTreeMap<Uuid, u32>>,
}

impl Library {
    /// Loads the library from `path`, or from where the system looks for libraries.
    pub fn open(path: Option<&Path>) -> Result<Self, DeviceError> {
        let mut builder = Nvml::builder();
        let path = path.map_or(OsStr::new("libnvidia-ml.so.1"), Path::as_os_str);
        let nvml = builder.lib_path(path).init().map_err(|error| DeviceError::NoDriver(words(&error)))?;
        Ok(Self {
            nvml: Box::leak(Box::new(nvml)),
            samples: activity::Samples::default(),
            indexes: Mutex::default(),
        })
    }

    /// NVML's handle of a GPU.
    fn device(&self, gpu: &Uuid) -> Result<Device<'static>, DeviceError> {
        let known = self.indexes.lock().unwrap_or_else(PoisonError::into_inner).get(gpu).copied();
        if let Some(index) = known
            && let Ok(device) = self.nvml.device_by_index(index)
            && device.uuid().is_ok_and(|uuid| uuid == gpu.as_str())
        {
            return Ok(device);
        }
        self.nvml.device_by_uuid(gpu.as_str()).map_err(|error| failed(gpu, "finding the GPU", &error))
    }
}

impl Devices for Library {
    fn system(&self) -> Result<System, DeviceError> {
        let call = "asking for the GPUs";
        let told = |error: &NvmlError| match error {
            NvmlError::DriverNotLoaded | NvmlError::Uninitialized => DeviceError::NoDriver(words(error)),
            _ => DeviceError::Failed { call, reason: words(error) },
        };
        let count = self.nvml.device_count().map_err(|error| told(&error))?;
        let named = (0..count).filter_map(|index| {
            let device = self.nvml.device_by_index(index).ok()?;
            Some((Uuid::from(device.uuid().ok()?), index))
        });
        let gpus: Vec<(Uuid, u32)> = named.collect();
        *self.indexes.lock().unwrap_or_else(PoisonError::into_inner) = gpus.iter().cloned().collect();
        let cuda = self.nvml.sys_cuda_driver_version().ok();
        let cuda = cuda.map(|version| {
            (
                nvml_wrapper::cuda_driver_version_major(version),
                nvml_wrapper::cuda_driver_version_minor(version),
            )
        });
        let version = self.nvml.sys_driver_version().map_err(|error| told(&error))?;
        Ok(System {
            driver: Driver { version, cuda },
            gpus: gpus.into_iter().map(|(uuid, _)| uuid).collect(),
        })
    }

    fn gpu(&self, gpu: &Uuid) -> Result<Gpu, DeviceError> {
        facts::read(gpu, &self.device(gpu)?)
    }

    fn links(&self) -> Result<Vec<Link>, DeviceError> {
        let indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut gpus: Vec<(u32, Uuid)> = indexes.into_iter().map(|(uuid, index)| (index, uuid)).collect();
        gpus.sort();
        let devices = gpus.into_iter().filter_map(|(_, uuid)| Some((self.device(&uuid).ok()?, uuid)));
        Ok(facts::links(&devices.map(|(device, uuid)| (uuid, device)).collect::<Vec<_>>()))
    }

    fn create(&self, gpu: &Uuid, instance: Instance) -> Result<MigInstance, DeviceError> {
        instances::create(gpu, &self.device(gpu)?, instance)
    }

    fn complete(&self, gpu: &Uuid, instance: &MigInstance) -> Result<MigInstance, DeviceError> {
        instances::complete(gpu, &self.device(gpu)?, instance)
    }

    fn destroy(&self, gpu: &Uuid, instance: &MigInstance) -> Result<(), DeviceError> {
        instances::destroy(gpu, &self.device(gpu)?, instance)
    }

    fn set_mig_mode(&self, gpu: &Uuid, enabled: bool) -> Result<(), DeviceError> {
        let call = if enabled { "turning MIG on" } else { "turning MIG off" };
        let device = self.device(gpu)?;
        let activation = device.set_mig_mode(enabled).map_err(|error| failed(gpu, call, &error))?;
        // The call succeeds even where the mode takes effect only later; the activation says why it did not yet.
        match nvml_wrapper::error::nvml_try(activation) {
            Ok(()) => Ok(()),
            Err(error) => Err(failed(gpu, call, &error)),
        }
    }

    fn load(&self, gpu: &Uuid) -> Result<Load, DeviceError> {
        let device = self.device(gpu)?;
        load::read(gpu, &device, self.samples.ask(self.nvml, gpu, &device))
    }

    fn listen(
        &self,
        patience: Duration,
        hear: &mut dyn FnMut(Option<Event>) -> bool,
    ) -> Result<(), DeviceError> {
        let call = "listening to errors";
        let told = |error: &NvmlError| DeviceError::Failed { call, reason: words(error) };
        let wanted = EventTypes::CRITICAL_XID_ERROR | EventTypes::DOUBLE_BIT_ECC_ERROR;
        let mut named = Vec::new();
        let mut set = self.nvml.create_event_set().map_err(|error| told(&error))?;
        for index in 0..self.nvml.device_count().map_err(|error| told(&error))? {
            let Ok(device) = self.nvml.device_by_index(index) else { continue };
            let Ok(supported) = device.supported_event_types() else { continue };
            let Ok(uuid) = device.uuid() else { continue };
            set = match device.register_events(wanted & supported, set) {
                Ok(set) => set,
                // The set is gone with the error, so what was registered is registered in a new one next time.
                Err(error) => return Err(DeviceError::Failed { call, reason: error.to_string() }),
            };
            named.push((device, Uuid::from(uuid)));
        }
        let wait = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        loop {
            let heard = match set.wait(wait) {
                Ok(event) => {
                    let of = named.iter().find(|(device, _)| raw::is_same(device, &event.device));
                    of.map(|(_, uuid)| Event {
                        gpu: uuid.clone(),
                        kind: match event.event_data {
                            Some(xid) if event.event_type.contains(EventTypes::CRITICAL_XID_ERROR) => {
                                EventKind::Xid(facts::xid(&xid))
                            }
                            _ => EventKind::DoubleBitEcc,
                        },
                    })
                }
                Err(NvmlError::Timeout) => None,
                Err(error) => return Err(told(&error)),
            };
            if !hear(heard) {
                return Ok(());
            }
        }
    }
}

/// What NVML's answer means for a call about a GPU.
fn failed(gpu: &Uuid, call: &'static str, error: &NvmlError) -> DeviceError {
    match error {
        NvmlError::GpuLost => DeviceError::Lost(gpu.clone()),
        NvmlError::NotFound => DeviceError::Gone(gpu.clone()),
        NvmlError::ResetRequired => DeviceError::ResetNeeded(gpu.clone()),
        NvmlError::InUse => DeviceError::InUse(call),
        NvmlError::NotSupported => DeviceError::NotSupported(call),
        NvmlError::NoPermission => DeviceError::NotPermitted(call),
        NvmlError::DriverNotLoaded | NvmlError::Uninitialized | NvmlError::LibRmVersionMismatch => {
            DeviceError::NoDriver(words(error))
        }
        _ => DeviceError::Failed { call, reason: words(error) },
    }
}

fn words(error: &NvmlError) -> String {
    error.to_string()
}
