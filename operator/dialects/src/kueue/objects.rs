//! Everything seen of Kueue's objects and of jobs, and what is to be done next.
//!
//! Events go in as objects; each updates the scheduler's [`State`] and the slim views beside it, and notes whose
//! next step may have changed. There is one owner, the controller's loop, and nothing here waits.

mod families;
mod ground;
mod groups;
mod jobs;
mod kept;
mod layouts;
mod lost;
mod measured;
mod next;
mod provisioning;
mod repair;
mod serving;
mod shared;
mod unbound;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        core::v1::{LimitRange, Namespace, Toleration},
        node::v1::RuntimeClass,
        scheduling::v1::PriorityClass,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt;
use serde_json::Value;
use whalezen_core::{
    labels::Labels,
    name::{ClusterQueueName, CohortName, FlavorName, LocalQueueKey, TopologyName, WorkloadKey},
    queue::ClusterQueue,
    state::State,
    workload::Workload,
};
use whalezen_crds::kueue::v1beta2 as kueue;

use self::{
    families::Families, groups::Groups, kept::Kept, serving::Serving, shared::Shared, unbound::Unbound,
};
use super::{
    hosts::Hosts,
    jobs::{JobKey, JobView, Priorities},
    mig,
    milestones::Milestone,
    pods::Pods,
    provisioning::known::Known,
    queues::QueueView,
    quota, reasons,
    resources::{Counted, Rules},
    settings::Settings,
    workload::{WorkloadView, workload},
};
use crate::write::Note;

/// Everything seen; see the module.
#[derive(Debug, Default)]
pub struct Objects {
    /// The scheduler's state.
    pub state: State,
    workloads: BTreeMap<WorkloadKey, WorkloadView>,
    jobs: BTreeMap<JobKey, JobView>,
    job_by_uid: BTreeMap<String, JobKey>,
    families: Families,
    groups: Groups,
    serving: Serving,
    workload_by_job: BTreeMap<String, BTreeSet<WorkloadKey>>,
    priorities: Priorities,
    settings: Settings,
    rules: Rules,
    pods: Shared<[Pods]>,
    queues: BTreeMap<ClusterQueueName, QueueView>,
    local_queues: BTreeMap<LocalQueueKey, QueueView>,
    /// The status that each cohort shows.
    cohorts: BTreeMap<CohortName, Value>,
    flavors: BTreeMap<FlavorName, Kept>,
    topologies: BTreeMap<TopologyName, Kept>,
    flavor_tolerations: BTreeMap<FlavorName, Vec<Toleration>>,
    kept_queues: BTreeMap<ClusterQueueName, Kept>,
    /// The `ClusterQueues` that are being deleted: each goes when nobody holds its quota any more.
    leaving: BTreeSet<ClusterQueueName>,
    due: Due,
    local_queue_labels: BTreeMap<LocalQueueKey, Labels>,
    milestones: Vec<Milestone>,
    /// What is known of checks that the cluster autoscaler answers.
    provisioning: Known,
    /// What is known of GPUs and their layouts.
    layouts: mig::known::Known,
    /// The Workloads that wait for MIG instances.
    waiting: BTreeSet<WorkloadKey>,
    /// The nodes whose layout is being written, each with the Workload that it is for.
    reserving: BTreeMap<String, Option<WorkloadKey>>,
    unbound: Unbound,
    hosts: Hosts,
}

