//! Ours with predicted sizes: the least Gittins index times GPUs first, from the history of the jobs that were played so
//! far ([`whalezen_core::predict`]). It looks at no size before the job has shown it.

use std::collections::{BTreeMap, BTreeSet};

use whalezen_core::{
    predict::{Description, Forecast, History, aged},
    workload::Timestamp,
};

use super::{Policy, remaining::fill};
use crate::engine::{Active, Cluster, Decision, HOUR, JobIndex, MINUTE, Millis, Phase};

/// Runs whoever is likely to end for the least GPU-time, at every moment; who waits gains on the others with time.
pub struct Predicted {
    history: History<JobIndex>,
    /// What was predicted of each job, and how many jobs had ended by then.
    forecasts: BTreeMap<JobIndex, (Forecast, usize)>,
    /// How many jobs ended.
    ended: usize,
    /// After waiting for so long a job's rank is half of what it was.
    patience: Millis,
}

impl Predicted {
    /// With this patience.
    pub fn new(patience: Millis) -> Self {
        Self { history: History::default(), forecasts: BTreeMap::new(), ended: 0, patience }
    }
}

impl Predicted {
    /// The forecast of a job. Of one that waits it changes only with what becomes of others, a little each time: where
    /// many wait, not all are predicted anew whenever one ends.
    fn forecast(&mut self, active: &Active<'_>, jobs: usize) -> Option<Forecast> {
        let known = self.forecasts.get(&active.index).copied();
        match known {
            Some((forecast, ended)) if !active.is_on() && self.ended - ended < jobs / 32 => Some(forecast),
            _ => {
                let forecast = self.history.forecast(active.index)?;
                self.forecasts.insert(active.index, (forecast, self.ended));
                Some(forecast)
            }
        }
    }
}

impl Default for Predicted {
    /// With a patience of a year: it is there for those that would wait for ever, and orders nobody else.
    fn default() -> Self {
        Self::new(365 * 24 * HOUR)
    }
}

impl Policy for Predicted {
    fn name(&self) -> &'static str {
        "ours, sizes predicted"
    }

    fn arrived(&mut self, job: &Active<'_>, now: Millis) {
        let description =
            Description { user: job.job.user.clone(), name: job.job.name.clone(), width: job.job.gpus };
        self.history.submitted(job.index, &description, Timestamp(now));
    }

    fn finished(&mut self, job: &Active<'_>, now: Millis) {
        self.history.ran(job.index, job.age(now), true);
        self.forecasts.remove(&job.index);
        self.ended += 1;
    }

    #[allow(clippy::cast_precision_loss, reason = "a rank, not a quantity")]
    fn decide(&mut self, cluster: &Cluster<'_>, decision: &mut Decision) {
        let now = cluster.now;
        for active in cluster.active.values().filter(|active| active.phase == Phase::Running) {
            self.history.ran(active.index, active.age(now), false);
        }
        let mut ranked = Vec::with_capacity(cluster.active.len());
        let mut again = Vec::new();
        for active in cluster.active.values() {
            let Some(forecast) = self.forecast(active, cluster.active.len()) else { continue };
            let waited = now - active.job.submit - active.age(now);
            let rank = aged(forecast.index * active.job.gpus as f64, waited, self.patience);
            ranked.push((rank, active.index, active.job.gpus));
            // What is known of it changes with its age: it is looked at again when it is half as old again at the latest.
            again.push((active.index, forecast.for_now.min(active.age(now) / 2).max(MINUTE)));
        }
        ranked.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        fill(cluster.pool.gpus, ranked.into_iter().map(|(_, index, gpus)| (index, gpus)), decision);
        let runs: BTreeSet<_> = decision.run.iter().map(|(index, _)| *index).collect();
        decision.wake =
            again.into_iter().filter(|(index, _)| runs.contains(index)).map(|(_, time)| now + time).min();
    }
}
