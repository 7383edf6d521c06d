//! Looking at the GPUs: all of them at once, each in its own lane, and what was seen before of those that do not answer.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;

use crate::{
    device::{DeviceError, Devices, Driver, Gpu, Lane, Lanes, Link, Uuid},
    health::Health,
    view::SeenGpu,
};

/// What was seen of GPUs, and is still there for all that is known.
#[derive(Debug)]
pub struct Inventory {
    /// How long a read may take.
    patience: Duration,
    driver: Option<Driver>,
    gpus: BTreeMap<Uuid, Gpu>,
    links: Vec<Link>,
}

impl Inventory {
    /// Nothing was seen yet. A GPU that does not answer within `patience` counts as one that does not respond.
    pub fn new(patience: Duration) -> Self {
        Self { patience, driver: None, gpus: BTreeMap::new(), links: Vec::new() }
    }

    /// Looks anew. An error says that nothing can be seen at all; what was seen before stays then.
    pub async fn look(&mut self, lanes: &Lanes, health: &mut Health) -> Result<(), DeviceError> {
        let patience = self.patience;
        let system =
            lanes.call(Lane::System, "asking for the GPUs", self.patience, <dyn Devices>::system).await?;
        let reads = system.gpus.iter().map(|uuid| async move { (uuid, read(lanes, uuid, patience).await) });
        for (uuid, result) in join_all(reads).await {
            health.read(uuid, &result);
            if let Ok(gpu) = result {
                self.gpus.insert(uuid.clone(), gpu);
            }
        }
        for uuid in self.gpus.keys().filter(|uuid| !system.gpus.contains(uuid)) {
            // One that the driver does not list any more may still say what has become of it.
            let result = match read(lanes, uuid, patience).await {
                Ok(_) => Err(DeviceError::Gone(uuid.clone())),
                other => other,
            };
            health.read(uuid, &result);
        }
        if self.links.is_empty() && system.gpus.len() > 1 {
            let links = lanes.call(Lane::System, "asking for the links", self.patience, <dyn Devices>::links);
            match links.await {
                Ok(links) => self.links = links,
                Err(error) => tracing::warn!("the links between the GPUs are not known: {error}"),
            }
        }
        self.driver = Some(system.driver);
        Ok(())
    }

    /// The driver, if it was ever seen.
    pub fn driver(&self) -> Option<&Driver> {
        self.driver.as_ref()
    }

    /// How the GPUs reach each other.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The GPUs as they were last seen, by index.
    pub fn seen(&self, health: &Health) -> Vec<SeenGpu> {
        let gpus = self.gpus.values();
        let mut seen: Vec<SeenGpu> =
            gpus.map(|gpu| SeenGpu { gpu: gpu.clone(), trouble: health.trouble(&gpu.uuid) }).collect();
        seen.sort_by(|a, b| (a.gpu.index, &a.gpu.uuid).cmp(&(b.gpu.index, &b.gpu.uuid)));
        seen
    }
}

async fn read(lanes: &Lanes, gpu: &Uuid, patience: Duration) -> Result<Gpu, DeviceError> {
    let uuid = gpu.clone();
    lanes.call(Lane::Gpu(gpu.clone()), "reading the GPU", patience, move |devices| devices.gpu(&uuid)).await
}
