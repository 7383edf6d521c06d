//! Preemption with fair sharing.
//!
//! The workload is charged first, so that shares are those after its admission. Then candidates are taken from the
//! node that has the largest share, one at a time, as long as a *strategy* allows: the share of who asks must stay
//! at or below that of who loses, after its loss (S2-a), or below that before it (S2-b). A workload whose
//! ClusterQueue stays within its nominal quota need not ask a strategy.

use std::{cmp::Ordering, collections::BTreeSet};

use super::{Ground, Search, Victim, Wanted, targets::Targets};
use crate::{
    forest::{NodeId, Share},
    name::FlavorResource,
    overlay::Overlay,
    plan::FairStrategy,
    state::Holder,
};

pub(super) fn victims<'a>(
    search: &Search<'a>,
    strategies: &[FairStrategy],
    wanted: &Wanted<'_>,
    overlay: &mut Overlay<'_>,
) -> Option<Vec<Victim<'a>>> {
    let mut candidates = candidates(search, wanted.contested, overlay);
    if candidates.is_empty() {
        return None;
    }
    search.arrange(&mut candidates, |(_, holder)| *holder, overlay);
    overlay.charge(search.leaf, wanted.usage);
    let mut attempt = Attempt { search, wanted, overlay, victims: Vec::new() };
    let mut strategies = strategies.iter();
    let first = strategies.next().copied().unwrap_or(FairStrategy::LessThanOrEqualToFinalShare);
    let mut left = Vec::new();
    let mut fits = attempt.first(first, candidates, &mut left);
    if !fits && strategies.next().is_some() {
        fits = attempt.second(left);
    }
    let mut victims = attempt.victims;
    overlay.release(search.leaf, wanted.usage);
    if fits {
        search.spare(&mut victims, wanted, overlay, true);
    }
    overlay.restore(&victims);
    fits.then_some(victims)
}

/// Those whom the policies allow to be preempted, of ClusterQueues that borrow what is contested.
fn candidates<'a>(
    search: &Search<'a>,
    contested: &BTreeSet<FlavorResource>,
    overlay: &Overlay<'_>,
) -> Vec<(NodeId, Holder<'a>)> {
    let forest = search.state.forest();
    let mut candidates = Vec::new();
    if !search.nobody_is_below() {
        let own = search.holders_of(search.leaf, contested, overlay);
        candidates.extend(
            own.filter(|holder| search.goes_before(holder.workload)).map(|holder| (search.leaf, holder)),
        );
    }
    if search.may_reclaim() {
        let others = forest.leaves_below(forest.root(search.leaf)).into_iter();
        let borrow = |leaf: &NodeId| contested.iter().any(|key| forest.borrows(&overlay.later, *leaf, key));
        for leaf in others.filter(|leaf| *leaf != search.leaf && borrow(leaf)) {
            let holders = search.holders_of(leaf, contested, overlay);
            candidates.extend(
                holders.filter(|holder| search.reclaims_from(holder.workload)).map(|holder| (leaf, holder)),
            );
        }
    }
    candidates
}

struct Attempt<'a, 's, 'o> {
    search: &'s Search<'a>,
    wanted: &'s Wanted<'s>,
    overlay: &'s mut Overlay<'o>,
    victims: Vec<Victim<'a>>,
}

