//! From what there is to what is offered: which devices stand under which resource. Pure.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use whalezen_kubelet_api::{
    DEVICE_ID_LENGTH, HEALTHY, UNHEALTHY,
    device_plugin::{Device, NumaNode, TopologyInfo},
};

use super::unit::{Closeness, Inventory, Kept, ResourceName, Unit};
use crate::device::Uuid;

/// What is offered under one resource.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Offer {
    /// The devices, ordered by GPU, then by place.
    pub units: Vec<Unit>,
    /// As in [`Inventory::links`].
    pub links: Arc<BTreeMap<(Uuid, Uuid), Closeness>>,
    /// As in [`Inventory::driver_files`].
    pub driver_files: Arc<[PathBuf]>,
}

impl Offer {
    /// A device of the offer.
    pub fn unit(&self, id: &str) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.id.as_str() == id)
    }

    /// The devices in the kubelet's words.
    pub fn devices(&self) -> Vec<Device> {
        self.units.iter().map(device).collect()
    }
}

/// What is offered, by resource. A resource without devices is not in it. A device stands in at most one.
pub fn offers(inventory: &Inventory) -> BTreeMap<ResourceName, Offer> {
    let mut offers = BTreeMap::<_, Offer>::new();
    for unit in &inventory.units {
        // The kubelet would refuse the whole list for one name that is too long.
        if unit.id.as_str().len() > DEVICE_ID_LENGTH {
            continue;
        }
        let name = match inventory.kept.get(&unit.id) {
            Some(Kept::Leaving) => continue,
            Some(Kept::Assigned) => ResourceName::of(&unit.id),
            None => {
                unit.instance.map_or_else(ResourceName::gpu, |instance| ResourceName::mig(instance.profile))
            }
        };
        offers.entry(name).or_default().units.push(unit.clone());
    }
    for offer in offers.values_mut() {
        offer.units.sort_by(|a, b| place(a).cmp(&place(b)));
        offer.links = Arc::clone(&inventory.links);
        offer.driver_files = Arc::clone(&inventory.driver_files);
    }
    offers
}

/// The order of devices that are otherwise equal.
pub fn place(unit: &Unit) -> (u32, u8, &Uuid) {
    (unit.index, unit.instance.map_or(0, |instance| instance.start), &unit.id)
}

fn device(unit: &Unit) -> Device {
    let nodes = unit.numa.iter().map(|&node| NumaNode { id: node.into() }).collect::<Vec<_>>();
    Device {
        id: unit.id.as_str().to_owned(),
        health: if unit.unhealthy.is_some() { UNHEALTHY } else { HEALTHY }.to_owned(),
        topology: (!nodes.is_empty()).then_some(TopologyInfo { nodes }),
    }
}
