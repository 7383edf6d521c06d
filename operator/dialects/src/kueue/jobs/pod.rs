//! Pods that are queued by themselves: gated until they have quota, and deleted when they have to stop, for a gate cannot
//! be put back. A finalizer keeps each until it was seen how it ended.

use std::{borrow::Cow, sync::Arc};

use k8s_openapi::{
    api::core::v1::{Pod, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt;
use serde_json::json;
use whalezen_core::workload::Timestamp;
use whalezen_crds::kueue::constants::{
    DEFAULT_POD_SET, MANAGED_FINALIZER, annotation, label, scheduling_gate,
};

use super::{
    super::{conditions, pods::pods, workload::version},
    Cause, Ending, JobView, Slot, Step,
    kinds::POD,
    note,
    placement::{Added, Placement},
    slices::gates_of,
    whole::{At, Set, Whole},
    writes::seen_as,
};
use crate::write::{Target, Verb, Write};

/// The condition by which a pod says why it is being stopped.
const TERMINATION_TARGET: &str = "TerminationTarget";
/// The field manager of that condition, as in Kueue.
const MANAGER: &str = "kueue";
/// Where an admission adds to a pod.
const ITSELF: At = At::Template(Cow::Borrowed(""));

/// One of the pods of a job that is gated by its pods.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// Where it is.
    pub target: Target,
    /// Its uid.
    pub uid: String,
    /// Its `resourceVersion`.
    pub version: u64,
    /// Its finalizers, of whatever writer.
    pub finalizers: Vec<String>,
    /// Its scheduling gates.
    pub gates: Vec<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it succeeded, if it is over.
    pub succeeded: Option<bool>,
    /// Whether it says already why it is being stopped.
    pub told: bool,
}

impl Member {
    fn new(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        Self {
            target: POD.target(&pod.namespace().unwrap_or_default(), &pod.name_any()),
            uid: pod.uid().unwrap_or_default(),
            version: version(pod.resource_version().as_deref()),
            finalizers: pod.finalizers().to_vec(),
            gates: gates_of(pod.spec.as_ref()),
            deleting: pod.metadata.deletion_timestamp.is_some(),
            succeeded: match status.and_then(|status| status.phase.as_deref()) {
                Some("Succeeded") => Some(true),
                Some("Failed") => Some(false),
                _ => None,
            },
            told: conditions.iter().any(|said| said.type_ == TERMINATION_TARGET && said.status == "True"),
        }
    }

    /// Whether it waits behind our gate.
    pub fn is_gated(&self) -> bool {
        self.gates.iter().any(|gate| gate == scheduling_gate::ADMISSION)
    }

    /// Whether it may run, or is on its way out and not gone.
    pub fn is_active(&self) -> bool {
        self.succeeded.is_none() && !self.is_gated()
    }

    fn is_kept(&self) -> bool {
        self.finalizers.iter().any(|name| name == MANAGED_FINALIZER)
    }
}

/// The view of a pod.
pub fn view(pod: &Pod) -> JobView {
    let member = Member::new(pod);
    let status = pod.status.as_ref();
    let ready = || {
        let mut conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    let set = set(pod);
    let class = pod.spec.as_ref().and_then(|spec| spec.priority_class_name.clone());
    let basis = JobView::new(&POD, &pod.metadata);
    let marked = || pod.annotations().get(annotation::WORKLOAD).cloned();
    JobView {
        queue: basis.queue.filter(|_| is_managed(&pod.metadata) && !is_in_group(pod)),
        pod_priority_class: class.filter(|name| !name.is_empty()),
        // Whoever made it: it is queued by itself, or it would have no gate.
        owner: None,
        suspended: !member.is_active(),
        at_rest: member.is_gated(),
        active: member.is_active().into(),
        unready: (!ready()).into(),
        ending: member.succeeded.map(|succeeded| {
            let message = status.and_then(|status| status.message.clone());
            Ending { succeeded, message: message.unwrap_or_default() }
        }),
        pods: pods(DEFAULT_POD_SET, &set.template, set.count, None).map(|pods| Arc::from([pods])),
        // What a gated pod carries is its author's.
        injected: marked().filter(|_| !member.is_gated()),
        slots: vec![Slot::new(
            &PodTemplateSpec { metadata: Some(pod.metadata.clone()), spec: pod.spec.clone() },
            ITSELF,
        )],
        members: vec![member],
        ..basis
    }
}

/// What a pod's Workload is made from.
pub fn whole(pod: &Pod) -> Whole {
    Whole { kind: &POD, metadata: pod.metadata.clone(), sets: vec![set(pod)], elastic: false }
}

fn set(pod: &Pod) -> Set {
    Set {
        name: DEFAULT_POD_SET.to_owned(),
        template: PodTemplateSpec { metadata: None, spec: pod.spec.clone() },
        count: 1,
        min_count: None,
        at: ITSELF,
    }
}

/// Whether a pod was gated on its creation.
fn is_managed(metadata: &ObjectMeta) -> bool {
    metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(label::MANAGED))
        .is_some_and(|value| value == "true")
}

/// Whether a pod is only one of several that are to be queued together.
fn is_in_group(pod: &Pod) -> bool {
    pod.labels().contains_key(label::POD_GROUP_NAME)
        || pod.annotations().contains_key(annotation::POD_GROUP_NAME)
}

/// Takes our finalizer off a pod that goes; off all of them once the job is `over`.
pub fn let_go(job: &JobView, over: bool) -> Option<Step> {
    let member = job.members.iter().find(|member| member.is_kept() && (over || member.deleting))?;
    let others: Vec<_> = member.finalizers.iter().filter(|name| *name != MANAGED_FINALIZER).collect();
    let finalizers = if others.is_empty() { json!(null) } else { json!(others) };
    let body = json!({
        "metadata": { "resourceVersion": member.version.to_string(), "finalizers": finalizers },
    });
    let write = Write { target: member.target.clone(), status: false, verb: Verb::Merge, body };
    Some(Step::Write(Box::new(write), None))
}

/// Stops the first pod that runs: it says why, and is deleted.
pub fn stop(job: &JobView, cause: Cause, message: String, now: Timestamp) -> Step {
    let Some(member) = job.members.iter().find(|member| member.is_active() && !member.deleting) else {
        return Step::Rest;
    };
    let target = member.target.clone();
    if member.told {
        let write = Write { target, status: false, verb: Verb::Delete, body: json!({ "uid": member.uid }) };
        return Step::Write(Box::new(write), Some(note(job, false, cause.event(), message)));
    }
    let body = json!({
        "apiVersion": POD.api_version(),
        "kind": POD.kind,
        "metadata": { "name": target.name, "namespace": target.namespace, "uid": member.uid },
        "status": { "conditions": [{
            "type": TERMINATION_TARGET, "status": "True", "reason": cause.word(), "message": message,
            "lastTransitionTime": conditions::time(now),
        }] },
    });
    Step::Write(Box::new(Write { target, status: true, verb: Verb::Apply { manager: MANAGER }, body }), None)
}

/// The patch that lets a pod run where its placement says: the first that is gated.
pub fn start(job: &JobView, placements: &[Placement], marks: &[Added]) -> Option<Write> {
    let member = job.members.iter().find(|member| member.is_gated() && !member.deleting)?;
    let (placement, mark) = (placements.first()?, marks.first()?);
    let others = member.gates.iter().filter(|gate| *gate != scheduling_gate::ADMISSION);
    let mark = Added { gates: Some(others.cloned().collect()), ..mark.clone() };
    let operations = placement.operations("", job, 0, &mark);
    let body = std::iter::once(seen_as(&member.version.to_string())).chain(operations).collect();
    Some(Write { target: member.target.clone(), status: false, verb: Verb::Json, body })
}
