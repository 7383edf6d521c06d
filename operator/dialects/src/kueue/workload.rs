//! A Workload as the core sees it, and the slim view of it that writes need.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::{
    api::resource::Quantity,
    apis::meta::v1::{Condition, OwnerReference},
};
use kube::ResourceExt;
use whalezen_core::{
    name::{LocalQueueKey, ResourceName, WorkloadKey},
    quantity::{Amount, Amounts, parse},
    topology::TopologyRequest,
    verdict::{Reason, Verdict},
    workload::{Admission, Eviction, HeldBack, Phase, PodSet, PodSetAssignment, Timestamp, Workload},
};
use whalezen_crds::kueue::{
    constants::{RESOURCE_IN_USE_FINALIZER, annotation, condition as types, label, reason},
    v1beta2 as kueue,
};

use super::{
    conditions,
    jobs::{
        group,
        kinds::{self, JobKind},
        serving,
    },
    pods::{Pods, pods},
    resources::{Counted, Rules},
    settings::{RequeuingTimestamp, Settings},
    topology,
};

/// What is kept of a Workload beside what the core knows: no pod templates.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkloadView {
    /// The object's uid.
    pub uid: String,
    /// Its `resourceVersion`.
    pub version: u64,
    /// The generation of its spec.
    pub generation: Option<i64>,
    /// Its conditions, of whatever writer.
    pub conditions: Vec<Condition>,
    /// The uid of the job that it stands for, if that is of a kind that is known here.
    pub job: Option<String>,
    /// That job's kind, as far as it is known.
    pub kind: Option<&'static JobKind>,
    /// The name of that job, by the owner reference; without one the job was deleted and this was left behind.
    pub owner: Option<String>,
    /// The uids of its owners, where these are the pods of a group.
    pub owners: BTreeSet<String>,
    /// The LocalQueue's name.
    pub queue: String,
    /// The priority class that its priority is from.
    pub priority_class: Option<kueue::PriorityClassRef>,
    /// The priority.
    pub priority: Option<i32>,
    /// `spec.active`.
    pub active: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its finalizers, of whatever writer.
    pub finalizers: Vec<String>,
    /// Whether nothing but its metadata could be read.
    pub unreadable: bool,
    /// When it was made.
    pub created: Timestamp,
    /// Since when it waits.
    pub since: Timestamp,
    /// Its pods as it asks for them, or what is wrong with them.
    pub pods: Result<Arc<[Pods]>, String>,
    /// How many pods of each set have done their work.
    pub reclaimable: BTreeMap<Arc<str>, u32>,
    /// Other controllers' gates that keep it from queueing, as they are written.
    pub gates: Option<String>,
    /// How often it came back after an eviction, and until when it waits before it does again.
    pub requeue: kueue::RequeueState,
    /// For how many seconds it may run, over all its admissions.
    pub max_seconds: Option<i32>,
    /// For how many it has run before this admission.
    pub past_seconds: Option<i32>,
    /// How its admission checks stand.
    pub checks: Vec<kueue::AdmissionCheckState>,
    /// How often it was evicted, by reason.
    pub evictions: Vec<kueue::WorkloadSchedulingStatsEviction>,
    /// Its part in a job that may grow and shrink while it runs, if it stands for one.
    pub slice: Option<Slice>,
    /// The hosts that fail under it.
    pub unhealthy: Vec<String>,
}

/// The part of a Workload in an elastic job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The name of the first Workload of the job's chain of them.
    pub chain: String,
    /// The Workload whose place it takes when it is admitted.
    pub replaces: Option<WorkloadKey>,
    /// When it was made.
    pub created: Timestamp,
}

