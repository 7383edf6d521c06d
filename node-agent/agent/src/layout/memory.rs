//! What has to be remembered of a GPU from one look to the next.
//!
//! None of it is needed to be right: an agent that starts anew waits a little longer before it destroys something, and
//! counts its failures from one.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Moment, wish::Target};
use crate::{
    claims::Claims,
    device::{Gpu, MigInstance, Uuid},
};

/// How long an instance that somebody else made has to be free before it may be destroyed: whoever made it by hand is
/// about to use it.
pub const STRANGERS_GRACE: Duration = Duration::from_secs(30);

/// How long a device is withheld before it is destroyed, so that the kubelet has told of whatever it gave away before.
pub const HOLD_BACK: Duration = Duration::from_secs(2);

/// How long it is waited after a first failure, and at most.
const BACK_OFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_mins(5)];

/// An instance by everything that tells it from another that is made later in its place.
type Key = (u32, u8, Vec<Uuid>);

fn key(instance: &MigInstance) -> Key {
    (instance.id, instance.instance.start, instance.devices().cloned().collect())
}

/// What is remembered of a GPU.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    made: BTreeSet<Uuid>,
    free_since: BTreeMap<Key, Moment>,
    withheld_since: BTreeMap<Uuid, Moment>,
    failure: Option<Failure>,
}

/// A step that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For what it was done. Another wish begins anew.
    pub target: Target,
    /// Which step, and what was said.
    pub message: String,
    /// How often in a row.
    pub tries: u32,
    /// When it is tried again.
    pub next: Moment,
}

impl Memory {
    /// What an agent before has left: the MIG devices that it made.
    pub fn of_made(made: impl IntoIterator<Item = Uuid>) -> Self {
        Self { made: made.into_iter().collect(), ..Self::default() }
    }

    /// Takes note of what is there now.
    pub fn look(&mut self, gpu: &Gpu, claims: &Claims, now: Moment) {
        let instances = gpu.mig.iter().flat_map(|mig| &mig.instances);
        let free = instances.clone().filter(|instance| !in_use(gpu, instance, claims)).map(key);
        let before = std::mem::take(&mut self.free_since);
        self.free_since = free
            .map(|key| (before.get(&key).copied().unwrap_or(now), key))
            .map(|(at, key)| (key, at))
            .collect();
        let there: BTreeSet<&Uuid> = instances.flat_map(MigInstance::devices).collect();
        self.made.retain(|uuid| there.contains(uuid));
    }

    /// Takes note of what is withheld from now on, and of what is not any more.
    pub fn withhold(&mut self, devices: &BTreeSet<Uuid>, now: Moment) {
        self.withheld_since.retain(|device, _| devices.contains(device));
        for device in devices {
            self.withheld_since.entry(device.clone()).or_insert(now);
        }
    }

    /// An instance was made.
    pub fn made(&mut self, instance: &MigInstance) {
        self.made.extend(instance.devices().cloned());
    }

    /// The MIG devices that the agent made and that are still there.
    pub fn made_devices(&self) -> &BTreeSet<Uuid> {
        &self.made
    }

    /// A step for `target` did not succeed.
    pub fn failed(&mut self, target: &Target, message: String, now: Moment) {
        let before = self.failure.take().filter(|failure| failure.target == *target);
        let tries = before.map_or(0, |failure| failure.tries).saturating_add(1);
        let [first, most] = BACK_OFF;
        let pause = first.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(most);
        self.failure =
            Some(Failure { target: target.clone(), message, tries, next: now.saturating_add(pause) });
    }

    /// All is as `target` wants it.
    pub fn succeeded(&mut self) {
        self.failure = None;
    }

    /// The failure that holds up `target` now.
    pub fn failure(&self, target: &Target) -> Option<&Failure> {
        self.failure.as_ref().filter(|failure| failure.target == *target)
    }

    /// Whether the agent made an instance. One that has no MIG device is nobody's.
    pub fn is_ours(&self, instance: &MigInstance) -> bool {
        instance.devices().next().is_some() && instance.devices().all(|device| self.made.contains(device))
    }

    /// From when an instance that is free may be destroyed; `None` if it was not seen free.
    pub fn destroyable_from(&self, instance: &MigInstance) -> Option<Moment> {
        let since = *self.free_since.get(&key(instance))?;
        Some(if self.is_ours(instance) { since } else { since.saturating_add(STRANGERS_GRACE) })
    }

    /// From when a device has been withheld for long enough; `None` if it is not withheld.
    pub fn withheld_enough_at(&self, device: &Uuid) -> Option<Moment> {
        Some(self.withheld_since.get(device)?.saturating_add(HOLD_BACK))
    }
}

/// Whether a process lives in an instance or a pod may have it.
pub fn in_use(gpu: &Gpu, instance: &MigInstance, claims: &Claims) -> bool {
    // A process that the driver does not place may be anywhere.
    let alive = gpu.processes.iter().any(|process| process.instance.is_none_or(|id| id == instance.id));
    alive || instance.devices().any(|device| claims.may_hold(device))
}

/// Whether a process lives anywhere on a GPU or a pod may have any of it.
pub fn any_use(gpu: &Gpu, claims: &Claims) -> bool {
    let mut devices = gpu.mig.iter().flat_map(|mig| &mig.instances).flat_map(MigInstance::devices);
    !gpu.processes.is_empty() || claims.may_hold(&gpu.uuid) || devices.any(|device| claims.may_hold(device))
}
