//! Workloads that lose one of their hosts: what they would hold instead, and that it is being written.

use super::{State, places::Place};
use crate::{
    name::WorkloadKey,
    topology::{Ask, Profile},
    workload::{Admission, Phase, PodSet},
};

impl State {
    /// What a workload would hold if its pods on this host were elsewhere, on the nodes of the same flavors; or why they
    /// cannot be. To be asked of a settled state.
    pub fn without_host(&self, key: &WorkloadKey, host: &str, profile: Profile) -> Result<Admission, String> {
        let workload = self.workload(key).ok_or("it is gone")?;
        let given = self.facts.moved.get(key).or_else(|| workload.admission()).ok_or("it holds nothing")?;
        let sets = workload.pod_sets.as_ref().map_err(Clone::clone)?;
        // Neither what somebody has now nor what is kept for somebody.
        let mut taken = self.taken.highest(&self.taken_later);
        let mut moved = given.clone();
        for given in &mut moved.pod_sets {
            let Some(placement) = given.placement.as_ref().filter(|placement| placement.has(host)) else {
                continue;
            };
            let set = sets.iter().find(|set| set.name == given.name);
            let flavor = given.flavors.values().find(|flavor| self.ground.tree(flavor).is_some());
            let (set, flavor) = set.zip(flavor).ok_or("its nodes are not known")?;
            let pod_set = PodSet { count: given.count, ..set.clone() };
            let ask = Ask { implied: !set.asks_for_a_place(), pod_set, flavor: flavor.clone() };
            given.placement = Some(self.ground.replace(&ask, placement, host, &mut taken, profile)?);
        }
        Ok(moved)
    }

    /// Whether a workload holds quota and may get another place.
    fn may_move(&self, key: &WorkloadKey) -> bool {
        let holds = matches!(self.standings.get(key).map(|s| &s.place), Some(Place::Holding { .. }));
        let seen = self
            .workload(key)
            .is_some_and(|workload| matches!(workload.phase, Phase::Reserved { evicted: None, .. }));
        holds && seen && !self.facts.assumed.contains_key(key)
    }

    pub(super) fn believe_move(&mut self, key: &WorkloadKey, admission: Admission) {
        if self.may_move(key) {
            self.facts.moved.insert(key.clone(), admission);
            self.move_on(key);
        }
    }
}
