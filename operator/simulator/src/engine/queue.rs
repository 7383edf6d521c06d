//! What is to happen, the earliest first.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::Millis;

/// Events in the order of their times, and of two at one time in the order in which they were put in.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Millis,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Millis, u64) {
        (self.at, self.sequence)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Puts an event in.
    pub fn push(&mut self, at: Millis, event: E) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry { at, sequence: self.sequence, event }));
    }

    /// When the next event is.
    pub fn next_at(&self) -> Option<Millis> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes the next event out.
    pub fn pop(&mut self) -> Option<(Millis, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }

    /// Takes the next event out if it is not after a moment.
    pub fn pop_until(&mut self, now: Millis) -> Option<E> {
        if self.next_at()? > now {
            return None;
        }
        self.pop().map(|(_, event)| event)
    }

    /// How many events are in it.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is to happen.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_by_time_and_equals_in_the_order_in_which_they_went_in(times in prop::collection::vec(0_i64..20, 0..60)) {
            let mut queue = EventQueue::default();
            for (number, &at) in times.iter().enumerate() {
                queue.push(at, number);
            }
            let mut expected: Vec<_> = times.iter().copied().zip(0..).collect();
            expected.sort_unstable();
            let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
            prop_assert_eq!(popped, expected);
        }
    }
}
