//! Conservative backfilling: everybody is promised a moment, and no promise is put off for anybody.

use std::collections::BTreeMap;

use super::Timeline;
use crate::workload::Timestamp;

/// What was promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promise {
    /// When it starts at the latest, if no estimate is too short.
    pub at: Timestamp,
    /// How much it needs.
    pub width: i64,
    /// For how many milliseconds, by the estimate.
    pub run: i64,
}

impl Promise {
    fn until(&self) -> Timestamp {
        Timestamp(self.at.0.saturating_add(self.run.max(1)))
    }
}

/// Who holds what until when, and who is promised what from when on. The order of `K` is the order in which those that
/// wait may move forward when somebody ends early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promises<K> {
    timeline: Timeline,
    waiting: BTreeMap<K, Promise>,
    holding: BTreeMap<K, Promise>,
}

impl<K: Copy + Ord> Promises<K> {
    /// Nobody holds or waits for any of so much capacity.
    pub fn new(capacity: i64) -> Self {
        Self { timeline: Timeline::new(capacity), waiting: BTreeMap::new(), holding: BTreeMap::new() }
    }

    /// Promises the first moment at which it fits beside all that was promised before. None, and nothing is promised,
    /// if it never does.
    pub fn ask(&mut self, now: Timestamp, who: K, width: i64, run: i64) -> Option<Timestamp> {
        self.timeline.forget_before(now);
        let at = self.timeline.earliest(now, run, width)?;
        let promise = Promise { at, width, run };
        self.timeline.take(at, promise.until(), width);
        self.waiting.insert(who, promise);
        Some(at)
    }

    /// Starts everybody whose moment has come, in order.
    pub fn start_due(&mut self, now: Timestamp) -> Vec<K> {
        let due: Vec<K> =
            self.waiting.iter().filter(|(_, promise)| promise.at <= now).map(|(&who, _)| who).collect();
        for who in &due {
            if let Some(mut promise) = self.waiting.remove(who) {
                // Time passes in steps: it holds its capacity from now on, whatever was promised.
                self.timeline.take(promise.at, promise.until(), -promise.width);
                promise.at = now;
                self.timeline.take(promise.at, promise.until(), promise.width);
                self.holding.insert(*who, promise);
            }
        }
        due
    }

    /// Somebody gave back what it held, or waits no longer. What it would have held is free for those that wait, in
    /// their order; none of them starts later for it.
    pub fn end(&mut self, now: Timestamp, who: K) {
        let Some(promise) = self.holding.remove(&who).or_else(|| self.waiting.remove(&who)) else { return };
        let from = promise.at.max(now);
        if from < promise.until() {
            self.timeline.take(from, promise.until(), -promise.width);
            self.move_forward(now);
        }
    }

    /// Whoever holds capacity past its estimate is thought to need as long again as it had, and promises that cannot
    /// be kept for that are made anew. Says whether there was anybody.
    pub fn extend_overrun(&mut self, now: Timestamp) -> bool {
        let over: Vec<(K, Promise)> = self
            .holding
            .iter()
            .filter(|(_, promise)| promise.until() <= now)
            .map(|(&who, &promise)| (who, promise))
            .collect();
        for (who, promise) in &over {
            let mut longer = *promise;
            while longer.until() <= now && longer.run < i64::MAX / 4 {
                longer.run = longer.run.max(1).saturating_mul(2);
            }
            self.timeline.take(promise.until(), longer.until(), promise.width);
            self.holding.insert(*who, longer);
        }
        if !over.is_empty() {
            self.move_forward(now);
        }
        !over.is_empty()
    }

    /// Everybody that waits, in order, takes the first moment that there is for it now, until nobody moves: who moves
    /// may make room for one that was looked at before. Its old moment is free while another is looked for, so nobody
    /// gets a later one, unless more is held than was thought.
    fn move_forward(&mut self, now: Timestamp) {
        self.timeline.forget_before(now);
        let mut moved = true;
        while moved {
            moved = false;
            for promise in self.waiting.values_mut() {
                self.timeline.take(promise.at, promise.until(), -promise.width);
                if let Some(at) = self.timeline.earliest(now, promise.run, promise.width) {
                    // After one turn everybody has a moment that it can have, and from then on moves to earlier ones only.
                    moved |= at < promise.at;
                    promise.at = at;
                }
                self.timeline.take(promise.at, promise.until(), promise.width);
            }
        }
    }

    /// When somebody that waits starts at the latest.
    pub fn promised(&self, who: K) -> Option<Promise> {
        self.waiting.get(&who).copied()
    }

    /// The next moment at which somebody starts, or is past its estimate.
    pub fn next(&self) -> Option<Timestamp> {
        let starts = self.waiting.values().map(|promise| promise.at).min();
        let ends = self.holding.values().map(Promise::until).min();
        match (starts, ends) {
            (Some(start), Some(end)) => Some(start.min(end)),
            (one, other) => one.or(other),
        }
    }
}
