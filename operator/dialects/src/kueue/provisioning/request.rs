//! `ProvisioningRequest` (`autoscaling.x-k8s.io/v1`): a request to the cluster autoscaler, as far as it matters here.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{ResourceExt, api::DynamicObject};
use serde::Deserialize;
use sha1::{Digest, Sha1};
use whalezen_core::name::WorkloadKey;
use whalezen_crds::kueue::v1beta2::ProvisioningRequestConfigSpec;

use super::super::conditions;
use crate::write::Target;

/// The longest name that is left as it is, and how much of a digest ends a longer one: Kueue's numbers.
const LONGEST_NAME: usize = 247;
const DIGEST_LENGTH: usize = 5;

/// What an autoscaler says of a request.
pub mod condition {
    /// It will try.
    pub const ACCEPTED: &str = "Accepted";
    /// The capacity is there.
    pub const PROVISIONED: &str = "Provisioned";
    /// It cannot be had.
    pub const FAILED: &str = "Failed";
    /// It was there and was not used in time.
    pub const BOOKING_EXPIRED: &str = "BookingExpired";
    /// It was there and is taken away.
    pub const CAPACITY_REVOKED: &str = "CapacityRevoked";
}

/// What is kept of a request.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The Workload that it is for.
    pub workload: WorkloadKey,
    /// That Workload's uid.
    pub workload_uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// How the autoscaler is to treat it.
    pub class: String,
    /// What the class is told.
    pub parameters: BTreeMap<String, String>,
    /// The pod templates that it asks for, by name.
    pub templates: Vec<String>,
    /// What the autoscaler says of it.
    pub conditions: Vec<Condition>,
    /// What the class says beside that.
    pub details: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Content {
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    provisioning_class_name: String,
    parameters: BTreeMap<String, String>,
    pod_sets: Vec<PodSet>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSet {
    pod_template_ref: Reference,
}

#[derive(Deserialize)]
struct Reference {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<Condition>,
    provisioning_class_details: BTreeMap<String, String>,
}

impl Request {
    /// The request that an object is, if it is for a Workload; or what is wrong with it.
    pub fn read(object: &DynamicObject) -> Option<Result<Self, String>> {
        let owner = object.owner_references().iter().find(|owner| owner.controller == Some(true))?;
        let of_kueue = owner.api_version.split('/').next() == Some("kueue.x-k8s.io");
        if owner.kind != "Workload" || !of_kueue {
            return None;
        }
        let read = Content::deserialize(&object.data).map_err(|problem| problem.to_string());
        Some(read.map(|Content { spec, status }| Self {
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            workload: WorkloadKey::new(object.namespace().unwrap_or_default(), owner.name.as_str()),
            workload_uid: owner.uid.clone(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            class: spec.provisioning_class_name,
            parameters: spec.parameters,
            templates: spec.pod_sets.into_iter().map(|set| set.pod_template_ref.name).collect(),
            conditions: status.conditions,
            details: status.provisioning_class_details,
        }))
    }

    /// Whether the autoscaler says so.
    pub fn is(&self, condition: &str) -> bool {
        conditions::is_true(&self.conditions, condition)
    }

    /// What the autoscaler says with a condition, if it has that condition, true or not.
    pub fn message(&self, condition: &str) -> Option<&str> {
        conditions::find(&self.conditions, condition).map(|condition| condition.message.as_str())
    }

    /// Whether it asks as this configuration would have it ask. What annotations of the workload add is no difference.
    pub fn agrees_with(&self, config: &ProvisioningRequestConfigSpec) -> bool {
        let has = |(name, value): (&String, &String)| self.parameters.get(name) == Some(value);
        self.class == config.provisioning_class_name && config.parameters.iter().all(has)
    }

    /// Which attempt it is of a Workload to pass a check; none if it is not for this check.
    pub fn attempt(&self, workload: &str, check: &str) -> Option<u32> {
        let number = self.name.strip_prefix(&limited(format!("{workload}-{check}-")))?;
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| number.parse().unwrap_or(1))
    }
}

/// The name of an attempt's request.
pub fn name(workload: &str, check: &str, attempt: u32) -> String {
    limited(format!("{workload}-{check}-{attempt}"))
}

/// The name of the pod template of a pod set in a request.
pub fn template_name(request: &str, pod_set: &str) -> String {
    limited(format!("ppt-{request}-{pod_set}"))
}

/// The address of a request.
pub fn target(workload: &WorkloadKey, name: &str) -> Target {
    Target {
        group: "autoscaling.x-k8s.io",
        version: "v1",
        kind: "ProvisioningRequest",
        plural: "provisioningrequests",
        namespace: Some(workload.namespace.to_string()),
        name: name.to_owned(),
    }
}

/// A name cut to what a name may be, unique by a digest.
fn limited(name: String) -> String {
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let digest = Sha1::digest(&name);
    let mut limited: String = name.chars().take(LONGEST_NAME).collect();
    limited.push('-');
    for half in digest.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).take(DIGEST_LENGTH) {
        limited.extend(char::from_digit(half.into(), 16));
    }
    limited
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str) -> Request {
        Request {
            name: name.to_owned(),
            uid: "uid".into(),
            workload: WorkloadKey::new("n", "w"),
            workload_uid: "workload-uid".into(),
            deleting: false,
            class: "check-capacity".into(),
            parameters: BTreeMap::new(),
            templates: vec![],
            conditions: vec![],
            details: BTreeMap::new(),
        }
    }

    #[test]
    fn a_request_tells_by_its_name_which_attempt_of_which_check_it_is() {
        for (name, attempt) in [
            ("w-check-1", Some(1)),
            ("w-check-12", Some(12)),
            ("w-check-", None),
            ("w-check-1a", None),
            ("w-check-other-1", None),
            ("v-check-1", None),
            ("w-check-99999999999", Some(1)),
        ] {
            assert_eq!(request(name).attempt("w", "check"), attempt, "{name}");
        }
        assert_eq!(request(&name("w", "check", 7)).attempt("w", "check"), Some(7));
    }

    #[test]
    fn a_long_name_is_cut_and_stays_unique() {
        let (a, b) = (name(&"x".repeat(260), "check", 1), name(&"x".repeat(260), "check", 2));
        assert_eq!((a.len(), b.len()), (253, 253));
        assert_ne!(a, b);
    }

    #[test]
    fn more_parameters_than_the_configurations_are_no_difference_and_others_are() {
        let mut config = ProvisioningRequestConfigSpec {
            provisioning_class_name: "check-capacity".into(),
            ..ProvisioningRequestConfigSpec::default()
        };
        let mut asked = request("w-check-1");
        asked.parameters.insert("more".into(), "1".into());
        assert!(asked.agrees_with(&config));
        config.parameters.insert("wanted".into(), "1".into());
        assert!(!asked.agrees_with(&config));
    }
}
