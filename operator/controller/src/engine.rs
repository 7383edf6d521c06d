//! The loop: events in, a plan, writes out.
//!
//! One task owns everything that is known, so nothing is locked. A turn takes the events and answers that are
//! there, settles the state, plans, and hands over what is to be written. A replica that does not lead keeps its
//! state as fresh as the leader's and writes nothing; one that only looks on compares.

mod answers;
mod layouts;
mod looking_on;
mod preempting;
mod provisioning;
mod record;
mod steps;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::bail;
use jiff::Timestamp as Clock;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use whalezen_core::{
    name::WorkloadKey,
    plan::{Policy, plan},
    state::Snapshot,
    workload::Timestamp,
};
use whalezen_crds::kueue::constants::reason::evicted;
use whalezen_dialects::{
    kueue::{
        configuration::{Configuration, Exposed},
        jobs::JobKey,
        milestones::What,
        objects::Objects,
    },
    policies::Policies,
};

pub use self::looking_on::Observer;
use self::{
    preempting::{Preempting, Preemption},
    record::Record,
};
use crate::{
    applier::{Applier, Done, Task},
    intake::{job_key, take_in},
    lease::Leadership,
    limiter::Limiter,
    log::DecisionLog,
    metrics::{Metrics, gauges},
    notes::Notes,
    questions::Question,
    retries::Retries,
    sender::Order,
    status::Statuses,
    timers::Timers,
    watch::{Kind, Seen, Watches},
};

/// How many events are taken before a plan is made.
const EVENTS_PER_TURN: usize = 512;
/// How often what is paced (status, reports, retries) is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often those are looked at again whom the brakes hold back: what was too much an hour ago is not any more.
const RELEASE_EVERY: Duration = Duration::from_secs(5);
/// How many workloads are told why they wait, in the long run and at once. Those with news that nobody was told
/// yet; the API server has better things to do than to keep thousands informed to the second.
const REPORTS_PER_SECOND: u32 = 5;
const REPORTS_AT_ONCE: u32 = 50;

/// See the module.
pub struct Engine {
    objects: Objects,
    policies: Policies,
    policy: Policy,
    /// When those are looked at again whom the brakes hold back.
    next_release: Instant,
    applier: Applier,
    done: mpsc::UnboundedReceiver<Done>,
    notes: Notes,
    statuses: Statuses,
    reports: Limiter,
    retries: Retries,
    timers: Timers,
    /// Tasks whose turn came while they were under way, and comes again when they are done.
    missed: BTreeSet<Task>,
    /// What people were told about jobs that cannot go on.
    stuck: BTreeMap<JobKey, String>,
    /// Jobs that cannot go on and of which people were not told.
    untold: BTreeSet<JobKey>,
    /// The kinds that are watched.
    kinds: BTreeSet<Kind>,
    /// Those of which not everything was seen in this round.
    unsynced: BTreeSet<Kind>,
    round: u64,
    leadership: Leadership,
    leading: bool,
    /// Whether what was preempted before is still to be read off the Workloads.
    recalls: bool,
    metrics: Arc<Metrics>,
    /// The groups of metrics that there are.
    exposed: Exposed,
    record: Record,
    /// What there will be to tell of preemptions that were sent.
    preempting: Preempting,
    /// What a replica that only looks on knows beside all this.
    observer: Option<Observer>,
}

/// What an engine does beside deciding.
pub struct Beside {
    /// The decision log, if one is kept.
    pub log: Option<DecisionLog>,
    /// Set where it only looks on.
    pub observer: Option<Observer>,
}

