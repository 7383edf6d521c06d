//! A reading of a queue for one plan.

use std::{
    collections::{BTreeMap, btree_map, btree_set},
    iter::Peekable,
};

use super::{ClassKey, Lane, Order, Pending, Spot, overtakes};
use crate::{consumption::Rank, name::LocalQueueKey};

type Members<'a> = btree_set::Iter<'a, Order>;

/// A reading of a queue that passes over workloads without changing it: [`take`](Self::take) goes on to the next
/// of the same class, [`skip`](Self::skip) leaves the whole class.
pub struct Cursor<'a> {
    lanes: Vec<Reading<'a>>,
    /// Nobody is read who does not overtake this one.
    holder: Option<(&'a Order, &'a ClassKey)>,
    /// This one is read before those of other lanes who do not overtake it.
    favoured: Option<(&'a Order, &'a ClassKey)>,
}

/// A reading of one lane.
struct Reading<'a> {
    lane: &'a Lane,
    rank: Rank,
    awake: Peekable<btree_map::Iter<'a, Order, ClassKey>>,
    /// The next member of each class whose earlier members were taken.
    behind: BTreeMap<&'a Order, (&'a ClassKey, Members<'a>)>,
    /// Who sleeps, in a lane that is kept in strict order: nobody who comes after it is read, in other lanes neither.
    blocks: Option<&'a Order>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(pending: &'a Pending) -> Self {
        let reading = |(lane, heads): (&'a Lane, &'a super::Heads)| {
            let whole = ClassKey::Whole(lane.clone());
            let asleep = pending.classes.get(&whole).filter(|class| class.parked.is_some());
            Reading {
                lane,
                rank: heads.rank,
                awake: heads.first.iter().peekable(),
                behind: BTreeMap::new(),
                blocks: asleep.and_then(|class| class.members.first()),
            }
        };
        let holder = pending.holder.as_ref().map(|(holder, class)| (holder, class));
        let favoured = pending.favoured.as_ref().map(|(favoured, class)| (favoured, class));
        let favoured = favoured
            .filter(|(_, class)| pending.classes.get(*class).is_some_and(|class| class.parked.is_none()));
        Self { lanes: pending.lanes.iter().map(reading).collect(), holder, favoured }
    }

    /// A LocalQueue has this rank from now on.
    pub fn set_rank(&mut self, queue: &LocalQueueKey, rank: Rank) {
        for reading in &mut self.lanes {
            if reading.lane.as_deref() == Some(queue) {
                reading.rank = rank;
            }
        }
    }

    /// The head: the first that is awake and not passed over.
    pub fn head(&mut self) -> Option<(&'a Order, &'a ClassKey)> {
        let held_by = self.holder.and_then(|of| self.spot(of));
        let reading = self.leading()?;
        let spot = reading.spot()?;
        let head = reading.head()?;
        held_by.is_none_or(|holder| overtakes(spot, holder)).then_some(head)
    }

    fn spot(&self, (order, class): (&'a Order, &'a ClassKey)) -> Option<Spot<'a>> {
        let lane = self.lanes.iter().find(|reading| reading.lane == class.lane())?;
        Some((lane.rank, order))
    }

    /// The lane whose first goes before those of the others.
    fn leading(&mut self) -> Option<&mut Reading<'a>> {
        let mut best: Option<(Spot<'a>, usize)> = None;
        for (index, reading) in self.lanes.iter_mut().enumerate() {
            if let Some(spot) = reading.spot()
                && best.is_none_or(|(leading, _)| spot < leading)
            {
                best = Some((spot, index));
            }
        }
        let (spot, mut index) = best?;
        if let Some((favoured, class)) = self.favoured
            && self.spot((favoured, class)).is_some_and(|favoured| !overtakes(spot, favoured))
            && let Some(lane) = self.lanes.iter().position(|reading| reading.lane == class.lane())
            && self.lanes.get_mut(lane).and_then(Reading::head).is_some_and(|(head, _)| head <= favoured)
        {
            index = lane;
        }
        self.lanes.get_mut(index)
    }

    /// Passes over the head alone.
    pub fn take(&mut self, pending: &'a Pending) {
        if self.head().is_some()
            && let Some(reading) = self.leading()
        {
            reading.take(pending);
        }
    }

    /// Passes over the head and all of its class.
    pub fn skip(&mut self) {
        if self.head().is_some()
            && let Some(reading) = self.leading()
        {
            reading.skip();
        }
    }
}

impl<'a> Reading<'a> {
    /// The place of its first, who may block it.
    fn spot(&mut self) -> Option<Spot<'a>> {
        let first = self.blocks.or_else(|| self.head().map(|(order, _)| order))?;
        Some((self.rank, first))
    }

    fn head(&mut self) -> Option<(&'a Order, &'a ClassKey)> {
        if self.blocks.is_some() {
            return None;
        }
        let fresh = self.awake.peek().copied();
        let behind = self.behind.first_key_value().map(|(order, (class, _))| (*order, *class));
        match (fresh, behind) {
            (Some(a), Some(b)) => Some(if a.0 <= b.0 { a } else { b }),
            (fresh, behind) => fresh.or(behind),
        }
    }

    fn take(&mut self, pending: &'a Pending) {
        let Some((order, class_key)) = self.head() else { return };
        let members = if let Some((_, members)) = self.behind.remove(order) {
            Some(members)
        } else {
            self.awake.next();
            pending.classes.get(class_key).map(|class| {
                let mut members = class.members.iter();
                members.next();
                members
            })
        };
        if let Some(mut members) = members
            && let Some(next) = members.next()
        {
            self.behind.insert(next, (class_key, members));
        }
    }

    fn skip(&mut self) {
        let Some((order, class_key)) = self.head() else { return };
        if self.behind.remove(order).is_none() {
            self.awake.next();
        }
        if class_key.is_whole() {
            self.blocks = Some(order);
        }
    }
}
