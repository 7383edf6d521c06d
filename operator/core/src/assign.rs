//! Flavor assignment: which flavor each resource of each pod set would come from.
//!
//! Resources of one group come from one flavor. Flavors are tried in the queue's order; a flavor ends the search
//! if it fits, unless the queue would rather see whether a later one does so without borrowing or preemption
//! (`flavorFungibility`); of those that did not end it the best is taken. Pod sets are treated in order, each on
//! top of what those before it take; those of a topology group are treated as one. Once all have their flavors, those
//! that are to be placed get their [places]. A search may go on behind the flavors of one before it ([`Progress`]). The rules are
//! Kueue's (KEP-582).

mod mode;
mod places;
mod progress;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use self::mode::{Answer, Mode};
pub use self::progress::Progress;
use crate::{
    name::{FlavorName, FlavorResource, ResourceName},
    overlay::Overlay,
    preempt::{Search, Wanted},
    quantity::{Amount, Amounts, Usage, format},
    queue::{ClusterQueue, FlavorQuotas, Reclaim},
    topology::Ask,
    verdict::{Reason, Refusal, Until, Verdict},
    workload::{Admission, PodSet, PodSetAssignment, total},
};

/// Flavors for everything that a workload asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// What each pod set gets.
    pub pod_sets: Vec<PodSetAssignment>,
    /// What all of it uses.
    pub usage: Usage,
    /// How far up it borrows; 0 within the ClusterQueue's own quota.
    pub borrowing: u32,
    /// What others would have to give back first. If there is nothing, it fits.
    pub contested: BTreeSet<FlavorResource>,
    /// What of it is placed on nodes. If anything is contested, the places are those that it would have if nobody were there,
    /// until a way to it is found.
    pub asks: Vec<Ask>,
    /// What it waits for as long as nobody gives that back.
    pub refusal: Option<Refusal>,
    /// What it waits for as well once the quota that it lacks could be had: a place.
    pub with_quota: Option<Until>,
    /// How far the search came.
    pub progress: Progress,
}

/// There is no assignment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Why.
    pub refusal: Refusal,
    /// How far the search came.
    pub progress: Progress,
}

impl Assignment {
    /// The admission that it becomes.
    pub fn into_admission(self, queue: &ClusterQueue) -> Admission {
        Admission { cluster_queue: queue.name.clone(), pod_sets: self.pod_sets }
    }
}

/// What an assignment is made from.
#[derive(Clone, Copy)]
pub struct Offer<'a> {
    /// Who asks, of which ClusterQueue, and whom it may preempt.
    pub search: Search<'a>,
    /// If there are any: what the pod sets of these names are limited to the flavors of.
    pub planned: &'a [PodSetAssignment],
    /// What it goes on behind.
    pub behind: &'a Progress,
}

/// What the quota of a flavor answers to all requests for a group.
struct Quote {
    /// The worst answer, or the worst obstacle.
    mode: Result<Mode, Reason>,
    /// What others would have to give back.
    contested: Vec<FlavorResource>,
    /// An amount that is not available, unless all are, or one never can be.
    missing: Option<(FlavorResource, Amount)>,
}

/// A flavor for one group.
struct Candidate {
    flavor: FlavorName,
    mode: Mode,
    contested: Vec<FlavorResource>,
    /// How many flavors come after the one that ended the search.
    left: usize,
}

/// Why no flavor of a group will do.
struct Obstacle {
    reason: Reason,
    messages: Vec<String>,
}

/// What the search has come to so far.
#[derive(Default)]
struct Draft {
    pod_sets: Vec<PodSetAssignment>,
    usage: Usage,
    borrowing: u32,
    contested: BTreeSet<FlavorResource>,
    /// What the workload whose place this one takes holds for the pod set in hand.
    held: BTreeMap<ResourceName, (FlavorName, Amount)>,
    /// What the pod sets that have to wait are told.
    waits: Vec<String>,
    /// What it takes to change what is told.
    until: Option<Until>,
    /// What may change it as well once there is the quota that is missing.
    with_quota: Option<Until>,
    progress: Progress,
}