/// Whose next step may have changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Due {
    /// Jobs.
    pub jobs: BTreeSet<JobKey>,
    /// Workloads whose job is not known.
    pub orphans: BTreeSet<WorkloadKey>,
    /// Pods by their uid that are not seen any more, although our finalizer was to keep them.
    pub unseen: BTreeMap<String, JobKey>,
    /// `ClusterQueues`, for their finalizer.
    pub queues: BTreeSet<ClusterQueueName>,
    /// Flavors, for their finalizer.
    pub flavors: BTreeSet<FlavorName>,
    /// Topologies, for theirs.
    pub topologies: BTreeSet<TopologyName>,
    /// Checks that the cluster autoscaler answers, for their status.
    pub checks: BTreeSet<String>,
    /// Workloads with such checks.
    pub provisioning: BTreeSet<WorkloadKey>,
    /// Workloads that wait for MIG instances.
    pub instances: BTreeSet<WorkloadKey>,
    /// Nodes, for the layout of their GPUs.
    pub layouts: BTreeSet<String>,
    /// What there is to say about GPUs.
    pub notes: Vec<Note>,
}

impl Objects {
    /// Nothing seen yet, under these settings.
    pub fn new(settings: Settings) -> Self {
        let mut objects = Self { settings, ..Self::default() };
        objects.state.remember(objects.settings.admission_fair_sharing.clone());
        objects
    }

    /// What is known of a Workload beside what the core knows.
    pub(super) fn view_of(&self, key: &WorkloadKey) -> Option<&WorkloadView> {
        self.workloads.get(key)
    }
}

/// Events.
impl Objects {
    /// A flavor was seen.
    pub fn apply_flavor(&mut self, object: &kueue::ResourceFlavor) {
        let name: FlavorName = object.name_any().into();
        if self.flavors.insert(name.clone(), Kept::new(object)).is_none() {
            // Admitted jobs may have waited for it.
            self.all_jobs_due();
        }
        self.flavor_tolerations.insert(name.clone(), object.spec.tolerations.clone());
        self.state.apply_flavor(quota::flavor(object));
        self.due.flavors.insert(name);
        self.all_topologies_due();
    }

    /// A flavor is gone.
    pub fn delete_flavor(&mut self, name: &FlavorName) {
        self.flavors.remove(name);
        self.flavor_tolerations.remove(name);
        self.state.delete_flavor(name);
        self.all_topologies_due();
    }

    /// A cohort was seen.
    pub fn apply_cohort(&mut self, object: &kueue::Cohort) {
        let status = serde_json::to_value(&object.status).unwrap_or_default();
        self.cohorts.insert(object.name_any().into(), status);
        self.state.apply_cohort(quota::cohort(object));
    }

    /// A cohort is gone.
    pub fn delete_cohort(&mut self, name: &CohortName) {
        self.cohorts.remove(name);
        self.state.delete_cohort(name);
    }

    /// A ClusterQueue was seen.
    pub fn apply_queue(&mut self, object: &kueue::ClusterQueue) {
        let status = object.status.clone().unwrap_or_default();
        let view = QueueView::new(object.metadata.generation, &status.conditions, &status);
        self.note_queue(object, view);
        let queue = quota::cluster_queue(object);
        let orders = |queue: &ClusterQueue| (queue.stop, queue.terminating, queue.admission_checks.clone());
        let changed = self.state.queue(&queue.name).map(orders) != Some(orders(&queue));
        let name = queue.name.clone();
        self.state.apply_queue(queue);
        if changed {
            self.workloads_of_queue_due(&name);
        }
    }

    fn note_queue(&mut self, object: &kueue::ClusterQueue, view: QueueView) {
        let name: ClusterQueueName = object.name_any().into();
        self.queues.insert(name.clone(), view);
        let kept = Kept::new(object);
        if kept.deleting {
            self.leaving.insert(name.clone());
        }
        self.kept_queues.insert(name.clone(), kept);
        // Its flavors, those before and those now, may be in use no more.
        self.due.flavors.extend(self.flavors.keys().cloned());
        self.due.queues.insert(name);
    }

    /// A ClusterQueue is gone.
    pub fn delete_queue(&mut self, name: &ClusterQueueName) {
        self.queues.remove(name);
        self.kept_queues.remove(name);
        self.leaving.remove(name);
        self.state.delete_queue(name);
        self.workloads_of_queue_due(name);
        self.due.flavors.extend(self.flavors.keys().cloned());
    }