impl WorkloadView {
    /// The view of an object.
    pub fn new(object: &kueue::Workload) -> Self {
        let owner = controller(object.owner_references());
        let kind = owner.and_then(kinds::of_owner);
        let serves = serving::of_workload(&object.metadata).filter(|_| owner.is_none());
        let (owner, kind) = match &serves {
            Some((owner, _)) => (Some(*owner), kinds::of_owner(owner)),
            None => (owner, kind),
        };
        let group = group::of_workload(&object.metadata).filter(|_| owner.is_none());
        let status = object.status.clone().unwrap_or_default();
        Self {
            uid: object.uid().unwrap_or_default(),
            version: version(object.resource_version().as_deref()),
            generation: object.metadata.generation,
            job: match (owner, serves) {
                (_, Some((_, job))) => Some(job),
                (Some(owner), None) => kind.is_some().then(|| owner.uid.clone()),
                (None, None) => group.clone().or_else(|| object.labels().get(label::JOB_UID).cloned()),
            },
            owners: match &group {
                Some(_) => object.owner_references().iter().map(|owner| owner.uid.clone()).collect(),
                None => BTreeSet::new(),
            },
            kind: kind.or_else(|| group.map(|_| &kinds::POD)),
            owner: owner.map(|owner| owner.name.clone()),
            queue: object.spec.queue_name.clone().unwrap_or_default(),
            priority_class: object.spec.priority_class_ref.clone(),
            priority: object.spec.priority,
            active: object.spec.active,
            deleting: object.metadata.deletion_timestamp.is_some(),
            finalizers: object.finalizers().to_vec(),
            unreadable: false,
            created: created(object),
            since: queued_since(object, &status.conditions),
            conditions: status.conditions,
            gates: gates(object.annotations()).map(ToOwned::to_owned),
            requeue: status.requeue_state.unwrap_or_default(),
            max_seconds: object.spec.maximum_execution_time_seconds,
            past_seconds: status.accumulated_past_execution_time_seconds,
            checks: status.admission_checks,
            evictions: status.scheduling_stats.unwrap_or_default().evictions,
            pods: object
                .spec
                .pod_sets
                .iter()
                .map(|set| {
                    let mut pods = pods(&set.name, &set.template, set.count, set.min_count)?;
                    if let Some(request) = &set.topology_request {
                        pods.topology =
                            Some(topology::request(request)).filter(|of| *of != TopologyRequest::default());
                    }
                    Ok(pods)
                })
                .collect(),
            reclaimable: object
                .status
                .iter()
                .flat_map(|status| &status.reclaimable_pods)
                .map(reclaimable)
                .collect(),
            slice: slice(object),
            unhealthy: status.unhealthy_nodes.into_iter().map(|node| node.name).collect(),
        }
    }

    /// Of a Workload that is over nothing is written any more but that its object may go: only that it is over has to be
    /// known. They stay in the cluster long after, by the thousand.
    pub fn forget_what_is_over(&mut self) {
        if self.is(types::FINISHED) {
            self.conditions.retain(|condition| condition.type_ == types::FINISHED);
            self.conditions.shrink_to_fit();
        }
    }

    /// The name by which its job's pods are marked: its own, or that of the first Workload of its chain.
    pub fn mark<'a>(&'a self, key: &'a WorkloadKey) -> &'a str {
        self.slice.as_ref().map_or(&*key.name, |slice| &slice.chain)
    }

    /// How many pods are left of a set that asks for `count`.
    pub fn left(&self, pod_set: &str, count: u32) -> u32 {
        count.saturating_sub(self.reclaimable.get(pod_set).copied().unwrap_or_default())
    }

    /// Whether it has the finalizer that keeps it while its job may run.
    pub fn is_kept(&self) -> bool {
        self.finalizers.iter().any(|name| name == RESOURCE_IN_USE_FINALIZER)
    }

    /// Whether a condition of this type is `True`.
    pub fn is(&self, type_: &str) -> bool {
        conditions::is_true(&self.conditions, type_)
    }
}

