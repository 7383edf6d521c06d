use std::{collections::BTreeMap, fs, time::Duration};

use serde_json::{Value, json};
use whalezen_core::{
    consumption::Rules,
    labels::{Operator, Requirement, Selector},
    name::{LocalQueueKey, WorkloadKey},
    plan::{Policy, plan},
    workload::Timestamp,
};
use whalezen_crds::kueue::v1beta2::Workload;
use whalezen_dialects::kueue::{
    configuration::Exposed,
    milestones::{Milestone, What},
    objects::Objects,
    settings::Settings,
};

use super::{
    Gauges, Metrics,
    definitions::{ALL, Kind},
    gauges,
};

#[path = "../../../../crds/tests/kueue/kueue_module.rs"]
mod kueue_module;

/// Kueue's metrics that are not here, and why.
const NOT_HERE: &[(&str, &str)] = &[
    (
        "admission_cycle_preemption_skips",
        "a plan has no cycles in which a workload is skipped for another's victims",
    ),
    ("build_info", "this is not a build of Kueue"),
    (
        "cluster_queue_resource_pending",
        "a sum over everybody who waits, which nobody needs to decide anything",
    ),
    (
        "finished_workloads",
        "a finished Workload is not counted where it was: it may have been moved or deleted",
    ),
    ("local_queue_finished_workloads", "a finished Workload is not counted where it was"),
    ("local_queue_unadmitted_workloads", "the verdicts are in the conditions"),
    ("pod_scheduling_gate_removal_seconds", "how long a pod was gated is not measured"),
    ("unadmitted_workloads", "the verdicts are in the conditions"),
    (
        "workload_creation_latency_seconds",
        "a Workload is made when its Job is seen; nothing is measured there",
    ),
];

/// A metric as Kueue's source has it.
#[derive(PartialEq, Eq, Debug)]
struct Theirs {
    kind: String,
    labels: Vec<String>,
    buckets: String,
}

fn theirs() -> BTreeMap<String, Theirs> {
    let source = fs::read_to_string(kueue_module::folder().join("pkg/metrics/metrics.go")).unwrap();
    let mut metrics = BTreeMap::new();
    for text in source.split("prometheus.New").skip(1) {
        let Some((kind, rest)) = text.split_once("Vec(") else { continue };
        if !rest.contains("constants.KueueName") || rest.find("constants.KueueName") > rest.find("Help:") {
            continue;
        }
        let quoted = |text: &str| -> Vec<String> {
            text.split('"').skip(1).step_by(2).map(ToOwned::to_owned).collect()
        };
        let name = quoted(rest.split_once("Name:").unwrap().1)[0].clone();
        let (_, labels) = rest.split_once("[]string{").unwrap();
        let labels = quoted(labels.split('}').next().unwrap());
        let buckets = rest.split_once("Buckets:").filter(|(before, _)| !before.contains("[]string{"));
        let buckets = buckets.map_or("", |(_, after)| after.split(",\n").next().unwrap().trim());
        let theirs = Theirs { kind: kind.to_owned(), labels, buckets: buckets.to_owned() };
        metrics.insert(name, theirs);
    }
    metrics
}

#[test]
fn the_metrics_have_kueues_names_labels_and_buckets() {
    let mut theirs = theirs();
    assert!(theirs.len() > 50, "only {} metrics were found", theirs.len());
    for (name, _) in NOT_HERE {
        assert!(theirs.remove(*name).is_some(), "{name} is no metric of Kueue's");
    }
    let ours: BTreeMap<String, Theirs> = ALL
        .iter()
        .map(|metric| {
            let (kind, buckets) = match metric.kind {
                Kind::Counter => ("Counter", String::new()),
                Kind::Gauge => ("Gauge", String::new()),
                Kind::Waits(count) => ("Histogram", format!("generateExponentialBuckets({count})")),
                Kind::Works => ("Histogram", String::new()),
            };
            let labels =
                metric.labels.iter().chain(&["replica_role"]).map(|label| (*label).to_owned()).collect();
            (metric.name.to_owned(), Theirs { kind: kind.to_owned(), labels, buckets })
        })
        .collect();
    for (name, metric) in &theirs {
        assert_eq!(ours.get(name), Some(metric), "{name}");
    }
    for name in ours.keys() {
        assert!(theirs.contains_key(name), "Kueue has no {name}");
    }
    assert!(ALL.iter().all(|metric| !metric.help.is_empty()));
}