impl<'a> Attempt<'a, '_, '_> {
    /// Takes candidates by the first strategy. Those that it spares are `left`. Says whether it is enough.
    fn first(
        &mut self,
        strategy: FairStrategy,
        candidates: Vec<(NodeId, Holder<'a>)>,
        left: &mut Vec<(NodeId, Holder<'a>)>,
    ) -> bool {
        let forest = self.search.state.forest();
        let within_nominal = !self
            .wanted
            .contested
            .iter()
            .any(|key| forest.borrows(&self.overlay.later, self.search.leaf, key));
        let mut targets = Targets::new(self.search, candidates);
        while let Some(leaf) = targets.next(self.overlay) {
            let ground = if leaf == self.search.leaf {
                Ground::InClusterQueue
            } else if within_nominal {
                Ground::InCohortReclamation
            } else {
                if self.take_by_share(strategy, leaf, &mut targets, left) {
                    return true;
                }
                continue;
            };
            if let Some(holder) = targets.pop(leaf)
                && self.take(leaf, holder, ground)
            {
                return true;
            }
        }
        false
    }

    /// Takes the first candidate of a ClusterQueue that the strategy allows. Says whether it is enough.
    fn take_by_share(
        &mut self,
        strategy: FairStrategy,
        leaf: NodeId,
        targets: &mut Targets<'a>,
        left: &mut Vec<(NodeId, Holder<'a>)>,
    ) -> bool {
        let (own, theirs) = self.shares(leaf);
        if own.is_infinite() && !theirs.is_infinite() {
            // No strategy allows anything to who has too much without end.
            while let Some(holder) = targets.pop(leaf) {
                left.push((leaf, holder));
            }
            return false;
        }
        while let Some(holder) = targets.pop(leaf) {
            let allowed = match strategy {
                FairStrategy::LessThanOrEqualToFinalShare => {
                    let after = self.share_without(leaf, &holder);
                    own.compare(&after) != Ordering::Greater
                }
                FairStrategy::LessThanInitialShare => own.compare(&theirs) == Ordering::Less,
            };
            if allowed {
                // After this one another ClusterQueue may have the largest share.
                return self.take(leaf, holder, Ground::InCohortFairSharing);
            }
            left.push((leaf, holder));
        }
        false
    }

    /// Takes, of each ClusterQueue, the first of those left whom the second strategy allows.
    fn second(&mut self, left: Vec<(NodeId, Holder<'a>)>) -> bool {
        let mut targets = Targets::new(self.search, left);
        while let Some(leaf) = targets.next(self.overlay) {
            let (own, theirs) = self.shares(leaf);
            if let Some(holder) = targets.pop(leaf)
                && own.compare(&theirs) == Ordering::Less
                && self.take(leaf, holder, Ground::InCohortFairSharing)
            {
                return true;
            }
            targets.drop_queue(leaf);
        }
        false
    }

    /// Preempts one more. Says whether it is enough.
    fn take(&mut self, leaf: NodeId, holder: Holder<'a>, ground: Ground) -> bool {
        let victim = Victim { holder, leaf, ground };
        self.overlay.remove(&[victim]);
        self.victims.push(victim);
        self.overlay.release(self.search.leaf, self.wanted.usage);
        let enough = self.search.fits(self.wanted, self.overlay, true);
        self.overlay.charge(self.search.leaf, self.wanted.usage);
        enough
    }

    /// The shares of who asks and of another, each of the node just below the lowest cohort that both share.
    fn shares(&self, leaf: NodeId) -> (Share, Share) {
        let forest = self.search.state.forest();
        let (own, theirs) = self.below_meeting(leaf);
        (forest.share(&self.overlay.later, own), forest.share(&self.overlay.later, theirs))
    }

    fn share_without(&mut self, leaf: NodeId, holder: &Holder<'a>) -> Share {
        self.overlay.release(leaf, holder.usage);
        let share = self.search.state.forest().share(&self.overlay.later, self.below_meeting(leaf).1);
        self.overlay.charge(leaf, holder.usage);
        share
    }

    fn below_meeting(&self, leaf: NodeId) -> (NodeId, NodeId) {
        let forest = self.search.state.forest();
        let own: Vec<NodeId> = forest.ancestors(self.search.leaf).collect();
        let mut theirs = leaf;
        for node in forest.ancestors(leaf) {
            if let Some(index) = own.iter().position(|ancestor| *ancestor == node) {
                let below = index.checked_sub(1).and_then(|index| own.get(index));
                return (below.copied().unwrap_or(self.search.leaf), theirs);
            }
            theirs = node;
        }
        (self.search.leaf, theirs)
    }
}
