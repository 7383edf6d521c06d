//! What is made for an attempt: a `PodTemplate` for each pod set that is asked for, and the request.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, PodSpec, PodTemplateSpec, Toleration},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::ResourceExt;
use serde_json::{Value, json};
use whalezen_core::name::WorkloadKey;
use whalezen_crds::kueue::{
    constants::PROVISIONING_REQUEST_PREFIX,
    v1beta2::{
        PodSet, ProvisioningRequestConfigPodSetMergePolicy as MergePolicy, ProvisioningRequestConfigSpec,
        Workload,
    },
};

use super::{super::workload_target, request};
use crate::write::{Target, Verb, Write};

/// The field manager of pod templates.
const MANAGER: &str = "kueue-provisioning";

/// What the flavors of a pod set add to its pods.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Placed {
    /// To the node selector.
    pub selector: BTreeMap<String, String>,
    /// To the tolerations.
    pub tolerations: Vec<Toleration>,
}

/// A request and its pod templates.
#[derive(Clone, PartialEq, Debug)]
pub struct Requested {
    target: Target,
    workload: Value,
    templates: Vec<(String, Value)>,
    request: Value,
}

/// The request of this name for a Workload that holds quota, whose pod sets are placed like this.
pub fn requested(
    workload: &Workload,
    name: &str,
    config: &ProvisioningRequestConfigSpec,
    placed: &BTreeMap<String, Placed>,
) -> Requested {
    let sets = merged(workload, config);
    let templates = sets.iter().map(|(set, _)| {
        let none = Placed::default();
        let template = template(&set.template, placed.get(&set.name).unwrap_or(&none));
        (request::template_name(name, &set.name), json!(template))
    });
    let mut parameters = config.parameters.clone();
    for (annotation, value) in workload.annotations() {
        if let Some(parameter) = annotation.strip_prefix(PROVISIONING_REQUEST_PREFIX) {
            parameters.insert(parameter.to_owned(), value.clone());
        }
    }
    let pod_sets: Vec<Value> = sets
        .iter()
        .map(|(set, count)| {
            json!({ "podTemplateRef": { "name": request::template_name(name, &set.name) }, "count": count })
        })
        .collect();
    let key = WorkloadKey::new(workload.namespace().unwrap_or_default(), workload.name_any());
    let namespace = &*key.namespace;
    let owner = owner(&workload_target(namespace, &key.name), &workload.uid().unwrap_or_default());
    Requested {
        templates: templates.collect(),
        request: json!({
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "kind": "ProvisioningRequest",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": { "kueue.x-k8s.io/managed": "true" },
                "ownerReferences": [owner],
            },
            "spec": {
                "provisioningClassName": config.provisioning_class_name,
                "parameters": parameters,
                "podSets": pod_sets,
            },
        }),
        workload: owner,
        target: request::target(&key, name),
    }
}

impl Requested {
    /// The request's address.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The request.
    pub fn request(&self) -> &Value {
        &self.request
    }

    /// Makes its pod templates, or makes them what they have to be. Until the request is there they are the
    /// Workload's, so that none is left behind.
    pub fn templates(&self) -> Vec<Write> {
        self.templates_of(&self.workload)
    }

    /// Hands them over to the request, once the API server has given it this uid.
    pub fn hand_over(&self, uid: &str) -> Vec<Write> {
        self.templates_of(&owner(&self.target, uid))
    }

    fn templates_of(&self, owner: &Value) -> Vec<Write> {
        let write = |(name, template): &(String, Value)| {
            let target = Target {
                group: "",
                version: "v1",
                kind: "PodTemplate",
                plural: "podtemplates",
                namespace: self.target.namespace.clone(),
                name: name.clone(),
            };
            let body = json!({
                "apiVersion": "v1",
                "kind": "PodTemplate",
                "metadata": {
                    "name": name,
                    "namespace": self.target.namespace,
                    "labels": { "kueue.x-k8s.io/managed": "true" },
                    "ownerReferences": [owner],
                },
                "template": template,
            });
            Write { target, status: false, verb: Verb::Apply { manager: MANAGER }, body }
        };
        self.templates.iter().map(write).collect()
    }
}

fn owner(target: &Target, uid: &str) -> Value {
    json!({
        "apiVersion": target.api_version(),
        "kind": target.kind,
        "name": target.name,
        "uid": uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The pod sets that are asked for, with how many pods; those that the configuration puts together stand under the
/// first of them.
fn merged<'a>(workload: &'a Workload, config: &ProvisioningRequestConfigSpec) -> Vec<(&'a PodSet, i32)> {
    let given = workload.status.as_ref().and_then(|status| status.admission.as_ref());
    let count = |set: &PodSet| {
        let given = given?.pod_set_assignments.iter().find(|given| given.name == set.name)?;
        Some(given.count.unwrap_or(set.count)).filter(|count| *count > 0 && set.count > 0)
    };
    let mut merged: Vec<(&PodSet, i32)> = Vec::new();
    for set in workload.spec.pod_sets.iter().filter(|set| uses(set, &config.managed_resources)) {
        let Some(count) = count(set) else { continue };
        let like = config.pod_set_merge_policy.and_then(|policy| {
            merged.iter_mut().find(|(known, _)| goes_with(policy, &known.template, &set.template))
        });
        match like {
            Some((_, all)) => *all = all.saturating_add(count),
            None => merged.push((set, count)),
        }
    }
    merged
}

fn uses(set: &PodSet, managed: &[String]) -> bool {
    let is_managed = |names: Option<&BTreeMap<String, Quantity>>| {
        names.is_some_and(|names| names.keys().any(|name| managed.contains(name)))
    };
    managed.is_empty()
        || set.template.spec.iter().flat_map(containers).any(|container| {
            let asks = container.resources.as_ref();
            is_managed(asks.and_then(|asks| asks.requests.as_ref()))
                || is_managed(asks.and_then(|asks| asks.limits.as_ref()))
        })
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

/// Whether two pod templates go into one entry of a request.
fn goes_with(policy: MergePolicy, one: &PodTemplateSpec, other: &PodTemplateSpec) -> bool {
    match policy {
        MergePolicy::IdenticalPodTemplates => one == other,
        MergePolicy::IdenticalWorkloadSchedulingRequirements => {
            let requests = |containers: &[Container]| -> Vec<_> {
                let of = |container: &Container| container.resources.clone().and_then(|asks| asks.requests);
                containers.iter().map(of).collect()
            };
            let of = |template: &PodTemplateSpec| {
                let spec = template.spec.clone().unwrap_or_default();
                let init = spec.init_containers.unwrap_or_default();
                (
                    (requests(&spec.containers), requests(&init), spec.resources, spec.node_selector),
                    (spec.tolerations, spec.affinity, spec.resource_claims),
                )
            };
            of(one) == of(other)
        }
    }
}

/// A pod template as the pods will be: with what its flavors add, and with limits for requests that are missing.
fn template(of: &PodTemplateSpec, placed: &Placed) -> PodTemplateSpec {
    let mut template = of.clone();
    let spec = template.spec.get_or_insert_default();
    if !placed.selector.is_empty() {
        spec.node_selector.get_or_insert_default().extend(placed.selector.clone());
    }
    for toleration in &placed.tolerations {
        let tolerations = spec.tolerations.get_or_insert_default();
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        if let Some(asks) = &mut container.resources
            && let Some(limits) = &asks.limits
        {
            let requests = asks.requests.get_or_insert_default();
            for (name, limit) in limits {
                requests.entry(name.clone()).or_insert_with(|| limit.clone());
            }
        }
    }
    template
}
