//! When what is kept for one yields to another.
//!
//! Quota is kept for a head that others stop for. Where that one borrows, another may have a right to take it back: it
//! would be admitted, and be told to stop at once. So a head that is refused is looked at as if whoever quota is kept for
//! held it already. If such a one alone would have to stop, and there is room now, it gets nothing kept any more, and is
//! tried again.

use super::entry::{self, Kind};
use crate::{
    assign::{Assignment, Progress},
    name::ClusterQueueName,
    overlay::Overlay,
    preempt::Search,
};

/// What a head would get in the place of one for whom quota is kept, and in which ClusterQueue that one waits.
pub(super) fn instead<'a>(
    search: &Search<'a>,
    behind: &Progress,
    overlay: &mut Overlay<'_>,
) -> Option<(&'a ClusterQueueName, Assignment)> {
    let forest = search.state.forest();
    let root = forest.root(search.leaf);
    if !search.may_preempt() || overlay.kept().all(|(_, leaf, _)| forest.root(leaf) != root) {
        return None;
    }
    let search = Search { counts_owners: true, ..*search };
    let (kind, mut assignment) = entry::decide(&search, behind, overlay).ok()?;
    let Kind::Preempts(victims) = kind else { return None };
    let [owner] = victims.as_slice() else { return None };
    let is_owner =
        search.state.admission(&owner.holder.workload.key).is_none() && !search.earlier.has_any_of(&victims);
    if !is_owner || !forest.fits(&overlay.now, search.leaf, &assignment.usage) {
        return None;
    }
    let kept = overlay.take_out(owner.holder.queue);
    let placed = overlay.place(&assignment.asks, search.policy.topology);
    overlay.put_back(owner.holder.queue, kept);
    assignment.put(placed.ok()?);
    Some((owner.holder.queue, assignment))
}
