//! The places that heads were offered, when they have their turn: those before them may have been given the same.

use super::{
    Planning,
    entry::{self, Entry, Kind},
};
use crate::{
    preempt::{Earlier, Search},
    queue::ClusterQueue,
};

impl<'a> Planning<'a> {
    /// Whether nobody before it got the place that a head was offered.
    pub(super) fn has_place(&mut self, entry: &Entry<'_>) -> bool {
        let stays = entry.assignment.stays();
        match &entry.kind {
            _ if stays.is_empty() => true,
            Kind::Fits => self.overlay.has_room(&stays),
            Kind::Preempts(victims) => {
                self.overlay.remove(victims);
                let has_room = self.overlay.will_have_room(&stays);
                self.overlay.restore(victims);
                has_room
            }
            Kind::InsteadOf(owners) => {
                let kept = self.overlay.take_out(owners);
                let has_room = self.overlay.has_room(&stays);
                self.overlay.put_back(owners, kept);
                has_room
            }
            Kind::NoCandidates { .. } => true,
        }
    }

    /// Offers a head another place, of the same flavors. Says whether there is one. Nobody stops for a head that would have
    /// fit: what is kept from it now may be kept in this cycle only.
    pub(super) fn place_again<'c>(
        &mut self,
        entry: &mut Entry<'c>,
        queue: &'c ClusterQueue,
        earlier: &'c Earlier,
    ) -> bool
    where
        'a: 'c,
    {
        let (state, policy, leaf) = (self.state, self.policy, entry.leaf);
        let Some(workload) = state.workload(&entry.order.key) else { return false };
        let search = Search { state, policy, workload, queue, leaf, counts_owners: false, earlier };
        let Some((kind, assignment)) = entry::again(&search, &entry.assignment, &mut self.overlay) else {
            return false;
        };
        if matches!(entry.kind, Kind::Fits) && !matches!(kind, Kind::Fits) {
            return false;
        }
        self.note_way(&kind, earlier);
        (entry.kind, entry.assignment) = (kind, assignment);
        true
    }
}
