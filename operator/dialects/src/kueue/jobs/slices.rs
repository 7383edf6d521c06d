//! Elastic jobs, which grow and shrink while they run (Kueue's workload slices, KEP-77).
//!
//! While such a job runs its Workload shrinks with it. When it wants more pods, a second Workload is made that asks for
//! all of them and takes the place of the first when it is admitted; until then the new pods wait behind a scheduling
//! gate. All pods of an elastic job are born with that gate, and it is taken off as many as there is quota for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::ResourceExt;
use serde_json::{Value, json};
use whalezen_core::name::WorkloadKey;
use whalezen_crds::kueue::constants::{annotation, condition as types, label, reason, scheduling_gate};

use super::{
    super::{admission, life::Fate, pods::Pods, workload_target},
    Cause, JobView, Of, Step, Surroundings, bring_to_rest, delete_workload, deleted, fate, finish, keep_up,
    let_go,
    lost::release,
    placement::Added,
    priority_now, without_workload,
    writes::seen_as,
};
use crate::write::{Note, Target, Verb, Write};

/// What is kept of an elastic job beside what is kept of every job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elastic {
    /// How many of its pods are ready.
    pub ready: i32,
    /// The name of the Workload that would be made for it now.
    pub next: String,
}

/// The Workloads of an elastic job that are not over, by their part in it.
struct Slices<'a> {
    /// By which it runs, or would.
    current: Of<'a>,
    /// That takes the place of the current one when it is admitted.
    successor: Option<Of<'a>>,
    /// Those that are not needed any more.
    surplus: Vec<Of<'a>>,
}

impl<'a> Slices<'a> {
    fn new(all: &[Of<'a>]) -> Option<Self> {
        let mut open: Vec<Of<'a>> = all.iter().copied().filter(|of| !of.view.is(types::FINISHED)).collect();
        let created = |of: &Of<'_>| of.view.slice.as_ref().map(|slice| slice.created);
        open.sort_by(|a, b| created(a).cmp(&created(b)).then_with(|| a.view.uid.cmp(&b.view.uid)));
        let stay = || open.iter().copied().filter(|of| !of.view.is(types::EVICTED));
        let follows = |key: &'a WorkloadKey| {
            open.iter().copied().filter(move |of| of.workload.replaces.as_ref() == Some(key))
        };
        // Of several that may run the last in the chain, and where none may the latest.
        let may_run = |of: &Of<'a>| !of.view.is(types::EVICTED) && of.admitted().is_some();
        let runs = |of: &Of<'a>| may_run(of) && !follows(of.key).any(|of| may_run(&of));
        let current = stay().rfind(runs).or_else(|| stay().rfind(holds));
        let current = current.or_else(|| stay().next_back()).or_else(|| open.last().copied())?;
        let successor = follows(current.key).find(|of| holds(&current) && !of.view.deleting);
        let needed = |of: &Of<'_>| of.key == current.key || successor.is_some_and(|next| next.key == of.key);
        let surplus = open.iter().copied().filter(|of| !needed(of)).collect();
        Some(Self { current, successor, surplus })
    }
}

fn holds(of: &Of<'_>) -> bool {
    of.workload.admission().is_some()
}

/// The Workload by which an elastic job runs, or would.
pub fn current<'a>(all: &[Of<'a>]) -> Option<Of<'a>> {
    Slices::new(all).map(|slices| slices.current)
}

