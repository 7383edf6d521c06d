//! The decision: who is admitted now, who has to stop for it, and why the others wait.
//!
//! A plan is made in cycles, like Kueue's. In each, every ClusterQueue offers its head. A head that does not fit
//! parks its class, and the next one has its turn in the next cycle, unless it has flavors [left](tries). What is offered is put in order (least
//! borrowing, highest priority, longest wait; with fair sharing the smallest share first) and dealt with one after
//! another, each checked again against what those before it took. A head that fits is admitted. One that fits if
//! others stop has those evicted, and what it needs is kept for it: nobody else gets it, and nobody of its queue is
//! looked at before it is admitted or gives up. A plan ends when no queue has anything to offer or the budget is
//! spent. All of it happens on an [overlay](crate::overlay): [`State`] is only read.

mod entry;
mod fewer;
mod places;
mod tries;
mod turns;
mod void;
mod yields;

use std::{collections::BTreeMap, mem};

use serde::{Deserialize, Serialize};

use self::{
    entry::{Decision, Entry, Kind},
    tries::Tries,
    turns::Turns,
    void::Extent,
};
use crate::{
    assign::Progress,
    brakes::{Brakes, Recent},
    forest::NodeId,
    name::{ClusterQueueName, WorkloadKey},
    overlay::{Kept, Overlay},
    pending::{ClassKey, Cursor, Order, Pending},
    preempt::{Admitted, Earlier, Ground, Search, Victim},
    quantity::Usage,
    queue::ClusterQueue,
    state::State,
    topology::{Profile, Stays},
    verdict::{Reason, Refusal, Until, Verdict},
    workload::{Admission, PodSetAssignment, Timestamp},
};

/// When a share lets a workload preempt (KEP-1714, rules S2-a and S2-b).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FairStrategy {
    /// The share of who asks is, with the workload, no larger than that of who loses, without the victim.
    LessThanOrEqualToFinalShare,
    /// The share of who asks is, with the workload, smaller than that of who loses, with the victim.
    LessThanInitialShare,
}

/// What bounds and steers a plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Policy {
    /// How many heads a plan may look at before it ends with [`Plan::more`], after the cycle in which it reached
    /// that and once no head is midway through its flavors. Units of work and not of time, so that the same input gives the same plan. A plan that has not decided
    /// anything yet goes on beyond it, so that one after another they reach the same end as a single one would.
    pub budget: u32,
    /// Whether quota is shared fairly, and by which strategies, in this order. None of them means the first of
    /// all alone.
    pub fair_sharing: Option<Vec<FairStrategy>>,
    /// Whether requests do not count for which a ClusterQueue has no quota. Otherwise it cannot admit them.
    pub ignore_undeclared: bool,
    /// Whether nobody is admitted before the pods of all who were are ready.
    pub one_at_a_time: bool,
    /// What holds back preemption.
    pub brakes: Brakes,
    /// How pods are placed.
    #[serde(default)]
    pub topology: Profile,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            budget: 20_000,
            fair_sharing: None,
            ignore_undeclared: false,
            one_at_a_time: false,
            brakes: Brakes::default(),
            topology: Profile::default(),
        }
    }
}

/// A workload that gets its quota.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Admit {
    /// The workload.
    pub workload: WorkloadKey,
    /// What it gets.
    pub admission: Admission,
    /// The `resourceVersion` of the object that this was decided on; the write's precondition.
    pub version: u64,
    /// When it was decided.
    pub at: Timestamp,
}

/// A workload that has to stop so that another fits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Evict {
    /// The workload.
    pub workload: WorkloadKey,
    /// The ClusterQueue whose quota it holds.
    pub cluster_queue: ClusterQueueName,
    /// Where that is in its cohorts, as `/root/cohort/queue`.
    pub path: String,
    /// On what ground.
    pub ground: Ground,
    /// For whom.
    pub preemptor: WorkloadKey,
    /// The ClusterQueue in which that one waits.
    pub preemptor_queue: ClusterQueueName,
    /// Where that is.
    pub preemptor_path: String,
    /// When it was decided.
    pub at: Timestamp,
}

