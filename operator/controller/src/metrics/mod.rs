//! What there is to measure: the metrics of Kueue under Kueue's names ([`definitions`]), and a few of our own.
//!
//! Counters and histograms are kept here and fed as things happen ([`Metrics::happened`]). Gauges are counted from the
//! state when somebody asks ([`gauges`]).

pub mod definitions;
pub mod gauges;
mod series;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, prometheus_text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use whalezen_core::{name::LocalQueueKey, plan::Evict};
use whalezen_decisions::observe::{Kind as Act, Outcome};
use whalezen_dialects::kueue::milestones::{Milestone, What};

use self::{
    definitions::{self as metric, Definition, Kind},
    gauges::Gauges,
    series::Series,
};

/// Labels of a request.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub struct Request {
    /// The HTTP method.
    pub method: &'static str,
    /// The status code, or `<error>` if there was no answer.
    pub code: String,
    /// What was written to: `workloads/status`, `jobs`, `events`.
    pub resource: String,
}

/// Labels of a metric of Kueue's, with their values.
type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// All of the operator's metrics.
pub struct Metrics {
    registry: Registry,
    /// Requests of the applier and of the event recorder.
    pub requests: Family<Request, Counter>,
    /// Admissions taken back because the API server refused the write.
    pub refused: Counter,
    /// Events not sent, to spare the API server.
    pub notes_dropped: Counter,
    /// Lines of the decision log that were dropped.
    pub lines_dropped: Counter,
    /// What came of comparing plans with another scheduler's decisions.
    comparisons: Family<Vec<(&'static str, &'static str)>, Counter>,
    /// Whether this replica leads.
    pub leading: Gauge,
    /// Whether there is no other replica.
    alone: bool,
    counters: BTreeMap<&'static str, Family<Labels, Counter>>,
    histograms: BTreeMap<&'static str, Histograms>,
    series: Series,
}

impl Metrics {
    /// Nothing counted yet. `alone`: there is no other replica.
    pub fn new(alone: bool) -> Self {
        let mut registry = Registry::default();
        let (requests, refused, notes_dropped) = (Family::default(), Counter::default(), Counter::default());
        let leading = Gauge::default();
        registry.register(
            "rest_client_requests",
            "API requests by method, code and resource",
            Family::clone(&requests),
        );
        registry.register(
            "whalezen_refused_admissions",
            "Admissions that the API server refused",
            refused.clone(),
        );
        registry.register(
            "whalezen_events_dropped",
            "Events not sent, to spare the API server",
            notes_dropped.clone(),
        );
        let (lines_dropped, comparisons) = (Counter::default(), Family::default());
        registry.register(
            "whalezen_decision_log_lines_dropped",
            "Lines of the decision log and its journal that were not written, because the disk was full or too slow",
            lines_dropped.clone(),
        );
        registry.register(
            "whalezen_observe_comparisons",
            "Planned acts held against those of the scheduler that runs the queues, by kind and outcome",
            Family::clone(&comparisons),
        );
        registry.register("whalezen_leading", "Whether this replica leads", leading.clone());
        let (mut counters, mut histograms) = (BTreeMap::new(), BTreeMap::new());
        let kueue = registry.sub_registry_with_prefix("kueue");
        for Definition { name, help, kind, .. } in metric::ALL {
            match kind {
                Kind::Gauge => {}
                Kind::Counter => {
                    let family = Family::<Labels, Counter>::default();
                    // The encoder adds the ending.
                    kueue.register(name.trim_end_matches("_total"), *help, family.clone());
                    counters.insert(*name, family);
                }
                Kind::Waits(_) | Kind::Works => {
                    let family = Histograms::new_with_constructor(constructor(*kind));
                    kueue.register(*name, *help, family.clone());
                    histograms.insert(*name, family);
                }
            }
        }
        Self {
            registry,
            requests,
            refused,
            notes_dropped,
            lines_dropped,
            comparisons,
            leading,
            alone,
            counters,
            histograms,
            series: Series::default(),
        }
    }

    /// One request was answered.
    pub fn request(&self, method: &'static str, resource: &str, code: Option<u16>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.requests.get_or_create(&Request { method, code, resource: resource.to_owned() }).inc();
    }

    /// A plan was made.
    pub fn attempt(&self, admitted: bool, took: Duration) {
        let result = if admitted { "success" } else { "inadmissible" };
        self.count(&metric::ATTEMPTS, &[result]);
        self.observe(&metric::ATTEMPT_DURATION, &[result], took);
    }

    /// A planned act was held against a seen one.
    pub fn compared(&self, kind: Act, outcome: Outcome) {
        let labels = vec![("kind", kind.as_str()), ("outcome", outcome.as_str())];
        self.comparisons.get_or_create(&labels).inc();
    }

    /// The eviction of a workload that makes room was written.
    pub fn preempted(&self, evict: &Evict) {
        self.count(&metric::PREEMPTED, &[evict.preemptor_queue.as_str(), evict.ground.as_str()]);
    }

