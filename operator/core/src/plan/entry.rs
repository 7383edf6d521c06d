//! What the head of one queue would get, for one cycle.

use std::sync::Arc;

use super::{Hold, fewer::Fewer};
use crate::{
    assign::{Assignment, Offer, Progress, Refused},
    forest::NodeId,
    name::ClusterQueueName,
    overlay::Overlay,
    pending::{ClassKey, Order},
    preempt::{Search, Victim, Wanted},
    quantity::{Amount, Usage},
    queue::{ClusterQueue, Reclaim},
    verdict::{Reason, Refusal, Until, Verdict},
    workload::PodSet,
};

/// A head before its turn.
pub(super) struct Entry<'a> {
    pub(super) line: usize,
    pub(super) leaf: NodeId,
    pub(super) order: &'a Order,
    pub(super) class: &'a ClassKey,
    pub(super) kind: Kind<'a>,
    pub(super) assignment: Assignment,
}

impl Entry<'_> {
    /// It waits for those who stop for it.
    pub(super) fn into_hold(self, queue: &ClusterQueue) -> Hold {
        let victims = match &self.kind {
            Kind::Preempts(victims) => victims.len(),
            _ => 0,
        };
        let refusal = self.assignment.refusal.as_ref();
        let missing = refusal.map(|refusal| refusal.verdict.message.clone()).unwrap_or_default();
        let pending = match victims {
            0 => "of others".to_owned(),
            victims => format!("of {victims} workload(s)"),
        };
        let message = format!("{missing}. Pending the preemption {pending}");
        let fits = Until::Fits(self.assignment.usage.clone());
        let until = if self.assignment.asks.is_empty() { fits } else { fits.or(&self.assignment.room()) };
        Hold {
            queue: queue.name.clone(),
            class: self.class.clone(),
            order: self.order.clone(),
            stays: self.assignment.stays(),
            usage: self.assignment.usage,
            pod_sets: self.assignment.pod_sets,
            refusal: Refusal {
                verdict: Verdict::new(Reason::WaitingForPreemptedWorkloads, message),
                until,
                behind: Progress::default(),
            },
        }
    }
}

/// How it could be had.
pub(super) enum Kind<'a> {
    /// It fits.
    Fits,
    /// It fits once these have stopped, and those who were told to before: there may be nobody else.
    Preempts(Vec<Victim<'a>>),
    /// It fits if nothing is kept any more for who waits in this ClusterQueue for others to stop.
    InsteadOf(&'a ClusterQueueName),
    /// It would fit, but nobody may be preempted for it.
    NoCandidates {
        /// What nobody else may take in this cycle, so that it is not preempted again in the next.
        reserve: Usage,
    },
}

/// What a head would get, and how, or why nothing.
pub(super) struct Decision<'a>(pub(super) Result<(Kind<'a>, Assignment), Box<Refused>>);

impl Decision<'_> {
    /// Why the head has to wait whatever the others do, if it has to.
    pub(super) fn refusal(&self) -> Option<&Refusal> {
        match &self.0 {
            Err(refused) => Some(&refused.refusal),
            Ok((Kind::NoCandidates { .. }, assignment)) => assignment.refusal.as_ref(),
            Ok(_) => None,
        }
    }

    /// How far the search for flavors came.
    pub(super) fn progress(&self) -> &Progress {
        match &self.0 {
            Err(refused) => &refused.progress,
            Ok((_, assignment)) => &assignment.progress,
        }
    }

    /// Nobody may be evicted for it now.
    pub(super) fn held_back(&mut self, problem: &str) {
        let Ok((kind, assignment)) = &mut self.0 else { return };
        *kind = Kind::NoCandidates { reserve: Usage::new() };
        if let Some(refusal) = &mut assignment.refusal {
            let told = &refusal.verdict.message;
            refusal.verdict =
                Verdict::new(Reason::WaitingForQuota, format!("{told}. Nobody is preempted: {problem}"));
            refusal.until = Until::Released;
        }
    }
}

