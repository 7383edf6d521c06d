//! What is there to serve: objects that say how many pods there are to be, each of which is a job, or several, together with
//! the pods.

use std::collections::BTreeMap;

use super::{
    super::jobs::{self, AnyJob, JobKey, JobView, Of, Step, serving},
    Objects,
};

/// Objects that serve.
#[derive(Debug, Default)]
pub(super) struct Serving {
    objects: BTreeMap<JobKey, Object>,
}

/// One of them.
#[derive(Debug)]
struct Object {
    view: JobView,
    /// How many groups it is to have, if those are queued by themselves.
    groups: Option<u32>,
}

impl Object {
    /// The jobs that there are to be.
    fn wanted(&self, key: &JobKey) -> Vec<JobKey> {
        match self.groups {
            Some(groups) => (0..groups).map(|group| serving::key(key, Some(group))).collect(),
            None => vec![key.clone()],
        }
    }
}

impl Objects {
    /// An object that serves was seen.
    pub(super) fn apply_server(&mut self, key: &JobKey, object: &AnyJob, view: JobView) {
        if let Some(known) = self.serving.objects.get(key) {
            if known.view.uid == view.uid && view.version <= known.view.version {
                return;
            }
            let known = known.view.clone();
            self.families.leave(&known, key);
            if known.uid != view.uid {
                let jobs: Vec<JobKey> = serving::jobs_of(&self.jobs, key).cloned().collect();
                for job in jobs {
                    self.forget_job(&job);
                }
            }
        }
        let groups = object.groups();
        self.families.join(&view, key);
        self.serving.objects.insert(key.clone(), Object { view, groups });
        self.gather_all(key);
    }

    /// An object that serves is gone. What it was is known until its last pod is gone, too.
    pub(super) fn delete_server(&mut self, key: &JobKey) {
        let Some(object) = self.serving.objects.get_mut(key) else { return };
        object.view.deleting = true;
        object.groups = object.groups.map(|_| 0);
        let view = object.view.clone();
        self.families.leave(&view, key);
        self.gather_all(key);
        self.forget_server(key);
    }

    /// Whether this is an object that serves.
    pub(super) fn serves(&self, key: &JobKey) -> bool {
        self.serving.objects.contains_key(key)
    }

    /// Makes anew the jobs that an object is together with its pods.
    fn gather_all(&mut self, key: &JobKey) {
        let Some(object) = self.serving.objects.get(key) else { return };
        let mut all = object.wanted(key);
        all.extend(self.groups.serving(key).cloned());
        all.extend(serving::jobs_of(&self.jobs, key).cloned());
        all.sort();
        all.dedup();
        for job in all {
            self.gather(&job);
        }
    }

    /// Makes a job anew of its object and its pods.
    pub(super) fn gather(&mut self, key: &JobKey) {
        let of = serving::object_of(key);
        let Some(object) = self.serving.objects.get(&of) else { return self.forget_job(key) };
        let pods = self.groups.of_group(key);
        let number = serving::number_of(key);
        let is_wanted = !object.view.deleting && number.is_none_or(|number| object.groups > Some(number));
        if is_wanted || !pods.is_empty() {
            let view = serving::view(&object.view, number, &pods);
            return self.put_job(key, view);
        }
        self.forget_job(key);
        self.forget_server(&of);
    }

    /// What a job would be with these pods, if it is what an object serves by.
    pub(super) fn served(&self, key: &JobKey, pods: &[&JobView]) -> Option<JobView> {
        let object = self.serving.objects.get(&serving::object_of(key))?;
        Some(serving::view(&object.view, serving::number_of(key), pods))
    }

    /// Forgets an object that is gone, unless there are pods of it.
    fn forget_server(&mut self, key: &JobKey) {
        let is_gone = self.serving.objects.get(key).is_some_and(|object| object.view.deleting);
        if is_gone && self.groups.serving(key).next().is_none() {
            self.serving.objects.remove(key);
        }
    }

    /// The step by which a Workload goes that was for a group which is not to be any more, of an object that is there.
    pub(super) fn surplus(&self, of: Of<'_>) -> Option<Step> {
        let name = of.view.owner.as_deref()?;
        let kind = of.view.kind?;
        let key = JobKey { kind: kind.kind, namespace: of.key.namespace.clone(), name: name.into() };
        let object = self.serving.objects.get(&key).filter(|object| object.groups.is_some())?;
        let its = of.view.job.as_deref().map(serving::object_uid) == Some(&object.view.uid);
        (its && !object.view.deleting).then(|| {
            if of.view.deleting { jobs::let_go(of) } else { jobs::delete_workload(&object.view, of) }
        })
    }
}
