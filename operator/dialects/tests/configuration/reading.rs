//! What a file means.

use std::time::Duration;

use whalezen_core::{
    consumption::{Factor, Rules},
    labels::{Labels, Selector},
    plan::FairStrategy,
};
use whalezen_dialects::kueue::{
    configuration::{Configuration, Rate, read},
    settings::{PodsReady, Requeuing, RequeuingTimestamp, Resources, Settings, Transformation, Undeclared},
};

const OWN: &str = "whalezen-system";

fn file(version: &str, text: &str) -> Configuration {
    let text = format!("apiVersion: config.kueue.x-k8s.io/{version}\nkind: Configuration\n{text}");
    read(&text, OWN).unwrap_or_else(|problems| panic!("{problems:?} in {text}"))
}

fn v1beta2(text: &str) -> Configuration {
    file("v1beta2", text)
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_mins(minutes)
}

#[test]
fn a_file_that_says_nothing_means_what_no_file_means() {
    for text in ["", "webhook:\nresources: {}\nfeatureGates: {}\nmultiKueue: {}\nwaitForPodsReady:\n"] {
        assert_eq!(v1beta2(text), Configuration::without_file(OWN));
    }
}

#[test]
fn wait_for_pods_ready_has_kueues_defaults_field_by_field() {
    let ready = |text| v1beta2(text).settings.pods_ready;
    let only =
        |timeout, recovery_timeout| Some(PodsReady { timeout, recovery_timeout, ..PodsReady::default() });
    assert_eq!(ready("waitForPodsReady: {timeout: 5m}"), only(minutes(5), Some(minutes(5))));
    assert_eq!(
        ready("waitForPodsReady: {timeout: 0s, recoveryTimeout: 3m}"),
        only(minutes(30), Some(minutes(3)))
    );
    assert_eq!(ready("waitForPodsReady: {timeout: 5m, recoveryTimeout: 0s}"), only(minutes(5), None));
    let all = "waitForPodsReady:\n  timeout: 1h30m\n  blockAdmission: true\n  requeuingStrategy:\n    \
               timestamp: Creation\n    backoffLimitCount: 3\n    backoffBaseSeconds: 0\n    backoffMaxSeconds: 7\n";
    let want = PodsReady {
        timeout: minutes(90),
        recovery_timeout: Some(minutes(90)),
        block_admission: true,
        requeuing: Requeuing {
            timestamp: RequeuingTimestamp::Creation,
            backoff_limit_count: Some(3),
            backoff_base: Duration::ZERO,
            backoff_max: Duration::from_secs(7),
        },
    };
    assert_eq!(ready(all), Some(want));
    assert_eq!(ready("featureGates: {DisableWaitForPodsReady: true}"), None);
}

#[test]
fn in_v1beta1_sections_have_a_switch() {
    let old = |text| file("v1beta1", text).settings;
    assert_eq!(old("").pods_ready, None);
    assert_eq!(old("waitForPodsReady: {timeout: 5m}").pods_ready, None);
    let on = old("waitForPodsReady: {enable: true}").pods_ready.unwrap();
    assert_eq!((on.timeout, on.block_admission), (minutes(5), true));
    assert_eq!(old("fairSharing: {preemptionStrategies: [LessThanInitialShare]}").fair_sharing, None);
    let both = [FairStrategy::LessThanOrEqualToFinalShare, FairStrategy::LessThanInitialShare];
    assert_eq!(old("fairSharing: {enable: true}").fair_sharing.as_deref(), Some(&both[..]));
    let warnings = file("v1beta1", "queueVisibility: {updateIntervalSeconds: 5}").warnings;
    assert!(warnings[0].starts_with("queueVisibility without effect"), "{warnings:?}");
}

#[test]
fn fair_sharing_has_one_of_the_three_lists() {
    use FairStrategy::{LessThanInitialShare, LessThanOrEqualToFinalShare};
    for (list, want) in [
        ("LessThanOrEqualToFinalShare", vec![LessThanOrEqualToFinalShare]),
        ("LessThanInitialShare", vec![LessThanInitialShare]),
        (
            "LessThanOrEqualToFinalShare, LessThanInitialShare",
            vec![LessThanOrEqualToFinalShare, LessThanInitialShare],
        ),
    ] {
        let text = format!("fairSharing: {{preemptionStrategies: [{list}]}}");
        assert_eq!(v1beta2(&text).settings.policy().fair_sharing, Some(want));
    }
}

#[test]
fn admission_fair_sharing_has_kueues_defaults_and_a_gate() {
    let weights = |list: &[(&str, f64)]| {
        list.iter().map(|(name, weight)| ((*name).into(), Factor::new(*weight).unwrap())).collect()
    };
    for version in ["v1beta1", "v1beta2"] {
        for (text, want) in [
            ("{}", Rules { half_life: 0, sampling: 300_000, weights: weights(&[]) }),
            (
                "{usageHalfLifeTime: 168h, usageSamplingInterval: 90s, resourceWeights: {cpu: 2, memory: 0.5, gpu: 0}}",
                Rules {
                    half_life: 604_800_000,
                    sampling: 90_000,
                    weights: weights(&[("cpu", 2.0), ("memory", 0.5), ("gpu", 0.0)]),
                },
            ),
            ("{usageHalfLifeTime: 1us}", Rules { half_life: 1, sampling: 300_000, weights: weights(&[]) }),
        ] {
            let read = |more| file(version, &format!("admissionFairSharing: {text}{more}")).settings;
            assert_eq!(read("").admission_fair_sharing, Some(want), "{text}");
            let off = "\nfeatureGates: {AdmissionFairSharing: false}";
            assert_eq!(read(off).admission_fair_sharing, None, "{text}");
        }
    }
    assert_eq!(v1beta2("admissionFairSharing:").settings.admission_fair_sharing, None);
}

