//! Checks that the cluster autoscaler answers: what is seen of them, and what is to be done next.

use std::collections::BTreeMap;

use kube::{ResourceExt, api::DynamicObject};
use whalezen_core::{
    name::WorkloadKey,
    workload::{PodSetAssignment, Timestamp},
};
use whalezen_crds::kueue::v1beta2 as kueue;

use super::{
    super::{
        provisioning::{self, Step, build::Placed},
        quota,
        workload::WorkloadView,
    },
    Objects,
};
use crate::write::{Note, Write};

impl Objects {
    /// An `AdmissionCheck` was seen.
    pub fn apply_check(&mut self, object: &kueue::AdmissionCheck) {
        self.state.apply_check(quota::check(object));
        if self.provisioning.apply_check(object) {
            self.check_due(&object.name_any());
        }
    }

    /// An `AdmissionCheck` is gone.
    pub fn delete_check(&mut self, name: &str) {
        self.state.delete_check(&name.into());
        if self.provisioning.delete_check(name) {
            self.workloads_with_check_due(name);
        }
    }

    /// A `ProvisioningRequestConfig` was seen.
    pub fn apply_provisioning_config(&mut self, object: &kueue::ProvisioningRequestConfig) {
        self.provisioning.apply_config(object);
        self.checks_with_config_due(&object.name_any());
    }

    /// A `ProvisioningRequestConfig` is gone.
    pub fn delete_provisioning_config(&mut self, name: &str) {
        self.provisioning.delete_config(name);
        self.checks_with_config_due(name);
    }

    /// The cluster has `ProvisioningRequest`s, or has them no more.
    pub fn serve_provisioning_requests(&mut self, served: bool) {
        self.provisioning.serve(served);
        self.all_checks_due();
    }

    /// A `ProvisioningRequest` was seen. One that cannot be read answers nothing: what is wrong with it is returned.
    pub fn apply_provisioning_request(&mut self, object: &DynamicObject) -> Result<(), String> {
        if let Some(workload) = self.provisioning.apply_request(object) {
            self.provisioning_due(&workload?);
        }
        Ok(())
    }

    /// A `ProvisioningRequest` is gone.
    pub fn delete_provisioning_request(&mut self, namespace: &str, name: &str) {
        if let Some(workload) = self.provisioning.delete_request(namespace, name) {
            self.provisioning_due(&workload);
        }
    }

    /// Makes the checks of a Workload due.
    pub fn provisioning_due(&mut self, key: &WorkloadKey) {
        self.due.provisioning.insert(key.clone());
    }

    /// Makes the status of a check due, and whatever waits for it.
    pub fn check_due(&mut self, name: &str) {
        self.due.checks.insert(name.to_owned());
        self.workloads_with_check_due(name);
    }

    /// The same for every check.
    pub(super) fn all_checks_due(&mut self) {
        for name in self.provisioning.checks().map(ToOwned::to_owned).collect::<Vec<_>>() {
            self.check_due(&name);
        }
        // Those whose checks are gone may have requests.
        let concerned = self.workloads.iter().filter(|(_, view)| self.provisioning.concerns(view));
        self.due.provisioning.extend(concerned.map(|(key, _)| key.clone()));
    }

    fn checks_with_config_due(&mut self, config: &str) {
        for name in self.provisioning.checks_with(config).map(ToOwned::to_owned).collect::<Vec<_>>() {
            self.check_due(&name);
        }
    }

    fn workloads_with_check_due(&mut self, name: &str) {
        let has = |view: &WorkloadView| view.checks.iter().any(|check| check.name == name);
        let concerned = self.workloads.iter().filter(|(_, view)| has(view));
        self.due.provisioning.extend(concerned.map(|(key, _)| key.clone()));
    }

    /// The status of a check, if it is due.
    pub fn check_status(&self, name: &str, now: Timestamp) -> Option<Write> {
        self.provisioning.status(name, now)
    }

    /// The next step for a Workload's checks.
    pub fn next_provisioning_step(&self, key: &WorkloadKey, now: Timestamp) -> Step {
        let Some(of) = self.of(key).filter(|of| !of.view.deleting && !of.view.unreadable) else {
            return Step::Rest;
        };
        let requests = self.provisioning.requests_of(key, &of.view.uid);
        provisioning::next(of, &self.provisioning.checks_of(of.view), &requests, now)
    }

    /// What to write to a Workload, and to say, because the API server would not have the request for it.
    pub fn not_asked(&self, key: &WorkloadKey, problem: &str, now: Timestamp) -> Option<(Write, Note)> {
        let Step::Ask { check, request } = self.next_provisioning_step(key, now) else { return None };
        provisioning::not_asked(self.of(key)?, &check, &request, problem)
    }

    /// How a check is to be asked.
    pub fn provisioning_config(&self, check: &str) -> Option<&kueue::ProvisioningRequestConfigSpec> {
        self.provisioning.config(check)
    }

    /// What its flavors add to the pods of each pod set of a Workload that holds quota.
    pub fn placed(&self, key: &WorkloadKey) -> BTreeMap<String, Placed> {
        let given = self.state.workload(key).and_then(|workload| workload.admission());
        let place = |set: &PodSetAssignment| {
            let mut placed = Placed::default();
            for name in set.flavors.values() {
                if let Some(flavor) = self.state.flavors().get(name) {
                    placed.selector.extend(flavor.labels.clone());
                }
                for toleration in self.flavor_tolerations.get(name).into_iter().flatten() {
                    if !placed.tolerations.contains(toleration) {
                        placed.tolerations.push(toleration.clone());
                    }
                }
            }
            (set.name.to_string(), placed)
        };
        given.into_iter().flat_map(|given| &given.pod_sets).map(place).collect()
    }
}
