//! The life of a job under a queue.
//!
//! A job and its Workload are compared, and the first thing that is not as it should be is put right; then they
//! are seen again. So every [`Step`] is one write, and a restart in the middle changes nothing. What differs from
//! kind to kind is in a description ([`kinds`]); the rules here are for all.

pub mod batch;
pub mod binding;
pub mod build;
mod described;
pub mod group;
pub mod kinds;
pub mod lost;
mod matching;
mod placement;
pub mod pod;
pub mod repair;
mod roles;
pub mod serving;
pub mod slices;
mod view;
mod whole;
mod writes;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use serde_json::{Map, json};
use whalezen_core::{
    flavor::Flavor,
    name::{FlavorName, WorkloadKey},
    state::State,
    workload::{Admission, Phase, Timestamp, Workload},
};
use whalezen_crds::kueue::{
    constants::{RESOURCE_IN_USE_FINALIZER, annotation, condition as types, reason},
    v1beta2::{PriorityClassKind, PriorityClassRef},
};

use self::{
    lost::release,
    matching::{matches, resized},
    placement::Unplaceable,
};
pub use self::{
    pod::Member,
    view::{Completions, Ending, JobKey, JobView, Priorities, Priority, Slot},
    whole::{AnyJob, Standing, Whole},
};
use super::{
    admission,
    life::{self, Fate},
    settings::Settings,
    workload::WorkloadView,
    workload_target,
};
use crate::write::{Note, Target, Verb, Write};

/// The next thing to do for a job.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Nothing, until something changes.
    Rest,
    /// This write, and then a word about it.
    Write(Box<Write>, Option<Note>),
    /// Its Workload is to be made, from the whole job ([`build::workload`]).
    Create(Priority),
    /// A Workload is to be made that takes the place of this one, with as many pods as the whole job has now
    /// ([`build::successor`]).
    Grow(Priority, WorkloadKey),
    /// Pods of it are to be let past their scheduling gate ([`slices::open_gates`]).
    Ungate {
        /// What its pods are marked with.
        mark: String,
        /// How many pods there is quota for.
        room: u32,
    },
    /// Pods of it are to be bound to the domains that were chosen for them ([`binding::bind`]).
    Bind {
        /// What its pods are marked with.
        mark: String,
    },
    /// Its Workload, which waits, is about other pods than the job has now. It is to be brought up to date from
    /// the whole job ([`build::update`]), so that it keeps its place.
    Update(Priority),
    /// Its pod templates are to be put back as they were before admission, from the whole job and the whole Workload
    /// ([`AnyJob::restore`]).
    Restore,
    /// Pods of it get other hosts: this write, a word about it, and what its Workload holds then.
    Move(Box<Write>, Note, Box<Admission>),
    /// It cannot go on; a person is told why.
    Stuck(Note),
    /// This write, if the API server says that there is no job of this uid either.
    IfGone {
        /// Where the job was.
        job: Target,
        /// Its uid.
        uid: String,
        /// What to write then.
        write: Box<Write>,
    },
}

/// Why a job is stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// There is no Workload by which it could run.
    NoWorkload,
    /// Its Workload may not run, or not as it does.
    NotAdmitted,
    /// Its Workload was evicted.
    Evicted,
    /// Its Workload is being deleted.
    Deleted,
}

impl Cause {
    /// Kueue's word for it.
    fn word(self) -> &'static str {
        match self {
            Self::NoWorkload => "NoMatchingWorkload",
            Self::NotAdmitted => "NotAdmitted",
            Self::Evicted => "WorkloadEvicted",
            Self::Deleted => "WorkloadDeleted",
        }
    }

    /// The reason of the Event about it.
    fn event(self) -> &'static str {
        if self == Self::NoWorkload { "Suspended" } else { "Stopped" }
    }
}

/// A Workload with both of its faces.
#[derive(Clone, Copy, Debug)]
pub struct Of<'a> {
    /// Its name.
    pub key: &'a WorkloadKey,
    /// What writes need.
    pub view: &'a WorkloadView,
    /// What the core knows.
    pub workload: &'a Workload,
}

/// What a step is decided from, besides the job and its Workload.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The priority classes.
    pub priorities: &'a Priorities,
    /// The flavors.
    pub flavors: &'a BTreeMap<FlavorName, Flavor>,
    /// The scheduler's state.
    pub state: &'a State,
    /// What an administrator decided.
    pub settings: &'a Settings,
    /// Tolerations that flavors give to pods, as the API has them.
    pub flavor_tolerations: &'a BTreeMap<FlavorName, Vec<Toleration>>,
    /// Whether there are nodes whose MIG layouts can be made as workloads need them.
    pub layouts: bool,
    /// The time.
    pub now: Timestamp,
}

