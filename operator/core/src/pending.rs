//! Who waits in one ClusterQueue, and in what order.
//!
//! Workloads that cannot be told apart by the scheduler (same priority, same pod sets) form a *class*. When one
//! of a class does not fit, none does, so the whole class is *parked* with one verdict until something changes
//! that could help. What is asked for again and again is only the first of each class that is awake. Under
//! `StrictFIFO` there is one class: when its head does not fit, everybody behind it waits.
//!
//! A head that waits for others to stop on its account *holds* the queue: who comes after it is not looked at.
//!
//! Where [consumption](crate::consumption) decides, the workloads of each LocalQueue stand in a *lane* of their own. The
//! lane of the lowest [`Rank`] goes first, so that a change of rank moves nobody. Whoever quota is kept for is *favoured*:
//! it is overtaken only by who would go before it in one lane too. So it is never by those who stop on its account, and
//! else would take their quota back at once.

mod cursor;
mod line;

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

pub use self::cursor::Cursor;
use crate::{
    consumption::Rank,
    name::{LocalQueueKey, WorkloadKey},
    queue::Strategy,
    verdict::{Refusal, Told, Until},
    workload::{PodSet, Timestamp},
};

/// The order of workloads in a queue: priority, then waiting time, then name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Higher goes first.
    pub priority: Reverse<i32>,
    /// Since when it waits.
    pub since: Timestamp,
    /// The workload.
    pub key: WorkloadKey,
}

impl Order {
    /// The place of a workload.
    pub fn new(priority: i32, since: Timestamp, key: WorkloadKey) -> Self {
        Self { priority: Reverse(priority), since, key }
    }
}

/// The LocalQueue whose consumption decides, where that of one does.
pub type Lane = Option<Arc<LocalQueueKey>>;

/// What workloads of one class have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ClassKey {
    /// These pods at this priority, in place of this workload if of any, in this lane.
    Shape(i32, Arc<[PodSet]>, Option<Arc<WorkloadKey>>, Lane),
    /// Everything in this lane of the queue (`StrictFIFO`).
    Whole(Lane),
}

impl ClassKey {
    /// The lane.
    pub fn lane(&self) -> &Lane {
        match self {
            Self::Shape(.., lane) | Self::Whole(lane) => lane,
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self, Self::Whole(_))
    }
}

impl Ord for ClassKey {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Whole(lane), Self::Whole(other)) => lane.cmp(other),
            (Self::Whole(_), Self::Shape(..)) => Ordering::Greater,
            (Self::Shape(..), Self::Whole(_)) => Ordering::Less,
            // Equal lists of pod sets are nearly always the same list.
            (Self::Shape(a, pods, replaced, lane), Self::Shape(b, others, another, other)) => a
                .cmp(b)
                .then_with(|| replaced.cmp(another))
                .then_with(|| lane.cmp(other))
                .then_with(|| if Arc::ptr_eq(pods, others) { Ordering::Equal } else { pods.cmp(others) }),
        }
    }
}

impl PartialOrd for ClassKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ClassKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ClassKey {}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Class {
    members: BTreeSet<Order>,
    /// Which member was looked at, and why and until when the class sleeps, if it does.
    parked: Option<(Order, Refusal)>,
    /// What the members were last told, and the first of them at that time.
    announced: Option<(Order, Told)>,
}

/// A class that was tried and sleeps.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Asleep {
    class: ClassKey,
    /// Which member was looked at.
    first: Order,
    pub(crate) refusal: Refusal,
    /// Whether that member holds the queue.
    holds: bool,
}

/// Those of one lane.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Heads {
    rank: Rank,
    /// The first member of each class that is awake.
    first: BTreeMap<Order, ClassKey>,
    /// How many wait in the lane, awake or not.
    len: usize,
}

/// A place in the line: the lane's rank, and the place within it.
type Spot<'a> = (Rank, &'a Order);

/// Whether who has this place goes before who holds the queue at that one.
fn overtakes((rank, order): Spot<'_>, (holders, holder): Spot<'_>) -> bool {
    rank <= holders && order < holder
}

