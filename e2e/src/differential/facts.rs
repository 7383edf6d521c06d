//! What can be read off a problem and two traces about the step at which they differ.

use std::collections::{BTreeMap, BTreeSet};

use whalezen_crds::kueue::v1beta2::{ClusterQueue, QueueingStrategy, StopPolicy, Workload};

use super::outcome::Step;
use super::pair::Case;
use super::problem::{Act, Problem, name};

/// The step of the first difference, and what led to it.
pub struct Facts<'a> {
    problem: &'a Problem,
    /// The step as our operator took it.
    pub ours: &'a Step,
    /// The step as Kueue took it.
    pub theirs: &'a Step,
    /// What ours had made of the act before.
    ours_before: Option<&'a Step>,
    /// What Kueue had made of it.
    before: Option<&'a Step>,
    /// Who had arrived by then, in that order, this step's included.
    arrived: Vec<&'a Workload>,
    /// How many acts of the problem had been performed, this step's included. What is let go between them is none.
    performed: usize,
    /// Who had ended by then.
    ended: BTreeSet<&'a str>,
}

impl<'a> Facts<'a> {
    /// None where the traces do not differ, or one of them has no such step or another act there.
    pub fn of(case: &'a Case) -> Option<Self> {
        let at = case.difference?.step;
        let (ours, theirs) = (case.ours.steps.get(at)?, case.theirs.steps.get(at)?);
        if ours.act != theirs.act {
            return None;
        }
        let acts = || case.theirs.steps.iter().take(at + 1).map(|step| step.act.as_str());
        let submitted: BTreeMap<&str, &Workload> = case
            .problem
            .acts
            .iter()
            .filter_map(submission)
            .map(|workload| (of(workload), workload))
            .collect();
        Some(Self {
            problem: &case.problem,
            ours,
            theirs,
            ours_before: at.checked_sub(1).and_then(|before| case.ours.steps.get(before)),
            before: at.checked_sub(1).and_then(|before| case.theirs.steps.get(before)),
            arrived: acts().filter_map(|act| submitted.get(act.strip_prefix("submit ")?).copied()).collect(),
            performed: acts().filter(|act| !act.ends_with(" is let go")).count(),
            ended: acts().filter_map(|act| act.strip_suffix(" finishes")).collect(),
        })
    }

    /// Who holds quota with our operator and not with Kueue.
    pub fn only_ours(&self) -> Vec<&'a str> {
        missing(self.ours, self.theirs)
    }

    /// Who holds quota with Kueue and not with our operator.
    pub fn only_theirs(&self) -> Vec<&'a str> {
        missing(self.theirs, self.ours)
    }

    /// Who waits in both.
    pub fn waiting(&self) -> impl Iterator<Item = &'a Workload> {
        let waits = |workload: &&&'a Workload| {
            let name = of(workload);
            !self.ended.contains(name)
                && !self.ours.holders.contains_key(name)
                && !self.theirs.holders.contains_key(name)
        };
        self.arrived.iter().filter(waits).copied()
    }

    /// Whether somebody arrives in this very step.
    pub fn arrives_now(&self, name: &str) -> bool {
        self.theirs.act.strip_prefix("submit ") == Some(name)
    }

    /// Whose quota it is that this step's act gives back: that of the workload for which another had to stop.
    pub fn is_kept_for(&self) -> Option<&'a str> {
        let victim = self.theirs.act.strip_suffix(" is let go")?;
        self.ours_before?.preemptors.get(victim).map(String::as_str)
    }

    /// Whether the queue of a workload has several flavors of anything.
    pub fn has_several_flavors(&self, name: &str) -> bool {
        self.queue(name)
            .is_some_and(|queue| queue.spec.resource_groups.iter().any(|group| group.flavors.len() > 1))
    }

    /// Who holds quota with ours, or other quota than with Kueue.
    pub fn ours_differently(&self) -> Vec<&'a str> {
        let differs = |(name, words): &(&'a String, &String)| self.theirs.holders.get(*name) != Some(*words);
        self.ours.holders.iter().filter(differs).map(|(name, _)| name.as_str()).collect()
    }

    /// The queue of somebody who has arrived.
    pub fn queue(&self, workload: &str) -> Option<&'a ClusterQueue> {
        let queue = self.workload(workload)?.spec.queue_name.as_ref()?;
        self.problem.queues.iter().find(|of| of.metadata.name.as_ref() == Some(queue))
    }

    /// Whether a queue is strict.
    pub fn is_strict(&self, workload: &str) -> bool {
        self.queue(workload).is_some_and(|queue| queue.spec.queueing_strategy == QueueingStrategy::StrictFifo)
    }

    /// Whether two wait in the same queue.
    pub fn are_together(&self, one: &str, other: &str) -> bool {
        self.queue(one).is_some_and(|queue| self.queue(other) == Some(queue))
    }

    /// Whether one comes before another in their queue.
    pub fn is_before(&self, one: &str, other: &str) -> bool {
        let place = |name: &str| {
            let arrival = self.arrived.iter().position(|workload| of(workload) == name)?;
            let priority = self.arrived.get(arrival)?.spec.priority.unwrap_or_default();
            Some((std::cmp::Reverse(priority), arrival))
        };
        place(one).zip(place(other)).is_some_and(|(one, other)| one < other)
    }

    /// Whether the order of victims leaves it to their random UIDs which of two goes first: they have one priority
    /// and hold quota since the same second.
    pub fn are_equal_victims(&self, one: &str, other: &str) -> bool {
        let priority = |name| self.workload(name).map(|workload| workload.spec.priority);
        let since = |name| self.before.and_then(|step| step.since.get(name));
        priority(one).is_some()
            && priority(one) == priority(other)
            && since(one).is_some()
            && since(one) == since(other)
    }

    /// Who is told to stop in the one and not in the other, and the other way round.
    pub fn other_victims(&self) -> (Vec<&'a str>, Vec<&'a str>) {
        let (ours, theirs) = (victims(self.ours), victims(self.theirs));
        (ours.difference(&theirs).copied().collect(), theirs.difference(&ours).copied().collect())
    }

    /// Whether the act is the end of somebody whose `LocalQueue` was stopped by then.
    pub fn ends_in_stopped_queue(&self) -> bool {
        let Some(queue) = (self.theirs.act.strip_suffix(" finishes"))
            .and_then(|name| self.workload(name)?.spec.queue_name.as_ref())
        else {
            return false;
        };
        let policy = self.problem.acts.iter().take(self.performed).rev().find_map(|act| match act {
            Act::StopLocalQueue(stopped, policy) if stopped == queue => Some(*policy),
            _ => None,
        });
        policy.is_some_and(|policy| policy != StopPolicy::None)
    }

    fn workload(&self, name: &str) -> Option<&'a Workload> {
        self.arrived.iter().find(|workload| of(workload) == name).copied()
    }
}

/// The name of a workload.
pub fn of(workload: &Workload) -> &str {
    name(workload.metadata.name.as_ref())
}

fn submission(act: &Act) -> Option<&Workload> {
    match act {
        Act::Submit(workload) => Some(workload),
        _ => None,
    }
}

/// Who holds quota in the one step and not in the other.
fn missing<'a>(here: &'a Step, there: &Step) -> Vec<&'a str> {
    here.holders.keys().filter(|name| !there.holders.contains_key(*name)).map(String::as_str).collect()
}

fn victims(step: &Step) -> BTreeSet<&str> {
    let evicted = step.holders.iter().filter(|(_, words)| words.contains(", evicted: "));
    evicted.map(|(name, _)| name.as_str()).collect()
}
