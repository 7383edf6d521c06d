//! Everybody who waits, in one line.

use super::{Order, Pending, Spot, overtakes};

impl Pending {
    /// Everybody, asleep or not, in the order in which they would be tried if all were awake.
    pub fn line(&self) -> Vec<&Order> {
        let mut all: Vec<_> =
            self.everybody().map(|(class, order)| (self.spot(class, order), class)).collect();
        all.sort_unstable_by_key(|(spot, _)| *spot);
        if let Some((favoured, class)) = &self.favoured {
            // Those of its own lane who go before it come with it.
            let place: Spot<'_> = self.spot(class, favoured);
            let own = class.lane();
            let before = all.iter().take_while(|(other, of)| overtakes(*other, place) || of.lane() == own);
            let before = before.count();
            if let Some(rest) = all.get_mut(before..) {
                rest.sort_by_key(|((_, order), of)| of.lane() != own || *order > favoured);
            }
        }
        all.into_iter().map(|((_, order), _)| order).collect()
    }
}
