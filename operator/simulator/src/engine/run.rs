//! The loop: take what happens at a moment, ask the policy once, carry out what it says.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{Active, Costs, EventQueue, Finished, JobIndex, Level, Millis, Outcome, Phase, Pool, Segment};
use crate::{policy::Policy, trace::Trace};

/// Why a run ended early.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EngineError {
    /// A job asks for more GPUs than there are: it would wait for ever.
    #[error("job {name} asks for {asked} GPUs and the cluster has {gpus}")]
    TooWide {
        /// The job.
        name: String,
        /// What it asks for.
        asked: i64,
        /// What there is.
        gpus: i64,
    },
    /// The policy left jobs waiting with nothing to come that could help them.
    #[error("{policy} leaves {waiting} jobs waiting for ever on a cluster that is idle")]
    Stuck {
        /// The policy.
        policy: String,
        /// How many wait.
        waiting: usize,
    },
    /// The policy asked for more GPUs than there are, or for a job that it cannot have.
    #[error("{policy} decided what cannot be: {what}")]
    Impossible {
        /// The policy.
        policy: String,
        /// What is wrong.
        what: String,
    },
}

/// What a policy sees.
#[derive(Debug)]
pub struct Cluster<'a> {
    /// The moment.
    pub now: Millis,
    /// The GPUs, and what changing one's mind costs.
    pub pool: Pool,
    /// The jobs that have arrived and are not done, in the order of arrival.
    pub active: BTreeMap<JobIndex, Active<'a>>,
    free: i64,
}

/// What a policy wants from now on.
#[derive(Debug, Default)]
pub struct Decision {
    /// The jobs that are to run, each on so many GPUs; together no more than there are. Whoever runs and is not here
    /// is stopped.
    pub run: Vec<(JobIndex, i64)>,
    /// When the policy wants to be asked again though nothing happened.
    pub wake: Option<Millis>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrives(JobIndex),
    /// What the job does ends, if the stamp is still its own.
    Ends(JobIndex, u32),
}

/// Plays a trace on a pool under a policy. `tell` is told now and then how many jobs are done.
pub fn simulate(
    trace: &Trace,
    pool: Pool,
    policy: &mut dyn Policy,
    tell: &mut dyn FnMut(usize),
) -> Result<Outcome, EngineError> {
    let mut run = Run::new(trace, pool)?;
    let mut decision = Decision::default();
    while let Some(now) = run.next_moment() {
        run.advance(now);
        while let Some(event) = run.queue.pop_until(now) {
            run.outcome.events += 1;
            run.happen(event, policy);
        }
        decision.run.clear();
        decision.wake = None;
        policy.decide(&run.cluster, &mut decision);
        run.carry_out(&decision, policy.name())?;
        run.wake = decision.wake.filter(|&wake| wake > now);
        run.note_level();
        tell(run.outcome.finished.len());
    }
    if !run.cluster.active.is_empty() {
        let waiting = run.cluster.active.len();
        return Err(EngineError::Stuck { policy: policy.name().to_owned(), waiting });
    }
    Ok(run.outcome)
}