/// The core's workload, with its pods counted by these rules and its place in the queue by this moment. It never fails: what is wrong with the pods stands in
/// `pod_sets`.
pub fn workload(
    object: &kueue::Workload,
    view: &WorkloadView,
    rules: &Rules,
    settings: &Settings,
) -> Workload {
    let namespace: Arc<str> = object.namespace().unwrap_or_default().into();
    let status = object.status.as_ref();
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let Counted { pod_sets, inadmissible } = rules.count(&namespace, view, &settings.resources);
    let admission = status
        .and_then(|status| status.admission.as_ref())
        .filter(|_| conditions::is_true(conditions, types::QUOTA_RESERVED))
        .map(|given| admission(given, pod_sets.as_deref().unwrap_or_default()));
    let phase = if conditions::is_true(conditions, types::FINISHED) {
        Phase::Finished
    } else if let Some(admission) = admission {
        Phase::Reserved {
            admission,
            admitted: conditions::is_true(conditions, types::ADMITTED),
            evicted: conditions::find(conditions, types::EVICTED)
                .filter(|condition| condition.status == "True")
                .map(|condition| match condition.reason.as_str() {
                    reason::evicted::PREEMPTED => Eviction::Preempted,
                    _ => Eviction::Otherwise,
                }),
            since: conditions::find(conditions, types::QUOTA_RESERVED)
                .map(|condition| conditions::timestamp(&condition.last_transition_time))
                .unwrap_or_default(),
        }
    } else if object.metadata.deletion_timestamp.is_some() {
        // It is not to be given anything any more.
        Phase::Finished
    } else {
        Phase::Pending
    };
    Workload {
        key: WorkloadKey::new(Arc::clone(&namespace), object.name_any()),
        uid: object.uid().unwrap_or_default().into(),
        version: version(object.resource_version().as_deref()),
        queue: LocalQueueKey::new(namespace, object.spec.queue_name.clone().unwrap_or_default()),
        priority: priority(object, settings),
        since: ordered_since(object, conditions, settings.requeuing()),
        active: object.spec.active,
        held_back: held_back(object, conditions),
        pods_ready: conditions::is_true(conditions, types::PODS_READY),
        pod_sets,
        inadmissible,
        job: view.job.as_deref().filter(|_| view.slice.is_some()).map(Into::into),
        replaces: view.slice.as_ref().and_then(|slice| slice.replaces.clone()),
        left: left(view),
        phase,
        reported: conditions::find(conditions, types::QUOTA_RESERVED)
            .filter(|condition| condition.status == "False")
            .and_then(|condition| {
                Some(Verdict::new(Reason::parse(&condition.reason)?, &*condition.message).told())
            }),
    }
}

/// What keeps a workload out of its queue: another controller's gate, or an eviction after which it has not been let
/// back yet.
fn held_back(object: &kueue::Workload, conditions: &[Condition]) -> Option<HeldBack> {
    let held = |reason, message: String, counts| HeldBack { verdict: Verdict::new(reason, message), counts };
    let quota = conditions::find(conditions, types::QUOTA_RESERVED).filter(|quota| quota.status == "False");
    if let Some(on_hold) = quota.filter(|quota| quota.reason == reason::quota_reserved::ON_HOLD) {
        return Some(held(Reason::OnHold, on_hold.message.clone(), false));
    }
    if let Some(gates) = gates(object.annotations()) {
        return Some(held(Reason::AdmissionGated, format!("Admission is gated by: {gates}"), false));
    }
    let requeued =
        conditions::find(conditions, types::REQUEUED).filter(|requeued| requeued.status == "False");
    let pauses = object
        .status
        .as_ref()
        .and_then(|status| status.requeue_state.as_ref())
        .is_some_and(|requeue| requeue.requeue_at.is_some());
    let message = requeued.map(|requeued| requeued.message.clone());
    let message =
        message.or_else(|| pauses.then(|| "The workload waits for its backoff to finish".to_owned()));
    message.map(|message| held(Reason::PendingEvaluation, message, true))
}

/// The gates of an object that keep it from queueing, as they are written.
pub fn gates(annotations: &BTreeMap<String, String>) -> Option<&str> {
    annotations.get(annotation::ADMISSION_GATED_BY).map(String::as_str).filter(|gates| !gates.is_empty())
}

/// What a Workload's status says it holds. A usage that somebody made unreadable by hand is taken from the pod
/// set instead, so that quota which is held never counts as free.
fn admission(given: &kueue::Admission, pod_sets: &[PodSet]) -> Admission {
    let assignment = |given: &kueue::PodSetAssignment| {
        let pod_set = pod_sets.iter().find(|pod_set| *pod_set.name == *given.name);
        let count = given.count.and_then(|count| u32::try_from(count).ok());
        let count = count.or(pod_set.map(|pod_set| pod_set.count)).unwrap_or_default();
        let usage = given.flavors.keys().map(|resource| {
            let written = given.resource_usage.get(resource).and_then(|q| parse(resource, &q.0).ok());
            let requested = || pod_set?.per_pod.get(&ResourceName::from(resource.as_str()))?.times(count);
            (resource.as_str().into(), written.or_else(requested).unwrap_or(Amount::ZERO))
        });
        PodSetAssignment {
            name: given.name.as_str().into(),
            count,
            flavors: given.flavors.iter().map(|(r, f)| (r.as_str().into(), f.as_str().into())).collect(),
            usage: usage.collect(),
            placement: given.topology_assignment.as_ref().map(topology::read),
        }
    };
    Admission {
        cluster_queue: given.cluster_queue.as_str().into(),
        pod_sets: given.pod_set_assignments.iter().map(assignment).collect(),
    }
}

