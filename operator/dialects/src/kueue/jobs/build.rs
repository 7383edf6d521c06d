//! The Workload of a job.

use std::{collections::BTreeMap, fmt::Write as _};

use k8s_openapi::{
    api::core::v1::PodTemplateSpec,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::ResourceExt;
use serde_json::{Map, json};
use sha1::{Digest, Sha1};
use whalezen_core::name::WorkloadKey;
use whalezen_crds::kueue::{
    constants::{PROVISIONING_REQUEST_PREFIX, RESOURCE_IN_USE_FINALIZER, annotation, label},
    v1beta2::{PodSet, PodSetTopologyRequest, Workload, WorkloadSpec},
};

use super::{
    super::{topology, workload::gates, workload_target},
    Priority,
    batch::clean,
    kinds::JobKind,
    slices::replacement_for,
    whole::{Set, Standing, Whole},
};
use crate::write::{Verb, Write};

/// The longest name of a Workload.
const LONGEST_NAME: usize = 253;
/// How much of the digest stands at the end of a name.
const DIGEST_LENGTH: usize = 5;

/// The Workload of a job that has none.
pub fn workload(job: &Whole, (class, priority): Priority) -> Workload {
    let Whole { kind, metadata, sets, elastic, standing } = job;
    let uid = metadata.uid.clone().unwrap_or_default();
    let owner = metadata.name.clone().unwrap_or_default();
    let name = match standing {
        Standing::Pods(_) => owner.clone(),
        Standing::Job if *elastic => slice_name(kind, metadata),
        Standing::Job => name(kind.kind, kind.group, &owner, &uid),
        Standing::Serving(number) => name_of_group(kind, &owner, *number, &uid),
    };
    // What its requests to the cluster autoscaler are to say.
    let asks = metadata
        .annotations
        .iter()
        .flatten()
        .filter(|(name, _)| name.starts_with(PROVISIONING_REQUEST_PREFIX));
    let mut annotations: BTreeMap<String, String> =
        asks.map(|(name, value)| (name.clone(), value.clone())).collect();
    if let Some(gates) = metadata.annotations.as_ref().and_then(gates) {
        annotations.insert(annotation::ADMISSION_GATED_BY.to_owned(), gates.to_owned());
    }
    if *standing != Standing::Job {
        annotations.insert(annotation::IS_GROUP_WORKLOAD.to_owned(), "true".to_owned());
    }
    if let Standing::Serving(number) = standing {
        let gvk = format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind);
        annotations.insert(annotation::JOB_OWNER_GVK.to_owned(), gvk);
        annotations.insert(annotation::JOB_OWNER_NAME.to_owned(), owner.clone());
        annotations.extend(
            number.map(|number| (annotation::COMPONENT_WORKLOAD_INDEX.to_owned(), number.to_string())),
        );
    }
    if *elastic {
        annotations.insert(annotation::ELASTIC_JOB.to_owned(), "true".to_owned());
        annotations.insert(annotation::WORKLOAD_SLICE_NAME.to_owned(), name.clone());
    }
    Workload {
        metadata: ObjectMeta {
            annotations: (!annotations.is_empty()).then_some(annotations),
            name: Some(name),
            namespace: metadata.namespace.clone(),
            labels: (!matches!(standing, Standing::Pods(_)))
                .then(|| [(label::JOB_UID.to_owned(), uid.clone())].into()),
            finalizers: Some(vec![RESOURCE_IN_USE_FINALIZER.to_owned()]),
            owner_references: Some(match standing {
                Standing::Pods(owners) => owners.clone(),
                Standing::Job | Standing::Serving(_) => {
                    let controls = (*standing == Standing::Job).then_some(true);
                    vec![OwnerReference {
                        api_version: kind.api_version(),
                        kind: kind.kind.to_owned(),
                        name: owner,
                        uid,
                        controller: controls,
                        block_owner_deletion: controls,
                    }]
                }
            }),
            ..ObjectMeta::default()
        },
        spec: WorkloadSpec {
            pod_sets: sets.iter().map(pod_set).collect(),
            queue_name: metadata.labels.as_ref().and_then(|labels| labels.get(label::QUEUE_NAME)).cloned(),
            priority_class_ref: class,
            priority: Some(priority),
            maximum_execution_time_seconds: max_seconds(metadata),
            ..WorkloadSpec::default()
        },
        status: None,
    }
}

fn pod_set(of: &Set) -> PodSet {
    PodSet {
        name: of.name.clone(),
        template: if of.bare {
            PodTemplateSpec { metadata: None, ..of.template.clone() }
        } else {
            clean(&of.template)
        },
        count: of.count,
        min_count: of.min_count,
        topology_request: topology_request(of),
    }
}

/// Where pods are to be placed, if their template says so, and how each says which of them it is.
fn topology_request(of: &Set) -> Option<PodSetTopologyRequest> {
    let annotations = of.template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
    let request = annotations.and_then(topology::requested).unwrap_or_default();
    let request = PodSetTopologyRequest {
        pod_index_label: of.ranks.index.map(ToOwned::to_owned),
        sub_group_index_label: of.ranks.group.map(ToOwned::to_owned),
        sub_group_count: of.group_count,
        ..request
    };
    (request != PodSetTopologyRequest::default()).then_some(request)
}

