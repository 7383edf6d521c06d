//! Places for the pod sets that are to be placed, once each has its flavors.
//!
//! Nobody gets a place that somebody has. If there is none left, there may be one if others stop: then all that the
//! flavors give to what is placed is contested, and the places are those that there would be with nobody there. If there
//! is none even then, nothing helps but other nodes (Kueue's rules).

use std::collections::{BTreeMap, BTreeSet};

use super::{Assignment, Draft, Offer, told};
use crate::{
    flavor::Flavor,
    name::{FlavorName, FlavorResource, ResourceName},
    overlay::Overlay,
    preempt::Wanted,
    quantity::Amounts,
    topology::{Ask, Misfit, Placement, Stays},
    verdict::{Reason, Until},
    workload::{PodSet, PodSetAssignment},
};

/// The pod sets with their numbers, those of one topology group together.
pub(super) fn together(pod_sets: &[PodSet]) -> Vec<Vec<(usize, &PodSet)>> {
    let mut groups: Vec<Vec<(usize, &PodSet)>> = Vec::new();
    let group = |pod_set: &PodSet| pod_set.topology.as_ref().and_then(|topology| topology.group.clone());
    for (index, pod_set) in pod_sets.iter().enumerate() {
        let name = group(pod_set);
        let known = groups.iter_mut().find(|members| {
            name.is_some() && members.first().is_some_and(|(_, member)| group(member) == name)
        });
        match known {
            Some(members) => members.push((index, pod_set)),
            None => groups.push(vec![(index, pod_set)]),
        }
    }
    groups
}

impl Assignment {
    /// What of the assignment a preemption is for.
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted { usage: &self.usage, contested: &self.contested, asks: &self.asks }
    }

    /// What it takes of the nodes.
    pub fn stays(&self) -> Stays {
        let stays = self.asks.iter().filter_map(|ask| {
            let given = self.pod_sets.iter().find(|given| given.name == ask.pod_set.name)?;
            Some(ask.stay(given.placement.clone()?))
        });
        Stays(stays.collect())
    }

    /// Gives it these places, in the order of what is to be placed.
    pub fn put(&mut self, placements: Vec<Placement>) {
        put(&mut self.pod_sets, &self.asks, placements);
    }

    /// Gives it the places that were kept for the same, if that is what was kept.
    pub fn put_as_kept(&mut self, kept: &[PodSetAssignment]) -> bool {
        let same = |(own, kept): (&PodSetAssignment, &PodSetAssignment)| {
            (&own.name, own.count, &own.flavors) == (&kept.name, kept.count, &kept.flavors)
                && own.placement.is_some() == kept.placement.is_some()
        };
        let all = self.pod_sets.len() == kept.len() && self.pod_sets.iter().zip(kept).all(same);
        if all {
            self.pod_sets.clone_from_slice(kept);
        }
        all
    }

    /// That there is more room on the nodes that it is to be placed on.
    pub fn room(&self) -> Until {
        Until::Room(flavors(&self.asks))
    }
}

fn put(pod_sets: &mut [PodSetAssignment], asks: &[Ask], placements: Vec<Placement>) {
    for (ask, placement) in asks.iter().zip(placements) {
        if let Some(given) = pod_sets.iter_mut().find(|given| given.name == ask.pod_set.name) {
            given.placement = Some(placement);
        }
    }
}

fn flavors(asks: &[Ask]) -> BTreeSet<FlavorName> {
    asks.iter().map(|ask| ask.flavor.clone()).collect()
}