fn milestone(what: What) -> Milestone {
    Milestone {
        workload: WorkloadKey::new("ns", "w"),
        cluster_queue: "cq".into(),
        local_queue: LocalQueueKey::new("ns", "lq"),
        priority_class: "high".to_owned(),
        what,
    }
}

/// The samples, without comments.
fn samples(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn what_happens_is_counted_under_kueues_names() {
    let seconds = Duration::from_secs;
    let evicted = |first| What::Evicted {
        reason: "Deactivated".to_owned(),
        cause: "RequeuingLimitExceeded".to_owned(),
        first,
        ready: Some(seconds(2)),
    };
    let table = [
        (
            What::Reserved { waited: seconds(2) },
            vec![
                "kueue_quota_reserved_workloads_total{QC} 1",
                "kueue_quota_reserved_wait_time_seconds_sum{QC} 2.0",
                "kueue_local_queue_quota_reserved_workloads_total{LC} 1",
            ],
        ),
        (
            What::Admitted { waited: seconds(3), checked: Some(seconds(1)) },
            vec![
                "kueue_admitted_workloads_total{QC} 1",
                "kueue_admission_wait_time_seconds_sum{QC} 3.0",
                "kueue_admission_checks_wait_time_seconds_sum{QC} 1.0",
                "kueue_local_queue_admitted_workloads_total{LC} 1",
                "kueue_cohort_subtree_admitted_workloads_total{cohort=\"team\",priority_class=\"high\",R} 1",
            ],
        ),
        (
            What::Ready { queued: seconds(5), admitted: seconds(4) },
            vec![
                "kueue_ready_wait_time_seconds_sum{QC} 5.0",
                "kueue_admitted_until_ready_wait_time_seconds_sum{QC} 4.0",
            ],
        ),
        (
            evicted(true),
            vec![
                "kueue_evicted_workloads_total{Q,E,priority_class=\"high\",R} 1",
                "kueue_evicted_workloads_once_total{Q,E,priority_class=\"high\",R} 1",
                "kueue_pods_ready_to_evicted_time_seconds_sum{Q,E,R} 2.0",
                "kueue_local_queue_evicted_workloads_total{name=\"lq\",namespace=\"ns\",E,priority_class=\"high\",R} 1",
            ],
        ),
        (
            What::Released { reason: "Preempted".to_owned(), after: seconds(7) },
            vec!["kueue_workload_eviction_latency_seconds_sum{Q,reason=\"Preempted\",R} 7.0"],
        ),
        (
            What::Finished { replaced: true },
            vec![
                "kueue_finished_workloads_total{QC} 1",
                "kueue_local_queue_finished_workloads_total{LC} 1",
                "kueue_replaced_workload_slices_total{Q,R} 1",
            ],
        ),
    ];
    for (what, wanted) in table {
        let metrics = Metrics::new(false);
        metrics.leading.set(1);
        metrics.happened(&milestone(what), true, &["team"]);
        let text = metrics.text(&gauges_of("cq"));
        for want in wanted {
            let want = want
                .replace("QC", "Q,priority_class=\"high\",R")
                .replace("LC", "name=\"lq\",namespace=\"ns\",priority_class=\"high\",R")
                .replace("{Q,", "{cluster_queue=\"cq\",")
                .replace(",E,", ",reason=\"Deactivated\",underlying_cause=\"RequeuingLimitExceeded\",")
                .replace(",R}", ",replica_role=\"leader\"}");
            assert!(samples(&text).contains(&want.as_str()), "no {want} in\n{text}");
        }
    }
    let again = Metrics::new(true);
    again.happened(&milestone(evicted(false)), false, &[]);
    let text = again.text(&gauges_of("cq"));
    assert!(
        !text.contains("once_total{") && !text.contains("local_queue_evicted_workloads_total{"),
        "{text}"
    );
    assert!(text.contains("replica_role=\"standalone\""), "{text}");
}

/// Gauges of a ClusterQueue, its LocalQueue and its cohort.
fn gauges_of(queue: &str) -> Gauges {
    let of = |labels: &[&str]| vec![(labels.iter().map(|label| (*label).to_owned()).collect(), 1.0)];
    Gauges::from([
        ("cluster_queue_status", of(&[queue, "active"])),
        ("local_queue_status", of(&["lq", "ns", "True"])),
        ("cohort_info", of(&["team", "", "team"])),
    ])
}

#[test]
fn what_was_counted_for_those_who_are_gone_is_forgotten() {
    let metrics = Metrics::new(true);
    for what in [What::Admitted { waited: Duration::ZERO, checked: None }, What::Finished { replaced: false }]
    {
        metrics.happened(&milestone(what), true, &["team"]);
    }
    metrics.attempt(true, Duration::ZERO);
    let before = metrics.text(&gauges_of("cq"));
    for name in [
        "kueue_admitted_workloads_total{",
        "kueue_admission_wait_time_seconds_sum{",
        "kueue_local_queue_finished_workloads_total{",
        "kueue_cohort_subtree_admitted_workloads_total{",
    ] {
        assert!(before.contains(name), "no {name} in\n{before}");
    }
    let without_queue = metrics.text(&gauges_of("other"));
    assert!(!without_queue.contains("cluster_queue=\"cq\""), "{without_queue}");
    assert!(without_queue.contains("name=\"lq\"") && without_queue.contains("cohort=\"team\""));
    let without_all = metrics.text(&Gauges::new());
    assert!(!without_all.contains("name=\"lq\"") && !without_all.contains("total{cohort="), "{without_all}");
    assert!(without_all.contains("kueue_admission_attempts_total{"), "a count of no queue's stays");
    metrics.happened(&milestone(What::Finished { replaced: false }), false, &[]);
    let again = metrics.text(&gauges_of("cq"));
    assert!(again.contains("kueue_finished_workloads_total{cluster_queue=\"cq\"") && !again.contains("} 2"));
}

/// A cohort with one queue of 8 GPUs and 4 cores, of which one workload holds 2 GPUs; another of 9 waits for ever, and
/// a third was not looked at yet.
fn world() -> Objects {
    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }
    let rules = Rules { half_life: 1000, sampling: 1000, weights: BTreeMap::new() };
    let mut objects = Objects::new(Settings { admission_fair_sharing: Some(rules), ..Settings::default() });
    objects.apply_namespace(&read(json!({"metadata": {"name": "ns"}})));
    objects.apply_flavor(&read(json!({"metadata": {"name": "a100"}, "spec": {}})));
    let resources = json!([
        {"name": "cpu", "nominalQuota": "1500m"},
        {"name": "nvidia.com/gpu", "nominalQuota": 8, "borrowingLimit": 4},
    ]);
    objects.apply_queue(&read(json!({"metadata": {"name": "cq"}, "spec": {
        "cohortName": "team", "namespaceSelector": {}, "resourceGroups": [{
            "coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": [{"name": "a100", "resources": resources}],
        }],
    }})));
    let local = json!({"metadata": {"name": "lq", "namespace": "ns", "labels": {"a": "b"}},
    "spec": {"clusterQueue": "cq", "fairSharing": {"weight": "500m"}},
    "status": {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": {
        "consumedResources": {"nvidia.com/gpu": "3"}, "lastUpdate": "2026-01-01T00:00:00Z",
    }}}});
    objects.apply_local_queue(&read(local));
    let workload = |name: &str, gpus: u32, status: Value| {
        let container = json!({"name": "c", "resources": {"requests": {"nvidia.com/gpu": gpus.to_string()}}});
        let template = json!({"spec": {"containers": [container]}});
        read::<Workload>(json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"},
            "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": template}]},
            "status": status,
        }))
    };
    let condition = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": type_, "message": "",
                                         "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let admission = json!({"clusterQueue": "cq", "podSetAssignments": [{
        "name": "main", "flavors": {"nvidia.com/gpu": "a100"}, "resourceUsage": {"nvidia.com/gpu": "2"}, "count": 1,
    }]});
    let admitted =
        json!({"conditions": [condition("QuotaReserved"), condition("Admitted")], "admission": admission});
    objects.apply_workload(&workload("holder", 2, admitted));
    objects.apply_workload(&workload("never", 99, json!({})));
    objects.state.settle();
    let plan = plan(&objects.state, Timestamp(0), &Policy::default());
    objects.state.follow(&plan, Timestamp(0), &Policy::default());
    objects.apply_workload(&workload("new", 1, json!({})));
    objects.state.settle();
    objects.state.account(Timestamp(0));
    objects
}