impl Engine {
    /// An engine that has seen nothing yet.
    pub fn new(
        client: kube::Client,
        identity: String,
        configuration: Configuration,
        metrics: Arc<Metrics>,
        leadership: Leadership,
        beside: Beside,
    ) -> Self {
        let Configuration { settings, rate, metrics: exposed, .. } = configuration;
        let limiter = Limiter::new(rate.qps.unwrap_or(u32::MAX), rate.burst, Instant::now());
        let kinds = Kind::all(&settings.frameworks, beside.observer.is_some());
        let (applier, done) = Applier::new(client.clone(), Arc::clone(&metrics), leadership.clone(), limiter);
        Self {
            policies: Policies::default(),
            next_release: Instant::now(),
            policy: settings.policy(),
            objects: Objects::new(settings),
            applier,
            done,
            notes: Notes::new(client, Arc::clone(&metrics), identity),
            statuses: Statuses::default(),
            reports: Limiter::new(REPORTS_PER_SECOND, REPORTS_AT_ONCE, Instant::now()),
            retries: Retries::default(),
            timers: Timers::default(),
            missed: BTreeSet::new(),
            stuck: BTreeMap::new(),
            untold: BTreeSet::new(),
            unsynced: kinds.clone(),
            kinds,
            round: 0,
            leadership,
            leading: false,
            recalls: false,
            metrics,
            exposed,
            record: Record(beside.log),
            preempting: Preempting::default(),
            observer: beside.observer,
        }
    }

    /// Runs until the process ends.
    pub async fn run(
        mut self,
        mut watches: Watches,
        mut questions: mpsc::Receiver<Question>,
        ready: watch::Sender<bool>,
    ) -> anyhow::Result<()> {
        let mut next_tick = Instant::now();
        let mut held_back: Option<Instant> = None;
        loop {
            tokio::select! {
                biased;
                Some(done) = self.done.recv() => {
                    self.answered(done);
                    while let Ok(done) = self.done.try_recv() {
                        self.answered(done);
                    }
                }
                Some(question) = questions.recv() => self.asked(question),
                event = watches.seen.recv() => {
                    let Some(event) = event else { bail!("the watches ended") };
                    self.saw(event);
                    for _ in 0..EVENTS_PER_TURN {
                        let Ok(event) = watches.seen.try_recv() else { break };
                        self.saw(event);
                    }
                }
                () = self.leadership.changed() => {}
                () = sleep_until(held_back.unwrap_or_else(Instant::now)), if held_back.is_some() => {}
                () = sleep_until(next_tick) => {}
            }
            // By the clock and not by the branch taken: a stream of events must not keep paced work waiting.
            let ticked = Instant::now() >= next_tick;
            if ticked {
                next_tick = Instant::now() + TICK;
            }
            self.objects.state.settle();
            self.check_leadership(&watches);
            if self.observer.is_some() {
                self.look_on(ticked);
            }
            self.measure();
            if self.unsynced.is_empty() {
                ready.send_if_modified(|ready| !std::mem::replace(ready, true));
                if self.leading {
                    self.work(ticked);
                }
            }
            self.record.take_steps(&mut self.objects.state);
            held_back = self.applier.dispatch();
        }
    }

    /// Answers a question. Whoever asked may not wait any more.
    fn asked(&self, question: Question) {
        match question {
            Question::Gauges(to) => {
                let fair_sharing = self.policy.fair_sharing.is_some();
                let _ = to.send(gauges::count(&self.objects, &self.exposed, fair_sharing));
            }
            Question::Snapshot(to) => {
                let _ = to.send(Snapshot::of(&self.objects.state, now(), &self.policy));
            }
            Question::Explain(workload, to) => {
                let _ = to.send(self.objects.state.explain(&workload));
            }
            Question::Pending(queue, page, to) => {
                let _ = to.send(self.objects.pending(&queue, page));
            }
            Question::Observed(to) => {
                let _ = to.send(self.observer.as_ref().map(Observer::summary));
            }
        }
    }

