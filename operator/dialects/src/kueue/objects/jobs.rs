//! Events of jobs.

use super::{
    super::jobs::{AnyJob, JobKey, JobView, Member, kinds::POD},
    Objects,
    groups::Groups,
};

impl Objects {
    /// A job was seen. Those without a queue are kept too: their Workload, from before they lost it, may come later.
    pub fn apply_job(&mut self, object: &AnyJob) {
        let key = object.key();
        let mut view = object.view();
        view.pods = view.pods.map(|pods| self.pods.share(pods));
        if let Some(group) = Groups::of(&view) {
            return self.apply_member(key, &group, view);
        }
        if self.groups.member(&key).is_some_and(|known| view.version <= known.version) {
            return;
        }
        self.delete_member(&key);
        if view.kind.serves.is_some() {
            return self.apply_server(&key, object, view);
        }
        if let Some(known) = self.jobs.get(&key) {
            if view.version <= known.version {
                return;
            }
            self.families.leave(known, &key);
            if known.uid != view.uid {
                self.delete_job(&key);
            }
        }
        self.families.join(&view, &key);
        self.put_job(&key, view);
    }

    /// A job is like this now.
    pub(super) fn put_job(&mut self, key: &JobKey, view: JobView) {
        self.job_by_uid.insert(view.uid.clone(), key.clone());
        self.jobs.insert(key.clone(), view);
        self.family_due(key);
    }

    /// The API server accepted a write to a job and answered with it as it is now. If it is not known any more,
    /// the watch told of its end before.
    pub fn confirm_job(&mut self, object: &AnyJob) {
        let (_, metadata) = object.identity();
        let key = object.key();
        let known = self.jobs.get(&key).or_else(|| self.groups.member(&key));
        if known.is_some_and(|known| Some(&known.uid) == metadata.uid.as_ref()) {
            self.apply_job(object);
        }
    }

    /// A job is gone.
    pub fn delete_job(&mut self, key: &JobKey) {
        let known = self.groups.member(key).or_else(|| self.jobs.get(key));
        let kept = known.filter(|job| *job.kind == POD && job.members.iter().any(Member::is_kept));
        if let Some(uid) = kept.map(|pod| pod.uid.clone()) {
            self.due.unseen.insert(uid, key.clone());
        }
        if self.groups.has(key) {
            return self.delete_member(key);
        }
        if self.serves(key) {
            return self.delete_server(key);
        }
        self.forget_job(key);
    }

    /// There is no such job any more.
    pub(super) fn forget_job(&mut self, key: &JobKey) {
        let Some(view) = self.jobs.remove(key) else { return };
        let orphans: Vec<_> = self.workloads_of(key, &view.uid).cloned().collect();
        self.below_due(&view.uid);
        self.families.leave(&view, key);
        self.job_by_uid.remove(&view.uid);
        self.due.orphans.extend(orphans);
    }
}
