//! Makes a problem on which two managers differ smaller.
//!
//! Everything that could be left out is tried at once, each in a problem of its own; then what could be left out
//! is left out together, as much of it as goes.

use std::collections::BTreeSet;

use anyhow::Result;
use whalezen_crds::kueue::v1beta2::{ClusterQueuePreemption, FlavorFungibility, ResourceGroup};

use super::pair::{Case, Pair};
use super::problem::{Act, Problem};

/// Something that can be left out of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cut {
    /// A queue, with all that happens to it.
    Queue(usize),
    /// An act.
    Act(usize),
    /// The quota of a cohort.
    Cohort(usize),
    /// All limits of a queue.
    Limits(usize),
    /// The fungibility of a queue.
    Fungibility(usize),
    /// The preemption of a queue.
    Preemption(usize),
    /// All pod sets but the first of a workload.
    PodSets(usize),
}

/// The smallest case found that differs.
pub async fn shrink(pair: &Pair, case: Case) -> Result<Case> {
    let mut best = case;
    loop {
        let cuts = cuts(&best.problem);
        let single = cuts.iter().map(|&cut| apply(&best.problem, &[cut].into())).collect();
        let cases = pair.play(single).await?;
        let possible: Vec<_> = cuts
            .into_iter()
            .zip(&cases)
            .filter(|(_, case)| case.difference.is_some())
            .map(|(cut, _)| cut)
            .collect();
        let together = (1..=possible.len())
            .map(|most| apply(&best.problem, &possible.iter().take(most).copied().collect()))
            .collect();
        let smaller = pair.play(together).await?.into_iter().rfind(|case| case.difference.is_some());
        match smaller {
            Some(smaller) => best = smaller,
            None => return Ok(best),
        }
    }
}

/// All that may be left out and makes a difference to the problem.
fn cuts(problem: &Problem) -> Vec<Cut> {
    let queues = 0..problem.queues.len();
    let acts = 0..problem.acts.len();
    let all = queues
        .clone()
        .map(Cut::Queue)
        .chain(acts.clone().map(Cut::Act))
        .chain((0..problem.cohorts.len()).map(Cut::Cohort))
        .chain(queues.clone().map(Cut::Limits))
        .chain(queues.clone().map(Cut::Fungibility))
        .chain(queues.map(Cut::Preemption))
        .chain(acts.map(Cut::PodSets));
    all.filter(|&cut| apply(problem, &[cut].into()) != *problem).collect()
}

fn apply(problem: &Problem, cuts: &BTreeSet<Cut>) -> Problem {
    let mut cut = problem.clone();
    let gone: Vec<_> = (problem.queues.iter().enumerate())
        .filter(|(index, _)| cuts.contains(&Cut::Queue(*index)))
        .filter_map(|(_, queue)| queue.metadata.name.clone())
        .collect();
    for (index, cohort) in cut.cohorts.iter_mut().enumerate() {
        if cuts.contains(&Cut::Cohort(index)) {
            cohort.spec.resource_groups.clear();
        }
    }
    for (index, act) in cut.acts.iter_mut().enumerate() {
        if let (Act::Submit(workload), true) = (act, cuts.contains(&Cut::PodSets(index))) {
            workload.spec.pod_sets.truncate(1);
        }
    }
    let mut index = 0;
    cut.acts.retain(|act| {
        index += 1;
        let queue = match act {
            Act::Submit(workload) => workload.spec.queue_name.as_ref(),
            Act::Edit(queue) => queue.metadata.name.as_ref(),
            Act::StopLocalQueue(queue, _) => Some(queue),
            Act::Finish(_) | Act::EditCohort(_) => None,
        };
        !cuts.contains(&Cut::Act(index - 1)) && !queue.is_some_and(|queue| gone.contains(queue))
    });
    let edited = cut.acts.iter_mut().filter_map(|act| match act {
        Act::Edit(queue) => Some(&mut **queue),
        _ => None,
    });
    for queue in cut.queues.iter_mut().chain(edited) {
        let Some(index) = problem.queues.iter().position(|of| of.metadata.name == queue.metadata.name) else {
            continue;
        };
        if cuts.contains(&Cut::Limits(index)) {
            drop_limits(&mut queue.spec.resource_groups);
        }
        if cuts.contains(&Cut::Fungibility(index)) {
            queue.spec.flavor_fungibility = FlavorFungibility::default();
        }
        if cuts.contains(&Cut::Preemption(index)) {
            queue.spec.preemption = ClusterQueuePreemption::default();
        }
    }
    cut.queues.retain(|queue| !queue.metadata.name.as_ref().is_some_and(|name| gone.contains(name)));
    cut
}

fn drop_limits(groups: &mut [ResourceGroup]) {
    let quotas =
        groups.iter_mut().flat_map(|group| &mut group.flavors).flat_map(|flavor| &mut flavor.resources);
    for quota in quotas {
        quota.borrowing_limit = None;
        quota.lending_limit = None;
    }
}
