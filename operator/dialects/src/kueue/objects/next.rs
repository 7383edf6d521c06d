//! What is to be done next.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use serde_json::Value;
use whalezen_core::{
    name::{CheckName, ClusterQueueName, CohortName, FlavorName, LocalQueueKey, TopologyName, WorkloadKey},
    plan::Admit,
    state::{Changed, Report},
    workload::Timestamp,
};
use whalezen_crds::kueue::constants::{condition as types, reason};

use super::{
    super::{
        admission::{self, Terms},
        conditions,
        jobs::{self, JobKey, JobView, Of, Step, Surroundings, build, group, kinds::JOB, serving, slices},
        life::{self, Fate},
        mig, preemption, queues, reasons,
        workload::WorkloadView,
        workload_target,
    },
    Due, Objects,
};
use crate::write::{Note, Write};

impl Objects {
    /// Whose next step may have changed since the last call.
    pub fn take_due(&mut self) -> Due {
        std::mem::take(&mut self.due)
    }

    /// Makes everybody's next step due, as when this replica becomes the leader.
    pub fn all_due(&mut self) {
        self.all_jobs_due();
        let unknown = |(key, view): &(&WorkloadKey, &WorkloadView)| {
            view.job.as_ref().is_none_or(|uid| self.job_of(key, uid).is_none())
        };
        let orphans = self.workloads.iter().filter(unknown).map(|(key, _)| key.clone());
        self.due.orphans.extend(orphans.collect::<Vec<_>>());
        // Whoever led before looked for those.
        self.due.unseen.clear();
        self.due.queues.extend(self.kept_queues.keys().cloned());
        self.due.flavors.extend(self.flavors.keys().cloned());
        self.all_topologies_due();
        self.all_checks_due();
        self.all_layouts_due();
    }

    /// Makes a job's next step due.
    pub fn job_due(&mut self, key: &JobKey) {
        if self.jobs.contains_key(key) {
            self.due.jobs.insert(key.clone());
        }
    }

    /// Makes the next step of a Workload due whose job is not known. If its job came meanwhile, the step is that
    /// one's, and there is nothing to do for an orphan.
    pub fn orphan_due(&mut self, key: &WorkloadKey) {
        if self.workloads.contains_key(key) {
            self.due.orphans.insert(key.clone());
        }
    }

    /// Makes the finalizer of a ClusterQueue due.
    pub fn queue_due(&mut self, name: &ClusterQueueName) {
        self.due.queues.insert(name.clone());
    }

    /// Makes the finalizer of a flavor due.
    pub fn flavor_due(&mut self, name: &FlavorName) {
        self.due.flavors.insert(name.clone());
    }

    /// Makes the finalizer of a topology due.
    pub fn topology_due(&mut self, name: &TopologyName) {
        self.due.topologies.insert(name.clone());
    }

    /// The names of all `ClusterQueues`, `LocalQueues` and cohorts.
    pub fn all_queues(&self) -> Changed {
        Changed {
            queues: self.queues.keys().cloned().collect(),
            local_queues: self.local_queues.keys().cloned().collect(),
            cohorts: self.cohorts.keys().cloned().collect(),
        }
    }

    /// A job's view.
    pub fn job(&self, key: &JobKey) -> Option<&JobView> {
        self.jobs.get(key)
    }

    /// The key of a job's Workload, if it has one. If it has several, this is the one by which it runs.
    pub fn workload_of(&self, job: &JobKey) -> Option<&WorkloadKey> {
        let (key, job) = self.jobs.get_key_value(job)?;
        if job.elastic.is_some() {
            return slices::current(&self.all_of(key, job)).map(|of| of.key);
        }
        let ranked = |key: &&WorkloadKey| {
            let holds = self.state.workload(key).is_some_and(|workload| workload.admission().is_some());
            (holds, job.injected.as_deref() == Some(&*key.name))
        };
        // Of equals the first, so that it is the same one each time.
        self.workloads_of(key, &job.uid).rev().max_by_key(ranked)
    }