/// What a workload would get behind these flavors. If it makes do with fewer pods, as many as there is a way for.
pub(super) fn decide<'a>(
    search: &Search<'a>,
    behind: &Progress,
    overlay: &mut Overlay<'_>,
) -> Result<(Kind<'a>, Assignment), Box<Refused>> {
    let pod_sets = search.workload.pod_sets.as_deref().unwrap_or_default();
    let mut outcome = attempt(search, behind, pod_sets, overlay);
    if !matches!(outcome, Ok((Some(Kind::Fits), _)))
        && let Some(found) = as_planned(search, pod_sets, overlay)
    {
        return Ok(found);
    }
    if let Ok((Some(kind), assignment)) = outcome {
        return Ok((kind, assignment));
    }
    if let Some(fewer) = Fewer::than(pod_sets) {
        if let Some(found) = fewer.most(|pod_sets| way_for(search, behind, pod_sets, overlay)) {
            return Ok(found);
        }
        // It can be helped as soon as the fewest can.
        let until = match attempt(search, behind, &fewer.fewest(), overlay) {
            Ok((_, assignment)) => assignment.refusal.map(|refusal| refusal.until),
            Err(refused) => Some(refused.refusal.until),
        };
        let refusal = match &mut outcome {
            Ok((_, assignment)) => assignment.refusal.as_mut(),
            Err(refused) => Some(&mut refused.refusal),
        };
        if let (Some(refusal), Some(until)) = (refusal, until) {
            refusal.until = until;
        }
    }
    let (_, assignment) = outcome?;
    let reserve = to_reserve(search, &assignment, overlay);
    Ok((Kind::NoCandidates { reserve }, assignment))
}

/// An assignment for these pods, and the way to it if there is one.
fn attempt<'a>(
    search: &Search<'a>,
    behind: &Progress,
    pod_sets: &[PodSet],
    overlay: &mut Overlay<'_>,
) -> Result<(Option<Kind<'a>>, Assignment), Box<Refused>> {
    let mut assignment = Offer { search: *search, planned: &[], behind }.assign(pod_sets, overlay)?;
    let way = way(search, &mut assignment, overlay);
    // Without the quota no room on the nodes is of any use.
    if way.is_none()
        && let Some(room) = assignment.with_quota.take()
        && could_have_quota(search, &assignment, overlay)
        && let Some(refusal) = &mut assignment.refusal
    {
        refusal.until = refusal.until.or(&room);
    }
    Ok((way, assignment))
}

/// Whether it would get the quota of an assignment if others stopped, wherever its pods were to be.
fn could_have_quota(search: &Search<'_>, assignment: &Assignment, overlay: &mut Overlay<'_>) -> bool {
    search.state.forest().fits(&overlay.later, search.leaf, &assignment.usage)
        || search.victims(&Wanted { asks: &[], ..assignment.wanted() }, overlay).is_some()
}

/// What a workload was to get for which others stop or have stopped, if it is there by now or on its way. A search that
/// begins anew takes one pod set after the other, so what has been given back may lead the first to another flavor and
/// leave too little for the next: then others would have stopped for nothing.
fn as_planned<'a>(
    search: &Search<'a>,
    pod_sets: &[PodSet],
    overlay: &mut Overlay<'_>,
) -> Option<(Kind<'a>, Assignment)> {
    let kept = search.state.reservation(&search.queue.name)?;
    if kept.workload != search.workload.key {
        return None;
    }
    let planned = |pod_set: &PodSet| {
        let given = kept.pod_sets.iter().find(|given| given.name == pod_set.name)?;
        Some(PodSet { count: given.count, ..pod_set.clone() })
    };
    let pod_sets: Vec<PodSet> = pod_sets.iter().map(planned).collect::<Option<_>>()?;
    let offer = Offer { search: *search, planned: &kept.pod_sets, behind: &Progress::default() };
    let mut assignment = offer.assign(&pod_sets, overlay).ok()?;
    Some((way_without_victims(search, &mut assignment, overlay)?, assignment))
}

