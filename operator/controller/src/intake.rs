//! What an event means for what is known: each kind goes to its place.

use whalezen_core::name::{LocalQueueKey, PodKey, WorkloadKey};
use whalezen_dialects::{
    kueue::{
        jobs::{JobKey, kinds::JobKind},
        objects::Objects,
    },
    policies::Policies,
    write::Note,
};

use crate::watch::{Kind, Object, Seen};

/// Takes an event in. If an object cannot be read and has no status to say so in, there is a note about it.
pub fn take_in(objects: &mut Objects, policies: &mut Policies, event: Seen) -> Option<Note> {
    match event {
        Seen::Object(Object::SchedulingPolicy(object)) => policies.apply(&object),
        Seen::Object(Object::ProvisioningRequest(object)) => {
            let problem = objects.apply_provisioning_request(&object).err()?;
            let namespace = object.metadata.namespace.clone().unwrap_or_default();
            let name = object.metadata.name.clone().unwrap_or_default();
            return Some(unreadable(
                Kind::ProvisioningRequest,
                &namespace,
                &name,
                object.metadata.uid,
                &problem,
            ));
        }
        Seen::Object(object) => apply(objects, object),
        Seen::Gone { kind: Kind::SchedulingPolicy, name, .. } => policies.delete(&name),
        Seen::Gone { kind, namespace, name } => delete(objects, kind, &namespace, &name),
        Seen::Unreadable { kind, metadata, problem } => {
            tracing::warn!(?kind, name = metadata.name, "unreadable: {problem}");
            match kind {
                Kind::ClusterQueue => objects.apply_unreadable_queue(&metadata, &cannot_be_read(&problem)),
                Kind::Workload => objects.apply_unreadable_workload(&metadata, &cannot_be_read(&problem)),
                _ => {
                    let namespace = metadata.namespace.unwrap_or_default();
                    let name = metadata.name.unwrap_or_default();
                    delete(objects, kind, &namespace, &name);
                    return Some(unreadable(kind, &namespace, &name, metadata.uid, &problem));
                }
            }
        }
        Seen::Synced { kind: Kind::ProvisioningRequest, installed, .. } => {
            objects.serve_provisioning_requests(installed);
        }
        Seen::Synced { .. } => {}
    }
    None
}

fn cannot_be_read(problem: &str) -> String {
    format!("cannot be read: {problem}")
}

fn unreadable(kind: Kind, namespace: &str, name: &str, uid: Option<String>, problem: &str) -> Note {
    let (about, uid) = (kind.target(namespace, name), uid.unwrap_or_default());
    Note { about, uid, warning: true, reason: "Unreadable".into(), message: cannot_be_read(problem) }
}

/// The key of a job.
pub fn job_key(kind: &JobKind, namespace: &str, name: &str) -> JobKey {
    JobKey { kind: kind.kind, namespace: namespace.into(), name: name.into() }
}

fn apply(objects: &mut Objects, object: Object) {
    match object {
        Object::Flavor(object) => objects.apply_flavor(&object),
        Object::ClusterQueue(object) => objects.apply_queue(&object),
        Object::Cohort(object) => objects.apply_cohort(&object),
        Object::AdmissionCheck(object) => objects.apply_check(&object),
        Object::LocalQueue(object) => objects.apply_local_queue(&object),
        Object::Workload(object) => objects.apply_workload(&object),
        Object::WorkloadPriorityClass(object) => objects.apply_workload_priority_class(&object),
        Object::PriorityClass(object) => objects.apply_priority_class(&object),
        Object::Namespace(object) => objects.apply_namespace(&object),
        Object::LimitRange(object) => objects.apply_limit_range(&object),
        Object::RuntimeClass(object) => objects.apply_runtime_class(&object),
        Object::Topology(object) => objects.apply_topology(&object),
        Object::Node(object) => objects.apply_node(&object),
        Object::Pod(object) => objects.apply_pod(&object),
        Object::WaitingPod(object) => objects.apply_waiting_pod(&object),
        Object::Job(object) => objects.apply_job(&object),
        Object::ProvisioningRequestConfig(object) => objects.apply_provisioning_config(&object),
        Object::GpuNode(object) => objects.apply_gpu_node(&object),
        Object::MigPolicy(object) => objects.apply_mig_policy(&object),
        // They are taken in elsewhere.
        Object::SchedulingPolicy(_) | Object::ProvisioningRequest(_) => {}
    }
}

fn delete(objects: &mut Objects, kind: Kind, namespace: &str, name: &str) {
    match kind {
        Kind::Flavor => objects.delete_flavor(&name.into()),
        Kind::ClusterQueue => objects.delete_queue(&name.into()),
        Kind::Cohort => objects.delete_cohort(&name.into()),
        Kind::AdmissionCheck => objects.delete_check(name),
        Kind::LocalQueue => objects.delete_local_queue(&LocalQueueKey::new(namespace, name)),
        Kind::Workload => objects.delete_workload(&WorkloadKey::new(namespace, name)),
        Kind::WorkloadPriorityClass => objects.delete_workload_priority_class(name),
        Kind::PriorityClass => objects.delete_priority_class(name),
        Kind::Namespace => objects.state.delete_namespace(name),
        Kind::LimitRange => objects.delete_limit_range(namespace, name),
        Kind::RuntimeClass => objects.delete_runtime_class(name),
        Kind::Topology => objects.delete_topology(&name.into()),
        Kind::Node => objects.delete_node(&name.into()),
        Kind::Pod => objects.delete_pod(&PodKey::new(namespace, name)),
        Kind::WaitingPod => objects.delete_waiting_pod(&PodKey::new(namespace, name)),
        Kind::Job(kind) => objects.delete_job(&job_key(kind, namespace, name)),
        Kind::ProvisioningRequestConfig => objects.delete_provisioning_config(name),
        Kind::ProvisioningRequest => objects.delete_provisioning_request(namespace, name),
        Kind::GpuNode => objects.delete_gpu_node(name),
        Kind::MigPolicy => objects.delete_mig_policy(name),
        // What was last read of it stays in force.
        Kind::SchedulingPolicy => {}
    }
}
