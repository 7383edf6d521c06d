//! What stands on the ground: topologies, nodes, and pods that no placement accounts for.
//!
//! The trees of all flavors are derived from them. A topology is a declaration like a flavor; nodes come and go more often,
//! and only the trees depend on them. Pods are counted in place.

use std::mem;

use super::{State, declarations::put, places::Place};
use crate::{
    name::{HostName, PodKey, TopologyName},
    topology::{Node, Pod, Stays, Taken, Topology, Trees},
    verdict::Until,
};

impl State {
    /// The node of this name, if it is ready and schedulable.
    pub fn node(&self, name: &HostName) -> Option<&Node> {
        self.facts.nodes.get(name)
    }

    /// The pods on nodes that no placement accounts for.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.facts.pods.values()
    }

    /// The trees of the flavors that have a topology.
    pub fn trees(&self) -> &Trees {
        &self.ground
    }

    /// What workloads take in them.
    pub fn taken(&self) -> &Taken {
        &self.taken
    }

    /// What they will take when those who stop so that others fit have stopped, and those others have what is kept for them.
    pub fn taken_later(&self) -> &Taken {
        &self.taken_later
    }

    pub(super) fn see_topology(&mut self, topology: Topology) {
        self.declare(|facts| put(&mut facts.topologies, topology.name.clone(), topology));
    }

    pub(super) fn lose_topology(&mut self, name: &TopologyName) {
        self.declare(|facts| facts.topologies.remove(name).is_some());
    }

    pub(super) fn see_node(&mut self, node: Node) {
        self.nodes_changed |= put(&mut self.facts.nodes, node.name.clone(), node);
    }

    pub(super) fn lose_node(&mut self, name: &HostName) {
        self.nodes_changed |= self.facts.nodes.remove(name).is_some();
    }

    pub(super) fn see_pod(&mut self, pod: Pod) {
        if self.facts.pods.get(&pod.key) == Some(&pod) {
            return;
        }
        self.lose_pod(&pod.key);
        self.ground.crowd(&pod, 1);
        self.facts.pods.insert(pod.key.clone(), pod);
    }

    pub(super) fn lose_pod(&mut self, key: &PodKey) {
        let Some(pod) = self.facts.pods.remove(key) else { return };
        self.ground.crowd(&pod, -1);
        self.roomier_nodes.extend(self.ground.with_node(&pod.node).cloned());
    }

    /// Somebody who takes this of the nodes comes, or takes it later only.
    pub(super) fn settle_in(&mut self, stays: &Stays, leaving: bool) {
        self.ground.charge(&mut self.taken, stays);
        if !leaving {
            self.ground.charge(&mut self.taken_later, stays);
        }
    }

    /// Undoes [`settle_in`](Self::settle_in).
    pub(super) fn move_out(&mut self, stays: &Stays, leaving: bool) {
        self.ground.release(&mut self.taken, stays);
        if !leaving {
            self.ground.release(&mut self.taken_later, stays);
        }
    }

    /// Notes that somebody gives this back, or may be made to.
    pub(super) fn note_room(&mut self, stays: &Stays) {
        self.roomier.extend(self.ground.touched(stays).cloned());
    }

    /// Makes the trees anew, with nothing taken in them but what is kept.
    pub(super) fn plant(&mut self) {
        let facts = &self.facts;
        self.ground = Trees::new(&facts.flavors, &facts.topologies, &facts.nodes, &facts.pods);
        self.taken = self.ground.untaken();
        self.taken_later = self.ground.untaken();
        for kept in self.facts.reserved.values() {
            self.ground.charge(&mut self.taken_later, &kept.stays);
        }
    }

    /// The same if only nodes have changed: everybody is where he was.
    pub(super) fn replant(&mut self) {
        let before = mem::take(&mut self.ground);
        self.plant();
        for standing in self.standings.values() {
            if let Place::Holding { stays, leaving, .. } = &standing.place {
                self.ground.charge(&mut self.taken, stays);
                if !leaving {
                    self.ground.charge(&mut self.taken_later, stays);
                }
            }
        }
        let changed = self.ground.flavors().filter(|flavor| self.ground.tree(flavor) != before.tree(flavor));
        self.roomier_nodes.extend(changed.cloned());
    }

    /// Wakes those who wait for room on nodes where there may be more.
    pub(super) fn wake_for_room(&mut self) {
        let nodes = mem::take(&mut self.roomier_nodes);
        let given_back = mem::take(&mut self.roomier);
        if nodes.is_empty() && given_back.is_empty() {
            return;
        }
        let has_come = |until: &Until| match until {
            Until::Room(flavors) => !flavors.is_disjoint(&nodes) || !flavors.is_disjoint(&given_back),
            Until::Nodes(flavors) => !flavors.is_disjoint(&nodes),
            _ => false,
        };
        for (queue, pending) in &mut self.pending {
            let woken = pending.wake(|until| until.alternatives().iter().any(has_come));
            if woken && pending.is_awake() {
                self.awake.insert(queue.clone());
            }
        }
    }
}
