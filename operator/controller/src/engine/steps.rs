//! The next steps of jobs, of Workloads without one, and of finalizers: one write for each, when its turn comes.

use whalezen_core::workload::Timestamp;
use whalezen_dialects::{
    kueue::jobs::{JobKey, Step, kinds},
    write::Note,
};

use super::Engine;
use crate::{applier::Task, sender::Order};

impl Engine {
    /// Hands over the next steps of all whose turn it is.
    pub(super) fn steps(&mut self, now: Timestamp) {
        let due = self.objects.take_due();
        for job in due.jobs {
            self.step(Task::Job(job), now);
        }
        for workload in due.orphans {
            self.step(Task::Orphan(workload), now);
        }
        for (uid, pod) in due.unseen {
            self.look_for(pod, uid);
        }
        for queue in due.queues {
            self.finalizer(Task::QueueFinalizer(queue));
        }
        for flavor in due.flavors {
            self.finalizer(Task::FlavorFinalizer(flavor));
        }
        for topology in due.topologies {
            self.finalizer(Task::TopologyFinalizer(topology));
        }
        for check in due.checks {
            self.check_status(&check, now);
        }
        for workload in due.provisioning {
            self.provision(&workload, now);
        }
        for node in due.layouts {
            self.tidy_layout(&node);
        }
        self.instances(due.instances, now);
        for note in due.notes {
            self.notes.send(note);
        }
    }

    /// Has a pod looked for that is not seen any more.
    pub(super) fn look_for(&mut self, pod: JobKey, uid: String) {
        let job = kinds::POD.target(&pod.namespace, &pod.name);
        let order = Order::Show { job, uid: uid.clone() };
        self.applier.push(Task::Unseen(pod, uid), order, vec![]);
    }

    /// Hands over the finalizer of a queue, a flavor or a topology, if it has to come or go.
    pub(super) fn finalizer(&mut self, task: Task) {
        if self.applier.is_busy(&task) {
            self.missed.insert(task);
            return;
        }
        let write = match &task {
            Task::QueueFinalizer(queue) => self.objects.queue_finalizer(queue),
            Task::FlavorFinalizer(flavor) => self.objects.flavor_finalizer(flavor),
            Task::TopologyFinalizer(topology) => self.objects.topology_finalizer(topology),
            _ => None,
        };
        match write {
            Some(write) => self.applier.push(task, Order::Write(Box::new(write)), vec![]),
            None => self.retries.settled(&task),
        }
    }

    /// Hands over the next step of a job or of an orphan, unless one is under way or it failed just now.
    pub(super) fn step(&mut self, task: Task, now: Timestamp) {
        if !self.may_begin(&task) {
            return;
        }
        let wakes = match &task {
            Task::Job(key) => self.objects.job_wakes(key, now),
            Task::Orphan(key) => self.objects.orphan_wakes(key, now),
            _ => return,
        };
        self.timers.set(&task, wakes);
        let step = match &task {
            Task::Job(key) => self.objects.next_step(key, now),
            Task::Orphan(key) => self.objects.next_orphan_step(key, now),
            _ => return,
        };
        let (order, note) = match (step, &task) {
            (Step::Rest, _) => {
                self.retries.settled(&task);
                return;
            }
            (Step::Move(write, note, moved), Task::Job(key)) => {
                let Some(workload) = self.objects.workload_of(key).cloned() else { return };
                self.objects.state.assume_move(&workload, *moved);
                (Order::Write(write), Some(note))
            }
            (Step::Stuck(note), Task::Job(key)) => return self.tell_stuck(key, note),
            (Step::Write(write, note), _) => (Order::Write(write), note),
            (Step::Create(priority), Task::Job(key)) => {
                let Some(job) = self.objects.job(key) else { return };
                let (number, job) = (job.number, job.target.clone());
                (Order::CreateWorkload { job, number, priority, after: None }, None)
            }
            (Step::Grow(priority, after), Task::Job(key)) => {
                let Some(job) = self.objects.job(key) else { return };
                let (number, job) = (job.number, job.target.clone());
                (Order::CreateWorkload { job, number, priority, after: Some(after) }, None)
            }
            (Step::Ungate { mark, room }, Task::Job(key)) => {
                let Some(job) = self.objects.job(key) else { return };
                (Order::Ungate { job: job.target.clone(), mark, room }, None)
            }
            (Step::Bind { mark }, Task::Job(key)) => {
                let Some(workload) = self.objects.workload_of(key).cloned() else { return };
                (Order::Bind { workload, mark }, None)
            }
            (Step::Update(priority), Task::Job(key)) => {
                let Some(job) = self.objects.job(key) else { return };
                let Some(workload) =
                    self.objects.workload_of(key).and_then(|key| self.objects.state.workload(key))
                else {
                    return;
                };
                let (workload, version) = (workload.key.clone(), workload.version);
                let (number, job) = (job.number, job.target.clone());
                (Order::UpdateWorkload { job, number, workload, version, priority }, None)
            }
            (Step::IfGone { job, uid, write }, _) => (Order::IfGone { job, uid, write }, None),
            (Step::Restore, Task::Job(key)) => {
                let (Some(job), Some(workload)) = (self.objects.job(key), self.objects.workload_of(key))
                else {
                    return;
                };
                let lost = self.objects.lost(key, now).pods.len();
                let (job, workload) = (job.target.clone(), workload.name.to_string());
                (Order::RestoreJob { job, workload, lost }, None)
            }
            (
                Step::Create(_)
                | Step::Grow(..)
                | Step::Ungate { .. }
                | Step::Bind { .. }
                | Step::Update(_)
                | Step::Restore
                | Step::Move(..)
                | Step::Stuck(_),
                _,
            ) => return,
        };
        self.applier.push(task, order, note.into_iter().collect());
    }

    /// Whether a task is neither under way nor has failed just now. If it is under way its turn comes again.
    pub(super) fn may_begin(&mut self, task: &Task) -> bool {
        if self.applier.is_busy(task) {
            self.missed.insert(task.clone());
            return false;
        }
        !self.retries.is_pausing(task)
    }

    /// Tells people once why a job cannot go on. Whatever could help is an event, and makes its step due again.
    pub(super) fn tell_stuck(&mut self, job: &JobKey, note: Note) {
        if self.stuck.get(job) == Some(&note.message) {
            return;
        }
        let message = note.message.clone();
        if self.notes.send(note) {
            self.stuck.insert(job.clone(), message);
        } else {
            // Nothing else says why: it has its turn when there is room.
            self.untold.insert(job.clone());
        }
    }

    /// Gives those their turn who could not be told why they are stuck.
    pub(super) fn tell_more(&mut self) {
        if !self.untold.is_empty()
            && self.notes.has_room()
            && let Some(job) = self.untold.pop_first()
        {
            self.objects.job_due(&job);
        }
    }
}