    /// Counts what happened to workloads since the last turn, if it happened under this leader.
    fn measure(&mut self) {
        for milestone in self.objects.take_milestones() {
            if !self.leading {
                continue;
            }
            let selector = self.exposed.local_queues.as_ref();
            let labels = self.objects.labels_of_local_queue(&milestone.local_queue);
            let exposed = selector.zip(labels).is_some_and(|(selector, labels)| selector.matches(labels));
            let forest = self.objects.state.forest();
            let leaf = forest.leaf(&milestone.cluster_queue).filter(|_| self.exposed.cohorts);
            let cohorts = leaf.into_iter().flat_map(|leaf| forest.ancestors(leaf));
            let cohorts: Vec<&str> = cohorts.map(|cohort| gauges::cohort_name(forest, cohort)).collect();
            self.metrics.happened(&milestone, exposed, &cohorts);
            self.record.happened(&milestone, &self.objects.state);
            if let What::Evicted { reason, .. } = &milestone.what
                && reason == evicted::PREEMPTED
                && let Some(Preemption { evict, decision }) = self.preempting.take(&milestone.workload)
            {
                self.metrics.preempted(&evict);
                self.record.write(now(), || Some(decision));
            }
        }
    }

    /// Takes an event in.
    fn saw(&mut self, event: Seen) {
        let event = match &mut self.observer {
            Some(observer) => observer.hold(event),
            None => Some(event),
        };
        let Some(event) = event else { return };
        self.synced(&event);
        match &event {
            Seen::Gone { kind: Kind::Job(kind), namespace, name } => {
                self.stuck.remove(&job_key(kind, namespace, name));
            }
            Seen::Gone { kind: Kind::Workload, namespace, name } => {
                let key = WorkloadKey::new(namespace.as_str(), name.as_str());
                let tasks =
                    [Task::Admit, Task::Look, Task::Evict, Task::Report, Task::Provisioning, Task::Instances];
                for task in tasks.map(|task| task(key.clone())) {
                    self.retries.settled(&task);
                }
                self.preempting.take(&key);
            }
            _ => {}
        }
        if let Some(note) = take_in(&mut self.objects, &mut self.policies, event)
            && self.leading
        {
            self.notes.send(note);
        }
    }

    /// Notes when all of a kind has been seen.
    fn synced(&mut self, event: &Seen) {
        if let Seen::Synced { kind, round, .. } = event
            && *round == self.round
        {
            self.unsynced.remove(kind);
        }
    }

    /// One turn of a leader.
    fn work(&mut self, ticked: bool) {
        let now = now();
        self.record.keep_up(&mut self.objects.state, now, &self.policy);
        if std::mem::take(&mut self.recalls) {
            let past = self.objects.preemptions_before(now);
            self.objects.state.recall_evictions(past);
            self.brake(now);
        }
        if ticked {
            self.objects.state.account(now);
        }
        // Now and then it is looked for those, too, whose admission was still under way.
        if self.plan(now) || ticked {
            self.evict(now);
        }
        self.steps(now);
        if ticked {
            self.brake(now);
            for task in self.timers.due(now) {
                match &task {
                    Task::Instances(key) => self.instances([key.clone()].into(), now),
                    _ => self.step(task, now),
                }
            }
            self.try_again(now);
            self.statuses.note(self.objects.state.take_changed());
            self.statuses.write(&self.objects, &mut self.applier, now);
            self.report(now);
            self.tell_more();
        }
    }

    /// Plans until nothing more fits, and hands the admissions over. Says whether anybody is to stop.
    fn plan(&mut self, now: Timestamp) -> bool {
        let mut evicts = false;
        loop {
            if self.objects.state.awake_lines().next().is_none() {
                return evicts;
            }
            let begun = Instant::now();
            let plan = plan(&self.objects.state, now, &self.policy);
            self.metrics.attempt(!plan.admit.is_empty(), begun.elapsed());
            self.record.held(&plan, &self.objects.state, now);
            self.objects.state.follow(&plan, now, &self.policy);
            for admit in &plan.admit {
                if let Some((write, notes)) = self.objects.admission(admit)
                    && self.objects.state.assume(admit)
                {
                    let task = Task::Admit(admit.workload.clone());
                    self.applier.push(task, Order::Write(Box::new(write)), notes);
                }
            }
            evicts |= !plan.evict.is_empty();
            if !plan.more {
                return evicts;
            }
            // Who was tried may have given up what was kept for it.
            self.objects.state.settle();
        }
    }

