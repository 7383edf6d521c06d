//! Preemption without fair sharing.
//!
//! Candidates are removed in order until the workload fits; then those are taken back, from the end, without whom
//! it fits as well. There are three kinds of them. Over those that use quota of a subtree in which the workload is
//! at home and they are not, it has an *advantage of place*. Of the others of the cohort, those may only be
//! preempted while the own ClusterQueue borrows whom `borrowWithinCohort` names. Those of the own ClusterQueue come
//! last.

use std::collections::BTreeSet;

use super::{Ground, Search, Victim, Wanted};
use crate::{
    forest::NodeId, name::FlavorResource, overlay::Overlay, quantity::Usage, queue::BorrowWithinCohort,
    state::Holder,
};

/// On what ground a candidate may be preempted, and when.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Own,
    Placed,
    OnlyWithoutBorrowing,
    WhileBorrowing,
}

impl Kind {
    fn ground(self) -> Ground {
        match self {
            Self::Own => Ground::InClusterQueue,
            Self::Placed | Self::OnlyWithoutBorrowing => Ground::InCohortReclamation,
            Self::WhileBorrowing => Ground::InCohortReclaimWhileBorrowing,
        }
    }
}

#[derive(Clone, Copy)]
struct Candidate<'a> {
    holder: Holder<'a>,
    leaf: NodeId,
    /// The lowest cohort that it shares with who asks; none for one of the own ClusterQueue.
    meet: Option<NodeId>,
    kind: Kind,
}

/// The candidates, by kind.
#[derive(Default)]
struct Candidates<'a> {
    placed: Vec<Candidate<'a>>,
    others: Vec<Candidate<'a>>,
    own: Vec<Candidate<'a>>,
}

pub(super) fn victims<'a>(
    search: &Search<'a>,
    wanted: &Wanted<'_>,
    overlay: &mut Overlay<'_>,
) -> Option<Vec<Victim<'a>>> {
    let Wanted { usage, contested, .. } = *wanted;
    let may_not_borrow = search.queue.preemption.borrow == BorrowWithinCohort::Never;
    let candidates = Candidates::collect(search, contested, usage, overlay);
    let nobody_else = candidates.placed.is_empty() && candidates.others.is_empty();
    let attempts: &[bool] =
        if nobody_else || (may_not_borrow && !has_room_below_nominal(search, contested, overlay)) {
            &[true]
        } else if may_not_borrow && candidates.placed.is_empty() {
            &[false, true]
        } else {
            &[true, false]
        };
    let ordered = candidates.in_order(search, overlay);
    attempts.iter().find_map(|may_borrow| attempt(search, &ordered, wanted, overlay, *may_borrow))
}

/// Whether the ClusterQueue uses less than its nominal quota of all that is contested.
fn has_room_below_nominal(
    search: &Search<'_>,
    contested: &BTreeSet<FlavorResource>,
    overlay: &Overlay<'_>,
) -> bool {
    let forest = search.state.forest();
    contested.iter().all(|key| overlay.later.get(search.leaf, key) < forest.quota(search.leaf, key).nominal)
}

fn attempt<'a>(
    search: &Search<'a>,
    candidates: &[Candidate<'a>],
    wanted: &Wanted<'_>,
    overlay: &mut Overlay<'_>,
    may_borrow: bool,
) -> Option<Vec<Victim<'a>>> {
    let mut victims = Vec::new();
    for candidate in candidates {
        if !candidate.is_open(search, wanted.contested, overlay, may_borrow) {
            continue;
        }
        let victim =
            Victim { holder: candidate.holder, leaf: candidate.leaf, ground: candidate.kind.ground() };
        overlay.remove(&[victim]);
        victims.push(victim);
        if search.fits(wanted, overlay, may_borrow) {
            search.spare(&mut victims, wanted, overlay, may_borrow);
            overlay.restore(&victims);
            return Some(victims);
        }
    }
    overlay.restore(&victims);
    None
}

