//! The roles of the pods of a group: those of one role are one pod set, and are counted as one of them requests.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::{Value, json};
use sha1::{Digest, Sha1};
use whalezen_core::quantity::{Amount, Amounts};
use whalezen_crds::kueue::constants::annotation;

use super::{
    super::pods::{Pods, Template},
    pod::Member,
};

/// How much of the digest is a role's name.
const ROLE_LENGTH: usize = 8;

/// The role of pods of this spec: a digest of what matters to an admission.
pub fn role(spec: &PodSpec) -> String {
    let containers = |of: &[Container]| -> Value {
        let shape = |container: &Container| {
            let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
            json!({ "requests": requests, "ports": container.ports })
        };
        of.iter().map(shape).collect()
    };
    let shape = json!([
        containers(spec.init_containers.as_deref().unwrap_or_default()),
        containers(&spec.containers),
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.runtime_class_name,
        spec.priority,
        spec.topology_spread_constraints,
        spec.overhead,
        spec.resource_claims,
        spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()),
    ]);
    let digest = Sha1::digest(shape.to_string());
    format!("{digest:x}").chars().take(ROLE_LENGTH).collect()
}

/// What a pod of this spec requests, if that can be counted.
pub fn requests(spec: &PodSpec) -> Option<Amounts> {
    Template::read(spec).ok()?.total().ok()
}

/// A role whose pods do not request the same: what one of them requests is no measure of the others.
pub fn uneven<'a>(members: impl Iterator<Item = &'a Member>) -> Option<&'a str> {
    let mut requests: BTreeMap<&str, Option<&Amounts>> = BTreeMap::new();
    for member in members {
        let of = member.belongs.as_ref().and_then(|belongs| belongs.requests.as_ref());
        if *requests.entry(member.role()).or_insert(of) != of {
            return Some(member.role());
        }
    }
    None
}

/// Whether a pod is of a role of these sets, and requests no more than is counted there.
pub fn counted(sets: &[Pods]) -> impl Fn(&Member) -> bool + use<> {
    let sets = sets.iter().map(|set| (Arc::clone(&set.name), set.template.total().unwrap_or_default()));
    let sets: BTreeMap<Arc<str>, Amounts> = sets.collect();
    move |member| {
        let Some(counted) = sets.get(member.role()) else { return false };
        let within = |(resource, amount): (_, &Amount)| {
            *amount <= counted.get(resource).copied().unwrap_or(Amount::ZERO)
        };
        let requests = member.belongs.as_ref().and_then(|belongs| belongs.requests.as_ref());
        requests.is_some_and(|requests| requests.iter().all(within))
    }
}

/// The name of a pod's role, where it is kept once an admission has changed what the pod asks for.
pub fn mark(member: &Member) -> Option<(String, String)> {
    let belongs = member.belongs.as_ref()?;
    Some((annotation::ROLE_HASH.to_owned(), belongs.role.clone()))
}