    /// Why a job's Workload cannot be made, if another one has its name: one whose owner and label somebody took away.
    pub fn name_taken(&self, key: &JobKey) -> Option<Note> {
        let job = self.jobs.get(key).filter(|_| self.workload_of(key).is_none())?;
        let name = match &job.group {
            Some(group) => group.name.clone(),
            None if job.kind.serves.is_some() => {
                let uid = serving::object_uid(&job.uid);
                build::name_of_group(job.kind, &job.target.name, job.number, uid)
            }
            None => build::name(job.kind.kind, job.kind.group, &key.name, &job.uid),
        };
        let other = WorkloadKey::new(Arc::clone(&key.namespace), name);
        let message = format!(
            "Workload {other} has the name that this {kind}'s would get, and is not this {kind}'s: delete it, or give it \
             its owner back",
            kind = job.kind.kind
        );
        self.workloads.contains_key(&other).then(|| jobs::note(job, true, "ErrWorkloadCompose", message))
    }

    /// Whether the jobs of a namespace are managed.
    pub(super) fn manages(&self, namespace: &str) -> bool {
        let labels = self.state.namespace(namespace);
        labels.is_some_and(|labels| self.settings.managed_namespaces.0.matches(labels))
    }

    /// Whether jobs of the kind are managed that a Workload is for.
    fn is_managed(&self, view: &WorkloadView) -> bool {
        view.kind.is_none_or(|kind| self.settings.frameworks.0.contains(kind))
    }

    /// Whether jobs of its kind are managed, or those are of which its kind is made.
    pub(super) fn has_a_say(&self, job: &JobView) -> bool {
        self.settings.frameworks.0.contains(job.kind)
    }

    /// A job's next step.
    pub fn next_step(&self, key: &JobKey, now: Timestamp) -> Step {
        let managed = |job: &&JobView| self.manages(&key.namespace) && self.has_a_say(job);
        let Some(job) = self.jobs.get(key).filter(managed) else { return Step::Rest };
        if let Some(above) = self.queued_with(key, job) {
            return self.next_step_with(key, job, above, now);
        }
        let Some(job) = self.whole(key, job, now) else { return Step::Rest };
        let job = &*job;
        match self.step_of(key, job, now) {
            Step::Rest => {
                let of = self.workload_of(key).and_then(|key| self.of(key));
                let told = |of| serving::tell_of_more(job, of).or_else(|| group::tell_of_others(job, of));
                let due = |of| {
                    let due = self.repair(key, job, of, now).or_else(|| self.bind(job, of));
                    due.or_else(|| told(of))
                };
                of.and_then(due).unwrap_or(Step::Rest)
            }
            step => step,
        }
    }

    fn step_of(&self, key: &JobKey, job: &JobView, now: Timestamp) -> Step {
        if job.elastic.is_some() {
            return slices::next(job, &self.all_of(key, job), self.surroundings(now));
        }
        let chosen = self.workload_of(key);
        let others = self.workloads_of(key, &job.uid);
        for other in others.filter(|other| Some(*other) != chosen).filter_map(|other| self.of(other)) {
            // Only one may hold quota for these pods.
            if !other.view.deleting {
                return jobs::delete_workload(job, other);
            }
            if other.view.is_kept() {
                return jobs::let_go(other);
            }
        }
        jobs::next(job, chosen.and_then(|key| self.of(key)), self.surroundings(now))
    }

