//! The loop: jobs come and end, tenants use what is theirs and borrow what is idle, and who is lost is counted.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use whalezen_core::cells::{self, Buddies, Cell, JobNumber, Quota};

use super::{Field, Sharing};
use crate::{
    engine::{EventQueue, Millis},
    trace::Trace,
};

/// A job of a tenant.
#[derive(Clone, Copy, Debug)]
struct Asked {
    tenant: usize,
    gpus: u32,
    submit: Millis,
    run: Millis,
}

/// Tenants, what each is sure of, and their jobs in the order of arrival.
#[derive(Clone, Debug)]
pub struct Tenants {
    jobs: Vec<Asked>,
    quotas: Vec<Quota>,
    nodes_per_rack: u32,
}

impl Tenants {
    /// The jobs of these queues, each of which is a tenant with this quota.
    pub fn new(trace: &Trace, queues: &[&str], quotas: Vec<Quota>, nodes_per_rack: u32) -> Self {
        let asked = |job: &crate::trace::Job| {
            let tenant = queues.iter().position(|queue| *queue == job.queue)?;
            let gpus = u32::try_from(job.gpus).ok()?;
            Some(Asked { tenant, gpus, submit: job.submit, run: job.run })
        };
        Self { jobs: trace.jobs().iter().filter_map(asked).collect(), quotas, nodes_per_rack }
    }

    /// How many jobs.
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// What each tenant is sure of.
    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }

    /// As many racks as all quotas need.
    pub fn racks(&self) -> u32 {
        let racks: u32 = self.quotas.iter().map(|quota| quota.racks).sum();
        let nodes: u32 = self.quotas.iter().map(|quota| quota.nodes).sum();
        racks + nodes.div_ceil(self.nodes_per_rack)
    }
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Played {
    /// Jobs that are done.
    pub jobs: i64,
    /// Gangs that waited at some moment though their tenant's private picture had room.
    pub lost: i64,
    /// The longest time that one was lost.
    pub longest_lost: Millis,
    /// GPUs times the time that they were lost.
    pub lost_work: Millis,
    /// The time that jobs waited before their first start.
    pub waited: Millis,
    /// GPU-milliseconds.
    pub worked: Millis,
    /// Of those on what was borrowed.
    pub borrowed: Millis,
    /// How often somebody was stopped.
    pub stops: i64,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrives(usize),
    /// Ends, if it was not stopped since.
    Ends(usize, u32),
}

/// What is known of a job that came.
#[derive(Clone, Debug, Default)]
struct Life {
    left: Millis,
    since: Millis,
    stamp: u32,
    started: bool,
    lost_since: Option<Millis>,
    was_lost: bool,
    /// Its cells in the private picture; none if it borrows.
    cells: Option<Vec<Cell>>,
}

struct Play<'a> {
    tenants: &'a Tenants,
    field: Box<dyn Field>,
    private: Vec<Buddies>,
    waiting: Vec<BTreeSet<usize>>,
    /// Tenants of whom somebody came, left or was stopped since their private picture was looked at, or somebody is lost.
    dirty: BTreeSet<usize>,
    lives: BTreeMap<usize, Life>,
    queue: EventQueue<Event>,
    now: Millis,
    played: Played,
}

/// Plays all jobs; `tell` is told now and then how many are done.
pub fn play(tenants: &Tenants, sharing: Sharing, tell: &mut dyn FnMut(usize)) -> Result<Played> {
    let field = sharing.field(tenants.racks(), tenants.nodes_per_rack, &tenants.quotas)?;
    let private = tenants.quotas.iter().map(|quota| cells::private(*quota, tenants.nodes_per_rack));
    let mut queue = EventQueue::default();
    for (index, job) in tenants.jobs.iter().enumerate() {
        queue.push(job.submit, Event::Arrives(index));
    }
    let mut play = Play {
        tenants,
        field,
        private: private.collect(),
        waiting: vec![BTreeSet::new(); tenants.quotas.len()],
        dirty: BTreeSet::new(),
        lives: BTreeMap::new(),
        queue,
        now: 0,
        played: Played::default(),
    };
    while let Some(now) = play.queue.next_at() {
        play.now = now;
        while let Some(event) = play.queue.pop_until(now) {
            play.happen(event);
        }
        play.decide()?;
        tell(usize::try_from(play.played.jobs).unwrap_or_default());
    }
    Ok(play.played)
}