struct Run<'a> {
    trace: &'a Trace,
    cluster: Cluster<'a>,
    queue: EventQueue<Event>,
    wake: Option<Millis>,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(trace: &'a Trace, pool: Pool) -> Result<Self, EngineError> {
        let mut queue = EventQueue::default();
        for (index, job) in trace.jobs().iter().enumerate() {
            if job.least > pool.gpus {
                return Err(EngineError::TooWide {
                    name: job.name.clone(),
                    asked: job.least,
                    gpus: pool.gpus,
                });
            }
            queue.push(job.submit, Event::Arrives(JobIndex(index)));
        }
        let cluster = Cluster { now: 0, pool, active: BTreeMap::new(), free: pool.gpus };
        let outcome = Outcome { gpus: pool.gpus, ..Outcome::default() };
        Ok(Self { trace, cluster, queue, wake: None, outcome })
    }

    /// The next event, or when the policy wants to be woken; nobody is woken once all is over.
    fn next_moment(&self) -> Option<Millis> {
        match (self.queue.next_at(), self.wake) {
            (Some(event), Some(wake)) => Some(event.min(wake)),
            (next, None) => next,
            (None, wake) => wake.filter(|_| !self.cluster.active.is_empty()),
        }
    }

    fn advance(&mut self, now: Millis) {
        let passed = now - self.cluster.now;
        if passed > 0 {
            self.outcome.held += passed.saturating_mul(self.cluster.pool.gpus - self.cluster.free);
        }
        self.cluster.now = now;
    }

    fn happen(&mut self, event: Event, policy: &mut dyn Policy) {
        let now = self.cluster.now;
        match event {
            Event::Arrives(index) => {
                if let Some(job) = self.trace.jobs().get(index.0) {
                    let active = Active::new(index, job, now);
                    policy.arrived(&active, now);
                    self.cluster.active.insert(index, active);
                }
            }
            Event::Ends(index, stamp) => {
                let Some(active) = self.cluster.active.get_mut(&index) else { return };
                if active.stamp != stamp {
                    return;
                }
                self.outcome.note(active, now);
                active.settle(now);
                match active.phase {
                    Phase::Restoring => {
                        active.phase = Phase::Running;
                        active.started = now;
                        schedule(&mut self.queue, active, self.cluster.pool.costs);
                    }
                    Phase::Saving => {
                        active.phase = Phase::Waiting;
                        self.cluster.free += std::mem::take(&mut active.held);
                    }
                    Phase::Running => {
                        self.cluster.free += active.held;
                        policy.finished(active, now);
                        self.outcome.finish(active, now);
                        self.cluster.active.remove(&index);
                    }
                    Phase::Waiting => {}
                }
            }
        }
    }

    fn carry_out(&mut self, decision: &Decision, policy: &str) -> Result<(), EngineError> {
        let impossible = |what: String| EngineError::Impossible { policy: policy.to_owned(), what };
        let wanted: BTreeMap<JobIndex, i64> = decision.run.iter().copied().collect();
        let sum: i64 = wanted.values().sum();
        if sum > self.cluster.pool.gpus || wanted.len() != decision.run.len() {
            return Err(impossible(format!("{} jobs on {sum} GPUs", decision.run.len())));
        }
        let unchanged = |active: &Active<'_>| {
            if active.is_on() { wanted.get(&active.index) == Some(&active.held) } else { true }
        };
        let changed: Vec<_> = self
            .cluster
            .active
            .values()
            .filter(|active| !unchanged(active))
            .map(|active| active.index)
            .collect();
        // Who gives GPUs back goes first.
        let (grow, shrink): (Vec<_>, Vec<_>) = changed.into_iter().partition(|index| {
            let held = self.cluster.active.get(index).map_or(0, |active| active.held);
            wanted.get(index).is_some_and(|&gpus| gpus > held)
        });
        for index in shrink {
            match wanted.get(&index) {
                Some(&gpus) => self.resize(index, gpus),
                None => self.stop(index),
            }
        }
        for (index, gpus) in &decision.run {
            let Some(active) = self.cluster.active.get(index) else {
                return Err(impossible(format!("job {} is not there", index.0)));
            };
            if *gpus < active.job.least || *gpus > active.job.gpus {
                return Err(impossible(format!("{gpus} GPUs for {}", active.job.name)));
            }
            if grow.contains(index) {
                // What others save holds their GPUs for a while; it grows once those are free.
                if gpus - active.held <= self.cluster.free {
                    self.resize(*index, *gpus);
                }
            } else if active.phase == Phase::Waiting && *gpus <= self.cluster.free {
                self.start(*index, *gpus);
            }
        }
        Ok(())
    }

    fn start(&mut self, index: JobIndex, gpus: i64) {
        let Cluster { now, pool, active, free } = &mut self.cluster;
        let Some(active) = active.get_mut(&index) else { return };
        active.settle(*now);
        active.held = gpus;
        active.started = *now;
        *free -= gpus;
        let ran_before = active.first_start.is_some();
        active.first_start.get_or_insert(*now);
        active.phase = if ran_before && pool.costs.restore > 0 { Phase::Restoring } else { Phase::Running };
        schedule(&mut self.queue, active, pool.costs);
    }

    fn stop(&mut self, index: JobIndex) {
        let Cluster { now, pool, active, free } = &mut self.cluster;
        let Some(active) = active.get_mut(&index) else { return };
        self.outcome.note(active, *now);
        active.settle(*now);
        active.stops += 1;
        // Whoever was restoring has nothing new to save.
        if active.phase == Phase::Running && pool.costs.save > 0 {
            active.phase = Phase::Saving;
            schedule(&mut self.queue, active, pool.costs);
        } else {
            active.phase = Phase::Waiting;
            active.stamp += 1;
            *free += std::mem::take(&mut active.held);
        }
    }

    fn resize(&mut self, index: JobIndex, gpus: i64) {
        let Cluster { now, pool, active, free } = &mut self.cluster;
        let Some(active) = active.get_mut(&index) else { return };
        self.outcome.note(active, *now);
        active.settle(*now);
        active.left += pool.costs.resize.saturating_mul(active.job.gpus);
        *free -= gpus - active.held;
        active.held = gpus;
        // Whoever is restoring begins again with the other number of GPUs.
        schedule(&mut self.queue, active, pool.costs);
    }

    fn note_level(&mut self) {
        let waiting = self.cluster.active.values().filter(|active| active.phase == Phase::Waiting);
        let (mut count, mut asked) = (0, 0);
        for active in waiting {
            count += 1;
            asked += active.job.gpus;
        }
        let Cluster { now, pool, free, .. } = &self.cluster;
        let level = Level { at: *now, held: pool.gpus - free, waiting: count, asked };
        let same = |last: &Level| Level { at: level.at, ..*last } == level;
        if !self.outcome.levels.last().is_some_and(same) {
            self.outcome.levels.push(level);
        }
    }
}

fn schedule(queue: &mut EventQueue<Event>, active: &mut Active<'_>, costs: Costs) {
    active.stamp += 1;
    if let Some(at) = active.ends(costs) {
        queue.push(at, Event::Ends(active.index, active.stamp));
    }
}

impl Outcome {
    /// Keeps what a job did since it was settled last.
    fn note(&mut self, active: &Active<'_>, now: Millis) {
        if active.phase == Phase::Waiting || now == active.since {
            return;
        }
        if active.phase == Phase::Running {
            self.worked += (now - active.since).saturating_mul(active.held);
        }
        let segment = Segment {
            index: active.index,
            from: active.since,
            until: now,
            gpus: active.held,
            phase: active.phase,
        };
        self.segments.push(segment);
    }

    fn finish(&mut self, active: &Active<'_>, now: Millis) {
        self.finished.push(Finished {
            index: active.index,
            submit: active.job.submit,
            start: active.first_start.unwrap_or(now),
            end: now,
            gpus: active.job.gpus,
            run: active.job.run,
            stops: active.stops,
        });
    }
}
