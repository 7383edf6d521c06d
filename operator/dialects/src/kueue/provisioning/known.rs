//! What is known of checks, their configurations and the requests that were made.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{ResourceExt, api::DynamicObject};
use serde_json::json;
use whalezen_core::{name::WorkloadKey, workload::Timestamp};
use whalezen_crds::kueue::{
    constants::{check_controller, condition},
    v1beta2::{
        AdmissionCheck, AdmissionCheckParametersReference, ProvisioningRequestConfig,
        ProvisioningRequestConfigSpec,
    },
};

use super::{
    super::{
        conditions::{self, Saying},
        kueue_target,
        workload::WorkloadView,
    },
    Check,
    request::Request,
};
use crate::write::{Verb, Write};

const CONFIG: (&str, &str) = ("kueue.x-k8s.io", "ProvisioningRequestConfig");

/// The address of a request: its namespace and name.
type Address = (String, String);

/// See the module.
#[derive(Debug, Default)]
pub struct Known {
    /// Whether the cluster has `ProvisioningRequests` at all.
    served: bool,
    checks: BTreeMap<String, CheckView>,
    configs: BTreeMap<String, ProvisioningRequestConfigSpec>,
    requests: BTreeMap<Address, Request>,
    /// The requests of each Workload, by its uid.
    of_workload: BTreeMap<String, BTreeSet<Address>>,
}

/// A check that is answered here.
#[derive(Clone, PartialEq, Debug)]
struct CheckView {
    generation: Option<i64>,
    parameters: Option<AdmissionCheckParametersReference>,
    conditions: Vec<Condition>,
}

impl Known {
    /// Whether the cluster has `ProvisioningRequests`.
    pub fn serve(&mut self, served: bool) {
        self.served = served;
        if !served {
            self.requests.clear();
            self.of_workload.clear();
        }
    }

    /// A check was seen. Says whether it is answered here.
    pub fn apply_check(&mut self, object: &AdmissionCheck) -> bool {
        let name = object.name_any();
        if object.spec.controller_name != check_controller::PROVISIONING_REQUEST {
            return self.checks.remove(&name).is_some();
        }
        let view = CheckView {
            generation: object.metadata.generation,
            parameters: object.spec.parameters.clone(),
            conditions: object.status.clone().unwrap_or_default().conditions,
        };
        self.checks.insert(name, view);
        true
    }

    /// A check is gone. Says whether it was answered here.
    pub fn delete_check(&mut self, name: &str) -> bool {
        self.checks.remove(name).is_some()
    }

    /// A configuration was seen.
    pub fn apply_config(&mut self, object: &ProvisioningRequestConfig) {
        self.configs.insert(object.name_any(), object.spec.clone());
    }

    /// A configuration is gone.
    pub fn delete_config(&mut self, name: &str) {
        self.configs.remove(name);
    }

    /// A request was seen. Gives the Workload that it is for, or what is wrong with it.
    pub fn apply_request(&mut self, object: &DynamicObject) -> Option<Result<WorkloadKey, String>> {
        let address = (object.namespace().unwrap_or_default(), object.name_any());
        let request = match Request::read(object)? {
            Ok(request) => request,
            Err(problem) => return Some(Err(problem)),
        };
        let workload = request.workload.clone();
        self.of_workload.entry(request.workload_uid.clone()).or_default().insert(address.clone());
        self.requests.insert(address, request);
        Some(Ok(workload))
    }

    /// A request is gone. Gives the Workload that it was for.
    pub fn delete_request(&mut self, namespace: &str, name: &str) -> Option<WorkloadKey> {
        let address = (namespace.to_owned(), name.to_owned());
        let Request { workload, workload_uid, .. } = self.requests.remove(&address)?;
        if let Some(requests) = self.of_workload.get_mut(&workload_uid) {
            requests.remove(&address);
            if requests.is_empty() {
                self.of_workload.remove(&workload_uid);
            }
        }
        Some(workload)
    }

    /// The names of the checks that are answered here.
    pub fn checks(&self) -> impl Iterator<Item = &str> {
        self.checks.keys().map(String::as_str)
    }

    /// The checks of these that use a configuration.
    pub fn checks_with(&self, config: &str) -> impl Iterator<Item = &str> {
        let uses = move |view: &CheckView| view.parameters.as_ref().is_some_and(|named| named.name == config);
        self.checks.iter().filter(move |(_, view)| uses(view)).map(|(name, _)| name.as_str())
    }

    /// Whether a Workload has anything to do with this: a check that is answered here, or requests.
    pub fn concerns(&self, view: &WorkloadView) -> bool {
        self.of_workload.contains_key(&view.uid)
            || view.checks.iter().any(|check| self.checks.contains_key(&check.name))
    }

    /// The checks of a Workload that are answered here.
    pub fn checks_of<'a>(&'a self, view: &'a WorkloadView) -> Vec<Check<'a>> {
        let check = |name: &'a str| {
            let named = self.checks.get(name)?;
            Some(Check { name, config: self.config_of(named).ok() })
        };
        view.checks.iter().filter_map(|state| check(&state.name)).collect()
    }

    /// The requests of a Workload.
    pub fn requests_of(&self, workload: &WorkloadKey, uid: &str) -> Vec<&Request> {
        let addresses = self.of_workload.get(uid).into_iter().flatten();
        let requests = addresses.filter_map(|address| self.requests.get(address));
        // What lies in another namespace is no request of it, whatever it says.
        requests.filter(|request| request.workload == *workload).collect()
    }

    /// A configuration, by the check that names it.
    pub fn config(&self, check: &str) -> Option<&ProvisioningRequestConfigSpec> {
        self.config_of(self.checks.get(check)?).ok()
    }

    fn config_of(&self, check: &CheckView) -> Result<&ProvisioningRequestConfigSpec, (&'static str, String)> {
        let bad = |message: String| Err(("BadParametersRef", message));
        if !self.served {
            let message = "the cluster has no ProvisioningRequests (autoscaling.x-k8s.io/v1)";
            return Err(("NotSupported", message.to_owned()));
        }
        let Some(named) = &check.parameters else { return bad("missing parameters reference".to_owned()) };
        if (named.api_group.as_str(), named.kind.as_str()) != CONFIG || named.name.is_empty() {
            return bad("bad parameters reference".to_owned());
        }
        match self.configs.get(&named.name) {
            Some(config) => Ok(config),
            None => bad(format!("ProvisioningRequestConfig.kueue.x-k8s.io {:?} not found", named.name)),
        }
    }

    /// The status of a check that is answered here, if it is due: whether it can be answered.
    pub fn status(&self, name: &str, now: Timestamp) -> Option<Write> {
        let check = self.checks.get(name)?;
        let (status, reason, message) = match self.config_of(check) {
            Ok(_) => (true, "Active", "The admission check is active".to_owned()),
            Err((reason, message)) => (false, reason, message),
        };
        let mut conditions = check.conditions.clone();
        let saying = Saying {
            type_: condition::ACTIVE,
            status,
            reason,
            message: &message,
            generation: check.generation,
        };
        conditions::set(&mut conditions, saying, now).then(|| Write {
            target: kueue_target("AdmissionCheck", "admissionchecks", None, name),
            status: true,
            verb: Verb::Merge,
            body: json!({ "status": { "conditions": conditions } }),
        })
    }
}
