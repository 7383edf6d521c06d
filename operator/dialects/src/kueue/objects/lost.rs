//! Pods of jobs that are lost with their nodes: whose turn it is then, and what becomes of their job.

use std::{borrow::Cow, sync::Arc};

use whalezen_core::{
    name::{HostName, PodKey},
    workload::Timestamp,
};

use super::{
    super::{
        hosts::{Lost, Stationed},
        jobs::{JobKey, JobView, Member, group, kinds::POD, lost},
    },
    Objects,
};
use crate::write::Target;

impl Objects {
    /// Makes the next step due of those whose pods are being deleted on a node.
    pub(super) fn ending_on_due(&mut self, node: &HostName) {
        let ending = self.hosts.ending_on(node).map(|(pod, job)| (pod.clone(), Arc::clone(job)));
        for (pod, job) in ending.collect::<Vec<_>>() {
            self.pod_due(&pod, &job);
        }
    }

    /// Makes the next step due of the job that a pod belongs to, which is of this uid if it is not one of a group, and of all
    /// above and below it.
    pub(super) fn pod_due(&mut self, pod: &PodKey, uid: &str) {
        let (namespace, name) = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        let group = self.groups.group_of(&JobKey { kind: POD.kind, namespace, name });
        if let Some(job) = group.or_else(|| self.job_by_uid.get(uid)).cloned() {
            self.family_due(&job);
        }
    }

    /// The pods of a job, and of all that it made, that are on nodes.
    pub(super) fn stationed<'a>(
        &'a self,
        key: &JobKey,
        job: &'a JobView,
    ) -> Vec<(&'a PodKey, &'a Stationed)> {
        if job.kind.is_gated() {
            let pod = |member: &Member| {
                let Target { namespace, name, .. } = &member.target;
                PodKey::new(namespace.as_deref().unwrap_or_default(), name.as_str())
            };
            return self.hosts.of_pods(job.members.iter().map(pod)).collect();
        }
        let below = self.below(&job.uid).filter(|(below, _)| below.namespace == key.namespace);
        let uids = std::iter::once(&*job.uid).chain(below.map(|(_, job)| &*job.uid));
        self.hosts.of_jobs(uids).collect()
    }

    /// What is lost of a job and of all that it made.
    pub fn lost(&self, key: &JobKey, now: Timestamp) -> Lost {
        let Some(job) = self.jobs.get(key) else { return Lost::default() };
        self.hosts.lost(&self.stationed(key, job), now, self.settings.lost_after.0)
    }

    /// When more of a job will be lost, if nothing changes.
    pub(super) fn loses(&self, key: &JobKey, now: Timestamp) -> Option<Timestamp> {
        self.lost(key, now).next
    }

    /// A job without what is lost of it.
    pub(super) fn without_lost<'a>(
        &self,
        key: &JobKey,
        job: Cow<'a, JobView>,
        now: Timestamp,
    ) -> Cow<'a, JobView> {
        let lost = self.lost(key, now);
        if lost.pods.is_empty() {
            return job;
        }
        if !job.kind.is_gated() {
            return Cow::Owned(job.into_owned().without(lost));
        }
        let pods = self.groups.of_group(key);
        if pods.is_empty() {
            return Cow::Owned(job.as_lost(&lost));
        }
        let pods = lost::as_they_are(&pods, &lost);
        let pods: Vec<&JobView> = pods.iter().collect();
        let view = self.served(key, &pods).or_else(|| group::view(&pods));
        view.map_or(job, |view| Cow::Owned(JobView { lost, ..view }))
    }
}
