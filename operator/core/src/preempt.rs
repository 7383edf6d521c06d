//! Whom a workload may preempt so that it fits.
//!
//! [`Search::victims`] answers for a workload and what it asks for. Who stops already so that another fits is not
//! looked at: what those hold is spoken for, and counts as given back from the start. So nobody is evicted twice,
//! and nobody is evicted for room that is on its way anyway. Apart from that, the rules, and the order in which
//! victims are chosen, are Kueue's: [`classical`] (KEP-83, KEP-1337, hierarchical cohorts of KEP-79) or, where
//! fair sharing is configured, [`fair`] (KEP-1714).

mod classical;
mod earlier;
mod fair;
mod targets;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

pub use self::earlier::{Admitted, Earlier};

use crate::{
    forest::{NodeId, NodeName},
    name::{ClusterQueueName, FlavorResource},
    overlay::Overlay,
    plan::Policy,
    quantity::{Amount, Usage},
    queue::{BorrowWithinCohort, ClusterQueue, Reclaim, WithinQueue},
    state::{Holder, State},
    topology::Ask,
    verdict::{Reclaims, Until},
    workload::{Timestamp, Workload},
};

/// Why somebody is preempted; the words are those of Kueue's `Preempted` condition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Ground {
    /// Its own ClusterQueue has somebody who goes before it.
    InClusterQueue,
    /// It borrows what another ClusterQueue has a right to.
    InCohortReclamation,
    /// Its ClusterQueue has more than its fair share.
    InCohortFairSharing,
    /// It borrows, and somebody of a higher priority would like to.
    InCohortReclaimWhileBorrowing,
}

impl Ground {
    /// Every ground.
    pub const ALL: [Self; 4] = [
        Self::InClusterQueue,
        Self::InCohortReclamation,
        Self::InCohortFairSharing,
        Self::InCohortReclaimWhileBorrowing,
    ];

    /// The word used in conditions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InClusterQueue => "InClusterQueue",
            Self::InCohortReclamation => "InCohortReclamation",
            Self::InCohortFairSharing => "InCohortFairSharing",
            Self::InCohortReclaimWhileBorrowing => "InCohortReclaimWhileBorrowing",
        }
    }
}

impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Somebody who would be preempted.
#[derive(Clone, Copy, Debug)]
pub struct Victim<'a> {
    /// Who.
    pub holder: Holder<'a>,
    /// The leaf of its ClusterQueue.
    pub leaf: NodeId,
    /// Why.
    pub ground: Ground,
}

/// What somebody asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// Of the quota.
    pub usage: &'w Usage,
    /// What of it is not available now.
    pub contested: &'w BTreeSet<FlavorResource>,
    /// What is to be placed on the nodes.
    pub asks: &'w [Ask],
}

/// Who asks, and what it may do to whom.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// Everything that is known.
    pub state: &'a State,
    /// The policy.
    pub policy: &'a Policy,
    /// The workload that asks.
    pub workload: &'a Workload,
    /// Its ClusterQueue.
    pub queue: &'a ClusterQueue,
    /// The leaf of that.
    pub leaf: NodeId,
    /// Whether those count as holders for whom quota is kept.
    pub counts_owners: bool,
    /// Those who hold quota since earlier in the same plan.
    pub earlier: &'a Earlier,
}