/// The priority by which it is ordered: its own, and what the annotation adds where that counts. What is no number adds
/// nothing, as in Kueue.
fn priority(object: &kueue::Workload, settings: &Settings) -> i32 {
    let boost = object.annotations().get(annotation::PRIORITY_BOOST).filter(|_| settings.priority_boost);
    let boost = boost.and_then(|text| text.parse().ok()).unwrap_or(0);
    object.spec.priority.unwrap_or_default().saturating_add(boost)
}

fn slice(object: &kueue::Workload) -> Option<Slice> {
    let annotations = object.annotations();
    let elastic = annotations.get(annotation::ELASTIC_JOB).is_some_and(|text| text == "true");
    let replaces = || {
        let (namespace, name) =
            annotations.get(annotation::WORKLOAD_SLICE_REPLACEMENT_FOR)?.split_once('/')?;
        Some(WorkloadKey::new(namespace, name))
    };
    elastic.then(|| Slice {
        chain: annotations.get(annotation::WORKLOAD_SLICE_NAME).cloned().unwrap_or_else(|| object.name_any()),
        replaces: replaces(),
        created: created(object),
    })
}

fn reclaimable(of: &kueue::ReclaimablePod) -> (Arc<str>, u32) {
    (of.name.as_str().into(), u32::try_from(of.count).unwrap_or_default())
}

/// How many pods are left of the sets of which some have done their work, and of those that may have shrunk.
fn left(view: &WorkloadView) -> BTreeMap<Arc<str>, u32> {
    let sets = view.pods.iter().flat_map(|pods| pods.iter());
    let fewer = sets.filter(|set| view.slice.is_some() || view.reclaimable.contains_key(&set.name));
    fewer.map(|set| (Arc::clone(&set.name), view.left(&set.name, set.count))).collect()
}

/// Amounts as the API writes them.
pub fn quantities(amounts: &Amounts) -> BTreeMap<String, Quantity> {
    let quantity = |(resource, amount): (&ResourceName, &Amount)| {
        let text = whalezen_core::quantity::format(resource.as_str(), *amount);
        (resource.to_string(), Quantity(text))
    };
    amounts.iter().map(quantity).collect()
}

/// A `resourceVersion` as a number, by which versions are ordered (KEP-5504).
pub fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Since when it waits, for people: since it was let back into its queue.
fn queued_since(object: &kueue::Workload, conditions: &[Condition]) -> Timestamp {
    let requeued = conditions::find(conditions, types::REQUEUED);
    requeued.map_or_else(|| created(object), |requeued| conditions::timestamp(&requeued.last_transition_time))
}

/// Since when it waits, for its place in the queue: an eviction that it or its checks are the cause of puts it behind
/// those that came before that.
fn ordered_since(
    object: &kueue::Workload,
    conditions: &[Condition],
    requeuing: RequeuingTimestamp,
) -> Timestamp {
    let evicted = conditions::find(conditions, types::EVICTED).filter(|evicted| evicted.status == "True");
    match evicted {
        Some(evicted)
            if evicted.reason == reason::evicted::ADMISSION_CHECK
                || (evicted.reason == reason::evicted::PODS_READY_TIMEOUT
                    && requeuing == RequeuingTimestamp::Eviction) =>
        {
            conditions::timestamp(&evicted.last_transition_time)
        }
        _ => created(object),
    }
}

fn created(object: &kueue::Workload) -> Timestamp {
    object.metadata.creation_timestamp.as_ref().map(conditions::timestamp).unwrap_or_default()
}

fn controller(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners.iter().find(|owner| owner.controller == Some(true))
}
