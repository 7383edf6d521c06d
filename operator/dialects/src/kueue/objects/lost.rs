//! Pods of jobs that are lost with their nodes: whose turn it is then, and what becomes of their job.

use std::{borrow::Cow, sync::Arc};

use whalezen_core::{name::HostName, workload::Timestamp};

use super::{
    super::{
        hosts::Lost,
        jobs::{JobKey, JobView, lost},
    },
    Objects,
};

impl Objects {
    /// Makes the next step due of those whose pods are being deleted on a node.
    pub(super) fn ending_on_due(&mut self, node: &HostName) {
        let jobs: Vec<Arc<str>> = self.hosts.ending_on(node).cloned().collect();
        for job in jobs {
            self.uid_due(&job);
        }
    }

    /// Makes the next step due of the job of this uid, and of all above and below it.
    pub(super) fn uid_due(&mut self, uid: &str) {
        if let Some(job) = self.job_by_uid.get(uid).cloned() {
            self.family_due(&job);
        }
    }

    /// What is lost of a job and of all that it made.
    pub fn lost(&self, key: &JobKey, now: Timestamp) -> Lost {
        let Some(job) = self.jobs.get(key) else { return Lost::default() };
        let below = self.below(&job.uid).filter(|(below, _)| below.namespace == key.namespace);
        let uids = std::iter::once(&*job.uid).chain(below.map(|(_, job)| &*job.uid));
        self.hosts.lost(uids, now, self.settings.lost_after.0)
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
        if job.group.is_some() {
            return lost::group_without(&self.groups.of_group(key), lost).map_or(job, Cow::Owned);
        }
        let is_pod = !job.members.is_empty();
        Cow::Owned(if is_pod { job.as_lost(&lost) } else { job.into_owned().without(lost) })
    }
}
