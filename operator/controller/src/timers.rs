//! Whose next step may be another one although nothing changes, and when.

use std::collections::{BTreeMap, BTreeSet};

use whalezen_core::workload::Timestamp;

use crate::applier::Task;

/// At most one moment for each task.
#[derive(Debug, Default)]
pub struct Timers {
    at: BTreeMap<Task, Timestamp>,
    order: BTreeSet<(Timestamp, Task)>,
}

impl Timers {
    /// The task is due again at this moment, and at no other that was set before; `None`: at no moment.
    pub fn set(&mut self, task: &Task, at: Option<Timestamp>) {
        let before = match at {
            Some(at) => self.at.insert(task.clone(), at),
            None => self.at.remove(task),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, task.clone()));
        }
        if let Some(at) = at {
            self.order.insert((at, task.clone()));
        }
    }

    /// The tasks whose moment has come. Each is handed out once.
    pub fn due(&mut self, now: Timestamp) -> Vec<Task> {
        let mut due = Vec::new();
        while let Some((at, _)) = self.order.first()
            && *at <= now
            && let Some((_, task)) = self.order.pop_first()
        {
            self.at.remove(&task);
            due.push(task);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use whalezen_core::name::WorkloadKey;

    use super::*;

    #[test]
    fn a_task_is_due_once_at_the_moment_that_was_set_last() {
        let task = |name: &str| Task::Orphan(WorkloadKey::new("ns", name));
        let mut timers = Timers::default();
        timers.set(&task("a"), Some(Timestamp(10)));
        timers.set(&task("b"), Some(Timestamp(5)));
        timers.set(&task("c"), Some(Timestamp(5)));
        timers.set(&task("a"), Some(Timestamp(20)));
        timers.set(&task("c"), None);
        assert_eq!(timers.due(Timestamp(4)), []);
        assert_eq!(timers.due(Timestamp(15)), [task("b")]);
        assert_eq!(timers.due(Timestamp(20)), [task("a")]);
        assert_eq!(timers.due(Timestamp(99)), []);
    }
}
