//! What became of the tasks: what was written is known and on record, what was not is tried again or given up.

use kube::ResourceExt as _;
use serde_json::Value;
use tokio::time::Instant;
use whalezen_core::{name::WorkloadKey, workload::Timestamp};
use whalezen_crds::kueue::v1beta2::Workload;
use whalezen_dialects::{kueue::jobs, write::Note};

use super::Engine;
use crate::{
    applier::{Done, Refusal, Task},
    sender::{Answer, Order},
};

impl Engine {
    /// A task came to an end.
    pub(super) fn answered(&mut self, done: Done) {
        let Done { task, sent, uid, notes, answer } = done;
        self.applier.finished(&task);
        if let Task::Layout(node) = &task {
            self.objects.layout_answered(node);
        }
        if self.missed.remove(&task) {
            match &task {
                Task::Job(key) => self.objects.job_due(key),
                Task::Orphan(key) => self.objects.orphan_due(key),
                Task::QueueFinalizer(name) => self.objects.queue_due(name),
                Task::FlavorFinalizer(name) => self.objects.flavor_due(name),
                Task::TopologyFinalizer(name) => self.objects.topology_due(name),
                Task::CheckStatus(name) => self.objects.check_due(name),
                Task::Provisioning(key) => self.objects.provisioning_due(key),
                Task::Instances(key) => self.objects.instances_due(key),
                Task::Layout(node) => self.objects.layout_due(node),
                _ => {}
            }
        }
        match answer {
            Ok(object) => {
                self.retries.settled(&task);
                self.succeeded(&task, sent.as_ref(), &object);
                for note in notes {
                    self.notes.send(note);
                }
            }
            Err(refusal) => self.refused(task, uid.as_deref(), &refusal),
        }
    }

    fn succeeded(&mut self, task: &Task, sent: Option<&Value>, answer: &Answer) {
        self.record.carried_out(task, &self.objects.state);
        match (task, sent) {
            (Task::PolicyStatus(name), Some(body)) => self.policies.written(name, body),
            (Task::QueueStatus(name), Some(body)) => self.objects.queue_status_written(name, body),
            (Task::LocalQueueStatus(key), Some(body)) => self.objects.local_queue_status_written(key, body),
            (Task::CohortStatus(name), Some(body)) => self.objects.cohort_status_written(name, body),
            // What the API server answered with is seen now, ahead of the watch.
            _ => match answer {
                Answer::Workload(workload) => self.objects.confirm_workload(workload),
                Answer::Made(workload) => {
                    self.objects.confirm_workload(workload);
                    self.tell_made(task, workload);
                }
                Answer::Job(job) => self.objects.confirm_job(job),
                // What is wrong with it, if anything is, the watch tells as well.
                Answer::ProvisioningRequest(request) => {
                    let _ = self.objects.apply_provisioning_request(request);
                }
                Answer::GpuNode(node) => self.objects.apply_gpu_node(node),
                Answer::Other => {}
            },
        }
    }

    /// Says on a job what its Workload is called.
    fn tell_made(&mut self, task: &Task, workload: &Workload) {
        if let Task::Job(key) = task
            && let Some(job) = self.objects.job(key)
        {
            let name = format!("{}/{}", workload.namespace().unwrap_or_default(), workload.name_any());
            let message = format!("Created Workload: {name}");
            self.notes.send(jobs::note(job, false, "CreatedWorkload", message));
        }
    }

    fn refused(&mut self, task: Task, uid: Option<&str>, refusal: &Refusal) {
        match refusal {
            Refusal::Outdated | Refusal::Gone => tracing::debug!(?task, ?refusal),
            Refusal::Failed(problem) => {
                tracing::warn!(?task, "refused: {problem}");
                self.record.refused(&task, problem);
            }
            Refusal::Unknown(problem) => tracing::warn!(?task, "no answer: {problem}"),
        }
        match (&task, refusal) {
            (Task::Admit(key) | Task::Look(key) | Task::Evict(key) | Task::Report(key), Refusal::Gone) => {
                self.retries.settled(&task);
                self.preempting.take(key);
                return self.objects.gone(key, uid.unwrap_or_default());
            }
            (Task::Admit(key), Refusal::Failed(problem)) => {
                self.metrics.refused.inc();
                self.objects.state.refuse(key, problem.clone());
            }
            // A conflict may be with our own write, whose answer was lost and which the client sent again. Until
            // the truth is known the quota counts as held: free for a moment would be given away twice.
            (Task::Admit(key), _) => {
                self.metrics.refused.inc();
                return self.look(&key.clone());
            }
            (Task::Report(key), Refusal::Outdated) => return self.objects.state.report_again(key),
            (
                Task::QueueStatus(_)
                | Task::LocalQueueStatus(_)
                | Task::CohortStatus(_)
                | Task::CheckStatus(_)
                | Task::PolicyStatus(_),
                Refusal::Gone,
            ) => return,
            // It is not there to be divided any more: whoever was to have it finds another.
            (Task::Layout(node), Refusal::Gone) => {
                self.retries.settled(&task);
                return self.objects.delete_gpu_node(node);
            }
            (Task::Provisioning(key), Refusal::Failed(problem)) => self.tell_not_asked(&key.clone(), problem),
            (Task::QueueStatus(name), _) => return self.statuses.again_queue(name),
            (Task::LocalQueueStatus(key), _) => return self.statuses.again_local_queue(key),
            (Task::CohortStatus(name), _) => return self.statuses.again_cohort(name),
            (Task::Job(key), Refusal::Outdated) => {
                if let Some(note) = self.objects.name_taken(key) {
                    self.tell_stuck(key, note);
                }
            }
            (Task::Job(key), Refusal::Failed(problem)) => {
                if let Some(job) = self.objects.job(key) {
                    let (about, uid, message) = (job.target.clone(), job.uid.clone(), problem.clone());
                    self.tell_stuck(
                        key,
                        Note { about, uid, warning: true, reason: "Refused".into(), message },
                    );
                }
            }
            _ => {}
        }
        self.retries.failed(task, Instant::now());
    }

    /// Has a Workload looked at.
    fn look(&mut self, key: &WorkloadKey) {
        if let Some(workload) = self.objects.state.workload(key) {
            let order = Order::Look { workload: key.clone(), uid: workload.uid.to_string() };
            self.applier.push(Task::Look(key.clone()), order, vec![]);
        }
    }

    /// Tries again what failed a while ago.
    pub(super) fn try_again(&mut self, now: Timestamp) {
        for task in self.retries.due(Instant::now()) {
            match &task {
                Task::Admit(key) => self.objects.state.try_again(key),
                Task::Look(key) => self.look(key),
                // Every turn looks at all that are planned.
                Task::Evict(key) => {
                    if self.objects.state.eviction(key).is_none() {
                        self.retries.settled(&task);
                    }
                }
                Task::Report(key) => self.objects.state.report_again(key),
                Task::Unseen(pod, uid) => self.look_for(pod.clone(), uid.clone()),
                Task::QueueFinalizer(_) | Task::FlavorFinalizer(_) | Task::TopologyFinalizer(_) => {
                    self.finalizer(task);
                }
                Task::CheckStatus(name) => self.check_status(&name.clone(), now),
                Task::Provisioning(key) => self.provision(&key.clone(), now),
                Task::Instances(key) => self.instances([key.clone()].into(), now),
                Task::Layout(node) => {
                    self.retries.settled(&task);
                    self.objects.layout_due(node);
                }
                _ => self.step(task, now),
            }
        }
    }
}