impl<'a> Of<'a> {
    /// What it holds, if it may run.
    pub fn admitted(&self) -> Option<&'a Admission> {
        match &self.workload.phase {
            Phase::Reserved { admission, admitted: true, .. } => Some(admission),
            _ => None,
        }
    }
}

/// The next step for a job and its Workload.
pub fn next(job: &JobView, of: Option<Of<'_>>, around: Surroundings<'_>) -> Step {
    let over = of.map_or(job.ending.is_some(), |of| of.view.is(types::FINISHED));
    if let Some(step) = pod::let_go(job, over) {
        return step;
    }
    if !over
        && of.is_none_or(|of| !of.view.deleting)
        && let Some(step) = group::tidy(job, of)
    {
        return step;
    }
    let Some(of) = of else { return without_workload(job, around) };
    if of.view.is(types::FINISHED) {
        return match fate(job, of, around) {
            Fate::Write(write, note) if !of.view.is_kept() => Step::Write(write, note),
            _ => let_go(of),
        };
    }
    if of.view.deleting {
        return deleted(job, of, around.now);
    }
    if let Some(ending) = &job.ending {
        return finish(job, of, ending, around.now);
    }
    if job.deleting || of.view.unreadable {
        // What cannot be read decides nothing: whoever runs goes on running.
        return Step::Rest;
    }
    if let Some(step) = serving::hold(job, of, around) {
        return step;
    }
    if of.workload.admission().is_some() && !matches(job, of) {
        return delete_workload(job, of);
    }
    if let Fate::Write(write, note) = fate(job, of, around) {
        return Step::Write(write, note);
    }
    if of.workload.admission().is_some() && of.view.is(types::EVICTED) {
        let why = super::conditions::find(&of.view.conditions, types::EVICTED);
        let why = why.map_or("", |condition| &condition.message);
        return bring_to_rest(job, Cause::Evicted, why, around.now)
            .unwrap_or_else(|| release(job, of, around));
    }
    if let Some(step) = reclaim(job, of).or_else(|| group::tell(job, of, around.now)) {
        return step;
    }
    if let Some(given) = of.admitted() {
        let waits = pod::next_to_start(job, of, given).is_some();
        let starts = waits || (job.suspended && !job.kind.is_gated());
        return if starts { start(job, of, given, around) } else { run(job, of, given, around) };
    }
    if let Some(step) = bring_to_rest(job, Cause::NotAdmitted, "Not admitted by cluster queue", around.now) {
        return step;
    }
    if !matches(job, of) {
        return Step::Update(priority_now(job, of, around));
    }
    keep_up(job, of, around)
}

/// A job whose Workload is being deleted: it stops first, unless it is over.
fn deleted(job: &JobView, of: Of<'_>, now: Timestamp) -> Step {
    if job.kind.is_gated() {
        return pod::end(job, "The Workload is deleted", now).unwrap_or_else(|| let_go(of));
    }
    if job.deleting || job.ending.is_some() {
        return let_go(of);
    }
    match bring_to_rest(job, Cause::Deleted, "The Workload is deleted", now) {
        // The template as it was is in the Workload, which cannot be read.
        Some(Step::Restore) if of.view.unreadable => let_go(of),
        Some(step) => step,
        None => let_go(of),
    }
}

/// What is due for a job's Workload whatever its job.
pub fn fate(job: &JobView, of: Of<'_>, around: Surroundings<'_>) -> Fate {
    if (job.deleting || job.ending.is_some()) && !of.view.is(types::FINISHED) {
        return Fate::Until(None);
    }
    life::next(of, around, job.suspended && job.active == 0)
}

/// A job that has no Workload: it rests, and then gets one.
fn without_workload(job: &JobView, around: Surroundings<'_>) -> Step {
    if job.queue.is_none() || job.ending.is_some() || job.deleting || serving::is_scaled_to_zero(job) {
        return Step::Rest;
    }
    if !job.suspended {
        return suspend(job, Cause::NoWorkload, "Waits for admission".to_owned(), around.now);
    }
    if job.active > 0 {
        return Step::Rest;
    }
    let problem = job.pods.as_ref().err().filter(|_| job.slots.is_empty()).cloned();
    let problem = problem.or_else(|| job.group.as_ref()?.problem());
    match problem.map_or_else(|| around.priorities.of(job), Err) {
        Ok(priority) => Step::Create(priority),
        Err(problem) => Step::Stuck(note(job, true, "ErrWorkloadCompose", problem)),
    }
}

