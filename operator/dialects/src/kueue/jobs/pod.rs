//! Pods that are queued by themselves: gated until they have quota, and deleted when they have to stop, for a gate cannot
//! be put back. A finalizer keeps each until it was seen how it ended.

use std::{borrow::Cow, sync::Arc};

use k8s_openapi::{
    api::core::v1::{Pod, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::ResourceExt;
use serde_json::json;
use whalezen_core::workload::{Admission, Timestamp};
use whalezen_crds::kueue::constants::{
    DEFAULT_POD_SET, MANAGED_FINALIZER, annotation, label, scheduling_gate,
};

use super::{
    super::{conditions, pods::pods, workload::version},
    Cause, Ending, JobView, Of, Slot, Step,
    group::{self, Belongs},
    kinds::POD,
    note,
    placement::{self, Added, Placement},
    roles,
    serving::{self, Part},
    slices::gates_of,
    whole::{At, Set, Standing, Whole},
    writes::{put, seen_as},
};
use crate::write::{Note, Target, Verb, Write};

/// The condition by which a pod says why it is being stopped.
const TERMINATION_TARGET: &str = "TerminationTarget";
/// The field manager of that condition, as in Kueue.
const MANAGER: &str = "kueue";
/// Where an admission adds to a pod.
pub const ITSELF: At = At::Template(Cow::Borrowed(""));

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
    /// The group that it is one of.
    pub belongs: Option<Belongs>,
    /// What it serves in.
    pub part: Option<Part>,
    /// Whether it is on a node.
    pub bound: bool,
    /// When it was made.
    pub created: Timestamp,
    /// When it was seen active for the last time, if it is not active any more.
    pub last_active: Timestamp,
    /// Where an admission adds to it.
    pub slot: Slot,
}

impl Member {
    fn new(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let at = |time: Option<&Time>| time.map(conditions::timestamp);
        let failed = conditions.iter().find(|said| said.type_ == "ContainersReady");
        let failed =
            failed.filter(|said| said.status == "False" && said.reason.as_deref() == Some("PodFailed"));
        let failed = failed.and_then(|said| said.last_transition_time.as_ref());
        let ends = [at(failed), at(pod.metadata.deletion_timestamp.as_ref())];
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        Self {
            belongs: group::belongs(pod),
            part: serving::part(pod),
            bound: node.is_some_and(|name| !name.is_empty()),
            created: at(pod.metadata.creation_timestamp.as_ref()).unwrap_or_default(),
            last_active: ends.into_iter().flatten().min().unwrap_or(Timestamp(i64::MAX)),
            slot: Slot::new(
                &PodTemplateSpec { metadata: Some(pod.metadata.clone()), spec: pod.spec.clone() },
                ITSELF,
            ),
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

    /// Whether it waits for its admission.
    pub fn waits(&self) -> bool {
        self.is_gated() && !self.deleting && self.succeeded.is_none()
    }

    /// Whether it may run, or is on its way out and not gone.
    pub fn is_active(&self) -> bool {
        self.succeeded.is_none() && !self.is_gated()
    }

    /// Whether it succeeded or can yet.
    pub fn may_succeed(&self) -> bool {
        self.succeeded != Some(false) && (self.bound || !self.deleting)
    }

    /// The name of its role; of one that is in no group that of the only pod set.
    pub fn role(&self) -> &str {
        match &self.part {
            Some(part) => part.role,
            None => self.belongs.as_ref().map_or(DEFAULT_POD_SET, |belongs| &belongs.role),
        }
    }

    /// Of pods that are too many those are kept for which this is the least.
    pub fn precedence(&self) -> (bool, bool, Timestamp, String) {
        (!self.is_kept(), self.is_gated(), self.created, self.target.name.clone())
    }

    /// Whether our finalizer keeps it.
    pub fn is_kept(&self) -> bool {
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
        queue: basis.queue.filter(|_| is_managed(&pod.metadata) && serving::parent(pod).is_none()),
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
        slots: vec![member.slot.clone()],
        members: vec![member],
        ..basis
    }
}

/// What a pod's Workload is made from.
pub fn whole(pod: &Pod) -> Whole {
    Whole {
        kind: &POD,
        metadata: pod.metadata.clone(),
        sets: vec![set(pod)],
        elastic: false,
        standing: Standing::Job,
    }
}

/// The pod set of pods like this one.
pub fn set(pod: &Pod) -> Set {
    // Where it is to be placed is said there.
    let asks = ObjectMeta { annotations: pod.metadata.annotations.clone(), ..ObjectMeta::default() };
    Set {
        name: DEFAULT_POD_SET.to_owned(),
        template: PodTemplateSpec { metadata: Some(asks), spec: pod.spec.clone() },
        count: 1,
        min_count: None,
        ranks: POD.ranks,
        group_count: None,
        bare: true,
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

/// The patch by which a pod is seen again whose label somebody took off.
pub fn show(pod: &Pod) -> Option<Write> {
    let body = json!({
        "metadata": { "resourceVersion": pod.resource_version(), "labels": { label::MANAGED: "true" } },
    });
    let target = POD.target(&pod.namespace().unwrap_or_default(), &pod.name_any());
    (!is_managed(&pod.metadata)).then_some(Write { target, status: false, verb: Verb::Merge, body })
}

/// Takes our finalizer off a pod that goes; off all of them once the job is `over`. Pods of a group stay until others have
/// come in their place, or all are to go.
pub fn let_go(job: &JobView, over: bool) -> Option<Step> {
    let stays = job.group.as_ref().is_some_and(|group| !group.given_up);
    let goes = |member: &&Member| over || (member.deleting && !stays);
    job.members.iter().filter(goes).find_map(free)
}

/// Takes our finalizer off a pod, if it has it.
pub fn free(member: &Member) -> Option<Step> {
    let others: Vec<_> = member.finalizers.iter().filter(|name| *name != MANAGED_FINALIZER).collect();
    let finalizers = if others.is_empty() { json!(null) } else { json!(others) };
    let body = json!({
        "metadata": { "resourceVersion": member.version.to_string(), "finalizers": finalizers },
    });
    let write = Write { target: member.target.clone(), status: false, verb: Verb::Merge, body };
    member.is_kept().then(|| Step::Write(Box::new(write), None))
}

/// The deletion of a pod.
pub fn deletion(member: &Member) -> Write {
    Write {
        target: member.target.clone(),
        status: false,
        verb: Verb::Delete,
        body: json!({ "uid": member.uid }),
    }
}

/// Stops the first pod that runs: it says why, and is deleted.
pub fn stop(job: &JobView, cause: Cause, message: String, now: Timestamp) -> Step {
    let stops = |member: &&Member| has_to_stop(job, member, cause);
    let Some(member) = job.members.iter().find(stops) else { return Step::Rest };
    let target = member.target.clone();
    if member.told {
        let told =
            Note { about: target, uid: member.uid.clone(), ..note(job, false, cause.event(), message) };
        return Step::Write(Box::new(deletion(member)), Some(told));
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

/// The first pod that waits behind its gate, is counted by its Workload and for which the admission has room.
pub fn next_to_start<'a>(job: &'a JobView, of: Of<'_>, given: &Admission) -> Option<&'a Member> {
    let counts = job.group.as_ref().map(|_| roles::counted(of.view.pods.as_deref().unwrap_or_default()));
    let is_counted = |member: &&Member| counts.as_ref().is_none_or(|counts| counts(member));
    let has_room = |member: &&Member| {
        let set = given.pod_sets.iter().find(|set| *set.name == *member.role());
        let active = job.members.iter().filter(|other| other.is_active() && other.role() == member.role());
        set.is_some_and(|set| usize::try_from(set.count).is_ok_and(|count| active.count() < count))
    };
    job.members.iter().filter(|member| member.waits()).filter(is_counted).find(has_room)
}

/// Whether a pod has to stop for this. With its Workload also what does not run goes, as in Kueue, unless another would be made
/// in its place at once.
fn has_to_stop(job: &JobView, member: &Member, cause: Cause) -> bool {
    let all = cause == Cause::Deleted && job.kind.serves.is_none();
    (member.is_active() || all) && !member.deleting
}

/// The patch that lets a pod run where its placement says.
pub fn start(job: &JobView, member: &Member, placements: &[Placement], marks: &[Added]) -> Option<Write> {
    let sets = job.pods.as_deref().unwrap_or_default();
    let set = sets.iter().position(|pods| *pods.name == *member.role())?;
    let (placement, mark) = (placements.get(set)?, marks.get(set)?);
    // A pod that is there cannot be given another gate: it was born with that for a host, and loses it if none is chosen.
    let is_placed = mark.gates.contains(&scheduling_gate::TOPOLOGY);
    let stays = |gate: &&String| {
        *gate != scheduling_gate::ADMISSION && (is_placed || *gate != scheduling_gate::TOPOLOGY)
    };
    let others = member.gates.iter().filter(stays);
    let others = put("/spec/schedulingGates", placement::gates(others.map(String::as_str)));
    let mut mark = Added { gates: vec![], ..mark.clone() };
    mark.annotations.extend(roles::mark(member));
    let operations = placement.operations("", &member.slot, &mark).into_iter().chain([others]);
    let body = std::iter::once(seen_as(&member.version.to_string())).chain(operations).collect();
    Some(Write { target: member.target.clone(), status: false, verb: Verb::Json, body })
}

/// What comes of pods whose Workload is being deleted: they are deleted, and let go. `None` once none of them runs.
pub fn end(job: &JobView, message: &str, now: Timestamp) -> Option<Step> {
    if job.members.iter().any(|member| has_to_stop(job, member, Cause::Deleted)) {
        return Some(stop(job, Cause::Deleted, message.to_owned(), now));
    }
    let held = || (job.active > 0).then_some(Step::Rest);
    job.members.iter().find_map(free).or_else(held)
}