/// A workload that waits for others to stop on its account.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hold {
    /// The queue it waits in.
    pub queue: ClusterQueueName,
    /// Its class.
    pub class: ClassKey,
    /// Its place in the queue.
    pub order: Order,
    /// What is kept for it.
    pub usage: Usage,
    /// The same, pod set by pod set.
    pub pod_sets: Vec<PodSetAssignment>,
    /// What is kept for it of the nodes.
    #[serde(default)]
    pub stays: Stays,
    /// What it is told.
    pub refusal: Refusal,
}

/// A class of workloads that does not fit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Park {
    /// The queue they wait in.
    pub queue: ClusterQueueName,
    /// The class.
    pub class: ClassKey,
    /// The member that was looked at, and its place in the queue.
    pub order: Order,
    /// Why it does not fit, and until when.
    pub refusal: Refusal,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    /// In the order decided.
    pub admit: Vec<Admit>,
    /// In the order decided.
    pub evict: Vec<Evict>,
    /// In the order decided.
    pub hold: Vec<Hold>,
    /// In the order decided.
    pub park: Vec<Park>,
    /// The `ClusterQueues` in which nothing is kept any more, because who is admitted would take it back.
    pub yielded: Vec<ClusterQueueName>,
    /// Whether the budget ended it before everybody was looked at.
    pub more: bool,
}

/// A queue as a plan sees it.
struct Line<'a> {
    queue: &'a ClusterQueue,
    leaf: NodeId,
    pending: &'a Pending,
    cursor: Cursor<'a>,
    /// Those of its head.
    tries: Tries<'a>,
    /// Whether nobody of it is looked at any more.
    closed: bool,
}

/// The plan for a state that is [settled](State::settle), at a moment, under a policy.
pub fn plan(state: &State, now: Timestamp, policy: &Policy) -> Plan {
    let lines: Vec<Line<'_>> = state.awake_lines().map(Line::from).collect();
    if lines.is_empty() {
        return Plan::default();
    }
    let overlay = Overlay::new(state);
    let recent = policy.brakes.recent(&state.past_evictions(), now);
    let (plan, admitted, is_void) = Default::default();
    let mut planning = Planning { state, now, policy, overlay, recent, lines, plan, admitted, is_void };
    let mut earlier = Earlier::default();
    let mut budget = policy.budget;
    while planning.has_heads() {
        // Between cycles and never within one: else the turns of the queues would depend on it.
        if budget == 0 && !planning.plan.is_empty() && !planning.is_midway() {
            planning.plan.more = true;
            break;
        }
        let so_far = Extent::of(&planning.plan);
        planning.cycle(&mut budget, &earlier);
        if planning.is_void {
            so_far.restore(&mut planning.plan);
            planning.plan.more = true;
            break;
        }
        earlier.extend(planning.admitted.drain(..));
        // Whoever waits for others to stop may fit now that less is kept for somebody else.
        if planning.overlay.gave_up() && !planning.plan.is_empty() && !planning.is_midway() {
            planning.plan.more = true;
            break;
        }
    }
    planning.plan
}

/// A plan in the making.
struct Planning<'a> {
    state: &'a State,
    now: Timestamp,
    policy: &'a Policy,
    overlay: Overlay<'a>,
    /// The evictions that count for the brakes, those of this plan included.
    recent: Recent,
    lines: Vec<Line<'a>>,
    plan: Plan,
    /// Those whom the cycle in hand admitted, with the leaf of their ClusterQueue.
    admitted: Vec<(NodeId, Admitted)>,
    /// Whether that [comes to nothing](void).
    is_void: bool,
}

impl<'a> Planning<'a> {
    /// Whether there is anybody to look at.
    fn has_heads(&mut self) -> bool {
        self.lines.iter_mut().any(|line| !line.closed && line.cursor.head().is_some())
    }

