//! What people set to keep the scheduler from evicting too much: a freeze, limits by the hour, and a circuit
//! breaker that stops a storm of evictions until a person has looked at it.
//!
//! Brakes hold back preemption only. Whoever would have to evict for it waits; whoever fits is admitted.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{name::ClusterQueueName, workload::Timestamp};

/// The brakes in force.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Brakes {
    /// Nobody is evicted, for this reason.
    pub frozen: Option<String>,
    /// How many may be evicted in a time.
    pub limits: Vec<Limit>,
}

/// How many may be evicted in a time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// The policy that says so.
    pub policy: Arc<str>,
    /// Whether it counts by the ClusterQueue of the victim, or all together.
    pub by_queue: bool,
    /// How many.
    pub evictions: u32,
    /// In how many milliseconds.
    pub within: i64,
    /// What was before does not count.
    pub since: Option<Timestamp>,
}

/// An eviction that was decided.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Past {
    /// When.
    pub at: Timestamp,
    /// The ClusterQueue of the victim.
    pub queue: ClusterQueueName,
}

impl Brakes {
    /// The longest time that a limit looks back, in milliseconds.
    pub const MEMORY: i64 = 3_600_000;

    /// What was evicted before, as the limits count it now.
    pub fn recent<'a>(&self, past: &(impl Iterator<Item = &'a Past> + Clone), now: Timestamp) -> Recent {
        let count = |limit: &Limit| {
            past.clone().filter(|past| limit.counts(past.at, now)).fold(
                Counts::default(),
                |mut counts, past| {
                    counts.add(&past.queue);
                    counts
                },
            )
        };
        Recent(self.limits.iter().map(count).collect())
    }

    /// Whether victims of these `ClusterQueues` may be evicted after the `recent` ones; if not, why.
    pub fn allow<'a>(
        &self,
        victims: impl Iterator<Item = &'a ClusterQueueName>,
        Recent(recent): &Recent,
    ) -> Result<(), String> {
        let mut more = Counts::default();
        victims.for_each(|queue| more.add(queue));
        if more.all == 0 {
            return Ok(());
        }
        if let Some(reason) = &self.frozen {
            return Err(reason.clone());
        }
        for (limit, recent) in self.limits.iter().zip(recent) {
            let most = usize::try_from(limit.evictions).unwrap_or(usize::MAX);
            if !limit.by_queue {
                if recent.all + more.all > most {
                    return Err(limit.message(recent.all, None));
                }
                continue;
            }
            for (queue, more) in &more.by_queue {
                let count = recent.by_queue.get(queue).copied().unwrap_or_default();
                if count + more > most {
                    return Err(limit.message(count, Some(queue)));
                }
            }
        }
        Ok(())
    }
}

/// How many were evicted lately, limit by limit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recent(Vec<Counts>);

impl Recent {
    /// One more is evicted now, of this ClusterQueue.
    pub fn add(&mut self, queue: &ClusterQueueName) {
        self.0.iter_mut().for_each(|counts| counts.add(queue));
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Counts {
    all: usize,
    by_queue: BTreeMap<ClusterQueueName, usize>,
}

impl Counts {
    fn add(&mut self, queue: &ClusterQueueName) {
        self.all += 1;
        *self.by_queue.entry(queue.clone()).or_default() += 1;
    }
}

impl Limit {
    /// Whether an eviction at this moment counts now.
    pub fn counts(&self, at: Timestamp, now: Timestamp) -> bool {
        now.0.saturating_sub(at.0) < self.within && self.since.is_none_or(|since| since < at)
    }

    fn message(&self, count: usize, queue: Option<&ClusterQueueName>) -> String {
        let of = queue.map(|queue| format!(" of ClusterQueue {queue}")).unwrap_or_default();
        format!(
            "SchedulingPolicy {} allows {} evictions{of} in {} s, and there were {count}",
            self.policy,
            self.evictions,
            self.within / 1000
        )
    }
}