impl Offer<'_> {
    /// An assignment for these pod sets, or why there is none.
    pub fn assign(&self, pod_sets: &[PodSet], overlay: &mut Overlay<'_>) -> Result<Assignment, Box<Refused>> {
        let mut draft = Draft::default();
        let Search { state, workload, queue, .. } = self.search;
        let replaced = state.replaced(workload, &queue.name);
        for together in places::together(pod_sets) {
            let Some((index, first)) = together.first().copied() else { continue };
            draft.held = replaced.map(|replaced| replaced.pod_set(&first.name)).unwrap_or_default();
            if let Err(obstacle) = self.assign_together(&together, &mut draft, overlay) {
                draft.waits.push(told(first, obstacle.messages));
                draft.progress.forget(index);
                let refusal = self.refusal(&draft, obstacle.reason);
                return Err(Box::new(Refused { refusal, progress: draft.progress }));
            }
        }
        let position = |given: &PodSetAssignment| pod_sets.iter().position(|of| of.name == given.name);
        draft.pod_sets.sort_by_key(position);
        let asks = match self.place(pod_sets, &mut draft, overlay) {
            Ok(asks) => asks,
            Err(reason) => {
                let refusal = self.refusal(&draft, reason);
                return Err(Box::new(Refused { refusal, progress: draft.progress }));
            }
        };
        let refusal = (!draft.contested.is_empty()).then(|| self.refusal(&draft, Reason::WaitingForQuota));
        let Draft { pod_sets, usage, borrowing, contested, progress, with_quota, .. } = draft;
        Ok(Assignment { pod_sets, usage, borrowing, contested, asks, refusal, with_quota, progress })
    }

    fn refusal(&self, draft: &Draft, reason: Reason) -> Refusal {
        let verdict = Verdict::new(reason, draft.waits.join("; "));
        let until = draft.until.clone().unwrap_or(Until::Redeclared);
        Refusal { verdict, until, behind: self.behind.clone() }
    }

    /// Flavors for pod sets that get the same ones.
    fn assign_together(
        &self,
        together: &[(usize, &PodSet)],
        draft: &mut Draft,
        overlay: &mut Overlay<'_>,
    ) -> Result<(), Obstacle> {
        let requests = together.iter().map(|(_, pod_set)| self.requests(pod_set)).collect::<Option<Vec<_>>>();
        let (Some(requests), Some((index, first))) = (requests, together.first().copied()) else {
            draft.waits_until(Until::Redeclared);
            return Err(Obstacle::new(
                Reason::Misconfigured,
                "the requests exceed what can be counted".to_owned(),
            ));
        };
        let mut flavors: BTreeMap<ResourceName, FlavorName> = BTreeMap::new();
        let mut waits = Vec::new();
        let asked = draft.beyond_what_is_held(&requests);
        for (resource, amount) in &asked {
            if flavors.contains_key(resource) {
                continue;
            }
            let Some(group) = self.search.queue.group_of(resource) else {
                if *amount == Amount::ZERO || self.search.policy.ignore_undeclared {
                    continue;
                }
                draft.waits_until(Until::Redeclared);
                let message = format!("resource {resource} unavailable in ClusterQueue");
                return Err(Obstacle::new(Reason::NoMatchingFlavor, message));
            };
            let of_group = || asked.iter().filter(|(resource, _)| group.resources.contains(resource));
            let left = self.behind.left(index, resource, &group.flavors);
            let candidate = self.choose(left, together, of_group, draft, &mut waits, overlay)?;
            draft.progress.note(index, resource, candidate.left);
            draft.borrowing = draft.borrowing.max(candidate.mode.borrowing);
            draft.contested.extend(candidate.contested);
            flavors.extend(of_group().map(|(resource, _)| (resource.clone(), candidate.flavor.clone())));
        }
        for (resource, flavor) in &flavors {
            let amount = asked.get(resource).copied().unwrap_or_default();
            let key = FlavorResource { flavor: flavor.clone(), resource: resource.clone() };
            *draft.usage.entry(key).or_default() += amount;
        }
        if !waits.is_empty() {
            draft.waits.push(told(first, waits));
        }
        for ((_, pod_set), mut usage) in together.iter().zip(requests) {
            // What no flavor was needed for (nothing is asked of it) is not part of what is given.
            usage.retain(|resource, _| flavors.contains_key(resource));
            let (name, count, placement) = (Arc::clone(&pod_set.name), pod_set.count, None);
            let flavors = self.flavors_of(pod_set, &usage, &flavors);
            draft.pod_sets.push(PodSetAssignment { name, count, flavors, usage, placement });
        }
        Ok(())
    }

    /// What the pod set requests in all, with the count of its pods if the queue has quota for pods.
    fn requests(&self, pod_set: &PodSet) -> Option<Amounts> {
        let mut requests = total(&pod_set.per_pod, pod_set.count)?;
        let pods = ResourceName::from(ResourceName::PODS);
        if self.search.queue.group_of(&pods).is_some() {
            requests.insert(pods, Amount(i64::from(pod_set.count)));
        }
        Some(requests)
    }

    /// The best of these flavors of a group for these requests. If they have to wait for it, `waits` tells for what.
    fn choose<'r, I: Iterator<Item = (&'r ResourceName, &'r Amount)>>(
        &self,
        flavors: &[FlavorQuotas],
        together: &[(usize, &PodSet)],
        requests: impl Fn() -> I,
        draft: &mut Draft,
        waits: &mut Vec<String>,
        overlay: &mut Overlay<'_>,
    ) -> Result<Candidate, Obstacle> {
        let fungibility = self.search.queue.fungibility;
        let mut best: Option<Candidate> = None;
        let mut messages = Vec::new();
        // Of each flavor that the group could have, an amount that is not available.
        let mut missing = Vec::new();
        // The mildest obstacle of any flavor is what the group waits for.
        let mut reason = Reason::NoMatchingFlavor;
        for (index, flavor) in flavors.iter().map(|f| &f.flavor).enumerate() {
            if !together.iter().all(|(_, pod_set)| self.is_planned(flavor, pod_set, requests())) {
                continue;
            }
            let fits = together.iter().try_for_each(|(_, pod_set)| self.matches(flavor, pod_set));
            let fits = fits.and_then(|()| draft.may_take(flavor, requests()));
            if let Err(message) = fits {
                messages.push(message);
                continue;
            }
            let quote = self.ask(flavor, requests(), &draft.usage, &mut messages, overlay);
            missing.extend(quote.missing);
            match quote.mode {
                Ok(mode) => {
                    let better = best
                        .as_ref()
                        .is_none_or(|best| mode.is_better_than(best.mode, fungibility.preference));
                    let ends = !mode.goes_on(fungibility);
                    if better || ends {
                        let left = if ends { flavors.len() - index - 1 } else { 0 };
                        best = Some(Candidate {
                            flavor: flavor.clone(),
                            mode,
                            contested: quote.contested,
                            left,
                        });
                    }
                    if ends {
                        break;
                    }
                }
                Err(obstacle) if severity(obstacle) < severity(reason) => reason = obstacle,
                Err(_) => {}
            }
        }
        if best.as_ref().is_none_or(|best| best.mode.answer != Answer::Fit) {
            draft.waits_until(match reason {
                Reason::NoMatchingFlavor if best.is_none() => Until::Redeclared,
                // What later pod sets are refused for may depend on what those before them chose.
                _ if !draft.pod_sets.is_empty() => Until::Freed,
                _ if best.is_some() && self.search.may_preempt() => self.search.chance(missing),
                _ if missing.is_empty() => Until::Redeclared,
                _ => Until::Available(missing),
            });
        }
        match best {
            Some(candidate) => {
                if candidate.mode.answer != Answer::Fit {
                    waits.append(&mut messages);
                }
                Ok(candidate)
            }
            None => Err(Obstacle { reason, messages }),
        }
    }

    /// Whether the pod set is not limited to another flavor.
    fn is_planned<'r>(
        &self,
        flavor: &FlavorName,
        pod_set: &PodSet,
        mut requests: impl Iterator<Item = (&'r ResourceName, &'r Amount)>,
    ) -> bool {
        let planned = self.planned.iter().find(|planned| planned.name == pod_set.name);
        planned.is_none_or(|planned| {
            requests
                .all(|(resource, _)| planned.flavors.get(resource).is_none_or(|planned| planned == flavor))
        })
    }

    /// Whether the flavor's nodes would take the pods.
    fn matches(&self, name: &FlavorName, pod_set: &PodSet) -> Result<(), String> {
        let Some(flavor) = self.search.state.flavors().get(name) else {
            return Err(format!("flavor {name} not found"));
        };
        self.places(flavor, pod_set)?;
        if let Some(taint) = flavor.untolerated(&pod_set.demand) {
            return Err(format!("untolerated taint {taint} in flavor {name}"));
        }
        if !flavor.satisfies(&pod_set.demand) {
            return Err(format!("flavor {name} doesn't match node affinity"));
        }
        Ok(())
    }

    /// What the quota of one flavor answers to all requests together. A message for every request that does not fit
    /// is left in `messages`.
    fn ask<'r>(
        &self,
        flavor: &FlavorName,
        requests: impl Iterator<Item = (&'r ResourceName, &'r Amount)>,
        taken: &Usage,
        messages: &mut Vec<String>,
        overlay: &mut Overlay<'_>,
    ) -> Quote {
        let (forest, leaf) = (self.search.state.forest(), self.search.leaf);
        let preference = self.search.queue.fungibility.preference;
        let mut worst = Mode { answer: Answer::Fit, borrowing: 0 };
        let mut missing = None;
        let mut contested = Vec::new();
        let mut obstacle: Option<Reason> = None;
        for (resource, amount) in requests {
            let key = FlavorResource { flavor: flavor.clone(), resource: resource.clone() };
            let before = taken.get(&key).copied().unwrap_or_default();
            let wanted = before + *amount;
            // Debt is nobody's who asks for nothing; and it is not part of what is needed in the words of Kueue.
            let available = overlay.available(leaf, &key).max(Amount::ZERO);
            let text = |amount| format(resource.as_str(), amount);
            if wanted <= available {
                let borrowing = forest.borrowing_level(&overlay.now, leaf, &key, wanted);
                let mode = Mode { answer: Answer::Fit, borrowing };
                if worst.is_better_than(mode, preference) {
                    worst = mode;
                }
                continue;
            }
            let capacity = forest.capacity(leaf, &key);
            if wanted > capacity {
                messages.push(format!(
                    "insufficient quota for {resource} in flavor {flavor}, previously considered podsets \
                     requests ({}) + current podset request ({}) > maximum capacity ({})",
                    text(before),
                    text(*amount),
                    text(capacity),
                ));
                obstacle = Some(Reason::ExceedsMaxQuota);
                continue;
            }
            messages.push(format!(
                "insufficient unused quota for {resource} in flavor {flavor}, {} more needed",
                text(wanted - available)
            ));
            missing = Some((key.clone(), wanted));
            if self.has_a_right_to(&key, wanted, overlay) {
                let mode = self.contest(&key, wanted, overlay);
                if worst.is_better_than(mode, preference) {
                    worst = mode;
                }
                contested.push(key);
            } else {
                obstacle = obstacle.or(Some(Reason::WaitingForQuota));
            }
        }
        missing = missing.filter(|_| obstacle != Some(Reason::ExceedsMaxQuota));
        Quote { mode: obstacle.map_or(Ok(worst), Err), contested, missing }
    }

    /// How `wanted` of a resource could be had that is not available.
    fn contest(&self, key: &FlavorResource, wanted: Amount, overlay: &mut Overlay<'_>) -> Mode {
        let (forest, leaf) = (self.search.state.forest(), self.search.leaf);
        if wanted <= forest.available(&overlay.later, leaf, key) {
            let borrowing = forest.borrowing_level(&overlay.later, leaf, key, wanted);
            return Mode { answer: Answer::Reclaim, borrowing };
        }
        let contested = BTreeSet::from([key.clone()]);
        let usage = Usage::from([(key.clone(), wanted)]);
        let asked = Wanted { usage: &usage, contested: &contested, asks: &[] };
        let victims = self.search.victims(&asked, overlay).unwrap_or_default();
        overlay.remove(&victims);
        let borrowing = forest.borrowing_level(&overlay.later, leaf, key, wanted);
        overlay.restore(&victims);
        let answer = if victims.is_empty() {
            Answer::NoCandidates
        } else if victims.iter().any(|victim| victim.leaf == leaf) {
            Answer::Preempt
        } else {
            Answer::Reclaim
        };
        Mode { answer, borrowing }
    }

    fn has_a_right_to(&self, key: &FlavorResource, amount: Amount, overlay: &Overlay<'_>) -> bool {
        let (forest, leaf) = (self.search.state.forest(), self.search.leaf);
        let preemption = &self.search.queue.preemption;
        amount <= forest.quota(leaf, key).nominal
            || forest.within_subtree(&overlay.now, leaf, key, amount)
            || preemption.borrow != crate::queue::BorrowWithinCohort::Never
            || (self.search.policy.fair_sharing.is_some() && preemption.reclaim != Reclaim::Never)
    }
}

