//! What every workload of a cluster is doing, as one watch tells it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use whalezen_crds::kueue::constants::condition;
use whalezen_crds::kueue::v1beta2::Workload;

/// The workloads of one problem.
#[derive(Debug)]
pub struct Place {
    /// By name.
    pub workloads: BTreeMap<String, Workload>,
    /// When anybody here last got or lost something, or somebody did something that will change it.
    pub moved: Instant,
    /// How many hand-overs of the [probe](super::probe) there had been then.
    pub round: u64,
    /// Who got or lost what since the last [`Board::take_moves`].
    pub moves: Vec<(Instant, String, String)>,
}

/// Whether somebody got or lost something. What a workload is told while it waits does not count: it may be told
/// one thing and another for ever.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moved {
    Yes,
    No,
}

/// All places, by namespace.
#[derive(Debug)]
pub struct Board {
    places: Mutex<BTreeMap<String, Place>>,
    rounds: watch::Sender<u64>,
}

impl Default for Board {
    fn default() -> Self {
        Self { places: Mutex::default(), rounds: watch::Sender::new(0) }
    }
}

impl Board {
    /// Watches, until it fails.
    pub async fn follow(&self, client: Client) -> Result<()> {
        let events = watcher(Api::<Workload>::all(client), watcher::Config::default()).default_backoff();
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event.context("watching the workloads")? {
                Event::Apply(workload) | Event::InitApply(workload) => self.seen(workload),
                Event::Delete(workload) => self.gone(&workload),
                Event::Init | Event::InitDone => {}
            }
        }
        Ok(())
    }

    fn seen(&self, workload: Workload) {
        let namespace = workload.metadata.namespace.clone().unwrap_or_default();
        let name = workload.metadata.name.clone().unwrap_or_default();
        let after = standing(&workload);
        self.change(&namespace, |place| {
            let before = place.workloads.insert(name.clone(), workload);
            if before.as_ref().map(standing).unwrap_or_default() == after {
                return Moved::No;
            }
            place.moves.push((Instant::now(), name, after));
            Moved::Yes
        });
    }

    fn gone(&self, workload: &Workload) {
        let name = workload.metadata.name.clone().unwrap_or_default();
        self.change(workload.metadata.namespace.as_deref().unwrap_or_default(), |place| {
            place.workloads.remove(&name);
            Moved::Yes
        });
    }

    /// Somebody did something here whose effects are still to come.
    pub fn touch(&self, namespace: &str) {
        self.change(namespace, |_| Moved::Yes);
    }

    fn change(&self, namespace: &str, change: impl FnOnce(&mut Place) -> Moved) {
        let (moved, round) = (Instant::now(), *self.rounds.borrow());
        let mut places = self.places();
        let place = places.entry(namespace.to_owned()).or_insert_with(|| Place {
            workloads: BTreeMap::new(),
            moved,
            round,
            moves: Vec::new(),
        });
        if change(place) == Moved::Yes {
            (place.moved, place.round) = (moved, round);
        }
    }

    /// Looks at a place.
    pub fn look<T>(&self, namespace: &str, look: impl FnOnce(&Place) -> T) -> Option<T> {
        self.places().get(namespace).map(look)
    }

    /// A workload, if it is there.
    pub fn workload(&self, namespace: &str, name: &str) -> Option<Workload> {
        self.look(namespace, |place| place.workloads.get(name).cloned()).flatten()
    }

    /// Who got or lost what since the last time.
    pub fn take_moves(&self, namespace: &str) -> Vec<(Instant, String, String)> {
        self.places().get_mut(namespace).map(|place| std::mem::take(&mut place.moves)).unwrap_or_default()
    }

    /// Forgets a place.
    pub fn forget(&self, namespace: &str) {
        self.places().remove(namespace);
    }

    /// Another hand-over of the probe is done.
    pub fn round_done(&self) {
        self.rounds.send_modify(|rounds| *rounds += 1);
    }

    /// Tells when the next one is done.
    pub fn rounds(&self) -> watch::Receiver<u64> {
        self.rounds.subscribe()
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<String, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A condition of a workload that is true.
pub fn holds<'a>(workload: &'a Workload, kind: &str) -> Option<&'a Condition> {
    let conditions = &workload.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True")
}

/// What a workload has of its queue, in words that two managers have in common; empty when that is nothing.
pub fn standing(workload: &Workload) -> String {
    if holds(workload, condition::FINISHED).is_some() {
        return String::new();
    }
    let Some(admission) = workload.status.as_ref().and_then(|status| status.admission.as_ref()) else {
        return String::new();
    };
    let pod_sets = admission.pod_set_assignments.iter().map(|pod_set| {
        let flavors: Vec<_> =
            pod_set.flavors.iter().map(|(resource, flavor)| format!("{resource} of {flavor}")).collect();
        format!("{} x{} {}", pod_set.name, pod_set.count.unwrap_or_default(), flavors.join(", "))
    });
    let mut words = pod_sets.collect::<Vec<_>>().join("; ");
    if let Some(evicted) = holds(workload, condition::EVICTED) {
        words.push_str(", evicted: ");
        words.push_str(&evicted.reason);
        if let Some(preempted) = holds(workload, condition::PREEMPTED) {
            words.push(' ');
            words.push_str(&preempted.reason);
        }
    }
    words
}
