//! Which series the counters and histograms have, so that those of a queue or cohort that is gone can be dropped: as in
//! Kueue, what is deleted is not exposed any more.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Mutex, PoisonError},
};

use super::{
    Labels,
    definitions::{self as metric, Definition},
    gauges::Gauges,
};

/// The series by the names of their metrics; the families themselves do not list theirs.
#[derive(Default)]
pub struct Series(Mutex<BTreeMap<&'static str, HashSet<Labels>>>);

impl Series {
    /// There is a series of this metric with these labels.
    pub fn note(&self, of: &Definition, labels: &Labels) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let series = all.entry(of.name).or_default();
        if !series.contains(labels) {
            series.insert(labels.clone());
        }
    }

    /// Takes out those of queues and cohorts that have no gauges: they are gone, or not to be exposed.
    pub fn without_subject(&self, gauges: &Gauges) -> Vec<(&'static str, Labels)> {
        let subjects = |gauge: &Definition, labels: usize| -> HashSet<Vec<&str>> {
            let values = gauges.get(gauge.name).into_iter().flatten();
            values.map(|(values, _)| values.iter().take(labels).map(String::as_str).collect()).collect()
        };
        let queues = subjects(&metric::STATUS, 1);
        let local_queues = subjects(&metric::LOCAL_STATUS, 2);
        let cohorts = subjects(&metric::COHORT_INFO, 1);
        let is_there = |labels: &Labels| {
            let values: Vec<&str> = labels.iter().map(|(_, value)| value.as_str()).take(2).collect();
            match (labels.first(), values.as_slice()) {
                (Some(("cluster_queue" | "preempting_cluster_queue", _)), [queue, ..]) => {
                    queues.contains([*queue].as_slice())
                }
                (Some(("cohort", _)), [cohort, ..]) => cohorts.contains([*cohort].as_slice()),
                (Some(("name", _)), local_queue) => local_queues.contains(local_queue),
                _ => true,
            }
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = Vec::new();
        for (name, series) in all.iter_mut() {
            gone.extend(series.extract_if(|labels| !is_there(labels)).map(|labels| (*name, labels)));
        }
        gone
    }
}
