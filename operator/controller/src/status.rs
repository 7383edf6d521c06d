//! When the status of queues is written: soon after it changed, but not all the time.
//!
//! The first change is written at once. After that a queue waits its turn behind the others and at least a second, and
//! twice as long each time that it goes on changing, up to eight; what changes meanwhile goes into one write. So a
//! thousand admissions a minute cost a few writes, and a queue that came to rest shows its final counts within seconds.
//! The more queues there are, the more are written a second, so that each has its turn within a minute.

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
const ROUND: usize = 60;
const BURST: u32 = 60;
/// How long a queue waits after its first write, and at most.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(8)];

/// The last write of a queue's status.
#[derive(Clone, Copy, Debug)]
struct Written {
    at: Instant,
    /// How long the next one waits.
    pause: Duration,
}

impl Written {
    /// It is written now, after it was written then. What did not change for twice the time that it had to wait begins
    /// anew.
    fn now(before: Option<Self>, now: Instant) -> Self {
        let [least, most] = PAUSES;
        let pause = match before {
            Some(before) if now.duration_since(before.at) < before.pause * 2 => (before.pause * 2).min(most),
            _ => least,
        };
        Self { at: now, pause }
    }

    fn is_rested(self, now: Instant) -> bool {
        now.duration_since(self.at) >= self.pause
    }
}

/// The queues whose status is to be written, in the order in which they asked.
#[derive(Debug)]
pub struct Statuses {
    due: VecDeque<Task>,
    /// The same, to look up.
    noted: BTreeSet<Task>,
    written: BTreeMap<Task, Written>,
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
        let clock = Instant::now();
        self.limiter.set_rate(rate, clock);
        for _ in 0..self.due.len() {
            let Some(task) = self.due.pop_front() else { return };
            let rested = self.written.get(&task).is_none_or(|written| written.is_rested(clock));
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
            if !self.limiter.take(clock) {
                self.due.push_front(task);
                return;
            }
            self.noted.remove(&task);
            let written = Written::now(self.written.get(&task).copied(), clock);
            self.written.insert(task.clone(), written);
            applier.push(task, Order::Write(Box::new(write)), vec![]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_goes_on_changing_waits_longer_and_longer_and_one_that_rested_begins_anew() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut written = None;
        let mut times = vec![];
        for second in 0..40 {
            let is_rested = written.is_none_or(|written: Written| written.is_rested(after(second)));
            if is_rested {
                written = Some(Written::now(written, after(second)));
                times.push(second);
            }
        }
        assert_eq!(times, [0, 1, 3, 7, 15, 23, 31, 39]);
        let rested = Written::now(written, after(60));
        assert!(rested.is_rested(after(61)));
    }
}