impl Draft {
    /// What is asked for together beyond what is held already.
    fn beyond_what_is_held(&self, requests: &[Amounts]) -> Amounts {
        let mut asked = Amounts::new();
        for (resource, amount) in requests.iter().flatten() {
            *asked.entry(resource.clone()).or_default() += *amount;
        }
        for (resource, amount) in &mut asked {
            let held = self.held.get(resource).map(|(_, held)| *held).unwrap_or_default();
            *amount = (*amount - held).max(Amount::ZERO);
        }
        asked
    }

    /// Whether these may come from this flavor: what is held stays where it is, and the rest comes from there too.
    fn may_take<'r>(
        &self,
        flavor: &FlavorName,
        mut requests: impl Iterator<Item = (&'r ResourceName, &'r Amount)>,
    ) -> Result<(), String> {
        let elsewhere = |(resource, _): (&ResourceName, &Amount)| {
            self.held.get(resource).map(|(held, _)| held).filter(|held| *held != flavor)
        };
        match requests.find_map(elsewhere) {
            Some(held) => Err(format!(
                "could not assign {flavor} flavor since the original workload is assigned: {held}"
            )),
            None => Ok(()),
        }
    }

    /// Notes what it takes until a group that does not fit may do. The first such group counts, for nothing helps
    /// before that one is helped, unless one will not fit whatever is given back.
    fn waits_until(&mut self, until: Until) {
        if self.until.is_none() || until == Until::Redeclared {
            self.until = Some(until);
        }
    }
}

impl Obstacle {
    fn new(reason: Reason, message: String) -> Self {
        Self { reason, messages: vec![message] }
    }
}

fn told(pod_set: &PodSet, mut messages: Vec<String>) -> String {
    messages.sort();
    format!("couldn't assign flavors to pod set {}: {}", pod_set.name, messages.join(", "))
}

fn severity(reason: Reason) -> u8 {
    match reason {
        Reason::WaitingForQuota => 0,
        Reason::ExceedsMaxQuota => 1,
        _ => 2,
    }
}
