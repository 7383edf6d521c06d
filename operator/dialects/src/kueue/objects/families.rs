//! Jobs that other jobs make: the one at the top that names a queue is queued, with all that it makes, and those below it
//! do what it does.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use whalezen_core::workload::Timestamp;

use super::{
    super::jobs::{self, Cause, JobKey, JobView, Step},
    Objects,
};

/// How far up it is looked for who made whom, as in Kueue.
const DEPTH: usize = 10;

/// The jobs that each job made, by its uid.
#[derive(Debug, Default)]
pub(super) struct Families {
    made: BTreeMap<String, BTreeSet<JobKey>>,
}

impl Families {
    /// A job is there.
    pub(super) fn join(&mut self, job: &JobView, key: &JobKey) {
        if let Some(owner) = &job.owner {
            self.made.entry(owner.clone()).or_default().insert(key.clone());
        }
    }

    /// It is gone, or another.
    pub(super) fn leave(&mut self, job: &JobView, key: &JobKey) {
        if let Some(owner) = &job.owner
            && let Some(siblings) = self.made.get_mut(owner)
        {
            siblings.remove(key);
            if siblings.is_empty() {
                self.made.remove(owner);
            }
        }
    }
}

impl Objects {
    /// Makes the next step due of a job and of all that are below and above it.
    pub(super) fn family_due(&mut self, key: &JobKey) {
        self.due.jobs.insert(key.clone());
        let Some(job) = self.jobs.get(key) else { return };
        let uid = job.uid.clone();
        let above: Vec<JobKey> = self.above(key, job).map(|(key, _)| key.clone()).collect();
        self.due.jobs.extend(above);
        self.below_due(&uid);
    }

    /// Makes the next step due of all that the job of this uid made.
    pub(super) fn below_due(&mut self, uid: &str) {
        let below: Vec<JobKey> = self.below(uid).map(|(key, _)| key.clone()).collect();
        self.due.jobs.extend(below);
    }

    /// Those that made a job, from its maker up. Whoever is not known, or is in another namespace, made nobody.
    fn above<'a>(
        &'a self,
        key: &JobKey,
        job: &'a JobView,
    ) -> impl Iterator<Item = (&'a JobKey, &'a JobView)> {
        let namespace = key.namespace.clone();
        let maker = move |job: &'a JobView| {
            let key = self.job_by_uid.get(job.owner.as_ref()?)?;
            Some((key, self.jobs.get(key)?)).filter(|(key, _)| key.namespace == namespace)
        };
        let mut next = maker(job);
        std::iter::from_fn(move || {
            let above = next?;
            next = maker(above.1);
            Some(above)
        })
        .take(DEPTH)
    }

    /// All that the job of this uid made, and what those made.
    pub(super) fn below(&self, uid: &str) -> impl Iterator<Item = (&JobKey, &JobView)> {
        let mut found: Vec<(&JobKey, &JobView)> = Vec::new();
        let mut makers = vec![uid];
        for _ in 0..DEPTH {
            if makers.is_empty() {
                break;
            }
            let made = makers.iter().filter_map(|uid| self.families.made.get(*uid)).flatten();
            let made: Vec<_> = made.filter_map(|key| Some((key, self.jobs.get(key)?))).collect();
            makers = made.iter().map(|(_, job)| job.uid.as_str()).collect();
            found.extend(made);
        }
        found.into_iter()
    }

    /// The job with which a job is queued, if that is another one: the topmost above it that names a queue.
    pub(super) fn queued_with(&self, key: &JobKey, job: &JobView) -> Option<(&JobKey, &JobView)> {
        let (top, _) = self
            .above(key, job)
            .filter(|(_, above)| above.queue.is_some() && self.has_a_say(above))
            .last()?;
        self.jobs.get_key_value(top)
    }

    /// A job as it is with all that it made: what of that runs is of it, and what is lost is not waited for. None as long as
    /// that does not show what its pods are, or what was taken back of them.
    pub(super) fn whole<'a>(
        &self,
        key: &JobKey,
        job: &'a JobView,
        now: Timestamp,
    ) -> Option<Cow<'a, JobView>> {
        let below = || self.below(&job.uid).filter(|(below, _)| below.namespace == key.namespace);
        let mut whole = Cow::Borrowed(job);
        if let Some(kind) = job.kind.makes().filter(|_| job.ending.is_none() && !job.deleting) {
            let is_it = |below: &JobKey| (below.kind, &below.name) == (kind.kind, &key.name);
            let (_, made) = below().find(|(below, _)| is_it(below))?;
            if job.suspended && job.injected.is_none() && made.injected.is_some() {
                return None;
            }
            whole = Cow::Owned(job.by(made));
        }
        let running = below().map(|(_, job)| job.active).fold(0, i32::saturating_add);
        if running > whole.active {
            let whole = whole.to_mut();
            (whole.active, whole.at_rest) = (running, false);
        }
        Some(self.without_lost(key, whole, now))
    }

    /// Those that made a job, by name, if one of them made the others, too: none of them is the topmost.
    fn ring(&self, key: &JobKey, job: &JobView) -> Option<String> {
        let mut above: Vec<&JobKey> = vec![];
        for (maker, _) in self.above(key, job) {
            if above.contains(&maker) {
                let names = above.iter().map(|maker| format!("{} {}", maker.kind, maker.name));
                return Some(names.collect::<Vec<_>>().join(", "));
            }
            above.push(maker);
        }
        None
    }

    /// The next step of a job that is queued with another. It has no Workload of its own, and does not run before the other
    /// may.
    pub(super) fn next_step_with(
        &self,
        key: &JobKey,
        job: &JobView,
        above: (&JobKey, &JobView),
        now: Timestamp,
    ) -> Step {
        for of in self.workloads_of(key, &job.uid).filter_map(|key| self.of(key)) {
            if !of.view.deleting {
                return jobs::delete_workload(job, of);
            }
            if of.view.is_kept() {
                return jobs::let_go(of);
            }
        }
        let (maker, view) = above;
        if let Some(ring) = self.ring(key, job).filter(|_| job.ending.is_none() && !job.deleting) {
            let message = format!("Is queued with whoever owns it, and its owners own each other: {ring}");
            if job.suspended {
                return Step::Stuck(jobs::note(job, true, "ErrWorkloadCompose", message));
            }
            return jobs::suspend(job, Cause::NoWorkload, message, now);
        }
        let over = job.ending.is_some() || job.deleting || view.ending.is_some();
        let of = self.workload_of(maker).and_then(|key| self.of(key));
        if over || job.suspended || of.is_some_and(|of| of.admitted().is_some()) {
            return Step::Rest;
        }
        let message = format!("Waits for the admission of {} {}", maker.kind, maker.name);
        jobs::suspend(job, Cause::NoWorkload, message, now)
    }
}
