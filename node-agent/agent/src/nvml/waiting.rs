//! The library when there is one: a driver may be installed, or loaded anew, while the agent runs.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use whalezen_mig::Instance;

use super::Library;
use crate::device::{DeviceError, Devices, Event, Gpu, Link, Load, MigInstance, System, Uuid};

/// NVIDIA's library, opened when it is first asked for the GPUs and again after its driver was gone.
#[derive(Default)]
pub struct Waiting {
    path: Option<PathBuf>,
    library: Mutex<Option<Arc<Library>>>,
}

impl Waiting {
    /// The library at `path`, or where the system looks for libraries.
    pub fn for_library(path: Option<PathBuf>) -> Self {
        Self { path, library: Mutex::default() }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Library>>> {
        self.library.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<Arc<Library>, DeviceError> {
        let mut slot = self.slot();
        if let Some(library) = &*slot {
            return Ok(Arc::clone(library));
        }
        let library = Arc::new(Library::open(self.path.as_deref())?);
        *slot = Some(Arc::clone(&library));
        Ok(library)
    }

    fn opened(&self) -> Result<Arc<Library>, DeviceError> {
        self.slot().clone().ok_or_else(|| DeviceError::NoDriver("the library is not open".to_owned()))
    }
}

impl Devices for Waiting {
    fn system(&self) -> Result<System, DeviceError> {
        let system = self.open()?.system();
        if matches!(system, Err(DeviceError::NoDriver(_))) {
            *self.slot() = None;
        }
        system
    }

    fn gpu(&self, gpu: &Uuid) -> Result<Gpu, DeviceError> {
        self.opened()?.gpu(gpu)
    }

    fn links(&self) -> Result<Vec<Link>, DeviceError> {
        self.opened()?.links()
    }

    fn create(&self, gpu: &Uuid, instance: Instance) -> Result<MigInstance, DeviceError> {
        self.opened()?.create(gpu, instance)
    }

    fn complete(&self, gpu: &Uuid, instance: &MigInstance) -> Result<MigInstance, DeviceError> {
        self.opened()?.complete(gpu, instance)
    }

    fn destroy(&self, gpu: &Uuid, instance: &MigInstance) -> Result<(), DeviceError> {
        self.opened()?.destroy(gpu, instance)
    }

    fn set_mig_mode(&self, gpu: &Uuid, enabled: bool) -> Result<(), DeviceError> {
        self.opened()?.set_mig_mode(gpu, enabled)
    }

    fn load(&self, gpu: &Uuid) -> Result<Load, DeviceError> {
        self.opened()?.load(gpu)
    }

    fn listen(
        &self,
        patience: Duration,
        hear: &mut dyn FnMut(Option<Event>) -> bool,
    ) -> Result<(), DeviceError> {
        self.opened()?.listen(patience, hear)
    }
}