#[test]
fn resources_are_transformed_left_out_or_ignored() {
    let text = "resources:\n  excludeResourcePrefixes: [example.com/]\n  transformations:\n  - input: \
                nvidia.com/mig-4g.5gb\n    strategy: Replace\n    multiplyBy: cpu\n    outputs:\n      \
                example.com/accelerator-memory: 5Gi\n      example.com/accelerator-gpc: 4\n  - input: memory\n";
    let outputs = [
        ("example.com/accelerator-memory".into(), i128::from(5_u64 << 30) * 1_000_000_000),
        ("example.com/accelerator-gpc".into(), 4_000_000_000),
    ];
    let replaced =
        Transformation { retained: false, multiply_by: Some("cpu".into()), outputs: outputs.into() };
    let kept = Transformation { retained: true, multiply_by: None, outputs: [].into() };
    let want = Resources {
        excluded_prefixes: vec!["example.com/".to_owned()],
        transformations: [("nvidia.com/mig-4g.5gb".into(), replaced), ("memory".into(), kept)].into(),
        undeclared: Undeclared::Block,
    };
    assert_eq!(v1beta2(text).settings.resources, want);
    let ignoring = v1beta2("resources: {quotaCheckStrategy: IgnoreUndeclared}").settings.resources;
    assert_eq!(ignoring.undeclared, Undeclared::Ignore);
    assert!(Settings { resources: ignoring, ..Settings::default() }.policy().ignore_undeclared);
}

#[test]
fn workloads_that_are_over_are_kept_for_as_long_as_is_said() {
    let text = "objectRetentionPolicies: {workloads: {afterFinished: 0s, afterDeactivatedByKueue: null}}";
    assert_eq!(v1beta2(text).settings.keep_finished, Some(Duration::ZERO));
}

#[test]
fn jobs_of_the_system_and_of_the_operator_are_never_managed() {
    let manages = |configuration: &Configuration, namespace: &str| {
        let labels = Labels::from([("kubernetes.io/metadata.name".to_owned(), namespace.to_owned())]);
        configuration.settings.managed_namespaces.0.matches(&labels)
    };
    let selector = "managedJobsNamespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, \
                    operator: NotIn, values: [kube-system, kueue-system]}]}";
    for text in ["namespace: kueue-system", selector] {
        let configuration = v1beta2(text);
        assert!(manages(&configuration, "team-a"));
        for system in ["kube-system", "kueue-system", OWN] {
            assert!(!manages(&configuration, system), "{system}");
        }
    }
}

#[test]
fn the_rate_of_requests_may_be_without_limit() {
    for (text, qps, burst) in
        [("{qps: 20, burst: 40}", Some(20), 40), ("{qps: 0.5}", Some(1), 500), ("{qps: -1}", None, 500)]
    {
        assert_eq!(v1beta2(&format!("clientConnection: {text}")).rate, Rate { qps, burst });
    }
}

#[test]
fn metrics_of_local_queues_can_be_chosen_or_left_out() {
    let local_queues = |text| v1beta2(text).metrics.local_queues;
    assert_eq!(local_queues("metrics: {localQueueMetrics: {enable: true}}"), Some(Selector::All(vec![])));
    assert_eq!(local_queues("metrics: {localQueueMetrics: {}}"), None);
    assert_eq!(local_queues("featureGates: {LocalQueueMetrics: false}"), None);
    let chosen = "metrics: {localQueueMetrics: {enable: true, localQueueSelector: {matchLabels: {a: b}}}}";
    assert!(local_queues(chosen).unwrap().matches(&[("a".to_owned(), "b".to_owned())].into()));
    assert!(!local_queues(chosen).unwrap().matches(&Labels::new()));
}

#[test]
fn the_granular_reasons_are_off_unless_their_gate_is_on() {
    assert!(!v1beta2("").settings.granular_reasons);
    let on = v1beta2("featureGates: {UnadmittedWorkloadsObservability: true}");
    assert!(on.settings.granular_reasons && on.metrics.unadmitted);
}

#[test]
fn what_is_without_effect_is_warned_of_by_reason() {
    let text = "webhook: {port: 9443}\ninternalCertManagement: {enable: true}\npprofBindAddress: ':8083'\n\
                featureGates: {TASRespectNodeAffinityPreferred: true}";
    let want = [
        "featureGates.TASRespectNodeAffinityPreferred without effect: preferred node affinity does not count yet",
        "pprofBindAddress without effect: the operator has no profiling server",
        "internalCertManagement.enable without effect: the operator makes its own certificate, for the Service that \
         --serving-service names",
        "webhook.port without effect: there are no admission webhooks; admission policies in the API server do their part",
    ];
    let mut found = v1beta2(text).warnings;
    found.sort();
    let mut want = want.map(ToOwned::to_owned);
    want.sort();
    assert_eq!(found, want);
}