impl Play<'_> {
    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives(index) => {
                let Some(job) = self.tenants.jobs.get(index) else { return };
                self.lives.insert(index, Life { left: job.run, since: self.now, ..Life::default() });
                self.wait(job.tenant, index);
            }
            Event::Ends(index, stamp) => {
                if self.lives.get(&index).is_some_and(|life| life.stamp == stamp) {
                    self.leave(index);
                    self.field.end(number(index));
                    self.lives.remove(&index);
                    self.played.jobs += 1;
                }
            }
        }
    }

    /// Settles what a job did until now, and takes it out of the private picture.
    fn leave(&mut self, index: usize) {
        let (Some(life), Some(job)) = (self.lives.get_mut(&index), self.tenants.jobs.get(index)) else {
            return;
        };
        let did = (self.now - life.since) * i64::from(job.gpus);
        self.played.worked += did;
        life.left -= self.now - life.since;
        life.stamp += 1;
        life.since = self.now;
        match life.cells.take() {
            Some(cells) => self.give_back(job.tenant, cells),
            None => self.played.borrowed += did,
        }
    }

    fn give_back(&mut self, tenant: usize, cells: Vec<Cell>) {
        self.dirty.insert(tenant);
        if let Some(private) = self.private.get_mut(tenant) {
            for cell in cells {
                private.give(cell);
            }
        }
    }

    fn decide(&mut self) -> Result<()> {
        // Who is stopped for one may have a right to start himself.
        while self.use_quotas()? {}
        self.borrow();
        Ok(())
    }

    /// Starts whoever the private pictures have room for. Whether anybody was stopped.
    fn use_quotas(&mut self) -> Result<bool> {
        let mut stopped_any = false;
        for tenant in std::mem::take(&mut self.dirty) {
            let waiting: Vec<usize> = self.waiting.get(tenant).into_iter().flatten().copied().collect();
            // What has no room leaves none for anything larger either.
            let mut too_large = u32::MAX;
            for index in waiting {
                let Some(gpus) = self.tenants.jobs.get(index).map(|job| job.gpus) else { continue };
                let cells = if gpus >= too_large {
                    None
                } else {
                    self.private.get_mut(tenant).and_then(|private| private.take_all(&cells::levels(gpus)))
                };
                let Some(cells) = cells else {
                    too_large = too_large.min(gpus);
                    self.found(index);
                    continue;
                };
                if let Some(stopped) = self.field.start(tenant, number(index), gpus)? {
                    self.found(index);
                    self.run(index, Some(cells));
                    stopped_any |= !stopped.is_empty();
                    for borrower in stopped {
                        self.stop(usize::try_from(borrower)?);
                    }
                } else {
                    self.give_back(tenant, cells);
                    self.lose(index);
                }
            }
        }
        Ok(stopped_any)
    }

    /// Lets those that are left borrow, in the order of arrival.
    fn borrow(&mut self) {
        if self.field.idle() == 0 {
            return;
        }
        let all: BTreeSet<usize> = self.waiting.iter().flatten().copied().collect();
        let mut too_large = self.field.idle() + 1;
        for index in all {
            let Some(gpus) = self.tenants.jobs.get(index).map(|job| job.gpus) else { continue };
            if gpus >= too_large {
                continue;
            }
            if self.field.lend(number(index), gpus) {
                self.found(index);
                self.run(index, None);
                too_large = too_large.min(self.field.idle() + 1);
            } else {
                too_large = gpus;
            }
            if too_large <= 1 {
                break;
            }
        }
    }

    fn run(&mut self, index: usize, cells: Option<Vec<Cell>>) {
        let (Some(life), Some(job)) = (self.lives.get_mut(&index), self.tenants.jobs.get(index)) else {
            return;
        };
        if let Some(waiting) = self.waiting.get_mut(job.tenant) {
            waiting.remove(&index);
        }
        if !life.started {
            self.played.waited += self.now - job.submit;
        }
        life.started = true;
        life.since = self.now;
        life.cells = cells;
        self.queue.push(self.now + life.left.max(0), Event::Ends(index, life.stamp));
    }

    fn stop(&mut self, index: usize) {
        self.leave(index);
        self.played.stops += 1;
        if let Some(job) = self.tenants.jobs.get(index) {
            self.wait(job.tenant, index);
        }
    }

    fn wait(&mut self, tenant: usize, index: usize) {
        self.dirty.insert(tenant);
        if let Some(waiting) = self.waiting.get_mut(tenant) {
            waiting.insert(index);
        }
    }

    fn lose(&mut self, index: usize) {
        if let Some(life) = self.lives.get_mut(&index) {
            life.lost_since.get_or_insert(self.now);
            self.played.lost += i64::from(!std::mem::replace(&mut life.was_lost, true));
        }
    }

    /// A job is not lost any more: it runs, or has no room in its own picture.
    fn found(&mut self, index: usize) {
        let (Some(life), Some(job)) = (self.lives.get_mut(&index), self.tenants.jobs.get(index)) else {
            return;
        };
        if let Some(since) = life.lost_since.take() {
            self.played.longest_lost = self.played.longest_lost.max(self.now - since);
            self.played.lost_work += (self.now - since) * i64::from(job.gpus);
        }
    }
}

fn number(index: usize) -> JobNumber {
    JobNumber::try_from(index).unwrap_or(JobNumber::MAX)
}