impl Candidate<'_> {
    /// Whether it may be preempted now, after those before it: not if its ClusterQueue, or a cohort of it that is
    /// not also of who asks, does not borrow any more.
    fn is_open(
        &self,
        search: &Search<'_>,
        contested: &BTreeSet<FlavorResource>,
        overlay: &Overlay<'_>,
        may_borrow: bool,
    ) -> bool {
        let Some(meet) = self.meet else { return true };
        if may_borrow && self.kind == Kind::OnlyWithoutBorrowing {
            return false;
        }
        let forest = search.state.forest();
        let apart = forest.ancestors(self.leaf).take_while(|node| *node != meet);
        std::iter::once(self.leaf).chain(apart).all(|node| borrows_any(search, node, contested, overlay))
    }
}

fn borrows_any(
    search: &Search<'_>,
    node: NodeId,
    contested: &BTreeSet<FlavorResource>,
    overlay: &Overlay<'_>,
) -> bool {
    contested.iter().any(|key| search.state.forest().borrows(&overlay.later, node, key))
}

impl<'a> Candidates<'a> {
    fn collect(
        search: &Search<'a>,
        contested: &BTreeSet<FlavorResource>,
        usage: &Usage,
        overlay: &Overlay<'_>,
    ) -> Self {
        let mut candidates = Self::default();
        if !search.nobody_is_below() {
            let own = search.holders_of(search.leaf, contested, overlay);
            candidates.own.extend(
                own.filter(|holder| search.goes_before(holder.workload)).map(|holder| Candidate {
                    holder,
                    leaf: search.leaf,
                    meet: None,
                    kind: Kind::Own,
                }),
            );
        }
        if search.may_reclaim() {
            candidates.collect_others(search, contested, usage, overlay);
        }
        candidates
    }

    fn collect_others(
        &mut self,
        search: &Search<'a>,
        contested: &BTreeSet<FlavorResource>,
        usage: &Usage,
        overlay: &Overlay<'_>,
    ) {
        let forest = search.state.forest();
        let mut wanted = usage.clone();
        let mut placed = forest.fits_in_subtree(&overlay.later, search.leaf, &mut wanted);
        // Those that may only be preempted without borrowing are of no use to whom borrows in any case.
        let useless = search.queue.preemption.borrow == BorrowWithinCohort::Never
            && !has_room_below_nominal(search, contested, overlay);
        let mut below = search.leaf;
        for meet in forest.ancestors(search.leaf) {
            if placed || !useless {
                let mut open: Vec<_> = forest.children(meet).iter().rev().copied().collect();
                while let Some(node) = open.pop() {
                    if node == below || !borrows_any(search, node, contested, overlay) {
                        continue;
                    }
                    open.extend(forest.children(node).iter().rev());
                    if forest.is_leaf(node) {
                        self.collect_from(search, node, meet, placed, contested, overlay);
                    }
                }
            }
            placed |= forest.fits_in_subtree(&overlay.later, meet, &mut wanted);
            below = meet;
        }
    }

    fn collect_from(
        &mut self,
        search: &Search<'a>,
        leaf: NodeId,
        meet: NodeId,
        placed: bool,
        contested: &BTreeSet<FlavorResource>,
        overlay: &Overlay<'_>,
    ) {
        let list = if placed { &mut self.placed } else { &mut self.others };
        let holders = search.holders_of(leaf, contested, overlay);
        list.extend(holders.filter(|holder| search.reclaims_from(holder.workload)).map(|holder| {
            let kind = if placed {
                Kind::Placed
            } else if search.borrows_before(holder.workload) {
                Kind::WhileBorrowing
            } else {
                Kind::OnlyWithoutBorrowing
            };
            Candidate { holder, leaf, meet: Some(meet), kind }
        }));
    }

    /// Those first who stop anyway; then by kind; then as [`Search::arrange`] has it.
    fn in_order(self, search: &Search<'a>, overlay: &Overlay<'_>) -> Vec<Candidate<'a>> {
        let mut all = Vec::new();
        for mut list in [self.placed, self.others, self.own] {
            search.arrange(&mut list, |candidate| candidate.holder, overlay);
            all.append(&mut list);
        }
        all.sort_by_key(|candidate| candidate.holder.evicted.is_none());
        all
    }
}