/// Another assignment of the same flavors, because others got the place that this one gives.
pub(super) fn again<'a>(
    search: &Search<'a>,
    before: &Assignment,
    overlay: &mut Overlay<'_>,
) -> Option<(Kind<'a>, Assignment)> {
    let given = |name| before.pod_sets.iter().find(|given| given.name == name);
    let pod_sets = search.workload.pod_sets.as_deref().unwrap_or_default().iter();
    let pod_sets: Vec<PodSet> = pod_sets
        .map(|pod_set| Some(PodSet { count: given(Arc::clone(&pod_set.name))?.count, ..pod_set.clone() }))
        .collect::<Option<_>>()?;
    let offer = Offer { search: *search, planned: &before.pod_sets, behind: &Progress::default() };
    let mut assignment = offer.assign(&pod_sets, overlay).ok()?;
    Some((way(search, &mut assignment, overlay)?, assignment))
}

/// An assignment for these pods to which there is a way.
fn way_for<'a>(
    search: &Search<'a>,
    behind: &Progress,
    pod_sets: &[PodSet],
    overlay: &mut Overlay<'_>,
) -> Option<(Kind<'a>, Assignment)> {
    let (kind, assignment) = attempt(search, behind, pod_sets, overlay).ok()?;
    Some((kind?, assignment))
}

/// The way to what an assignment gives, if there is one. The places that it gives are those on that way.
fn way<'a>(search: &Search<'a>, assignment: &mut Assignment, overlay: &mut Overlay<'_>) -> Option<Kind<'a>> {
    if let Some(kind) = way_without_victims(search, assignment, overlay) {
        return Some(kind);
    }
    let victims = search.victims(&assignment.wanted(), overlay)?;
    overlay.remove(&victims);
    let placed = overlay.place_later(&assignment.asks, search.policy.topology);
    overlay.restore(&victims);
    assignment.put(placed.ok()?);
    Some(Kind::Preempts(victims))
}

/// The same, if nobody has to stop for it who was not told before.
fn way_without_victims<'a>(
    search: &Search<'a>,
    assignment: &mut Assignment,
    overlay: &Overlay<'_>,
) -> Option<Kind<'a>> {
    if assignment.contested.is_empty() {
        return Some(Kind::Fits);
    }
    if !search.state.forest().fits(&overlay.later, search.leaf, &assignment.usage) {
        return None;
    }
    // It is on its way, and what is kept for it stays where it is.
    let kept = search.state.reservation(&search.queue.name);
    if let Some(kept) = kept.filter(|kept| kept.workload == search.workload.key)
        && overlay.will_have_room(&kept.stays)
        && assignment.put_as_kept(&kept.pod_sets)
    {
        return Some(Kind::Preempts(Vec::new()));
    }
    assignment.put(overlay.place_later(&assignment.asks, search.policy.topology).ok()?);
    Some(Kind::Preempts(Vec::new()))
}

/// What is kept for a head that nobody can be preempted for: nothing if its queue can take it back from whoever
/// borrows it, otherwise what it could have within its quota and its borrowing limit.
fn to_reserve(search: &Search<'_>, assignment: &Assignment, overlay: &Overlay<'_>) -> Usage {
    if search.queue.preemption.reclaim == Reclaim::Any {
        return Usage::new();
    }
    let forest = search.state.forest();
    let reserve = assignment.usage.iter().map(|(key, amount)| {
        let quota = forest.quota(search.leaf, key);
        let used = overlay.now.get(search.leaf, key);
        let most = match (assignment.borrowing, quota.borrowing_limit) {
            (0, _) => quota.nominal - used,
            (_, Some(limit)) => quota.nominal + limit - used,
            (_, None) => *amount,
        };
        (key.clone(), (*amount).min(most).max(Amount::ZERO))
    });
    reserve.collect()
}
