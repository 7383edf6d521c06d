//! Looking at the GPUs: all of them at once, each in its own lane, and what was seen before of those that do not answer.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;

use crate::{
    device::{DeviceError, Devices, Driver, Gpu, Lane, Lanes, Link, Uuid},
    health::Health,
    view::SeenGpu,
};

/// How long a read may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was seen of GPUs, and is still there for all that is known.
#[derive(Debug, Default)]
pub struct Inventory {
    driver: Option<Driver>,
    gpus: BTreeMap<Uuid, Gpu>,
    links: Vec<Link>,
}

impl Inventory {
    /// Looks anew. An error says that nothing can be seen at all; what was seen before stays then.
    pub async fn look(&mut self, lanes: &Lanes, health: &mut Health) -> Result<(), DeviceError> {
        let system = lanes.call(Lane::System, "asking for the GPUs", PATIENCE, <dyn Devices>::system).await?;
        let reads = system.gpus.iter().map(|uuid| async move { (uuid, read(lanes, uuid).await) });
        for (uuid, result) in join_all(reads).await {
            health.read(uuid, &result);
            if let Ok(gpu) = result {
                self.gpus.insert(uuid.clone(), gpu);
            }
        }
        for uuid in self.gpus.keys().filter(|uuid| !system.gpus.contains(uuid)) {
            // One that the driver does not list any more may still say what has become of it.
            let result = match read(lanes, uuid).await {
                Ok(_) => Err(DeviceError::Gone(uuid.clone())),
                other => other,
            };
            health.read(uuid, &result);
        }
        if self.links.is_empty() && system.gpus.len() > 1 {
            let links = lanes.call(Lane::System, "asking for the links", PATIENCE, <dyn Devices>::links);
            match links.await {
                Ok(links) => self.links = links,
                Err(error) => tracing::warn!("the links between the GPUs are not known: {error}"),
            }
        }
        self.driver = Some(system.driver);
        Ok(())
    }

    /// Looks at one GPU anew.
    pub async fn look_at(&mut self, gpu: &Uuid, lanes: &Lanes, health: &mut Health) {
        let result = read(lanes, gpu).await;
        health.read(gpu, &result);
        if let Ok(seen) = result {
            self.gpus.insert(gpu.clone(), seen);
        }
    }

    /// The driver, if it was ever seen.
    pub fn driver(&self) -> Option<&Driver> {
        self.driver.as_ref()
    }

    /// How the GPUs reach each other.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// A GPU as it was last seen.
    pub fn gpu(&self, gpu: &Uuid) -> Option<&Gpu> {
        self.gpus.get(gpu)
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

async fn read(lanes: &Lanes, gpu: &Uuid) -> Result<Gpu, DeviceError> {
    let uuid = gpu.clone();
    lanes.call(Lane::Gpu(gpu.clone()), "reading the GPU", PATIENCE, move |devices| devices.gpu(&uuid)).await
}