    /// A LocalQueue was seen.
    pub fn apply_local_queue(&mut self, object: &kueue::LocalQueue) {
        let local = quota::local_queue(object);
        let status = object.status.clone().unwrap_or_default();
        let view = QueueView::new(object.metadata.generation, &status.conditions, &status);
        let key = local.key.clone();
        self.local_queues.insert(key.clone(), view);
        self.local_queue_labels.insert(key.clone(), object.labels().clone());
        let changed = self.state.local_queue(&key).map(|known| known.stop) != Some(local.stop);
        self.state.apply_local_queue(local);
        self.state.recall(&key, quota::consumed(object));
        if changed {
            self.workloads_due(|workload| workload.queue == key);
        }
    }

    /// A LocalQueue is gone.
    pub fn delete_local_queue(&mut self, key: &LocalQueueKey) {
        self.local_queues.remove(key);
        self.local_queue_labels.remove(key);
        self.state.delete_local_queue(key);
        self.workloads_due(|workload| workload.queue == *key);
    }

    /// A namespace was seen.
    pub fn apply_namespace(&mut self, object: &Namespace) {
        let name = object.name_any();
        let managed = self.manages(&name);
        self.state.apply_namespace(&name, object.labels().clone());
        if self.manages(&name) != managed {
            let here = self.jobs.keys().filter(|job| *job.namespace == *name);
            self.due.jobs.extend(here.cloned());
        }
    }

    /// A `WorkloadPriorityClass` was seen.
    pub fn apply_workload_priority_class(&mut self, object: &kueue::WorkloadPriorityClass) {
        self.priorities.workload.insert(object.name_any(), object.value);
        self.all_jobs_due();
    }

    /// A `WorkloadPriorityClass` is gone.
    pub fn delete_workload_priority_class(&mut self, name: &str) {
        self.priorities.workload.remove(name);
    }

    /// A `PriorityClass` was seen.
    pub fn apply_priority_class(&mut self, object: &PriorityClass) {
        let entry = (object.value.unwrap_or_default(), object.global_default.unwrap_or_default());
        self.priorities.pod.insert(object.name_any(), entry);
        self.all_jobs_due();
    }

    /// A `PriorityClass` is gone.
    pub fn delete_priority_class(&mut self, name: &str) {
        self.priorities.pod.remove(name);
    }

    /// A `LimitRange` was seen.
    pub fn apply_limit_range(&mut self, object: &LimitRange) {
        if self.rules.apply_limit_range(object) {
            self.recount_namespace(&object.namespace().unwrap_or_default());
        }
    }

    /// A `LimitRange` is gone.
    pub fn delete_limit_range(&mut self, namespace: &str, name: &str) {
        if self.rules.delete_limit_range(namespace, name) {
            self.recount_namespace(namespace);
        }
    }

    /// A `RuntimeClass` was seen.
    pub fn apply_runtime_class(&mut self, object: &RuntimeClass) {
        if self.rules.apply_runtime_class(object) {
            self.recount_runtime_class(&object.name_any());
        }
    }

    /// A `RuntimeClass` is gone.
    pub fn delete_runtime_class(&mut self, name: &str) {
        if self.rules.delete_runtime_class(name) {
            self.recount_runtime_class(name);
        }
    }

    /// A Workload was seen.
    pub fn apply_workload(&mut self, object: &kueue::Workload) {
        let view = self.view(object);
        let workload = self.workload(object, &view);
        self.measure(&workload, &view);
        let key = workload.key.clone();
        if self
            .workloads
            .get(&key)
            .is_some_and(|known| known.uid == view.uid && view.version <= known.version)
        {
            return;
        }
        self.note_workload(&key, view);
        self.state.apply_workload(workload);
    }

