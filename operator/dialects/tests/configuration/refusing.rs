//! What is refused, and in which words.

use whalezen_dialects::kueue::configuration::read;

fn problems(text: &str) -> Vec<String> {
    let text = format!("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n{text}");
    let problems = read(&text, "whalezen-system").expect_err(&text);
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_file_of_another_kind_is_refused() {
    for (text, want) in [
        ("", "kind: \"\" is not \"Configuration\""),
        ("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Deployment", "kind: \"Deployment\" is not"),
        (
            "apiVersion: config.kueue.x-k8s.io/v1\nkind: Configuration",
            "apiVersion: \"config.kueue.x-k8s.io/v1\"",
        ),
    ] {
        let problems = read(text, "whalezen-system").unwrap_err();
        assert!(problems[0].to_string().starts_with(want), "{problems:?}");
    }
}

#[test]
fn unknown_fields_are_refused_by_name_all_at_once() {
    let text = "fairsharing: {}\nmetrics: {enableclusterQueueResources: true}\nresources: {transformations: \
                [{input: cpu}, {inputs: cpu}]}\nqueueVisibility: {}\nleaderElection: {leader: x}";
    let want = [
        "fairsharing: unknown field",
        "leaderElection.leader: unknown field",
        "metrics.enableclusterQueueResources: unknown field",
        "queueVisibility: unknown field",
        "resources.transformations[1].inputs: unknown field",
    ];
    let mut found = problems(text);
    found.sort();
    assert_eq!(found, want);
}

#[test]
fn what_would_change_who_is_admitted_is_refused_with_what_to_do() {
    for (text, want) in [
        (
            "manageJobsWithoutQueueName: true",
            "manageJobsWithoutQueueName: cannot be honoured: give Jobs a queue",
        ),
        (
            "multiKueue: {origin: a}",
            "multiKueue: cannot be honoured: there is no MultiKueue: remove the section",
        ),
        (
            "resources: {deviceClassMappings: [{name: a}]}",
            "resources.deviceClassMappings: cannot be honoured: dynamic resource allocation is not counted",
        ),
        (
            "featureGates: {ConcurrentAdmission: true}",
            "featureGates.ConcurrentAdmission: this does not exist here",
        ),
        (
            "featureGates: {PartialAdmission: false}",
            "featureGates.PartialAdmission: this is always on here: leave",
        ),
        (
            "featureGates: {HierarchicalCohorts: false}",
            "featureGates.HierarchicalCohorts: Kueue has locked it",
        ),
        ("featureGates: {Nonsense: true}", "featureGates.Nonsense: Kueue 0.19 has no such feature gate"),
        (
            "featureGates: {UnadmittedWorkloadsExplicitStatus: true}",
            "featureGates.UnadmittedWorkloadsExplicitStatus: needs UnadmittedWorkloadsObservability to be on",
        ),
        ("integrations: {frameworks: [pod]}", "integrations.frameworks: batch/job is always managed here"),
    ] {
        let found = problems(text);
        assert!(found.iter().any(|problem| problem.starts_with(want)), "{found:?} instead of {want}");
    }
}

#[test]
fn what_kueue_refuses_is_refused() {
    for (text, want) in [
        ("waitForPodsReady: {timeout: -5m}", "waitForPodsReady.timeout: \"-5m\" is negative"),
        (
            "waitForPodsReady: {recoveryTimeout: soon}",
            "waitForPodsReady.recoveryTimeout: \"soon\" is not a duration",
        ),
        (
            "waitForPodsReady: {requeuingStrategy: {timestamp: Now}}",
            "waitForPodsReady.requeuingStrategy.timestamp: \"Now\" is neither Eviction nor Creation",
        ),
        (
            "waitForPodsReady: {requeuingStrategy: {backoffLimitCount: -1}}",
            "waitForPodsReady.requeuingStrategy.backoffLimitCount: -1 is negative",
        ),
        (
            "waitForPodsReady: {requeuingStrategy: {backoffMaxSeconds: -1}}",
            "waitForPodsReady.requeuingStrategy.backoffMaxSeconds: -1 is negative",
        ),
        ("fairSharing: {}", "fairSharing.preemptionStrategies: must be [LessThanOrEqualToFinalShare], ["),
        (
            "fairSharing: {preemptionStrategies: [LessThanInitialShare, LessThanOrEqualToFinalShare]}",
            "fairSharing.preemptionStrategies: must be",
        ),
        (
            "resources: {transformations: [{input: a, strategy: Drop}]}",
            "resources.transformations[0].strategy: \"Drop\" is neither Retain nor Replace",
        ),
        (
            "resources: {transformations: [{input: a}, {input: a}]}",
            "resources.transformations[1].input: there is another transformation of a",
        ),
        (
            "resources: {transformations: [{input: a, outputs: {b: much}}]}",
            "resources.transformations[0].outputs.b: \"much\" is not a quantity",
        ),
        (
            "resources: {quotaCheckStrategy: IgnoreUndeclared, excludeResourcePrefixes: [a]}",
            "resources.quotaCheckStrategy: IgnoreUndeclared and excludeResourcePrefixes exclude each other",
        ),
        (
            "resources: {quotaCheckStrategy: Some}",
            "resources.quotaCheckStrategy: \"Some\" is neither BlockUndeclared nor",
        ),
        (
            "integrations: {frameworks: [batch/job, cron]}",
            "integrations.frameworks[1]: Kueue 0.19 has no framework",
        ),
        (
            "integrations: {frameworks: [batch/job, batch/job]}",
            "integrations.frameworks[1]: batch/job is listed twice",
        ),
        (
            "integrations: {externalFrameworks: [Foo]}",
            "integrations.externalFrameworks[0]: \"Foo\" is not of the form",
        ),
        (
            "managedJobsNamespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}",
            "managedJobsNamespaceSelector: must not match the namespace kube-system",
        ),
        (
            "namespace: kueue-system\nmanagedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: \
             DoesNotExist}]}",
            "managedJobsNamespaceSelector: must not match the namespace kube-system",
        ),
        (
            "managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: Near}]}",
            "managedJobsNamespaceSelector: operator \"Near\"",
        ),
        (
            "admissionFairSharing: {usageHalfLifeTime: -1s}",
            "admissionFairSharing.usageHalfLifeTime: \"-1s\" is negative",
        ),
        (
            "admissionFairSharing: {usageSamplingInterval: -1s}",
            "admissionFairSharing.usageSamplingInterval: \"-1s\" is negative",
        ),
        (
            "admissionFairSharing: {resourceWeights: {cpu: -0.5}}",
            "admissionFairSharing.resourceWeights[cpu]: -0.5 is not a number from 0 up",
        ),
        (
            "objectRetentionPolicies: {workloads: {afterFinished: -1s}}",
            "objectRetentionPolicies.workloads.afterFinished: \"-1s\" is negative",
        ),
    ] {
        let found = problems(text);
        assert!(found.iter().any(|problem| problem.starts_with(want)), "{found:?} instead of {want}");
    }
}

#[test]
fn what_is_no_yaml_or_of_the_wrong_type_is_refused_with_its_place() {
    for text in [
        "waitForPodsReady: {timeout: [1]}",
        "waitForPodsReady: {blockAdmission: often}",
        "metrics: [",
        "a: 1\na: 2",
    ] {
        let found = problems(text);
        assert!(found.iter().any(|problem| problem.contains("line ")), "{found:?}");
    }
    assert_eq!(problems("webhook: 9443"), ["webhook: must have fields of its own"]);
}