/// Suspends a job, waits for its pods, and puts its template back; `None` once all of it is done.
fn bring_to_rest(job: &JobView, cause: Cause, why: &str, now: Timestamp) -> Option<Step> {
    if !job.suspended {
        return Some(suspend(job, cause, why.to_owned(), now));
    }
    if job.active > 0 || !job.at_rest {
        return Some(Step::Rest);
    }
    job.injected.is_some().then_some(Step::Restore)
}

/// Says how many of the pods have done their work, if the Workload does not say it yet: their quota is free.
fn reclaim(job: &JobView, of: Of<'_>) -> Option<Step> {
    let sets = of.view.pods.as_ref().ok()?.iter();
    let place = |index: usize, name: &str| match &job.group {
        Some(_) => job.pods.iter().flat_map(|pods| pods.iter()).position(|pods| *pods.name == *name),
        None => Some(index),
    };
    let done = sets.enumerate().filter_map(|(index, pods)| {
        let done = job.done.get(place(index, &pods.name)?)?;
        Some((&pods.name, *done.min(&pods.count)))
    });
    let said = |name| of.view.reclaimable.get(name).copied().unwrap_or_default();
    let news = done.clone().any(|(name, done)| said(name) != done);
    news.then(|| write(admission::reclaim(of.key, done.filter(|(_, done)| *done > 0), of.view)))
}

/// Un-suspends an admitted job, on its flavors' nodes.
fn start(job: &JobView, of: Of<'_>, given: &Admission, around: Surroundings<'_>) -> Step {
    let placements = placement::placements(job, &of.view.checks, given, around);
    let placements = match placements.and_then(|placements| {
        // What is there by an earlier admission is put back first.
        if job.injected.is_none() {
            placement::agree_with(&placements, job)?;
        }
        Ok(placements)
    }) {
        Ok(placements) => placements,
        Err(Unplaceable::NoFlavor(missing)) => {
            let message = format!("ResourceFlavor {missing}, in which the quota is, doesn't exist");
            return Step::Stuck(note(job, true, "ErrStart", message));
        }
        Err(Unplaceable::Conflict(problem)) => {
            let message = note(job, true, "FailedToStart", problem.clone());
            let finish = admission::finish(of.key, "FailedToStart", &problem, of.view, around.now);
            return Step::Write(Box::new(finish), Some(message));
        }
    };
    if job.kind.is_gated() {
        let message = format!("Admitted by clusterQueue {}", given.cluster_queue);
        let marks = slices::marks(job, of);
        let next = pod::next_to_start(job, of, given);
        let write = next.and_then(|member| pod::start(job, member, &placements, &marks));
        return write.map_or(Step::Rest, |write| {
            Step::Write(Box::new(write), Some(note(job, false, "Started", message)))
        });
    }
    let pods = resized(job, of);
    let as_started = job.injected.as_deref() == Some(of.view.mark(of.key))
        && placement::are_in(&placements, job)
        && pods.is_none();
    let write = if as_started {
        writes::suspend(job, false)
    } else if job.active > 0 || !job.at_rest {
        return Step::Rest;
    } else if job.injected.is_some() {
        // By an admission that is over, or by somebody who would like to choose the nodes.
        return Step::Restore;
    } else {
        let size = pods.map(|pods| batch::size(pods, job.completions)).unwrap_or_default();
        writes::start(job, &placements, &slices::marks(job, of), size)
    };
    let message = format!("Admitted by clusterQueue {}", given.cluster_queue);
    Step::Write(Box::new(write), Some(note(job, false, "Started", message)))
}

/// An admitted job that runs. One that somebody un-suspended before it was started here runs on nodes that its
/// quota is not for, and is started again.
fn run(job: &JobView, of: Of<'_>, given: &Admission, around: Surroundings<'_>) -> Step {
    // A flavor that was edited since does not stop those that were started here.
    let started_here = job.injected.as_deref() == Some(of.view.mark(of.key));
    let misplaced = || {
        let placements = placement::placements(job, &of.view.checks, given, around);
        placements.is_ok_and(|placements| !placement::are_in(&placements, job))
    };
    let idle = job.kind.is_gated() && job.active == 0;
    if !idle && !started_here && misplaced() {
        return suspend(job, Cause::NotAdmitted, "Not on the nodes of its flavors".to_owned(), around.now);
    }
    if resized(job, of).is_some() {
        let message = "Not with the number of pods that it has quota for".to_owned();
        return suspend(job, Cause::NotAdmitted, message, around.now);
    }
    if around.settings.pods_ready.is_some()
        && let Some(news) = life::news_of_pods(of.view, job.unready == 0)
    {
        return write(admission::report_pods(of.key, news, of.view, given, around.now));
    }
    keep_up(job, of, around)
}