    /// The core's workload. From a coarse reason it cannot be told what exactly was reported: that is remembered.
    fn workload(&self, object: &kueue::Workload, view: &WorkloadView) -> Workload {
        let mut workload = workload(object, view, &self.rules, &self.settings);
        if reasons::is_coarse(&view.conditions) {
            let known = self.state.workload(&workload.key).filter(|known| known.uid == workload.uid);
            workload.reported = known.and_then(|known| known.reported);
        }
        workload
    }

    /// The API server accepted a write to a Workload and answered with it as it is now. One that is not known
    /// was just made, unless it is on its way out: then the watch told of its end before.
    pub fn confirm_workload(&mut self, object: &kueue::Workload) {
        let view = self.view(object);
        let workload = self.workload(object, &view);
        self.measure(&workload, &view);
        match self.workloads.get(&workload.key) {
            None if view.deleting => {}
            None => self.apply_workload(object),
            Some(known) if known.uid == view.uid => {
                if view.version > known.version {
                    self.note_workload(&workload.key, view);
                }
                self.state.confirm(workload);
            }
            Some(_) => {}
        }
    }

    /// The API server says that there is no such Workload. One of the same name that was made since is another.
    pub fn gone(&mut self, key: &WorkloadKey, uid: &str) {
        if self.workloads.get(key).is_some_and(|known| known.uid == uid) {
            self.delete_workload(key);
        }
    }

    /// A Workload is gone.
    pub fn delete_workload(&mut self, key: &WorkloadKey) {
        self.state.delete_workload(key);
        let Some(view) = self.workloads.remove(key) else { return };
        self.forget_layouts(key, &view.uid);
        self.forget_link(key, view.job.as_deref());
        self.workload_due(key, view.job.as_deref());
        self.due.orphans.remove(key);
        self.due.queues.extend(self.leaving.iter().cloned());
    }

    /// A ClusterQueue was seen that cannot be read. It is inactive, and says so; what its workloads hold by what was
    /// last read of it, they go on holding.
    pub fn apply_unreadable_queue(&mut self, metadata: &ObjectMeta, problem: &str) {
        let object = kueue::ClusterQueue { metadata: metadata.clone(), ..kueue::ClusterQueue::default() };
        let known = self.queues.get(&object.name_any().into()).cloned().unwrap_or_default();
        self.note_queue(&object, QueueView { generation: metadata.generation, ..known });
        self.state
            .apply_queue(ClusterQueue { invalid: Some(problem.to_owned()), ..quota::cluster_queue(&object) });
    }

    /// A Workload was seen that cannot be read. It waits, and says why; what it holds by what was last read of it,
    /// it goes on holding.
    pub fn apply_unreadable_workload(&mut self, metadata: &ObjectMeta, problem: &str) {
        let object = kueue::Workload { metadata: metadata.clone(), ..kueue::Workload::default() };
        let mut view = WorkloadView { unreadable: true, ..WorkloadView::new(&object) };
        view.pods = Err(problem.to_owned());
        let mut workload = workload(&object, &view, &self.rules, &self.settings);
        if let Some(known) = self.state.workload(&workload.key).filter(|known| known.uid == workload.uid) {
            workload.phase = known.phase.clone();
            workload.queue = known.queue.clone();
        }
        let key = workload.key.clone();
        if let Some(known) = self.workloads.get(&key).filter(|known| known.uid == view.uid) {
            view.conditions.clone_from(&known.conditions);
        }
        self.note_workload(&key, view);
        self.state.apply_workload(workload);
    }

    fn view(&mut self, object: &kueue::Workload) -> WorkloadView {
        let mut view = WorkloadView::new(object);
        view.pods = view.pods.map(|pods| self.pods.share(pods));
        view
    }

    /// Counts the pods of a namespace's workloads anew. What is held was counted when it was given.
    fn recount_namespace(&mut self, namespace: &str) {
        self.recount(|key, _| &*key.namespace == namespace);
    }