    /// Something happened to a workload. `exposed`: whether its LocalQueue has metrics; `cohorts`: those of which
    /// there are metrics and that its ClusterQueue is below of.
    pub fn happened(&self, milestone: &Milestone, exposed: bool, cohorts: &[&str]) {
        let Milestone {
            cluster_queue,
            local_queue: LocalQueueKey { namespace, name },
            priority_class,
            what,
            ..
        } = milestone;
        let queue = cluster_queue.as_str();
        let of_queue = [queue, priority_class.as_str()];
        let of_local = [&**name, &**namespace, priority_class.as_str()];
        let count = |here: &Definition, local: &Definition| {
            self.count(here, &of_queue);
            if exposed {
                self.count(local, &of_local);
            }
        };
        let observe = |here: &Definition, local: &Definition, time: Duration| {
            self.observe(here, &of_queue, time);
            if exposed {
                self.observe(local, &of_local, time);
            }
        };
        match what {
            What::Reserved { waited } => {
                count(&metric::RESERVED, &metric::LOCAL_RESERVED);
                observe(&metric::RESERVED_WAIT, &metric::LOCAL_RESERVED_WAIT, *waited);
            }
            What::Admitted { waited, checked } => {
                count(&metric::ADMITTED, &metric::LOCAL_ADMITTED);
                observe(&metric::ADMITTED_WAIT, &metric::LOCAL_ADMITTED_WAIT, *waited);
                if let Some(checked) = checked {
                    observe(&metric::CHECKS_WAIT, &metric::LOCAL_CHECKS_WAIT, *checked);
                }
                for cohort in cohorts {
                    self.count(&metric::COHORT_ADMITTED, &[cohort, priority_class]);
                }
            }
            What::Ready { queued, admitted } => {
                observe(&metric::READY_WAIT, &metric::LOCAL_READY_WAIT, *queued);
                observe(&metric::ADMITTED_READY_WAIT, &metric::LOCAL_ADMITTED_READY_WAIT, *admitted);
            }
            What::Finished { replaced } => {
                count(&metric::FINISHED, &metric::LOCAL_FINISHED);
                if *replaced {
                    self.count(&metric::REPLACED_SLICES, &[queue]);
                }
            }
            What::Evicted { reason, cause, first, ready } => {
                let labels = [queue, reason.as_str(), cause.as_str(), priority_class.as_str()];
                self.count(&metric::EVICTED, &labels);
                if *first {
                    self.count(&metric::EVICTED_ONCE, &labels);
                }
                if exposed {
                    let labels = [&**name, &**namespace, reason, cause, priority_class];
                    self.count(&metric::LOCAL_EVICTED, &labels);
                }
                if let Some(ready) = ready {
                    self.observe(&metric::READY_EVICTED, &[queue, reason, cause], *ready);
                }
            }
            What::Released { reason, after } => {
                self.observe(&metric::EVICTION_LATENCY, &[queue, reason], *after);
            }
        }
    }

    fn count(&self, of: &Definition, values: &[&str]) {
        if let Some(family) = self.counters.get(of.name) {
            let labels = self.labels(of, values.iter().copied());
            family.get_or_create(&labels).inc();
            self.series.note(of, &labels);
        }
    }

    fn observe(&self, of: &Definition, values: &[&str], time: Duration) {
        if let Some(family) = self.histograms.get(of.name) {
            let labels = self.labels(of, values.iter().copied());
            family.get_or_create(&labels).observe(time.as_secs_f64());
            self.series.note(of, &labels);
        }
    }

    fn labels<'a>(&self, of: &Definition, values: impl Iterator<Item = &'a str>) -> Labels {
        let role = match (self.alone, self.leading.get()) {
            (true, _) => "standalone",
            (false, 1) => "leader",
            (false, _) => "follower",
        };
        let labels = of.labels.iter().copied().zip(values.map(ToOwned::to_owned));
        labels.chain([("replica_role", role.to_owned())]).collect()
    }

    /// Everything in the text format, with these gauges. What was counted for queues and cohorts that have none is
    /// forgotten.
    pub fn text(&self, gauges: &Gauges) -> String {
        for (name, labels) in self.series.without_subject(gauges) {
            let counted = self.counters.get(name).is_some_and(|family| family.remove(&labels));
            if !counted && let Some(family) = self.histograms.get(name) {
                family.remove(&labels);
            }
        }
        let mut now = Registry::with_prefix("kueue");
        for definition in metric::ALL {
            let Some(values) = gauges.get(definition.name) else { continue };
            let family = Family::<Labels, Gauge<f64, std::sync::atomic::AtomicU64>>::default();
            for (labels, value) in values {
                let labels = self.labels(definition, labels.iter().map(String::as_str));
                family.get_or_create(&labels).set(*value);
            }
            now.register(definition.name, definition.help, family);
        }
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_text::encode(&mut out, &self.registry);
        let _ = prometheus_text::encode(&mut out, &now);
        out
    }
}

fn constructor(kind: Kind) -> fn() -> Histogram {
    match kind {
        Kind::Waits(16) => || waits(16),
        Kind::Waits(_) => || waits(14),
        _ => || Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]),
    }
}

fn waits(buckets: u16) -> Histogram {
    let doubled = (0..i32::from(buckets) - 1).map(|power| 2.5 * 2.0_f64.powi(power));
    Histogram::new([1.0].into_iter().chain(doubled))
}