/// The next step for an elastic job and all of its Workloads.
pub fn next(job: &JobView, all: &[Of<'_>], around: Surroundings<'_>) -> Step {
    let over = all.iter().filter(|of| of.view.is(types::FINISHED));
    if let Some(of) = over.copied().find(|of| of.view.is_kept()) {
        return let_go(of);
    }
    // One that is over may have the name that the next is to get.
    let name = job.elastic.as_ref().map(|elastic| &*elastic.next);
    let in_the_way =
        all.iter().copied().find(|of| of.view.is(types::FINISHED) && name == Some(&*of.key.name));
    let make = |step| match (step, in_the_way) {
        (Step::Create(_) | Step::Grow(..), Some(of)) if of.view.deleting => Step::Rest,
        (Step::Create(_) | Step::Grow(..), Some(of)) => delete_workload(job, of),
        (step, _) => step,
    };
    let Some(Slices { current, successor, surplus }) = Slices::new(all) else {
        return make(without_workload(job, around));
    };
    let others = || surplus.iter().chain(&successor).copied();
    if let Some(ending) = &job.ending {
        let next = others().find(|of| !of.view.deleting).unwrap_or(current);
        return if next.view.deleting { let_go(next) } else { finish(job, next, ending, around.now) };
    }
    if let Some(step) = surplus.iter().find_map(|of| clear(job, *of, current, around)) {
        return step;
    }
    if current.view.deleting {
        return deleted(job, current, around.now);
    }
    if let Some(next) = successor {
        match prepare(job, next, around) {
            Step::Rest => {}
            step => return step,
        }
    }
    let goes_on = holds(&current) && current.view.active && !current.view.is(types::EVICTED) && !job.deleting;
    if goes_on && let Some(step) = resize(job, current) {
        return step;
    }
    if goes_on && successor.is_none() && grows(job, current) {
        return make(Step::Grow(priority_now(job, current, around), current.key.clone()));
    }
    match super::next(job, Some(current), around) {
        Step::Rest if goes_on => ungate(job, current),
        step => step,
    }
}

/// The next step for a Workload that is to take the place of the current one. No pod runs by it yet.
fn prepare(job: &JobView, next: Of<'_>, around: Surroundings<'_>) -> Step {
    if let Fate::Write(write, note) = fate(job, next, around) {
        return Step::Write(write, note);
    }
    if holds(&next) && next.view.is(types::EVICTED) {
        return release(job, next, around);
    }
    resize(job, next).unwrap_or_else(|| keep_up(job, next, around))
}

/// The next step for a Workload that is not needed any more. What it holds, it holds until nothing runs by it.
fn clear(job: &JobView, of: Of<'_>, current: Of<'_>, around: Surroundings<'_>) -> Option<Step> {
    if holds(&of) && !holds(&current) {
        let why = super::super::conditions::find(&of.view.conditions, types::EVICTED);
        if let Some(step) =
            bring_to_rest(job, Cause::Evicted, why.map_or("", |evicted| &evicted.message), around.now)
        {
            return Some(step);
        }
    }
    if of.view.deleting {
        return of.view.is_kept().then(|| let_go(of));
    }
    let (word, message) = if current.workload.replaces.as_ref() == Some(of.key) {
        let message = format!(
            "Replaced to accommodate a workload (UID: {}, JobUID: {}) due to workload slice aggregation",
            current.view.uid, job.uid,
        );
        (reason::finished::WORKLOAD_SLICE_REPLACED, message)
    } else {
        (reason::finished::OUT_OF_SYNC, "The workload slice is out of sync with its parent job".to_owned())
    };
    let said = Note {
        about: workload_target(&of.key.namespace, &of.key.name),
        uid: of.view.uid.clone(),
        warning: false,
        reason: word.into(),
        message: message.clone(),
    };
    let finish = admission::finish(of.key, word, &message, of.view, around.now);
    Some(Step::Write(Box::new(finish), Some(said)))
}

/// The pods that a job has and that a Workload asks for, if they differ in nothing but their number.
fn sizes(job: &JobView, of: Of<'_>) -> Option<Vec<(u32, u32)>> {
    let (pods, sets) = (job.pods.as_ref().ok()?, of.view.pods.as_ref().ok()?);
    let both = || pods.iter().zip(sets.iter());
    let same = |(pods, set): (&Pods, &Pods)| pods.name == set.name && pods.template.asks_as(&set.template);
    let comparable = pods.len() == sets.len() && both().all(same);
    comparable.then(|| both().map(|(pods, set)| (pods.count, set.count)).collect())
}

fn grows(job: &JobView, of: Of<'_>) -> bool {
    sizes(job, of).is_some_and(|sizes| sizes.iter().any(|(wants, has)| wants > has))
}

/// Has a Workload ask for as many pods as the job has now: one that waits at once, and one that holds quota when the job
/// has shrunk, and its pods have.
fn resize(job: &JobView, of: Of<'_>) -> Option<Step> {
    let sizes = sizes(job, of)?;
    let differ = sizes.iter().any(|(wants, has)| wants != has);
    let wants: u32 = sizes.iter().fold(0, |sum, (wants, _)| sum.saturating_add(*wants));
    let running = u32::try_from(job.active).unwrap_or_default();
    if !differ || (holds(&of) && (grows(job, of) || running > wants)) {
        return None;
    }
    let mut operations = vec![seen_as(&of.view.version.to_string())];
    operations.extend(sizes.iter().enumerate().map(|(index, (wants, _))| {
        json!({ "op": "replace", "path": format!("/spec/podSets/{index}/count"), "value": wants })
    }));
    let target = workload_target(&of.key.namespace, &of.key.name);
    let write = Write { target, status: false, verb: Verb::Json, body: Value::Array(operations) };
    Some(Step::Write(Box::new(write), None))
}

/// Lets as many pods be scheduled as there is quota for, as long as some may still be behind their gate.
fn ungate(job: &JobView, of: Of<'_>) -> Step {
    let waiting = job.elastic.as_ref().is_some_and(|elastic| job.active > elastic.ready);
    let pods = of.view.pods.as_ref().ok().and_then(|pods| pods.first());
    match (pods, of.admitted()) {
        (Some(pods), Some(_)) if waiting && !job.suspended => {
            Step::Ungate { mark: of.view.mark(of.key).to_owned(), room: pods.count }
        }
        _ => Step::Rest,
    }
}

/// The marks with which the pods of an admitted job are born, for each of its pod sets: whose they are, of an elastic job the
/// gate and the name of the chain, and of pods that are placed the gate that keeps them until they are bound.
pub fn marks(job: &JobView, of: Of<'_>) -> Vec<Added> {
    let mut annotations = BTreeMap::from([(annotation::WORKLOAD.to_owned(), of.key.name.to_string())]);
    if let Some(slice) = &of.view.slice {
        annotations.insert(annotation::WORKLOAD_SLICE_NAME.to_owned(), slice.chain.clone());
    }
    let given = of.workload.admission().map(|given| given.pod_sets.as_slice()).unwrap_or_default();
    let added = |pods: &Pods| {
        let is_placed = given.iter().any(|set| set.name == pods.name && set.placement.is_some());
        let asks = pods.topology.as_ref().is_some_and(|request| request.nearness.is_some());
        let elastic = job.elastic.is_some().then_some(scheduling_gate::ELASTIC_JOB);
        let mut annotations = annotations.clone();
        if is_placed && !asks {
            annotations.insert(annotation::UNCONSTRAINED_TOPOLOGY.to_owned(), "true".to_owned());
        }
        Added {
            labels: BTreeMap::from([(label::POD_SET.to_owned(), pods.name.to_string())]),
            annotations,
            gates: elastic.into_iter().chain(is_placed.then_some(scheduling_gate::TOPOLOGY)).collect(),
        }
    };
    job.pods.iter().flat_map(|pods| pods.iter()).map(added).collect()
}

/// The names of the scheduling gates of a pod.
pub fn gates_of(pod: Option<&PodSpec>) -> Vec<String> {
    let gates = pod.and_then(|pod| pod.scheduling_gates.as_ref());
    gates.into_iter().flatten().map(|gate| gate.name.clone()).collect()
}

/// Whether a pod has this scheduling gate.
pub fn is_gated(pod: &Pod, gate: &str) -> bool {
    gates_of(pod.spec.as_ref()).iter().any(|name| name == gate)
}

/// Whether a pod is over.
pub fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The writes that take the gate off pods of one chain of Workloads, as long as no more than `room` of them are without.
/// Those with the lowest names go first.
pub fn open_gates(pods: &[Pod], mark: &str, room: u32) -> Vec<Write> {
    let of_chain = |pod: &&Pod| {
        pod.annotations().get(annotation::WORKLOAD_SLICE_NAME).is_some_and(|name| name == mark)
            && !has_ended(pod)
    };
    let gated = |pod: &&Pod| is_gated(pod, scheduling_gate::ELASTIC_JOB);
    let (mut gated, open): (Vec<&Pod>, Vec<&Pod>) = pods.iter().filter(of_chain).partition(gated);
    gated.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    gated.sort_by_key(|pod| pod.name_any());
    let room = usize::try_from(room).unwrap_or(usize::MAX).saturating_sub(open.len());
    gated.into_iter().take(room).map(|pod| open_gate(pod, scheduling_gate::ELASTIC_JOB)).collect()
}

/// The write that takes a gate off a pod, if the pod is still as it was seen.
pub fn open_gate(pod: &Pod, gate: &str) -> Write {
    let mut gates = gates_of(pod.spec.as_ref());
    gates.retain(|name| name != gate);
    let gates: Vec<Value> = gates.iter().map(|name| json!({ "name": name })).collect();
    let gates = if gates.is_empty() { Value::Null } else { Value::Array(gates) };
    let target = Target {
        group: "",
        version: "v1",
        kind: "Pod",
        plural: "pods",
        namespace: pod.namespace(),
        name: pod.name_any(),
    };
    let body = json!({
        "metadata": { "uid": pod.uid(), "resourceVersion": pod.resource_version() },
        "spec": { "schedulingGates": gates },
    });
    Write { target, status: false, verb: Verb::Merge, body }
}

/// The Workload whose place another takes, as the annotation names it.
pub fn replacement_for(key: &WorkloadKey) -> String {
    format!("{}/{}", key.namespace, key.name)
}