    /// The next step for a Workload whose job is not known. A job that was deleted with its dependents orphaned
    /// leaves a Workload that nobody will ever finish: it is finished here, and its quota is free. But a watch may
    /// be late, so it is asked first whether there is such a job. Of jobs of other kinds nothing is known, and their
    /// Workloads are left to whoever made them.
    pub fn next_orphan_step(&self, key: &WorkloadKey, now: Timestamp) -> Step {
        let Some(of) = self.of(key) else { return Step::Rest };
        let known = of.view.job.as_ref().is_some_and(|uid| self.job_of(key, uid).is_some());
        if let Some(step) = self.surplus(of).filter(|_| !known) {
            return step;
        }
        let job = match &of.view.job {
            Some(uid) if self.job_of(key, uid).is_some() => return Step::Rest,
            Some(uid) if of.view.is_kept() && self.is_managed(of.view) => uid,
            // Nobody is left whom it could be kept for.
            None if of.view.deleting && of.view.owner.is_none() => return jobs::let_go(of),
            _ => {
                return match life::next(of, self.surroundings(now), true) {
                    Fate::Write(write, note) => Step::Write(write, note),
                    Fate::Until(_) => Step::Rest,
                };
            }
        };
        let step = if of.view.deleting || of.view.is(types::FINISHED) {
            jobs::let_go(of)
        } else {
            let finish =
                admission::finish(key, reason::finished::OWNER_NOT_FOUND, "The job is gone", of.view, now);
            Step::Write(Box::new(finish), None)
        };
        match (step, of.view.owner.as_deref().or_else(|| group::of_uid(job))) {
            (Step::Write(write, None), Some(name)) if !of.view.is(types::FINISHED) => {
                let kind = of.view.kind.unwrap_or(&JOB);
                let uid = serving::object_uid(job).to_owned();
                Step::IfGone { job: kind.target(&key.namespace, name), uid, write }
            }
            (step, _) => step,
        }
    }

    /// When a job's next step may be another one although nothing changes.
    pub fn job_wakes(&self, key: &JobKey, now: Timestamp) -> Option<Timestamp> {
        if !self.manages(&key.namespace) {
            return None;
        }
        let of = self.workload_of(key).and_then(|key| self.of(key))?;
        let fate = match jobs::fate(self.jobs.get(key)?, of, self.surroundings(now)) {
            Fate::Until(at) => at,
            Fate::Write(..) => None,
        };
        let others = [self.bind_again(key, of, now), self.loses(key, now), self.gives_up_on(of, now)];
        others.into_iter().chain([fate]).flatten().min()
    }

    /// The same for a Workload whose job is not known.
    pub fn orphan_wakes(&self, key: &WorkloadKey, now: Timestamp) -> Option<Timestamp> {
        match life::next(self.of(key)?, self.surroundings(now), true) {
            Fate::Until(at) => at,
            Fate::Write(..) => None,
        }
    }

    /// The write of a planned admission, and what to say about it.
    pub fn admission(&self, admit: &Admit) -> Option<(Write, Vec<Note>)> {
        let view = self.workloads.get(&admit.workload)?;
        let queue = &admit.admission.cluster_queue;
        let waited = admit.at.0.saturating_sub(view.since.0).max(0) / 1000;
        let note = |reason, message| Note {
            about: workload_target(&admit.workload.namespace, &admit.workload.name),
            uid: view.uid.clone(),
            warning: false,
            reason: Cow::Borrowed(reason),
            message,
        };
        let reserved =
            format!("Quota reserved in ClusterQueue {queue}, wait time since queued was {waited}s");
        let admitted = format!("Admitted by ClusterQueue {queue}, wait time since reservation was 0s");
        let terms = self.terms(admit, view);
        let mut notes = vec![note("QuotaReserved", reserved)];
        if terms.checks.is_empty() {
            notes.push(note("Admitted", admitted));
        }
        Some((admission::admit(admit, view, &terms), notes))
    }

    fn terms(&self, admit: &Admit, view: &WorkloadView) -> Terms {
        let queue = self.state.queue(&admit.admission.cluster_queue);
        let checks = queue.map(|queue| queue.checks_of(&admit.admission)).unwrap_or_default();
        let mut checks: BTreeSet<CheckName> = checks.into_iter().cloned().collect();
        let workload = self.state.workload(&admit.workload);
        let layouts = self.layouts.any();
        if workload.is_some_and(|workload| mig::is_demanded(workload, view, &admit.admission, layouts)) {
            checks.insert(mig::CHECK.into());
        }
        Terms {
            checks,
            reports_pods: self.settings.pods_ready.is_some() && view.job.is_some() && self.is_managed(view),
            granular: self.settings.granular_reasons,
        }
    }

