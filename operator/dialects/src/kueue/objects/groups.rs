//! Pods that are queued together: each group is a job, made anew from its pods whenever one of them changes.

use std::collections::BTreeMap;

use super::{
    super::jobs::{JobKey, JobView, group},
    Objects,
};

/// What stands in the key of a group where a job's kind does.
const KIND: &str = "PodGroup";

/// The pods of each group.
#[derive(Debug, Default)]
pub(super) struct Groups {
    members: BTreeMap<JobKey, BTreeMap<JobKey, JobView>>,
    group_of: BTreeMap<JobKey, JobKey>,
}

impl Groups {
    /// The key of the group that a pod belongs to.
    pub(super) fn of(pod: &JobView) -> Option<JobKey> {
        let member = pod.members.first()?;
        let namespace = member.target.namespace.as_deref().unwrap_or_default().into();
        let name = member.belongs.as_ref()?.group.as_str().into();
        Some(JobKey { kind: KIND, namespace, name })
    }

    /// Whether this is a pod of a group.
    pub(super) fn has(&self, pod: &JobKey) -> bool {
        self.group_of.contains_key(pod)
    }

    /// A pod of a group.
    pub(super) fn member(&self, pod: &JobKey) -> Option<&JobView> {
        self.members.get(self.group_of.get(pod)?)?.get(pod)
    }
}

impl Objects {
    /// A pod of a group was seen.
    pub(super) fn apply_member(&mut self, key: JobKey, group: &JobKey, view: JobView) {
        if self.groups.member(&key).is_some_and(|known| view.version <= known.version) {
            return;
        }
        if self.groups.group_of.get(&key).is_some_and(|known| known != group) {
            self.delete_member(&key);
        }
        self.groups.group_of.insert(key.clone(), group.clone());
        self.groups.members.entry(group.clone()).or_default().insert(key, view);
        self.regroup(group);
    }

    /// A pod of a group is gone.
    pub(super) fn delete_member(&mut self, key: &JobKey) {
        let Some(group) = self.groups.group_of.remove(key) else { return };
        if let Some(members) = self.groups.members.get_mut(&group) {
            members.remove(key);
            if members.is_empty() {
                self.groups.members.remove(&group);
            }
        }
        self.regroup(&group);
    }

    fn regroup(&mut self, key: &JobKey) {
        let pods: Vec<&JobView> =
            self.groups.members.get(key).into_iter().flat_map(BTreeMap::values).collect();
        let Some(view) = group::view(&pods) else { return self.delete_job(key) };
        self.job_by_uid.insert(view.uid.clone(), key.clone());
        self.jobs.insert(key.clone(), view);
        self.family_due(key);
    }
}