/// The workloads that wait in one ClusterQueue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pending {
    classes: BTreeMap<ClassKey, Class>,
    lanes: BTreeMap<Lane, Heads>,
    /// Who holds the queue, in a class that is parked.
    holder: Option<(Order, ClassKey)>,
    /// For whom quota is kept, whether it holds the queue or is to be looked at.
    favoured: Option<(Order, ClassKey)>,
    len: usize,
}

impl Pending {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether somebody is awake whom nobody holds up.
    pub fn is_awake(&self) -> bool {
        self.first_awake().is_some_and(|spot| self.overtakes(spot) != Some(false)) && !self.is_blocked()
    }

    /// The place of a member.
    fn spot<'a>(&self, class_key: &ClassKey, order: &'a Order) -> Spot<'a> {
        (self.lanes.get(class_key.lane()).map(|lane| lane.rank).unwrap_or_default(), order)
    }

    /// The first of those who are awake.
    fn first_awake(&self) -> Option<Spot<'_>> {
        self.lanes.values().filter_map(|lane| Some((lane.rank, lane.first.first_key_value()?.0))).min()
    }

    /// The first of all, if the line is kept in strict order.
    fn first_in_line(&self) -> Option<(Spot<'_>, &Class)> {
        let whole = self.classes.iter().rev().take_while(|(key, _)| key.is_whole());
        let firsts = whole.filter_map(|(key, class)| Some((self.spot(key, class.members.first()?), class)));
        let first = firsts.min_by_key(|(spot, _)| *spot)?;
        match &self.favoured {
            Some((favoured, key)) if !overtakes(first.0, self.spot(key, favoured)) => {
                let class = self.classes.get(key)?;
                Some((self.spot(key, class.members.first()?), class))
            }
            _ => Some(first),
        }
    }

    /// Whether the line is kept in strict order and its first sleeps.
    fn is_blocked(&self) -> bool {
        self.first_in_line().is_some_and(|(_, class)| class.parked.is_some())
    }

    /// Quota is kept for this one, or for nobody any more.
    pub fn favour(&mut self, favoured: Option<(Order, ClassKey)>) {
        self.favoured = favoured;
    }

    /// For whom quota is kept.
    pub fn favoured(&self) -> Option<&Order> {
        self.favoured.as_ref().map(|(order, _)| order)
    }

    /// Whether this place is before that of who holds the queue, if somebody does.
    fn overtakes(&self, spot: Spot<'_>) -> Option<bool> {
        let (holder, class) = self.holder.as_ref()?;
        Some(overtakes(spot, self.spot(class, holder)))
    }

    /// Whether somebody who is awake goes before who holds the queue.
    fn is_overtaken(&self) -> bool {
        self.first_awake().and_then(|spot| self.overtakes(spot)).unwrap_or_default()
    }

    /// The class that pods of this kind belong to.
    pub fn class_of(
        strategy: Strategy,
        priority: i32,
        pod_sets: &Arc<[PodSet]>,
        replaced: Option<&WorkloadKey>,
        lane: Lane,
    ) -> ClassKey {
        match strategy {
            Strategy::BestEffortFifo => {
                ClassKey::Shape(priority, Arc::clone(pod_sets), replaced.cloned().map(Arc::new), lane)
            }
            Strategy::StrictFifo => ClassKey::Whole(lane),
        }
    }

    /// A LocalQueue has this rank now. Whoever holds the queue is looked at again if others go before it who did not.
    pub fn set_rank(&mut self, queue: &LocalQueueKey, rank: Rank) {
        let overtaken = self.is_overtaken();
        if let Some(lane) = self.lanes.get_mut(&Some(Arc::new(queue.clone()))) {
            lane.rank = rank;
            if !overtaken && self.is_overtaken() {
                self.wake_holder();
            }
        }
    }

    /// Adds a workload to a lane of this rank. It joins its class asleep if that is parked, unless it goes before all
    /// of a class that is kept in strict order: then the class wakes, because its head is another one now.
    pub fn insert(&mut self, class_key: ClassKey, order: Order, rank: Rank) {
        self.lanes.entry(class_key.lane().clone()).or_default().rank = rank;
        // Whoever goes before the holder may take what it waits for: it is looked at again after that one.
        if self.overtakes((rank, &order)) == Some(true) {
            self.wake_holder();
        }
        let class = self.classes.entry(class_key.clone()).or_default();
        let Some(lane) = self.lanes.get_mut(class_key.lane()) else { return };
        let first = class.members.first().cloned();
        if !class.members.insert(order.clone()) {
            return;
        }
        self.len += 1;
        lane.len += 1;
        let leads = first.as_ref().is_none_or(|first| order < *first);
        if class_key.is_whole() {
            class.parked.take_if(|(looked_at, _)| order < *looked_at);
        }
        if leads && class.parked.is_none() {
            if let Some(first) = first {
                lane.first.remove(&first);
            }
            lane.first.insert(order, class_key);
        }
    }

    /// Removes a workload.
    pub fn remove(&mut self, class_key: &ClassKey, order: &Order) {
        let Some(class) = self.classes.get_mut(class_key) else { return };
        let Some(lane) = self.lanes.get_mut(class_key.lane()) else { return };
        if !class.members.remove(order) {
            return;
        }
        self.len -= 1;
        lane.len -= 1;
        lane.first.remove(order);
        if self.holder.take_if(|(holder, _)| holder == order).is_some() {
            class.parked = None;
        }
        if class_key.is_whole() {
            class.parked.take_if(|(looked_at, _)| order == looked_at);
        }
        match class.members.first() {
            None => {
                self.classes.remove(class_key);
            }
            Some(next) if class.parked.is_none() => {
                lane.first.insert(next.clone(), class_key.clone());
            }
            Some(_) => {}
        }
        if lane.len == 0 {
            self.lanes.remove(class_key.lane());
        }
    }

    /// Puts a class to sleep with the verdict on this member, which is the first of those who are not admitted
    /// by the same plan. Gives those members for whom the reason to wait is another one now: of a class kept in
    /// strict order the first, and who was the first before; of another all, if the reason changed. Who is new has
    /// been told nothing yet and is not meant.
    pub fn park(&mut self, class_key: &ClassKey, first: &Order, refusal: Refusal) -> Vec<WorkloadKey> {
        if self.classes.get(class_key).is_none_or(|class| !class.members.contains(first)) {
            return Vec::new();
        }
        self.put_down(class_key, first, refusal)
    }

    /// The same, where that member may have left the class since.
    fn put_down(&mut self, class_key: &ClassKey, first: &Order, refusal: Refusal) -> Vec<WorkloadKey> {
        let Some(class) = self.classes.get_mut(class_key) else { return Vec::new() };
        if let (Some(head), Some(lane)) = (class.members.first(), self.lanes.get_mut(class_key.lane())) {
            lane.first.remove(head);
        }
        let told = refusal.verdict.told();
        class.parked = Some((first.clone(), refusal));
        let before = class.announced.replace((first.clone(), told));
        match (class_key, before) {
            (_, Some((who, what))) if what == told && (who == *first || !class_key.is_whole()) => Vec::new(),
            (ClassKey::Shape(..), _) => class.members.iter().map(|order| order.key.clone()).collect(),
            (ClassKey::Whole(_), before) => {
                let former = before.map(|(who, _)| who).filter(|who| class.members.contains(who));
                former.into_iter().chain([first.clone()]).map(|order| order.key).collect()
            }
        }
    }

    /// [Parks](Self::park) a class of which a member waits for others to stop on its account: it holds the queue
    /// until it wakes.
    pub fn hold(&mut self, class_key: &ClassKey, holder: &Order, refusal: Refusal) -> Vec<WorkloadKey> {
        let told = self.park(class_key, holder, refusal);
        if self.classes.get(class_key).is_some_and(|class| class.members.contains(holder)) {
            self.holder = Some((holder.clone(), class_key.clone()));
        }
        told
    }

    /// Wakes every class whose time has come. Says whether there was one.
    pub fn wake(&mut self, has_come: impl Fn(&Until) -> bool) -> bool {
        let mut woken = false;
        for (class_key, class) in &mut self.classes {
            if class.parked.take_if(|(_, refusal)| has_come(&refusal.until)).is_some()
                && let Some(first) = class.members.first()
                && let Some(lane) = self.lanes.get_mut(class_key.lane())
            {
                lane.first.insert(first.clone(), class_key.clone());
                self.holder.take_if(|(_, held)| held == class_key);
                woken = true;
            }
        }
        woken
    }

    /// Wakes who holds the queue, if somebody does.
    pub fn wake_holder(&mut self) {
        if let Some((_, held)) = self.holder.take() {
            self.wake_class(&held);
        }
    }

    fn wake_class(&mut self, class_key: &ClassKey) {
        if let Some(class) = self.classes.get_mut(class_key)
            && class.parked.take().is_some()
            && let Some(first) = class.members.first()
            && let Some(lane) = self.lanes.get_mut(class_key.lane())
        {
            lane.first.insert(first.clone(), class_key.clone());
        }
    }

    /// Every class that sleeps.
    pub fn asleep(&self) -> impl Iterator<Item = Asleep> {
        self.classes.iter().filter_map(|(class, members)| {
            let (first, refusal) = members.parked.clone()?;
            let holds = self.holder.as_ref().is_some_and(|(_, held)| held == class);
            Some(Asleep { class: class.clone(), first, refusal, holds })
        })
    }

    /// Has a class sleep as it did.
    pub fn put_to_sleep(&mut self, asleep: &Asleep) {
        let Asleep { class, first, refusal, holds } = asleep;
        if *holds {
            self.hold(class, first, refusal.clone());
        } else {
            self.put_down(class, first, refusal.clone());
        }
    }

    /// What a class was parked with, or the first of the line if that blocks the class.
    pub fn refusal(&self, class_key: &ClassKey) -> Option<&Refusal> {
        let class = match self.first_in_line() {
            Some((_, class)) if class_key.is_whole() => class,
            _ => self.classes.get(class_key)?,
        };
        class.parked.as_ref().map(|(_, refusal)| refusal)
    }

    /// The head of a line kept in strict order, if this member is another one.
    pub fn stands_behind(&self, class_key: &ClassKey, order: &Order) -> Option<&Order> {
        let ((_, head), _) = self.first_in_line()?;
        (class_key.is_whole() && head != order).then_some(head)
    }

    /// How many go before this member.
    pub fn ahead(&self, class_key: &ClassKey, order: &Order) -> usize {
        let own = self.spot(class_key, order);
        self.everybody().filter(|(class, other)| self.spot(class, other) < own).count()
    }

    /// Everybody who is awake.
    pub fn awake(&self) -> impl Iterator<Item = &Order> {
        let open = !self.is_blocked();
        let awake = self.classes.values().filter(move |class| open && class.parked.is_none());
        awake.flat_map(|class| &class.members)
    }

    /// Everybody who waits, with their class.
    pub fn everybody(&self) -> impl Iterator<Item = (&ClassKey, &Order)> {
        self.classes.iter().flat_map(|(key, class)| class.members.iter().map(move |order| (key, order)))
    }

    /// The rank of each lane.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = (&LocalQueueKey, Rank)> {
        self.lanes.iter().filter_map(|(queue, lane)| Some((queue.as_deref()?, lane.rank)))
    }

    /// Whether the heads and the counts are what follows from the classes.
    pub(crate) fn is_sound(&self) -> bool {
        let is_member = |(order, key): &(Order, ClassKey)| {
            self.classes.get(key).is_some_and(|class| class.members.contains(order))
        };
        let mut lanes: BTreeMap<Lane, Heads> = BTreeMap::new();
        for (key, class) in &self.classes {
            let lane = lanes.entry(key.lane().clone()).or_default();
            lane.rank = self.lanes.get(key.lane()).map(|lane| lane.rank).unwrap_or_default();
            lane.len += class.members.len();
            if let Some(first) = class.members.first().filter(|_| class.parked.is_none()) {
                lane.first.insert(first.clone(), key.clone());
            }
        }
        self.lanes == lanes
            && self.len == self.everybody().count()
            && self.classes.values().all(|class| !class.members.is_empty())
            && self.favoured.as_ref().is_none_or(is_member)
            && self.holder.as_ref().is_none_or(|(holder, key)| {
                self.classes
                    .get(key)
                    .is_some_and(|class| class.parked.is_some() && class.members.first() == Some(holder))
            })
    }

    /// A reading of the queue for one plan.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self)
    }
}
