//! Hosts of jobs that fail: which those are, whose turn it is then, and what is due.

use std::collections::BTreeSet;

use whalezen_core::{
    name::{HostName, WorkloadKey},
    topology::Placement,
    workload::{Admission, PodSetAssignment, Timestamp},
};

use super::{
    super::jobs::{
        JobKey, JobView, Of, Step,
        kinds::POD,
        repair::{self, Stuck, Trouble},
    },
    Objects,
};

impl Objects {
    /// Makes the next step due of those whose pods were placed on a host.
    pub(super) fn placed_on_due(&mut self, host: &str) {
        let is_on = |given: &Admission| given.pod_sets.iter().any(|set| set.is_on(host));
        self.workloads_due(|workload| workload.admission().is_some_and(is_on));
    }

    /// The same of a node.
    pub(super) fn host_due(&mut self, node: &HostName) {
        if let Some(host) = self.hosts.host(node) {
            self.placed_on_due(&host);
        }
    }

    /// What is due for a job because of its hosts, if anything is. A pod that is queued by itself cannot go elsewhere, and an
    /// elastic job is placed anew when it grows.
    pub(super) fn repair(&self, key: &JobKey, job: &JobView, of: Of<'_>, now: Timestamp) -> Option<Step> {
        if (*job.kind == POD && job.group.is_none()) || job.elastic.is_some() {
            return None;
        }
        let trouble = self.trouble(key, job, of, now).unwrap_or_default();
        let without = |host: &str| self.state.without_host(of.key, host, self.settings.placement);
        repair::next(of, &trouble, now, without)
    }

    /// What is wrong with the hosts of a job that runs as it was placed.
    fn trouble(&self, key: &JobKey, job: &JobView, of: Of<'_>, now: Timestamp) -> Option<Trouble> {
        let given = of.admitted()?;
        let runs = !job.suspended && job.injected.as_deref() == Some(of.view.mark(of.key));
        if !runs || given.pod_sets.iter().all(|set| set.placement.is_none()) {
            return None;
        }
        let stuck = self.stuck(of).filter(|stuck| self.gives_up(stuck) <= now).cloned();
        if job.unready == 0 {
            // Those who have no pod to lose any more need no other host.
            return Some(Trouble { stuck, ..Trouble::default() });
        }
        let failed = given.pod_sets.iter().flat_map(|set| self.failed(key, job, set));
        Some(Trouble { failed: failed.collect(), stuck })
    }

    /// The hosts of a pod set on which nothing of the job goes on.
    fn failed(&self, key: &JobKey, job: &JobView, set: &PodSetAssignment) -> BTreeSet<String> {
        let sets = job.pods.as_deref().unwrap_or_default();
        let slot = sets.iter().position(|pods| pods.name == set.name).and_then(|index| job.slots.get(index));
        let tolerations = slot.map(|slot| slot.tolerations.as_slice());
        let pods = self.stationed(key, job);
        let hosts = set.placement.iter().flat_map(Placement::hosts);
        let fails = |host: &str| {
            self.hosts.is_gone(host)
                || (self.hosts.keeps_off(host, tolerations) && !self.hosts.goes_on(&pods, host))
        };
        hosts.filter(|host| fails(host)).map(ToString::to_string).collect()
    }

    /// The pod of a Workload that has waited longest for room on its host, if one waits.
    fn stuck(&self, of: Of<'_>) -> Option<&Stuck> {
        let mark = WorkloadKey::new(std::sync::Arc::clone(&of.key.namespace), of.view.mark(of.key));
        self.unbound.stuck(&mark)
    }

    fn gives_up(&self, stuck: &Stuck) -> Timestamp {
        let patience = i64::try_from(self.settings.stuck_after.0.as_millis()).unwrap_or(i64::MAX);
        Timestamp(stuck.since.0.saturating_add(patience))
    }

    /// When it is given up to wait for room for a pod of a Workload, if one waits.
    pub(super) fn gives_up_on(&self, of: Of<'_>, now: Timestamp) -> Option<Timestamp> {
        self.stuck(of).map(|stuck| self.gives_up(stuck)).filter(|at| *at > now)
    }
}