#[test]
fn how_everything_stands_is_counted_when_somebody_asks() {
    let all = Exposed { cluster_queue_resources: true, ..Exposed::default() };
    let metrics = Metrics::new(true);
    let text = metrics.text(&gauges::count(&world(), &all, true));
    for want in [
        "pending_workloads{cluster_queue=\"cq\",status=\"active\"} 1.0",
        "pending_workloads{cluster_queue=\"cq\",status=\"inadmissible\"} 1.0",
        "reserving_active_workloads{cluster_queue=\"cq\"} 1.0",
        "admitted_active_workloads{cluster_queue=\"cq\"} 1.0",
        "cluster_queue_status{cluster_queue=\"cq\",status=\"active\"} 1.0",
        "cluster_queue_status{cluster_queue=\"cq\",status=\"pending\"} 0.0",
        "cluster_queue_resource_usage{cohort=\"team\",cluster_queue=\"cq\",flavor=\"a100\",resource=\"nvidia.com/gpu\"} 2.0",
        "cluster_queue_resource_reservation{cohort=\"team\",cluster_queue=\"cq\",flavor=\"a100\",resource=\"nvidia.com/gpu\"} 2.0",
        "cluster_queue_nominal_quota{cohort=\"team\",cluster_queue=\"cq\",flavor=\"a100\",resource=\"cpu\"} 1.5",
        "cluster_queue_borrowing_limit{cohort=\"team\",cluster_queue=\"cq\",flavor=\"a100\",resource=\"nvidia.com/gpu\"} 4.0",
        "cluster_queue_lending_limit{cohort=\"team\",cluster_queue=\"cq\",flavor=\"a100\",resource=\"cpu\"} +Inf",
        "cluster_queue_weighted_share{cluster_queue=\"cq\",cohort=\"team\"} 0.0",
        "cluster_queue_info{cluster_queue=\"cq\",parent_cohort=\"team\",root_cohort=\"team\"} 1.0",
        "cohort_info{cohort=\"team\",parent_cohort=\"\",root_cohort=\"team\"} 1.0",
        "cohort_weighted_share{cohort=\"team\"} 0.0",
        "cohort_subtree_quota{cohort=\"team\",flavor=\"a100\",resource=\"nvidia.com/gpu\"} 8.0",
        "cohort_subtree_resource_reservations{cohort=\"team\",flavor=\"a100\",resource=\"nvidia.com/gpu\"} 2.0",
        "cohort_subtree_admitted_active_workloads{cohort=\"team\"} 1.0",
        "local_queue_pending_workloads{name=\"lq\",namespace=\"ns\",status=\"active\"} 1.0",
        "local_queue_pending_workloads{name=\"lq\",namespace=\"ns\",status=\"inadmissible\"} 1.0",
        "local_queue_status{name=\"lq\",namespace=\"ns\",active=\"True\"} 1.0",
        "local_queue_admission_fair_sharing_usage{name=\"lq\",namespace=\"ns\",cluster_queue=\"cq\"} 6.0",
        "local_queue_resource_usage{name=\"lq\",namespace=\"ns\",flavor=\"a100\",resource=\"nvidia.com/gpu\"} 2.0",
    ] {
        let (labels, value) = want.split_once("} ").unwrap();
        let want = format!("kueue_{labels},replica_role=\"standalone\"}} {value}");
        assert!(samples(&text).contains(&want.as_str()), "no {want} in\n{text}");
    }
}

#[test]
fn groups_of_metrics_can_be_left_out() {
    let none = Exposed { local_queues: None, cohorts: false, ..Exposed::default() };
    let gauges = gauges::count(&world(), &none, false);
    let left: Vec<_> = gauges.into_keys().collect();
    let base = [
        "admitted_active_workloads",
        "cluster_queue_status",
        "pending_workloads",
        "reserving_active_workloads",
    ];
    assert_eq!(left, base);
    let others = Exposed { local_queues: Some(Selector::All(vec![absent("a")])), ..none };
    assert_eq!(gauges::count(&world(), &others, false).len(), base.len());
}

fn absent(key: &str) -> Requirement {
    Requirement { key: key.to_owned(), operator: Operator::DoesNotExist, values: vec![] }
}
