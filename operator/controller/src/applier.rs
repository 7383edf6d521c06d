//! The only writer: what is to be written waits here by urgency, and is sent within the rate, a few at a time, and
//! only while this replica leads.
//!
//! A task is something that is written for a reason (an admission, a job's next step, a queue's status). Each is
//! here at most once; what it came to is handed back as [`Done`], and the engine decides what that means.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use whalezen_core::name::{
    ClusterQueueName, CohortName, FlavorName, LocalQueueKey, TopologyName, WorkloadKey,
};
use whalezen_dialects::{kueue::jobs::JobKey, write::Note};

use crate::{
    lease::Leadership,
    limiter::Limiter,
    metrics::Metrics,
    sender::{Answer, Order, Sender},
};

/// How many requests may be under way. The API server answers no faster for more of them.
const IN_FLIGHT: usize = 24;

/// How many of them are left to each urgency as long as something of it waits. An API server that others keep busy
/// answers slowly: without these, people would see nothing new for as long as there is work.
const LEFT_TO: [usize; 3] = [18, 4, 2];

/// How long an answer is waited for. A connection that went silent says nothing by itself: without an end all
/// requests would be under way for ever, while the lease is renewed on another connection.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Why something is written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Task {
    /// A workload gets its quota.
    Admit(WorkloadKey),
    /// A workload is looked at, because nobody knows whether its admission was accepted.
    Look(WorkloadKey),
    /// A workload is told to stop so that another fits.
    Evict(WorkloadKey),
    /// A job's next step.
    Job(JobKey),
    /// The next step of a Workload that has no job.
    Orphan(WorkloadKey),
    /// A pod of this uid is looked for that is not seen any more.
    Unseen(JobKey, String),
    /// A ClusterQueue's finalizer comes or goes.
    QueueFinalizer(ClusterQueueName),
    /// A flavor's finalizer comes or goes.
    FlavorFinalizer(FlavorName),
    /// A topology's finalizer comes or goes.
    TopologyFinalizer(TopologyName),
    /// A ClusterQueue's status.
    QueueStatus(ClusterQueueName),
    /// A LocalQueue's status.
    LocalQueueStatus(LocalQueueKey),
    /// A cohort's status.
    CohortStatus(CohortName),
    /// A policy's status.
    PolicyStatus(String),
    /// The status of a check that is answered here.
    CheckStatus(String),
    /// The next step for a workload's checks that the cluster autoscaler answers.
    Provisioning(WorkloadKey),
    /// The next step for a workload that waits for MIG instances.
    Instances(WorkloadKey),
    /// The layout of a node's GPUs.
    Layout(String),
    /// A workload is told why it waits.
    Report(WorkloadKey),
}

impl Task {
    /// Work first, then what people look at, then what has time.
    fn urgency(&self) -> usize {
        match self {
            Self::Admit(_)
            | Self::Look(_)
            | Self::Evict(_)
            | Self::Job(_)
            | Self::Orphan(_)
            | Self::Provisioning(_)
            | Self::Instances(_)
            | Self::Layout(_) => 0,
            Self::QueueStatus(_)
            | Self::LocalQueueStatus(_)
            | Self::CohortStatus(_)
            | Self::CheckStatus(_)
            | Self::PolicyStatus(_) => 1,
            Self::Report(_)
            | Self::Unseen(..)
            | Self::QueueFinalizer(_)
            | Self::FlavorFinalizer(_)
            | Self::TopologyFinalizer(_) => 2,
        }
    }
}

/// Why a write did not happen.
#[derive(Debug)]
pub enum Refusal {
    /// The object was changed meanwhile; what is known now decides anew.
    Outdated,
    /// The object is not there any more.
    Gone,
    /// The API server will not have it.
    Failed(String),
    /// There was no answer, or none that says whether it happened.
    Unknown(String),
}

/// What became of a task.
#[derive(Debug)]
pub struct Done {
    /// The task.
    pub task: Task,
    /// What was sent, if that is to be kept as the object's status.
    pub sent: Option<Value>,
    /// The uid of the object that was meant: one of the same name may be another by now.
    pub uid: Option<String>,
    /// What to tell people if it went well.
    pub notes: Vec<Note>,
    /// The object as it is now.
    pub answer: Result<Answer, Refusal>,
}

struct Waiting {
    task: Task,
    order: Order,
    notes: Vec<Note>,
}

/// See the module.
pub struct Applier {
    sender: Sender,
    leadership: Leadership,
    limiter: Limiter,
    waiting: [VecDeque<Waiting>; 3],
    /// Tasks that wait or are under way.
    busy: BTreeSet<Task>,
    /// How many are under way, by urgency.
    in_flight: [usize; 3],
    to: mpsc::UnboundedSender<Done>,
}

impl Applier {
    /// An applier, and where it reports.
    pub fn new(
        client: kube::Client,
        metrics: Arc<Metrics>,
        leadership: Leadership,
        limiter: Limiter,
    ) -> (Self, mpsc::UnboundedReceiver<Done>) {
        // At most IN_FLIGHT reports are ever in it.
        let (to, done) = mpsc::unbounded_channel();
        let applier = Self {
            sender: Sender::new(client, metrics),
            leadership,
            limiter,
            waiting: Default::default(),
            busy: BTreeSet::new(),
            in_flight: [0; 3],
            to,
        };
        (applier, done)
    }

    /// Whether a task waits or is under way.
    pub fn is_busy(&self, task: &Task) -> bool {
        self.busy.contains(task)
    }