    fn recount_runtime_class(&mut self, name: &str) {
        let of_class = |pods: &Pods| pods.template.runtime_class.as_deref() == Some(name);
        self.recount(|_, view| view.pods.as_ref().is_ok_and(|pods| pods.iter().any(of_class)));
    }

    fn recount(&mut self, concerned: impl Fn(&WorkloadKey, &WorkloadView) -> bool) {
        for (key, view) in self.workloads.iter().filter(|(key, view)| concerned(key, view)) {
            let Counted { pod_sets, inadmissible } =
                self.rules.count(&key.namespace, view, &self.settings.resources);
            self.state.recount(key, pod_sets, inadmissible);
        }
    }

    fn note_workload(&mut self, key: &WorkloadKey, mut view: WorkloadView) {
        view.forget_what_is_over();
        self.note_layouts(key, &view);
        if self.provisioning.concerns(&view) {
            self.provisioning_due(key);
        }
        let job = view.job.clone();
        let old = self.workloads.insert(key.clone(), view);
        let old_job = old.and_then(|old| old.job);
        if old_job != job && old_job.is_some() {
            self.forget_link(key, old_job.as_deref());
            self.workload_due(key, old_job.as_deref());
        }
        if let Some(uid) = &job {
            self.workload_by_job.entry(uid.clone()).or_default().insert(key.clone());
        }
        self.workload_due(key, job.as_deref());
        self.due.queues.extend(self.leaving.iter().cloned());
    }

    fn forget_link(&mut self, key: &WorkloadKey, job: Option<&str>) {
        if let Some(uid) = job
            && let Some(keys) = self.workload_by_job.get_mut(uid)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.workload_by_job.remove(uid);
            }
        }
    }

    fn workload_due(&mut self, key: &WorkloadKey, job: Option<&str>) {
        match job.and_then(|uid| self.job_of(key, uid)).cloned() {
            Some(job) => self.family_due(&job),
            None => {
                self.due.orphans.insert(key.clone());
            }
        }
    }

    /// The job of this uid, if it is in the Workload's namespace. What a Workload elsewhere says is no link: whoever
    /// may make one there could read the job's template from it, or take the job's own Workload away.
    fn job_of(&self, workload: &WorkloadKey, uid: &str) -> Option<&JobKey> {
        self.job_by_uid.get(uid).filter(|job| job.namespace == workload.namespace)
    }

    /// The Workloads of the job of this uid.
    fn workloads_of(&self, job: &JobKey, uid: &str) -> impl DoubleEndedIterator<Item = &WorkloadKey> {
        let all = self.workload_by_job.get(uid).into_iter().flatten();
        all.filter(|workload| workload.namespace == job.namespace)
    }

    /// Makes the next step due of everybody who holds quota of a ClusterQueue or waits for it.
    fn workloads_of_queue_due(&mut self, name: &ClusterQueueName) {
        let leads = |key: &&LocalQueueKey| {
            self.state.local_queue(key).is_some_and(|local| local.cluster_queue == *name)
        };
        let here: BTreeSet<LocalQueueKey> = self.local_queues.keys().filter(leads).cloned().collect();
        self.workloads_due(|workload| match workload.admission() {
            Some(admission) => admission.cluster_queue == *name,
            None => here.contains(&workload.queue),
        });
    }

    fn workloads_due(&mut self, concerned: impl Fn(&Workload) -> bool) {
        let concerned = |key: &&WorkloadKey| self.state.workload(key).is_some_and(&concerned);
        let keys: Vec<WorkloadKey> = self.state.workloads().filter(concerned).cloned().collect();
        for key in keys {
            let job = self.workloads.get(&key).and_then(|view| view.job.clone());
            self.workload_due(&key, job.as_deref());
        }
    }

    fn all_jobs_due(&mut self) {
        self.due.jobs.extend(self.jobs.keys().cloned());
    }
}