impl<'a> Search<'a> {
    /// Those who would have to stop so that what is wanted fits. None if it does not fit whoever stops. `overlay` is as it
    /// was when this returns.
    pub fn victims(&self, wanted: &Wanted<'_>, overlay: &mut Overlay<'_>) -> Option<Vec<Victim<'a>>> {
        if !self.may_preempt() {
            return None;
        }
        match &self.policy.fair_sharing {
            Some(strategies) => fair::victims(self, strategies, wanted, overlay),
            None => classical::victims(self, wanted, overlay),
        }
    }

    /// Whether the ClusterQueue allows any preemption at all.
    pub fn may_preempt(&self) -> bool {
        let preemption = &self.queue.preemption;
        preemption.within != WithinQueue::Never || self.may_reclaim()
    }

    /// What it takes until somebody can be preempted who cannot be now, or until one of the `missing` amounts is
    /// there.
    pub fn chance(&self, missing: Vec<(FlavorResource, Amount)>) -> Until {
        let forest = self.state.forest();
        let below = match self.queue.preemption.within {
            WithinQueue::Never => None,
            WithinQueue::LowerPriority => Some(i64::from(self.workload.priority)),
            WithinQueue::LowerOrNewerEqualPriority => Some(i64::from(self.workload.priority) + 1),
        };
        let in_a_tree = forest.ancestors(self.leaf).nth(1).is_some();
        let may_borrow = self.queue.preemption.borrow != BorrowWithinCohort::Never;
        let reclaims = match self.may_reclaim() {
            false => Reclaims::Never,
            true if in_a_tree || may_borrow || self.policy.fair_sharing.is_some() => Reclaims::Always,
            true => Reclaims::BelowNominal,
        };
        Until::Chance { missing, below, reclaims }
    }

    fn may_reclaim(&self) -> bool {
        self.queue.preemption.reclaim != Reclaim::Never && self.state.forest().parent(self.leaf).is_some()
    }

    /// Whether this workload of the same ClusterQueue may be preempted.
    fn goes_before(&self, other: &Workload) -> bool {
        match self.queue.preemption.within {
            WithinQueue::Never => false,
            WithinQueue::LowerPriority => self.workload.priority > other.priority,
            WithinQueue::LowerOrNewerEqualPriority => {
                (self.workload.priority, Reverse(self.workload.since))
                    > (other.priority, Reverse(other.since))
            }
        }
    }

    /// Whether this workload of another ClusterQueue may be preempted.
    fn reclaims_from(&self, other: &Workload) -> bool {
        match self.queue.preemption.reclaim {
            Reclaim::Never => false,
            Reclaim::LowerPriority => self.workload.priority > other.priority,
            Reclaim::Any => true,
        }
    }

    /// Whether this workload of another ClusterQueue may be preempted while the own one borrows.
    fn borrows_before(&self, other: &Workload) -> bool {
        match self.queue.preemption.borrow {
            BorrowWithinCohort::Never => false,
            BorrowWithinCohort::LowerPriority { threshold } => {
                other.priority < self.workload.priority
                    && threshold.is_none_or(|threshold| other.priority <= threshold)
            }
        }
    }

    /// Whether a priority is so high that nobody of the own ClusterQueue is below this workload.
    fn nobody_is_below(&self) -> bool {
        let earlier = self.earlier.holders(self.leaf, self.state).map(|holder| holder.workload.priority);
        let lowest = self.state.lowest_priority(&self.queue.name).into_iter().chain(earlier).min();
        lowest.is_none_or(|lowest| match self.queue.preemption.within {
            WithinQueue::Never => true,
            WithinQueue::LowerPriority => lowest >= self.workload.priority,
            WithinQueue::LowerOrNewerEqualPriority => lowest > self.workload.priority,
        })
    }

    /// Those of a leaf who use any of what is contested, and do not stop for another already. Of a ClusterQueue that
    /// cannot admit nobody is preempted, as in Kueue: whoever stopped it means what runs to go on.
    fn holders_of(
        &self,
        leaf: NodeId,
        contested: &BTreeSet<FlavorResource>,
        overlay: &Overlay<'_>,
    ) -> impl Iterator<Item = Holder<'a>> {
        let queue = match self.state.forest().name(leaf) {
            Some(NodeName::Queue(name)) if self.state.is_active(name) => Some(name),
            _ => None,
        };
        let owner = queue.and_then(|queue| self.owner(queue, overlay));
        let earlier = queue.into_iter().flat_map(move |_| self.earlier.holders(leaf, self.state));
        let holders =
            queue.into_iter().flat_map(|queue| self.state.holders(queue)).chain(earlier).chain(owner);
        holders.filter(move |holder| {
            !overlay.is_leaving(holder)
                && contested.iter().any(|resource| holder.usage.contains_key(resource))
        })
    }

    /// For whom quota is kept in a ClusterQueue, if such count and it is still kept.
    fn owner(&self, queue: &ClusterQueueName, overlay: &Overlay<'_>) -> Option<Holder<'a>> {
        let owner = self.state.owner(queue).filter(|_| self.counts_owners)?;
        overlay.kept().any(|(of, _, usage)| of == queue && usage == owner.usage).then_some(owner)
    }

    /// The order in which candidates are preempted: who stops anyway, then those of other ClusterQueues, then by
    /// priority, and of equals who got its quota last.
    fn order(&self, holder: &Holder<'a>) -> impl Ord + use<'a> {
        let own = *holder.queue == self.queue.name;
        let since = holder.since.map_or(Reverse(Timestamp(i64::MAX)), Reverse);
        (holder.evicted.is_none(), own, holder.workload.priority, since, &holder.workload.uid)
    }

    /// Puts candidates in [order](Self::order). Of those of a ClusterQueue in which consumption decides, those of the
    /// LocalQueue that consumed most come first; how they stand to those of other ClusterQueues does not change.
    fn arrange<T: Copy>(
        &self,
        candidates: &mut [T],
        holder: impl Fn(&T) -> Holder<'a>,
        overlay: &Overlay<'_>,
    ) {
        candidates.sort_by_cached_key(|candidate| self.order(&holder(candidate)));
        let mut slots: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (slot, holder) in candidates.iter().map(&holder).enumerate() {
            if self.state.is_by_consumption(holder.queue) {
                slots.entry((holder.evicted.is_none(), holder.queue)).or_default().push(slot);
            }
        }
        for slots in slots.into_values() {
            let mut these: Vec<T> = slots.iter().filter_map(|slot| candidates.get(*slot).copied()).collect();
            these.sort_by_cached_key(|candidate| Reverse(overlay.rank(&holder(candidate).workload.queue)));
            for (slot, candidate) in slots.into_iter().zip(these) {
                if let Some(place) = candidates.get_mut(slot) {
                    *place = candidate;
                }
            }
        }
    }

    /// Whether all of it would fit now.
    fn fits(&self, wanted: &Wanted<'_>, overlay: &Overlay<'_>, may_borrow: bool) -> bool {
        let forest = self.state.forest();
        let borrows = || {
            let mut usage = wanted.usage.iter();
            usage.any(|(key, amount)| forest.borrows_with(&overlay.later, self.leaf, key, *amount))
        };
        forest.fits(&overlay.later, self.leaf, wanted.usage)
            && (may_borrow || !borrows())
            && overlay.place_later(wanted.asks, self.policy.topology).is_ok()
    }

    /// Takes those back from the end who are not needed.
    fn spare(
        &self,
        victims: &mut Vec<Victim<'a>>,
        wanted: &Wanted<'_>,
        overlay: &mut Overlay<'_>,
        may_borrow: bool,
    ) {
        // The last one made it fit, and is needed.
        for index in (0..victims.len().saturating_sub(1)).rev() {
            let Some(victim) = victims.get(index).copied() else { continue };
            overlay.restore(&[victim]);
            if self.fits(wanted, overlay, may_borrow) {
                victims.remove(index);
            } else {
                overlay.remove(&[victim]);
            }
        }
    }
}