    /// Whether nothing waits.
    pub fn is_idle(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    /// Takes a task in, unless it is here already.
    pub fn push(&mut self, task: Task, order: Order, notes: Vec<Note>) {
        if self.busy.insert(task.clone())
            && let Some(queue) = self.waiting.get_mut(task.urgency())
        {
            queue.push_back(Waiting { task, order, notes });
        }
    }

    /// Takes back what waits and was not sent, but for what is only looked at.
    pub fn clear(&mut self) -> Vec<Task> {
        let mut tasks = Vec::new();
        for queue in &mut self.waiting {
            let (looks, writes) = queue.drain(..).partition(|waiting| matches!(waiting.task, Task::Look(_)));
            *queue = looks;
            tasks.extend(writes.into_iter().map(|waiting: Waiting| waiting.task));
        }
        for task in &tasks {
            self.busy.remove(task);
        }
        tasks
    }

    /// A report was read.
    pub fn finished(&mut self, task: &Task) {
        self.busy.remove(task);
        if let Some(in_flight) = self.in_flight.get_mut(task.urgency()) {
            *in_flight -= 1;
        }
    }

    /// Sends what may be sent. If the rate holds something back, says until when.
    pub fn dispatch(&mut self) -> Option<Instant> {
        while self.leadership.may_write()
            && let Some(urgency) = next(self.waiting.each_ref().map(VecDeque::len), self.in_flight)
        {
            if !self.limiter.take(Instant::now()) {
                return Some(self.limiter.next());
            }
            let (Some(waiting), Some(in_flight)) =
                (self.waiting.get_mut(urgency), self.in_flight.get_mut(urgency))
            else {
                break;
            };
            let Some(next) = waiting.pop_front() else { break };
            *in_flight += 1;
            let (sender, leadership, to) = (self.sender.clone(), self.leadership.clone(), self.to.clone());
            tokio::spawn(async move {
                let Waiting { task, order, notes } = next;
                let sent = match &order {
                    Order::Write(write)
                        if matches!(
                            task,
                            Task::QueueStatus(_)
                                | Task::LocalQueueStatus(_)
                                | Task::CohortStatus(_)
                                | Task::PolicyStatus(_)
                        ) =>
                    {
                        Some(write.body.clone())
                    }
                    _ => None,
                };
                let uid = order.uid().map(ToOwned::to_owned);
                // Asked again here: the process may have stood still since.
                let answer = if leadership.may_write() {
                    // The client sends again what a busy API server turned away, but not beyond the claim.
                    tokio::select! {
                        answer = sender.carry_out(order) => answer.map_err(|problem| refusal(&problem)),
                        () = leadership.ended() => Err(Refusal::Unknown("the lease ran out before".to_owned())),
                        () = sleep(LONGEST_WAIT) => Err(Refusal::Unknown(format!("within {LONGEST_WAIT:?}"))),
                    }
                } else {
                    Err(Refusal::Outdated)
                };
                // The engine lives as long as the process.
                let _ = to.send(Done { task, sent, uid, notes, answer });
            });
        }
        None
    }
}

/// The urgency of what is sent next, by how many of each wait and are under way: the highest to which a request is left.
fn next(waiting: [usize; 3], in_flight: [usize; 3]) -> Option<usize> {
    let free = IN_FLIGHT.saturating_sub(in_flight.iter().sum());
    let of_each = || waiting.iter().zip(&in_flight).zip(&LEFT_TO).enumerate();
    let left_to = |wanted: usize| -> usize {
        let others = of_each().filter(|(urgency, ((waiting, _), _))| *urgency != wanted && **waiting > 0);
        others.map(|(_, ((_, in_flight), left_to))| left_to.saturating_sub(*in_flight)).sum()
    };
    let mut waits = of_each().filter(|(_, ((waiting, _), _))| **waiting > 0).map(|(urgency, _)| urgency);
    waits.find(|urgency| {
        let below_its_own = in_flight.get(*urgency) < LEFT_TO.get(*urgency);
        free > 0 && (below_its_own || free > left_to(*urgency))
    })
}

fn refusal(problem: &kube::Error) -> Refusal {
    match problem {
        kube::Error::Api(status) if status.is_not_found() => Refusal::Gone,
        kube::Error::Api(status) if status.is_conflict() || status.is_already_exists() => Refusal::Outdated,
        kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429 => {
            Refusal::Failed(status.message.clone())
        }
        problem => Refusal::Unknown(problem.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_goes_first_and_leaves_a_few_requests_to_the_rest() {
        for (waiting, in_flight, sent) in [
            ([0, 0, 0], [0, 0, 0], None),
            ([9, 9, 9], [0, 0, 0], Some(0)),
            ([9, 9, 9], [18, 0, 0], Some(1)),
            ([9, 9, 9], [18, 4, 0], Some(2)),
            ([9, 9, 9], [18, 4, 2], None),
            ([9, 9, 9], [17, 4, 2], Some(0)),
            ([9, 9, 0], [18, 4, 0], Some(0)),
            ([9, 0, 0], [23, 0, 0], Some(0)),
            ([9, 9, 9], [24, 0, 0], None),
            ([0, 9, 9], [0, 22, 0], Some(2)),
            ([0, 0, 9], [0, 0, 23], Some(2)),
        ] {
            assert_eq!(next(waiting, in_flight), sent, "{waiting:?} wait, {in_flight:?} are under way");
        }
    }
}