/// For how many seconds a job may run, if it says so in a way that can be read.
pub fn max_seconds(job: &ObjectMeta) -> Option<i32> {
    let seconds = job.labels.as_ref()?.get(label::MAX_EXEC_TIME_SECONDS)?.parse().ok()?;
    (seconds > 0).then_some(seconds)
}

/// The Workload that takes the place of another when it is admitted: of the same pods, as many as the Job has now.
pub fn successor(job: &Whole, before: &Workload, priority: Priority) -> Workload {
    let mut next = workload(job, priority);
    let key = WorkloadKey::new(before.namespace().unwrap_or_default(), before.name_any());
    if next.metadata.name == before.metadata.name {
        // That one was made of this very generation, and shrank when an older one was still seen.
        next.metadata.name = Some(digested_slice(job.kind, &job.metadata, "again"));
    }
    let chain = before
        .annotations()
        .get(annotation::WORKLOAD_SLICE_NAME)
        .cloned()
        .unwrap_or_else(|| before.name_any());
    next.annotations_mut()
        .insert(annotation::WORKLOAD_SLICE_REPLACEMENT_FOR.to_owned(), replacement_for(&key));
    next.annotations_mut().insert(annotation::WORKLOAD_SLICE_NAME.to_owned(), chain);
    // The template of a job that runs has an admission's marks in it; that of its Workload has not.
    for (set, before) in next.spec.pod_sets.iter_mut().zip(&before.spec.pod_sets) {
        set.template.clone_from(&before.template);
    }
    next
}

/// The patch that brings a waiting Workload to what its job is now. It keeps its place and whether it is active.
pub fn update(job: &Whole, key: &WorkloadKey, version: u64, priority: Priority) -> Write {
    let now = workload(job, priority).spec;
    let mut spec = Map::from_iter([
        ("podSets".to_owned(), json!(now.pod_sets)),
        ("priorityClassRef".to_owned(), json!(now.priority_class_ref)),
        ("priority".to_owned(), json!(now.priority)),
        ("maximumExecutionTimeSeconds".to_owned(), json!(now.maximum_execution_time_seconds)),
    ]);
    if let Some(queue) = now.queue_name.filter(|name| !name.is_empty()) {
        spec.insert("queueName".to_owned(), json!(queue));
    }
    let body = json!({ "metadata": { "resourceVersion": version.to_string() }, "spec": spec });
    let target = workload_target(&key.namespace, &key.name);
    Write { target, status: false, verb: Verb::Merge, body }
}

/// The name of the Workload of an owner: readable, unique by a digest of who the owner is, and the same that
/// Kueue would give, so that either can go on with the other's.
pub fn name(kind: &str, group: &str, owner: &str, uid: &str) -> String {
    digested(kind, owner, &format!("{kind}\n{group}\n{owner}\n{uid}"))
}

/// The name of the Workload of an object that serves, or of one of its groups.
pub fn name_of_group(kind: &JobKind, object: &str, number: Option<u32>, uid: &str) -> String {
    let owner = number.map_or_else(|| object.to_owned(), |number| format!("{object}-{number}"));
    name(kind.kind, kind.group, &owner, uid)
}

/// The name of a Workload of an elastic job, which has one for each of its generations that grew.
pub fn slice_name(kind: &JobKind, job: &ObjectMeta) -> String {
    digested_slice(kind, job, "")
}

fn digested_slice(kind: &JobKind, job: &ObjectMeta, more: &str) -> String {
    let JobKind { kind, group, .. } = kind;
    let (owner, uid) = (job.name.as_deref().unwrap_or_default(), job.uid.as_deref().unwrap_or_default());
    let generation = job.generation.unwrap_or_default();
    digested(kind, owner, &format!("{kind}\n{group}\n{owner}\n{uid}\n{generation}{more}"))
}

fn digested(kind: &str, owner: &str, identity: &str) -> String {
    let digest = Sha1::digest(identity);
    let mut hex = String::new();
    for byte in digest {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    let prefix: String = format!("{}-{owner}", kind.to_lowercase());
    let prefix: String = prefix.chars().take(LONGEST_NAME - 1 - DIGEST_LENGTH).collect();
    let digest: String = hex.chars().take(DIGEST_LENGTH).collect();
    format!("{prefix}-{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_kueue_gives() {
        // The scheme of Kueue 0.19.2's workload_names.go: SHA-1 of kind, group, name and uid, one a line.
        assert_eq!(name("Job", "batch", "sample", "uid-1"), "job-sample-4502e");
        assert_ne!(name("Job", "batch", "sample", "uid-1"), name("Job", "batch", "sample", "uid-2"));
        assert_eq!(name("Job", "batch", &"x".repeat(300), "u").len(), 253);
    }
}
