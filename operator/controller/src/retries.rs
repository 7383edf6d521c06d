//! When what failed is tried again: after a pause that doubles each time.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::applier::Task;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The tasks that failed and have not succeeded since.
#[derive(Debug, Default)]
pub struct Retries(BTreeMap<Task, Retry>);

#[derive(Debug)]
struct Retry {
    pause: Duration,
    /// When it is due again; `None` while it is being tried.
    due: Option<Instant>,
}

impl Retries {
    /// It failed: the pause begins, twice as long as the last one.
    pub fn failed(&mut self, task: Task, now: Instant) {
        let retry = self.0.entry(task).or_insert(Retry { pause: FIRST_PAUSE / 2, due: None });
        retry.pause = (retry.pause * 2).min(LONGEST_PAUSE);
        retry.due = Some(now + retry.pause);
    }

    /// It went well, or there is nothing to do any more.
    pub fn settled(&mut self, task: &Task) {
        self.0.remove(task);
    }

    /// Whether it failed a moment ago and has to wait.
    pub fn is_pausing(&self, task: &Task) -> bool {
        self.0.get(task).is_some_and(|retry| retry.due.is_some())
    }

    /// The tasks whose pause is over. Each is handed out once.
    pub fn due(&mut self, now: Instant) -> Vec<Task> {
        let over = self.0.iter_mut().filter(|(_, retry)| retry.due.is_some_and(|due| due <= now));
        over.map(|(task, retry)| {
            retry.due = None;
            task.clone()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use whalezen_core::name::WorkloadKey;

    use super::*;

    #[test]
    fn the_pause_doubles_until_it_goes_well() {
        let task = Task::Admit(WorkloadKey::new("ns", "w"));
        let (mut retries, start) = (Retries::default(), Instant::now());
        retries.failed(task.clone(), start);
        assert!(retries.is_pausing(&task));
        assert_eq!(retries.due(start + FIRST_PAUSE - Duration::from_millis(1)), []);
        assert_eq!(retries.due(start + FIRST_PAUSE), vec![task.clone()]);
        assert!(!retries.is_pausing(&task));
        assert_eq!(retries.due(start + LONGEST_PAUSE), []);
        retries.failed(task.clone(), start);
        assert_eq!(retries.due(start + FIRST_PAUSE), []);
        assert_eq!(retries.due(start + FIRST_PAUSE * 2), vec![task.clone()]);
        retries.settled(&task);
        retries.failed(task.clone(), start);
        assert_eq!(retries.due(start + FIRST_PAUSE), vec![task]);
    }

    #[test]
    fn no_pause_is_longer_than_the_longest() {
        let task = Task::Admit(WorkloadKey::new("ns", "w"));
        let (mut retries, start) = (Retries::default(), Instant::now());
        for _ in 0..100 {
            retries.failed(task.clone(), start);
        }
        assert_eq!(retries.due(start + LONGEST_PAUSE), vec![task]);
    }
}