/// Declares the Workload of an ended job finished.
fn finish(job: &JobView, of: Of<'_>, ending: &Ending, now: Timestamp) -> Step {
    let word = if ending.succeeded { reason::finished::SUCCEEDED } else { reason::finished::FAILED };
    let message = if ending.message.is_empty() { "Job finished" } else { &ending.message };
    let finished =
        note(job, false, "FinishedWorkload", format!("Workload '{}' is declared finished", of.key));
    Step::Write(Box::new(admission::finish(of.key, word, message, of.view, now)), Some(finished))
}

/// Brings the queue and the priority of a Workload to what its job asks for now.
fn keep_up(job: &JobView, of: Of<'_>, around: Surroundings<'_>) -> Step {
    let reserved = of.workload.admission().is_some();
    let mut spec = Map::new();
    // A job that dropped its label keeps its place: a label is not a way around the queue.
    let queue = job.queue.as_deref().unwrap_or(&of.view.queue);
    if queue != of.view.queue && !reserved {
        spec.insert("queueName".to_owned(), json!(queue));
    }
    // The time that it may run is settled once it runs.
    if job.max_seconds != of.view.max_seconds && !reserved {
        spec.insert("maximumExecutionTimeSeconds".to_owned(), json!(job.max_seconds));
    }
    let (class, value) = priority_now(job, of, around);
    // While quota is held, the API server takes only another class of the same kind.
    let kind = |class: &Option<PriorityClassRef>| class.as_ref().map(|class| class.kind);
    if class != of.view.priority_class && (!reserved || kind(&class) == kind(&of.view.priority_class)) {
        spec.insert("priorityClassRef".to_owned(), json!(class));
        spec.insert("priority".to_owned(), json!(value));
    }
    let mut metadata = Map::from_iter([("resourceVersion".to_owned(), json!(of.view.version.to_string()))]);
    if job.gates != of.view.gates {
        metadata.insert("annotations".to_owned(), json!({ annotation::ADMISSION_GATED_BY: job.gates }));
    } else if spec.is_empty() {
        return Step::Rest;
    }
    let body = json!({ "metadata": metadata, "spec": spec });
    let updated = note(job, false, "UpdatedWorkload", format!("Updated Workload: {}", of.key));
    Step::Write(Box::new(merge(workload_target(&of.key.namespace, &of.key.name), body)), Some(updated))
}

/// The priority that a Workload should have. It follows the job's label for a `WorkloadPriorityClass`: the value
/// is taken when the class is, and neither a class that was edited since nor one for pods changes it.
fn priority_now(job: &JobView, of: Of<'_>, around: Surroundings<'_>) -> Priority {
    let has = of.view.priority_class.as_ref();
    let follows = has.is_none_or(|class| class.kind == PriorityClassKind::WorkloadPriorityClass);
    let same = has.map(|class| &class.name) == job.workload_priority_class.as_ref();
    let kept = (of.view.priority_class.clone(), of.view.priority.unwrap_or_default());
    if same || !follows { kept } else { around.priorities.of(job).unwrap_or(kept) }
}

/// Deletes a Workload that does not stand for the job's pods.
pub fn delete_workload(job: &JobView, of: Of<'_>) -> Step {
    let deletion = admission::delete(of.key, of.view);
    let message = format!("Deleted not matching Workload: {}", of.key);
    Step::Write(Box::new(deletion), Some(note(job, false, "DeletedWorkload", message)))
}

/// Takes our finalizer off a Workload, so that it can go.
pub fn let_go(of: Of<'_>) -> Step {
    if !of.view.is_kept() {
        return Step::Rest;
    }
    let others: Vec<_> =
        of.view.finalizers.iter().filter(|name| *name != RESOURCE_IN_USE_FINALIZER).collect();
    let finalizers = if others.is_empty() { json!(null) } else { json!(others) };
    let body =
        json!({ "metadata": { "resourceVersion": of.view.version.to_string(), "finalizers": finalizers } });
    write(merge(workload_target(&of.key.namespace, &of.key.name), body))
}

/// Suspends a job, and says why.
pub fn suspend(job: &JobView, cause: Cause, message: String, now: Timestamp) -> Step {
    if job.kind.is_gated() {
        return pod::stop(job, cause, message, now);
    }
    Step::Write(Box::new(writes::suspend(job, true)), Some(note(job, false, cause.event(), message)))
}

fn write(write: Write) -> Step {
    Step::Write(Box::new(write), None)
}

fn merge(target: Target, body: serde_json::Value) -> Write {
    Write { target, status: false, verb: Verb::Merge, body }
}

/// A word to people about a job.
pub fn note(job: &JobView, warning: bool, reason: &'static str, message: String) -> Note {
    let uid = serving::object_uid(&job.uid).to_owned();
    Note { about: job.target.clone(), uid, warning, reason: reason.into(), message }
}