    /// Puts the brakes on or off, and has those looked at again whom they held back.
    fn brake(&mut self, now: Timestamp) {
        self.brake_only(now);
        for name in self.policies.names() {
            let task = Task::PolicyStatus(name.clone());
            if !self.applier.is_busy(&task)
                && !self.retries.is_pausing(&task)
                && let Some(write) = self.policies.status(name, now)
            {
                self.applier.push(task, Order::Write(Box::new(write)), vec![]);
            }
        }
    }

    /// The same without the policies' own status.
    fn brake_only(&mut self, now: Timestamp) {
        for note in self.policies.trip(&self.objects.state.past_evictions(), now) {
            if self.leading {
                self.notes.send(note);
            }
        }
        let brakes = self.policies.brakes();
        if brakes != self.policy.brakes || self.next_release <= Instant::now() {
            self.policy.brakes = brakes;
            self.next_release = Instant::now() + RELEASE_EVERY;
            self.objects.state.release_brakes();
        }
    }

    /// Hands over the evictions that were planned, each once its object shows what it holds.
    fn evict(&mut self, now: Timestamp) {
        let planned = self.objects.state.evictions().map(|evict| Task::Evict(evict.workload.clone()));
        let planned: Vec<_> = planned.collect();
        for task in planned {
            if self.applier.is_busy(&task) || self.retries.is_pausing(&task) {
                continue;
            }
            if let Task::Evict(key) = &task
                && let Some(evict) = self.objects.state.eviction(key)
                && let Some((write, notes)) = self.objects.eviction(key, now)
            {
                self.preempting.sent(evict, &self.objects.state, &self.policy);
                self.applier.push(task, Order::Write(Box::new(write)), notes);
            }
        }
    }

    /// Tells some of the workloads that wait why they do.
    fn report(&mut self, now: Timestamp) {
        let mut room = 0;
        while self.applier.is_idle() && self.reports.take(Instant::now()) {
            room += 1;
        }
        let reports = self.objects.state.take_reports(room);
        // What was not used is there for the next.
        self.reports.give_back(room - reports.len());
        for report in reports {
            if let Some((write, note)) = self.objects.report(&report, now) {
                self.applier.push(Task::Report(report.workload), Order::Write(Box::new(write)), vec![note]);
            }
        }
    }

    /// Becomes or ceases to be the leader.
    fn check_leadership(&mut self, watches: &Watches) {
        let leads = self.leadership.may_write();
        if leads == self.leading {
            return;
        }
        self.leading = leads;
        self.metrics.leading.set(i64::from(leads));
        if leads {
            // What the last leader gave away is to be known before anything is given.
            self.unsynced = self.kinds.clone();
            self.recalls = true;
            self.round = watches.start_over();
            self.objects.all_due();
            self.statuses.note(self.objects.all_queues());
        } else {
            for task in self.applier.clear() {
                // All are due when this replica leads again.
                self.missed.remove(&task);
                match task {
                    Task::Admit(key) => self.objects.state.forget(&key),
                    Task::Report(key) => self.objects.state.report_again(&key),
                    Task::Layout(node) => self.objects.layout_answered(&node),
                    _ => {}
                }
            }
            // The next leader decides by itself who has to stop.
            self.preempting.clear();
            let planned = self.objects.state.evictions().map(|evict| evict.workload.clone());
            for workload in planned.collect::<Vec<_>>() {
                self.objects.state.spare(&workload);
            }
            // So is what is remembered, of which the status is all that is left to it.
            self.objects.state.stop_accounting();
            self.objects.state.settle();
            self.record.end(&mut self.objects.state);
        }
    }
}

fn now() -> Timestamp {
    Timestamp(Clock::now().as_millisecond())
}