impl Offer<'_> {
    /// Whether everything that the queue admits is placed: it has no flavor without a topology.
    fn places_everything(&self) -> bool {
        let trees = self.search.state.trees();
        !trees.is_empty() && self.search.queue.flavors().all(|flavor| trees.tree(flavor).is_some())
    }

    /// Whether a flavor has nodes of which this pod set can be given places, if it is to be placed, or none of that kind if
    /// it is not.
    pub(super) fn places(&self, flavor: &Flavor, pod_set: &PodSet) -> Result<(), String> {
        let name = flavor.name.as_str();
        let request = pod_set.topology.as_ref().filter(|request| request.is_explicit());
        let Some(request) = request else {
            return match flavor.topology {
                Some(_) if !self.places_everything() => {
                    Err(format!("Flavor {name:?} supports only TopologyAwareScheduling"))
                }
                _ => Ok(()),
            };
        };
        if flavor.topology.is_none() {
            let mut groups = self.search.queue.groups.iter();
            let group = groups.find(|group| group.flavors.iter().any(|of| of.flavor == flavor.name));
            let only_of_quota = group.is_some_and(|group| {
                pod_set.of_its_node().keys().all(|resource| !group.resources.contains(resource))
            });
            return if only_of_quota {
                Ok(())
            } else {
                Err(format!("Flavor {name:?} does not support TopologyAwareScheduling"))
            };
        }
        match self.search.state.trees().tree(&flavor.name) {
            None => Err(format!("Flavor {name:?} information missing in TAS cache")),
            Some(tree) if !tree.has_levels(request) => {
                Err(format!("Flavor {name:?} does not contain the requested level"))
            }
            Some(_) => Ok(()),
        }
    }

    /// Of the flavors that a pod set's group got, its own. One that requests nothing is placed with the others.
    pub(super) fn flavors_of(
        &self,
        pod_set: &PodSet,
        usage: &Amounts,
        all: &BTreeMap<ResourceName, FlavorName>,
    ) -> BTreeMap<ResourceName, FlavorName> {
        let grouped = pod_set.topology.as_ref().is_some_and(|topology| topology.group.is_some());
        let placed_only = usage.is_empty() && grouped;
        let has_nodes = |flavor| self.search.state.trees().tree(flavor).is_some();
        let own =
            all.iter().filter(
                |(resource, flavor)| {
                    if placed_only { has_nodes(flavor) } else { usage.contains_key(*resource) }
                },
            );
        own.map(|(resource, flavor)| (resource.clone(), flavor.clone())).collect()
    }

    /// Places for those that are to be placed, in `draft`, or the reason for which there are none.
    pub(super) fn place(
        &self,
        pod_sets: &[PodSet],
        draft: &mut Draft,
        overlay: &Overlay<'_>,
    ) -> Result<Vec<Ask>, Reason> {
        let asks = self.asks(pod_sets, draft)?;
        if asks.is_empty() {
            return Ok(asks);
        }
        let profile = self.search.policy.topology;
        let mut told_why = false;
        if draft.contested.is_empty() {
            match overlay.place(&asks, profile) {
                Ok(placements) => {
                    put(&mut draft.pod_sets, &asks, placements);
                    return Ok(asks);
                }
                Err(misfit) => {
                    draft.tell(&asks, misfit);
                    told_why = true;
                }
            }
        }
        match self.search.state.trees().place_alone(&asks, profile) {
            Ok(placements) => {
                put(&mut draft.pod_sets, &asks, placements);
                draft.contest(&asks);
                let mut room = Until::Room(flavors(&asks));
                // Whom it may preempt depends on what others use.
                if self.search.may_preempt() {
                    room = room.or(&Until::Freed);
                }
                if told_why {
                    draft.until = Some(room);
                } else {
                    draft.with_quota = Some(room);
                }
                Ok(asks)
            }
            Err(misfit) => {
                if !told_why {
                    draft.tell(&asks, misfit);
                }
                let nodes = Until::Nodes(flavors(&asks));
                // With other quota it may get another flavor.
                let one_flavor = self.search.queue.flavors().nth(1).is_none();
                draft.until = Some(if one_flavor { nodes } else { nodes.or(&Until::Freed) });
                Err(Reason::TopologyPlacementFailed)
            }
        }
    }

    /// What is to be placed, on the nodes of the only flavor with a topology that it got.
    fn asks(&self, pod_sets: &[PodSet], draft: &mut Draft) -> Result<Vec<Ask>, Reason> {
        let (all, trees) = (self.places_everything(), self.search.state.trees());
        let mut asks = Vec::new();
        for (pod_set, given) in pod_sets.iter().zip(&draft.pod_sets) {
            let implied = !pod_set.asks_for_a_place();
            if pod_set.count == 0 || (implied && !all) {
                continue;
            }
            let with_nodes = given.flavors.values().filter(|flavor| trees.tree(flavor).is_some());
            let with_nodes: BTreeSet<&FlavorName> = with_nodes.collect();
            let mut flavors = with_nodes.iter().map(|flavor| flavor.as_str());
            let problem = match (flavors.next(), flavors.next()) {
                (Some(flavor), None) => {
                    asks.push(Ask { pod_set: pod_set.clone(), flavor: flavor.into(), implied });
                    continue;
                }
                (None, _) => "no TAS flavor assigned".to_owned(),
                _ => {
                    let names: Vec<_> = with_nodes.iter().map(|flavor| flavor.as_str()).collect();
                    format!("more than one TAS flavor assigned: {}", names.join(", "))
                }
            };
            draft.waits.push(told(pod_set, vec![problem]));
            draft.until = Some(Until::Freed);
            return Err(Reason::NoMatchingFlavor);
        }
        Ok(asks)
    }
}

impl Draft {
    /// Somebody finds no place.
    fn tell(&mut self, asks: &[Ask], misfit: Misfit) {
        if let Some(ask) = asks.get(misfit.index) {
            self.waits.push(told(&ask.pod_set, vec![misfit.message]));
        }
    }

    /// All that is given to what is placed has to be given back by others.
    fn contest(&mut self, asks: &[Ask]) {
        let placed = |given: &&PodSetAssignment| asks.iter().any(|ask| ask.pod_set.name == given.name);
        for given in self.pod_sets.iter().filter(placed) {
            let keys = given.flavors.iter().map(|(resource, flavor)| FlavorResource {
                flavor: flavor.clone(),
                resource: resource.clone(),
            });
            self.contested.extend(keys);
        }
    }
}