    /// The write of a planned eviction, and what to say about it; none as long as its object does not say that it
    /// holds quota, or if it says already that it has to stop.
    pub fn eviction(&self, key: &WorkloadKey, now: Timestamp) -> Option<(Write, Vec<Note>)> {
        let evict = self.state.eviction(key)?;
        let of = self.of(key)?;
        let given = of.workload.admission()?;
        let preemptor = self.of(&evict.preemptor).map(|of| (of.workload, of.view));
        let message = preemption::message(evict, preemptor);
        let notes = preemption::notes(evict, &message, preemptor, (of.workload, of.view));
        Some((admission::preempt(evict, &message, of.view, given, now), notes))
    }

    /// The write of a report, and what to say about it.
    pub fn report(&self, report: &Report, now: Timestamp) -> Option<(Write, Note)> {
        let view = self.workloads.get(&report.workload)?;
        let verdict = &report.verdict;
        let word = reasons::word(verdict, self.settings.granular_reasons);
        let said = conditions::find(&view.conditions, types::QUOTA_RESERVED);
        if said.is_some_and(|said| said.reason == word && said.message == verdict.message) {
            // By whoever led before.
            return None;
        }
        let note = Note {
            about: workload_target(&report.workload.namespace, &report.workload.name),
            uid: view.uid.clone(),
            warning: true,
            reason: "Pending".into(),
            message: verdict.message.clone(),
        };
        let pod_sets = self.state.pod_sets(&report.workload).map(|pod_sets| &**pod_sets);
        let said = (word, &*verdict.message);
        Some((admission::report(&report.workload, said, pod_sets, view, now), note))
    }

    /// The status of a ClusterQueue, if it is due.
    pub fn queue_status(&self, name: &ClusterQueueName, now: Timestamp) -> Option<Write> {
        queues::cluster_queue(name, self.queues.get(name)?, &self.state, self.is_fair(), now)
    }

    /// The status of a LocalQueue, if it is due.
    pub fn local_queue_status(&self, key: &LocalQueueKey, now: Timestamp) -> Option<Write> {
        queues::local_queue(key, self.local_queues.get(key)?, &self.state, now)
    }

    /// The status of a cohort, if it is due.
    pub fn cohort_status(&self, name: &CohortName) -> Option<Write> {
        queues::cohort(name, self.cohorts.get(name)?, &self.state, self.is_fair())
    }

    fn is_fair(&self) -> bool {
        self.settings.fair_sharing.is_some()
    }

    /// A cohort's status was written.
    pub fn cohort_status_written(&mut self, name: &CohortName, body: &Value) {
        if let (Some(shown), Some(status)) = (self.cohorts.get_mut(name), body.get("status")) {
            shown.clone_from(status);
        }
    }

    /// A ClusterQueue's status was written.
    pub fn queue_status_written(&mut self, name: &ClusterQueueName, body: &Value) {
        if let Some(view) = self.queues.get_mut(name) {
            view.written(body);
        }
    }

    /// A LocalQueue's status was written.
    pub fn local_queue_status_written(&mut self, key: &LocalQueueKey, body: &Value) {
        if let Some(view) = self.local_queues.get_mut(key) {
            view.written(body);
        }
    }

    /// All Workloads of a job.
    fn all_of<'a>(&'a self, key: &JobKey, job: &JobView) -> Vec<Of<'a>> {
        self.workloads_of(key, &job.uid).filter_map(|key| self.of(key)).collect()
    }

    pub(super) fn of<'a>(&'a self, key: &WorkloadKey) -> Option<Of<'a>> {
        let (key, view) = self.workloads.get_key_value(key)?;
        Some(Of { key, view, workload: self.state.workload(key)? })
    }

    fn surroundings(&self, now: Timestamp) -> Surroundings<'_> {
        Surroundings {
            priorities: &self.priorities,
            flavors: self.state.flavors(),
            state: &self.state,
            settings: &self.settings,
            flavor_tolerations: &self.flavor_tolerations,
            layouts: self.layouts.any(),
            now,
        }
    }
}
