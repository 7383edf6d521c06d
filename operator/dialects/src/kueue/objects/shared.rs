//! One copy of what many objects have in common.

use std::{collections::BTreeSet, sync::Arc};

/// How many copies are kept before those are looked for that nobody has any more.
const COPIES_BEFORE_A_SWEEP: usize = 4096;

/// Values of which there is one copy each.
#[derive(Debug)]
pub(super) struct Shared<T: ?Sized> {
    copies: BTreeSet<Arc<T>>,
    sweep_at: usize,
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self { copies: BTreeSet::new(), sweep_at: COPIES_BEFORE_A_SWEEP }
    }
}

impl<T: Ord + ?Sized> Shared<T> {
    /// The copy of this value.
    pub(super) fn share(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(copy) = self.copies.get(&value) {
            return Arc::clone(copy);
        }
        if self.copies.len() >= self.sweep_at {
            self.copies.retain(|copy| Arc::strong_count(copy) > 1);
            self.sweep_at = COPIES_BEFORE_A_SWEEP.max(2 * self.copies.len());
        }
        self.copies.insert(Arc::clone(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_those_nobody_has_are_let_go() {
        let mut shared = Shared::default();
        let kept = shared.share(Arc::new(0));
        assert!(Arc::ptr_eq(&kept, &shared.share(Arc::new(0))));
        for value in 1..=COPIES_BEFORE_A_SWEEP {
            shared.share(Arc::new(value));
        }
        assert_eq!(shared.copies.len(), 2, "the one that is kept and the last");
    }
}
