//! Whether a ClusterQueue can admit.

use std::collections::BTreeSet;

use super::State;
use crate::{
    forest::Obstacle,
    name::CheckName,
    queue::{ClusterQueue, Stop},
};

/// Why a queue admits nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inactive {
    /// The word for conditions.
    pub reason: &'static str,
    /// What a person can act on.
    pub message: String,
}

impl State {
    /// Whether a ClusterQueue can admit, and if not, why. The words are Kueue's where Kueue knows the case.
    pub fn activity(&self, queue: &ClusterQueue) -> Result<(), Inactive> {
        if queue.terminating {
            let message = "Can't admit new workloads; clusterQueue is terminating".to_owned();
            return Err(Inactive { reason: "Terminating", message });
        }
        let mut obstacles = Vec::new();
        if let Some(problem) = &queue.invalid {
            obstacles.push(("InvalidSpec", problem.clone()));
        }
        if queue.stop != Stop::No {
            obstacles.push(("Stopped", "is stopped".to_owned()));
        }
        let missing: BTreeSet<_> =
            queue.flavors().filter(|flavor| !self.facts.flavors.contains_key(*flavor)).collect();
        if !missing.is_empty() {
            let names = missing.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(",");
            obstacles.push(("FlavorNotFound", format!("references missing ResourceFlavor(s): {names}")));
        }
        for name in queue.flavors().collect::<BTreeSet<_>>() {
            let Some(topology) = self.facts.flavors.get(name).and_then(|flavor| flavor.topology.as_ref())
            else {
                continue;
            };
            if !self.facts.topologies.contains_key(topology) {
                let (topology, name) = (topology.as_str(), name.as_str());
                let message = format!("there is no Topology {topology:?} for TAS flavor {name:?}");
                obstacles.push(("TopologyNotFound", message));
            }
        }
        let checks: BTreeSet<_> = queue.admission_checks.iter().map(|rule| &rule.check).collect();
        let missing = join(checks.iter().filter(|name| !self.facts.checks.contains_key(**name)));
        if !missing.is_empty() {
            let message = format!("references missing AdmissionCheck(s): {missing}");
            obstacles.push(("AdmissionCheckNotFound", message));
        }
        let sleeps = |name: &&&CheckName| self.facts.checks.get(**name).is_some_and(|check| !check.active);
        let inactive = join(checks.iter().filter(sleeps));
        if !inactive.is_empty() {
            let message = format!("references inactive AdmissionCheck(s): {inactive}");
            obstacles.push(("AdmissionCheckInactive", message));
        }
        if let Some(cohort) = &queue.cohort {
            obstacles.extend(self.forest.obstacle(cohort).map(|obstacle| match obstacle {
                Obstacle::Cycle => {
                    ("CohortCycle", format!("cohort {cohort} is its own ancestor, or below one that is"))
                }
                Obstacle::Invalid(name, problem) => ("CohortInvalid", format!("cohort {name}: {problem}")),
            }));
        }
        let Some((reason, _)) = obstacles.first() else { return Ok(()) };
        let messages: Vec<_> = obstacles.iter().map(|(_, message)| message.as_str()).collect();
        Err(Inactive { reason, message: format!("Can't admit new workloads: {}.", messages.join(", ")) })
    }
}

fn join<'a>(names: impl Iterator<Item = &'a &'a CheckName>) -> String {
    names.map(|name| name.as_str()).collect::<Vec<_>>().join(",")
}
