//! What the harness's runner reports at its end: `summary.yaml`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The whole report. Fields that are not used here are left out.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// By the `className` of the queue set in the generator's configuration.
    #[serde(default)]
    pub cluster_queue_classes: BTreeMap<String, QueueClass>,
    /// By the `className` of the workload in the generator's configuration.
    pub workload_classes: BTreeMap<String, WorkloadClass>,
    /// Workload events that the runner saw but had no room to record. Above zero the averages
    /// are of a sample.
    #[serde(default)]
    pub dropped_workload_events: u64,
}

/// All `ClusterQueues` of a class together.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueClass {
    /// Milli-CPU in use, averaged over the run.
    pub cpu_average_usage: i64,
    /// Milli-CPU of nominal quota.
    pub nominal_quota: i64,
}

/// All Workloads of a class together.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadClass {
    /// How many the runner saw.
    pub count: u64,
    /// How often one of them was evicted.
    pub total_evictions: u64,
    /// From the first event of a Workload to its last admission, averaged.
    pub average_time_to_admission_ms: i64,
}

impl Summary {
    /// Reads the file's text.
    pub fn parse(text: &str) -> Result<Self> {
        serde_saphyr::from_str(text).context("the runner's summary.yaml does not read")
    }

    /// Workloads of all classes.
    pub fn workloads(&self) -> u64 {
        self.workload_classes.values().map(|class| class.count).sum()
    }

    /// Evictions of all classes.
    pub fn evictions(&self) -> u64 {
        self.workload_classes.values().map(|class| class.total_evictions).sum()
    }

    /// The share of the nominal quota that was in use on average, 0 to 1 (above with borrowing
    /// from elsewhere); `None` when the runner saw no queue.
    pub fn usage(&self) -> Option<f64> {
        let used: i64 = self.cluster_queue_classes.values().map(|class| class.cpu_average_usage).sum();
        let quota: i64 = self.cluster_queue_classes.values().map(|class| class.nominal_quota).sum();
        (quota > 0).then(|| lossy(used) / lossy(quota))
    }
}

impl WorkloadClass {
    /// The average time to admission in seconds.
    pub fn admission_s(&self) -> f64 {
        lossy(self.average_time_to_admission_ms) / 1000.0
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds and milli-CPU of a run are far below 2^53")]
fn lossy(value: i64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
clusterQueueClasses:
  cq:
    cpuAverageUsage: 335400
    cpuUsed: 117726000000
    firstEventTime: "2026-08-30T10:00:00.123456789Z"
    lastEventTime: "2026-08-30T10:05:51.1Z"
    nominalQuota: 600000
droppedWorkloadEvents: 2
workloadClasses:
  large:
    averageTimeToAdmissionMs: 16501
    averageTimeToFinishMs: 17600
    count: 1500
    totalEvictions: 0
  small:
    averageTimeToAdmissionMs: 215468
    averageTimeToFinishMs: 215700
    count: 10500
    totalEvictions: 78
"#;

    #[test]
    fn the_classes_are_read_and_added_up() {
        let summary = Summary::parse(TEXT).unwrap();
        assert_eq!(summary.workloads(), 12_000);
        assert_eq!(summary.evictions(), 78);
        assert_eq!(summary.dropped_workload_events, 2);
        assert!((summary.workload_classes["large"].admission_s() - 16.501).abs() < 1e-9);
        assert!((summary.usage().unwrap() - 0.559).abs() < 1e-9);
    }

    #[test]
    fn a_run_that_saw_no_queue_has_no_usage() {
        let summary = Summary::parse("clusterQueueClasses: {}\nworkloadClasses: {}\n").unwrap();
        assert_eq!(summary.usage(), None);
        assert_eq!(summary.workloads(), 0);
    }

    #[test]
    fn another_file_is_refused() {
        assert!(Summary::parse("wallMs: 12\n").is_err());
    }
}