    /// Whether a head is midway through its flavors: another plan would begin with the first again.
    fn is_midway(&mut self) -> bool {
        self.lines.iter_mut().filter(|line| !line.closed).any(|line| {
            let Line { cursor, tries, .. } = line;
            cursor.head().is_some_and(|(head, _)| tries.are_midway(head))
        })
    }

    /// One cycle.
    fn cycle(&mut self, budget: &mut u32, earlier: &Earlier) {
        let mut entries = Vec::new();
        for index in 0..self.lines.len() {
            let Some(line) = self.lines.get_mut(index).filter(|line| !line.closed) else { continue };
            let Some(head) = line.cursor.head() else {
                line.closed = true;
                continue;
            };
            *budget = budget.saturating_sub(1);
            entries.extend(self.nominate(index, head, earlier));
            if self.is_void {
                return;
            }
        }
        let mut kept_for_now = Vec::new();
        let mut turns = Turns::new(entries, self.state, self.policy);
        while let Some(entry) = turns.next(&mut self.overlay) {
            let evicted = self.plan.evict.len();
            let leaf = entry.leaf;
            if let Kind::NoCandidates { reserve } = &entry.kind {
                let stays = if reserve.is_empty() { Stays::default() } else { entry.assignment.stays() };
                self.overlay.charge(leaf, reserve);
                self.overlay.occupy(&stays);
                kept_for_now.push((leaf, reserve.clone(), stays));
            } else {
                self.deal_with(entry, earlier);
                if self.is_void {
                    return;
                }
            }
            turns.changed(self.plan.evict.len() > evicted);
        }
        for (leaf, usage, stays) in kept_for_now {
            self.overlay.release(leaf, &usage);
            self.overlay.vacate(&stays);
        }
    }

