//! Pods that are queued together: each group is a job, made anew from its pods whenever one of them changes.

use std::collections::BTreeMap;

use super::{
    super::jobs::{JobKey, JobView, group, serving},
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
        if let Some(part) = &member.part {
            let object = JobKey { kind: part.kind.kind, namespace, name: part.object.as_str().into() };
            return Some(serving::key(&object, part.group));
        }
        let name = member.belongs.as_ref()?.group.as_str().into();
        Some(JobKey { kind: KIND, namespace, name })
    }

    /// Whether this is a pod of a group.
    pub(super) fn has(&self, pod: &JobKey) -> bool {
        self.group_of.contains_key(pod)
    }

    /// The group that a pod is of.
    pub(super) fn group_of(&self, pod: &JobKey) -> Option<&JobKey> {
        self.group_of.get(pod)
    }

    /// The pods of a group.
    pub(super) fn of_group(&self, group: &JobKey) -> Vec<&JobView> {
        self.members.get(group).into_iter().flat_map(BTreeMap::values).collect()
    }

    /// The jobs of an object that serves which have pods.
    pub(super) fn serving<'a>(&'a self, object: &'a JobKey) -> impl Iterator<Item = &'a JobKey> {
        serving::jobs_of(&self.members, object)
    }

    /// A pod of a group.
    pub(super) fn member(&self, pod: &JobKey) -> Option<&JobView> {
        self.members.get(self.group_of.get(pod)?)?.get(pod)
    }
}

impl Objects {
    /// A pod of a group was seen.
    pub(super) fn apply_member(&mut self, key: JobKey, group: &JobKey, view: JobView) {
        let known = self.groups.member(&key).or_else(|| self.jobs.get(&key));
        if known.is_some_and(|known| view.version <= known.version) {
            return;
        }
        // One that was queued by itself until now.
        self.forget_job(&key);
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
        if key.kind != KIND {
            return self.gather(key);
        }
        match group::view(&self.groups.of_group(key)) {
            Some(view) => self.put_job(key, view),
            None => self.forget_job(key),
        }
    }
}
