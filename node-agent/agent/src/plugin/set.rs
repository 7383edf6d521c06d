//! The plugins of a node: one for each resource, which come and go with the layout.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use whalezen_kubelet_api::socket::Identity;

use super::{
    allocation::Ways,
    cdi,
    inventory::{self, Files},
    kubelet,
    offer::{Offer, offers},
    registrar::Registrar,
    service::Gate,
    unit::{Inventory, ResourceName},
};
use crate::view::View;

/// How long a plugin without devices stays. Its resource counts as none at once, and a layout that comes back in that
/// time is offered at once.
const LINGER: Duration = Duration::from_secs(20);

/// How often one looks whether the CDI file is still there: its folder is often one that is emptied.
const LOOK: Duration = Duration::from_secs(30);

/// After how long the CDI file is tried again if it could not be written.
const AGAIN: Duration = Duration::from_secs(2);

/// Where the plugins find what.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder of the kubelet's registration socket.
    pub folder: PathBuf,
    /// The folder of CDI files. Without it devices are not handed out by CDI.
    pub cdi: Option<PathBuf>,
    /// Whether containers are given device files by the kubelet, beside CDI.
    pub files: bool,
    /// The folder of device files, usually `/dev`.
    pub dev: PathBuf,
    /// The file in which the driver says which device file opens which instance ([`inventory::mig_minors`]).
    pub minors: PathBuf,
    /// How long the kubelet may take to ask a plugin for its devices before it is told again.
    pub patience: Duration,
}

/// One plugin that runs.
struct Plugin {
    offer: watch::Sender<Offer>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    /// Since when it has nothing to offer.
    empty: Option<Instant>,
}

/// All plugins that run.
struct Plugins {
    config: Config,
    gate: Arc<dyn Gate>,
    kubelet: watch::Receiver<Option<Identity>>,
    running: BTreeMap<ResourceName, Plugin>,
}

/// Offers what the view shows until its sender is gone, and then withdraws everything.
pub async fn run(config: Config, mut view: watch::Receiver<View>, gate: Arc<dyn Gate>) {
    let (seen, kubelet) = watch::channel(None);
    let follow = tokio::spawn(kubelet::follow(config.folder.clone(), seen));
    let mut file = config.cdi.clone().map(cdi::File::new);
    let mut plugins = Plugins { config, gate, kubelet, running: BTreeMap::new() };
    loop {
        let minors = std::fs::read_to_string(&plugins.config.minors).unwrap_or_default();
        let files = Files::new(plugins.config.dev.clone(), &minors);
        let now = inventory::inventory(&view.borrow_and_update(), &files);
        // What is offered can be started at once, so the file comes first. A device that is in it and not offered is no harm.
        let written = file.as_mut().map_or(Ok(()), |file| file.write(cdi::spec(&now)));
        let unwritten = match written {
            Ok(()) => {
                plugins.offer(&now);
                None
            }
            Err(error) => {
                tracing::warn!(%error, again = ?AGAIN, "no device is offered that is not offered already");
                plugins.withdraw(&now);
                Some(Instant::now() + AGAIN)
            }
        };
        let wake = [unwritten, plugins.end_of_linger()].into_iter().flatten().min();
        tokio::select! {
                    changed = view.changed() => if changed.is_err() { break },
        () = sleep_until(wake.unwrap_or_else(|| Instant::now() + LOOK)) => plugins.sweep().await,
                }
    }
    plugins.end().await;
    follow.abort();
}

impl Plugins {
    /// Offers all that there is and nothing else.
    fn offer(&mut self, inventory: &Inventory) {
        self.set(offers(inventory));
    }

    /// Offers what is offered and still there.
    fn withdraw(&mut self, inventory: &Inventory) {
        let mut offers = offers(inventory);
        for (resource, offer) in &mut offers {
            let known =
                self.running.get(resource).map(|plugin| plugin.offer.borrow().clone()).unwrap_or_default();
            offer.units.retain(|unit| known.unit(unit.id.as_str()).is_some());
        }
        offers.retain(|_, offer| !offer.units.is_empty());
        self.set(offers);
    }

    fn set(&mut self, mut offers: BTreeMap<ResourceName, Offer>) {
        for (resource, plugin) in &mut self.running {
            let offer = offers.remove(resource).unwrap_or_default();
            plugin.empty = offer.units.is_empty().then(|| plugin.empty.unwrap_or_else(Instant::now));
            plugin.offer.send_if_modified(|before| {
                let changed = *before != offer;
                *before = offer;
                changed
            });
        }
        for (resource, offer) in offers {
            tracing::info!(%resource, devices = offer.units.len(), "a resource is offered");
            let plugin = self.start(&resource, offer);
            self.running.insert(resource, plugin);
        }
    }

    fn start(&self, resource: &ResourceName, offer: Offer) -> Plugin {
        let (offer, offered) = watch::channel(offer);
        let (stop, stopped) = oneshot::channel();
        let registrar = Registrar {
            resource: resource.clone(),
            folder: self.config.folder.clone(),
            offer: offered,
            ways: Ways { cdi: self.config.cdi.is_some(), files: self.config.files },
            gate: Arc::clone(&self.gate),
            patience: self.config.patience,
            kubelet: self.kubelet.clone(),
        };
        Plugin { offer, stop, task: tokio::spawn(registrar.run(stopped)), empty: None }
    }

    /// When the first of the plugins without devices is to end.
    fn end_of_linger(&self) -> Option<Instant> {
        self.running.values().filter_map(|plugin| plugin.empty).min().map(|since| since + LINGER)
    }

    /// Ends plugins that have had nothing to offer for long enough. It waits for their end, so that one that comes back
    /// does not meet itself.
    async fn sweep(&mut self) {
        let due = |plugin: &Plugin| plugin.empty.is_some_and(|since| since.elapsed() >= LINGER);
        let due = self
            .running
            .iter()
            .filter(|(_, plugin)| due(plugin))
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>();
        for resource in due {
            if let Some(plugin) = self.running.remove(&resource) {
                tracing::info!(%resource, "a resource is offered no more");
                plugin.end().await;
            }
        }
    }

    async fn end(self) {
        for plugin in self.running.into_values() {
            plugin.end().await;
        }
    }
}

impl Plugin {
    async fn end(self) {
        drop(self.stop);
        let _ = self.task.await;
    }
}