    /// What the head of a line would get. If it has to wait whatever the others do and has no flavors left, its class is
    /// parked.
    fn nominate<'c>(
        &mut self,
        line: usize,
        (order, class): (&'a Order, &'a ClassKey),
        earlier: &'c Earlier,
    ) -> Option<Entry<'c>>
    where
        'a: 'c,
    {
        let at = self.lines.get_mut(line)?;
        let Some(workload) = self.state.workload(&order.key) else {
            at.cursor.take(at.pending);
            return None;
        };
        let (queue, leaf) = (at.queue, at.leaf);
        let behind = at.tries.behind(order);
        let mut tries = mem::take(&mut at.tries);
        let (state, policy) = (self.state, self.policy);
        let search = Search { state, policy, workload, queue, leaf, counts_owners: false, earlier };
        let kept = self.overlay.take_out(&queue.name);
        let (decision, refusal) = self.try_head(&search, &mut tries, &behind);
        // Whoever cannot be helped now gives up what is kept for it.
        let is_kept_for_it =
            self.state.reservation(&queue.name).is_some_and(|kept| kept.workload == order.key);
        if refusal.is_none() || !is_kept_for_it {
            self.overlay.put_back(&queue.name, kept);
        }
        if let Some(at) = self.lines.get_mut(line) {
            at.tries = tries;
        }
        if let Some(refusal) = refusal {
            self.park(line, class, order, refusal);
        }
        let (kind, assignment) = decision.0.ok()?;
        self.note_way(&kind, earlier);
        Some(Entry { line, leaf, order, class, kind, assignment })
    }

    /// One try of a head, and the refusal if it is the last one.
    fn try_head<'c>(
        &mut self,
        search: &Search<'c>,
        tries: &mut Tries<'a>,
        behind: &Progress,
    ) -> (Decision<'c>, Option<Refusal>) {
        let decision = self.decide(search, behind);
        tries.note(&decision);
        let Some(refusal) = decision.refusal() else { return (decision, None) };
        if tries.go_on(search.workload, search.queue) {
            return (decision, None);
        }
        if !behind.is_over() {
            let anew = self.decide(search, &Progress::default());
            tries.note(&anew);
            if anew.refusal().is_none() {
                return (anew, None);
            }
        }
        let refusal = tries.refusal(refusal);
        (decision, Some(refusal))
    }

    fn decide<'c>(&mut self, search: &Search<'c>, behind: &Progress) -> Decision<'c> {
        let mut decision = Decision(entry::decide(search, behind, &mut self.overlay));
        if let Ok((Kind::Preempts(victims), _)) = &decision.0
            && let Err(problem) = self.brakes_allow(victims)
        {
            decision.held_back(&problem);
        }
        if decision.refusal().is_some()
            && let Some((owners, assignment)) = yields::instead(search, behind, &mut self.overlay)
            && !self.is_held(owners)
        {
            decision = Decision(Ok((Kind::InsteadOf(owners), assignment)));
        }
        decision
    }

    fn park(&mut self, line: usize, class: &ClassKey, order: &Order, refusal: Refusal) {
        let Some(line) = self.lines.get_mut(line) else { return };
        self.plan.park.push(Park {
            queue: line.queue.name.clone(),
            class: class.clone(),
            order: order.clone(),
            refusal,
        });
        line.cursor.skip();
    }

    /// Admits a head, or has others stop for it, unless those before it left too little. Then it has another turn
    /// in the next cycle.
    fn deal_with<'c>(&mut self, mut entry: Entry<'c>, earlier: &'c Earlier)
    where
        'a: 'c,
    {
        let Some(queue) = self.lines.get(entry.line).map(|line| line.queue) else { return };
        let kept = self.overlay.take_out(&queue.name);
        // Heads are offered places that others may be offered as well.
        if !self.has_place(&entry) && !self.place_again(&mut entry, queue, earlier) {
            return self.overlay.put_back(&queue.name, kept);
        }
        let usage = &entry.assignment.usage;
        let holds = match &entry.kind {
            Kind::Fits => self.overlay.fits(entry.leaf, usage),
            Kind::Preempts(victims) => {
                self.brakes_allow(victims).is_ok() && self.may_evict(victims, entry.leaf, usage)
            }
            Kind::InsteadOf(owners) => self.waits_for_pods() || self.yields(owners, entry.leaf, usage),
            Kind::NoCandidates { .. } => false,
        };
        if !holds {
            return self.overlay.put_back(&queue.name, kept);
        }
        let stays = entry.assignment.stays();
        match &entry.kind {
            Kind::Fits | Kind::InsteadOf(_) if self.waits_for_pods() => {
                self.overlay.put_back(&queue.name, kept);
                let message = "waiting for all admitted workloads to be in PodsReady condition";
                let verdict = Verdict::new(Reason::WaitingForPodsReady, message);
                let refusal = Refusal { verdict, until: Until::AllReady, behind: Progress::default() };
                self.park(entry.line, entry.class, entry.order, refusal);
            }
            Kind::Preempts(victims) => {
                self.overlay.evict(victims);
                let kept = Kept { leaf: entry.leaf, usage: usage.clone(), stays };
                self.overlay.keep(&queue.name, kept);
                self.order_evictions(queue, entry.leaf, &entry.order.key, victims);
                if let Some(line) = self.lines.get_mut(entry.line) {
                    line.closed = true;
                }
                self.plan.hold.push(entry.into_hold(queue));
            }
            Kind::Fits | Kind::InsteadOf(_) | Kind::NoCandidates { .. } => {
                self.overlay.admit(entry.leaf, usage, &stays);
                if let Some(line) = self.lines.get_mut(entry.line) {
                    line.cursor.take(line.pending);
                    // Those of others may go before the next of the same LocalQueue.
                    if let Some(workload) = self.state.workload(&entry.order.key)
                        && let Some(penalty) = self.state.penalty(workload, queue)
                    {
                        let rank = self.overlay.penalize(&workload.queue, &penalty);
                        line.cursor.set_rank(&workload.queue, rank);
                    }
                }
                let admitted = Admitted {
                    workload: entry.order.key.clone(),
                    queue: queue.name.clone(),
                    usage: usage.clone(),
                    stays,
                    at: self.now,
                };
                self.admitted.push((entry.leaf, admitted));
                self.plan.admit.push(Admit {
                    workload: entry.order.key.clone(),
                    version: self.state.workload(&entry.order.key).map_or(0, |workload| workload.version),
                    at: self.now,
                    admission: entry.assignment.into_admission(queue),
                });
            }
        }
    }

    /// Whether something is kept anew in this ClusterQueue.
    fn is_held(&self, queue: &ClusterQueueName) -> bool {
        self.plan.hold.iter().any(|hold| hold.queue == *queue)
    }

    /// Keeps nothing any more in this ClusterQueue, unless that is not enough for another to fit.
    fn yields(&mut self, owners: &ClusterQueueName, leaf: NodeId, usage: &Usage) -> bool {
        if self.is_held(owners) {
            return false;
        }
        let kept = self.overlay.take_out(owners);
        let fits = self.overlay.fits(leaf, usage);
        if fits {
            self.plan.yielded.push(owners.clone());
        } else {
            self.overlay.put_back(owners, kept);
        }
        fits
    }

    /// Whether somebody's pods have to get ready before the next one is admitted.
    fn waits_for_pods(&self) -> bool {
        self.policy.one_at_a_time && !(self.state.all_pods_ready() && self.plan.admit.is_empty())
    }

    /// Whether the brakes let these be evicted, after those who were chosen before; if not, why.
    fn brakes_allow(&self, victims: &[Victim<'_>]) -> Result<(), String> {
        let told = victims.iter().filter(|victim| victim.holder.evicted.is_none());
        self.policy.brakes.allow(told.map(|victim| victim.holder.queue), &self.recent)
    }

    /// Whether a workload fits later once these have stopped, none of whom was chosen before.
    fn may_evict(&mut self, victims: &[Victim<'_>], leaf: NodeId, usage: &Usage) -> bool {
        if victims.iter().any(|victim| self.overlay.is_leaving(&victim.holder)) {
            return false;
        }
        self.overlay.remove(victims);
        let fits = self.state.forest().fits(&self.overlay.later, leaf, usage);
        self.overlay.restore(victims);
        fits
    }

    fn order_evictions(
        &mut self,
        queue: &ClusterQueue,
        leaf: NodeId,
        preemptor: &WorkloadKey,
        victims: &[Victim<'_>],
    ) {
        let forest = self.state.forest();
        // Who stops anyway need not be told.
        for victim in victims.iter().filter(|victim| victim.holder.evicted.is_none()) {
            self.recent.add(victim.holder.queue);
            self.plan.evict.push(Evict {
                workload: victim.holder.workload.key.clone(),
                cluster_queue: victim.holder.queue.clone(),
                path: forest.path_text(victim.leaf),
                ground: victim.ground,
                preemptor: preemptor.clone(),
                preemptor_queue: queue.name.clone(),
                preemptor_path: forest.path_text(leaf),
                at: self.now,
            });
        }
    }
}

impl<'a> From<(&'a ClusterQueue, NodeId, &'a Pending)> for Line<'a> {
    fn from((queue, leaf, pending): (&'a ClusterQueue, NodeId, &'a Pending)) -> Self {
        Self { queue, leaf, pending, cursor: pending.cursor(), tries: Tries::default(), closed: false }
    }
}

impl Plan {
    /// Whether nothing was decided.
    pub fn is_empty(&self) -> bool {
        self.admit.is_empty() && self.evict.is_empty() && self.hold.is_empty() && self.park.is_empty()
    }

    /// The workloads admitted, by ClusterQueue.
    pub fn admitted(&self) -> BTreeMap<ClusterQueueName, Vec<WorkloadKey>> {
        let mut by_queue: BTreeMap<ClusterQueueName, Vec<WorkloadKey>> = BTreeMap::new();
        for admit in &self.admit {
            by_queue.entry(admit.admission.cluster_queue.clone()).or_default().push(admit.workload.clone());
        }
        by_queue
    }
}
