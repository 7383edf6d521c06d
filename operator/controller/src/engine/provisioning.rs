//! Checks that the cluster autoscaler answers: one write for each Workload and each check, when its turn comes.

use whalezen_core::{name::WorkloadKey, workload::Timestamp};
use whalezen_dialects::kueue::provisioning::Step;

use super::{Engine, now};
use crate::{applier::Task, sender::Order};

impl Engine {
    /// Hands over whether a check can be answered.
    pub(super) fn check_status(&mut self, name: &str, now: Timestamp) {
        let task = Task::CheckStatus(name.to_owned());
        if !self.may_begin(&task) {
            return;
        }
        match self.objects.check_status(name, now) {
            Some(write) => self.applier.push(task, Order::Write(Box::new(write)), vec![]),
            None => self.retries.settled(&task),
        }
    }

    /// Hands over the next step for a Workload's checks.
    pub(super) fn provision(&mut self, key: &WorkloadKey, now: Timestamp) {
        let task = Task::Provisioning(key.clone());
        if !self.may_begin(&task) {
            return;
        }
        match self.objects.next_provisioning_step(key, now) {
            Step::Rest => self.retries.settled(&task),
            Step::Write(write, notes) => self.applier.push(task, Order::Write(write), notes),
            Step::Ask { check, request } => {
                let workload = self.objects.state.workload(key);
                if let (Some(config), Some(workload)) = (self.objects.provisioning_config(&check), workload) {
                    let order = Order::AskForNodes {
                        workload: key.clone(),
                        version: workload.version,
                        request,
                        config: Box::new(config.clone()),
                        placed: self.objects.placed(key),
                    };
                    self.applier.push(task, order, vec![]);
                }
            }
        }
    }

    /// Tells a Workload why the API server would not have the request for it.
    pub(super) fn tell_not_asked(&mut self, key: &WorkloadKey, problem: &str) {
        if let Some((write, note)) = self.objects.not_asked(key, problem, now()) {
            self.applier.push(Task::Provisioning(key.clone()), Order::Write(Box::new(write)), vec![]);
            self.notes.send(note);
        }
    }
}
