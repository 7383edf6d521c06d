//! Workloads that wait for MIG instances, and the layouts of nodes: one write for each, when its turn comes.

use std::collections::BTreeSet;

use whalezen_core::{name::WorkloadKey, workload::Timestamp};
use whalezen_dialects::kueue::mig::Step;

use super::Engine;
use crate::{applier::Task, sender::Order};

impl Engine {
    /// Hands over the next steps for Workloads that wait for instances.
    pub(super) fn instances(&mut self, mut keys: BTreeSet<WorkloadKey>, now: Timestamp) {
        keys.retain(|key| self.may_begin(&Task::Instances(key.clone())));
        if keys.is_empty() {
            return;
        }
        for (key, step) in self.objects.next_instances_steps(keys, now) {
            let task = Task::Instances(key.clone());
            match step {
                Step::Until(moment) => {
                    self.timers.set(&task, moment);
                    self.retries.settled(&task);
                }
                Step::Write(write, notes) => {
                    self.timers.set(&task, None);
                    self.applier.push(task, Order::Write(write), notes);
                }
                Step::Layout { node, write, note } => {
                    // Whoever waits has its turn again when the node was written.
                    let task = Task::Layout(node.clone());
                    if self.may_begin(&task) {
                        self.objects.layout_sent(&node, Some(&key));
                        self.applier.push(task, Order::Write(write), vec![note]);
                    }
                }
            }
        }
    }

    /// Hands over a node's layout, if anything in it is nobody's any more.
    pub(super) fn tidy_layout(&mut self, node: &str) {
        let task = Task::Layout(node.to_owned());
        if !self.may_begin(&task) {
            return;
        }
        match self.objects.tidy_layout(node) {
            Some(write) => {
                self.objects.layout_sent(node, None);
                self.applier.push(task, Order::Write(Box::new(write)), vec![]);
            }
            None => self.retries.settled(&task),
        }
    }
}
