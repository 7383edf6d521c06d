//! When the status of queues is written: soon after it changed, but not all the time.
//!
//! The first change is written at once. After that a queue waits its turn behind the others and at least a second;
//! what changes meanwhile goes into one write. So a thousand admissions a minute cost a few writes, and a queue
//! that came to rest shows its final counts within a second or two. The more queues there are, the more are written a
//! second, so that each has its turn within half a minute.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;
use whalezen_core::{
    name::{ClusterQueueName, CohortName, LocalQueueKey},
    state::Changed,
    workload::Timestamp,
};
use whalezen_dialects::kueue::objects::Objects;

use crate::{
    applier::{Applier, Task},
    limiter::Limiter,
    sender::Order,
};

/// How many are written a second, at least.
const PER_SECOND: u32 = 15;
/// In how many seconds all that were ever written could be written again.
const ROUND: usize = 30;
const BURST: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);

/// The queues whose status is to be written, in the order in which they asked.
#[derive(Debug)]
pub struct Statuses {
    due: VecDeque<Task>,
    /// The same, to look up.
    noted: BTreeSet<Task>,
    written: BTreeMap<Task, Instant>,
    limiter: Limiter,
}

impl Default for Statuses {
    fn default() -> Self {
        Self {
            due: VecDeque::new(),
            noted: BTreeSet::new(),
            written: BTreeMap::new(),
            limiter: Limiter::new(PER_SECOND, BURST, Instant::now()),
        }
    }
}

impl Statuses {
    /// These may have changed.
    pub fn note(&mut self, changed: Changed) {
        for name in changed.queues {
            self.again_queue(&name);
        }
        for key in changed.local_queues {
            self.again_local_queue(&key);
        }
        for name in changed.cohorts {
            self.again_cohort(&name);
        }
    }

    /// This ClusterQueue may have changed.
    pub fn again_queue(&mut self, name: &ClusterQueueName) {
        self.add(Task::QueueStatus(name.clone()));
    }

    /// This LocalQueue may have changed.
    pub fn again_local_queue(&mut self, key: &LocalQueueKey) {
        self.add(Task::LocalQueueStatus(key.clone()));
    }

    /// This cohort may have changed.
    pub fn again_cohort(&mut self, name: &CohortName) {
        self.add(Task::CohortStatus(name.clone()));
    }

    fn add(&mut self, task: Task) {
        if self.noted.insert(task.clone()) {
            self.due.push_back(task);
        }
    }

    /// Hands over those that are due, as far as the rate allows.
    pub fn write(&mut self, objects: &Objects, applier: &mut Applier, now: Timestamp) {
        let queues = self.written.len().max(self.due.len());
        let rate = u32::try_from(queues.div_ceil(ROUND)).unwrap_or(u32::MAX).max(PER_SECOND);
        self.limiter.set_rate(rate, Instant::now());
        for _ in 0..self.due.len() {
            let Some(task) = self.due.pop_front() else { return };
            let rested = self.written.get(&task).is_none_or(|at| at.elapsed() >= PAUSE);
            if !rested || applier.is_busy(&task) {
                self.due.push_back(task);
                continue;
            }
            let write = match &task {
                Task::QueueStatus(name) => objects.queue_status(name, now),
                Task::LocalQueueStatus(key) => objects.local_queue_status(key, now),
                Task::CohortStatus(name) => objects.cohort_status(name),
                _ => None,
            };
            let Some(write) = write else {
                self.noted.remove(&task);
                self.written.remove(&task);
                continue;
            };
            if !self.limiter.take(Instant::now()) {
                self.due.push_front(task);
                return;
            }
            self.noted.remove(&task);
            self.written.insert(task.clone(), Instant::now());
            applier.push(task, Order::Write(Box::new(write)), vec![]);
        }
    }
}
