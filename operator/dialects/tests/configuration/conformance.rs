//! Our lists beside Kueue's source.

use std::{collections::BTreeSet, time::Duration};

use whalezen_dialects::kueue::{
    configuration::{
        Configuration, Exposed, Rate, Version,
        fields::{Treatment, fields},
        gates::GATES,
        read,
    },
    settings::{Frameworks, PodsReady, Requeuing, Settings},
};

use super::go;

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with(['.', '[']))
}

#[test]
fn every_field_of_kueues_types_is_listed_and_no_other() {
    for (version, file) in [(Version::V1Beta1, "v1beta1"), (Version::V1Beta2, "v1beta2")] {
        let (theirs, foreign) =
            go::fields(&go::source(&format!("apis/config/{file}/configuration_types.go")));
        assert!(theirs.len() > 60, "only {} fields of {file} were found", theirs.len());
        let ours: BTreeSet<&str> = fields(version).map(|(path, _)| *path).collect();
        // A section that is not acted on at all may be listed as one.
        let closed: BTreeSet<&str> = fields(version)
            .filter(|(_, treatment)| *treatment != Treatment::Honoured)
            .map(|(path, _)| *path)
            .collect();
        let forgotten = theirs.iter().filter(|&path| {
            let listed = ours.contains(path.as_str()) || closed.iter().any(|section| is_below(path, section));
            let opened = foreign.contains(path) && ours.iter().any(|own| is_below(own, path));
            !(listed || opened)
        });
        assert_eq!(forgotten.collect::<Vec<_>>(), Vec::<&String>::new(), "of {file}");
        let invented = ours.iter().filter(|&&own| {
            let known = theirs.contains(own) || foreign.iter().any(|path| is_below(own, path));
            !known && !theirs.iter().any(|path| is_below(path, own))
        });
        assert_eq!(invented.collect::<Vec<_>>(), Vec::<&&str>::new(), "of {file}");
    }
}

#[test]
fn every_feature_gate_is_listed_with_kueues_default() {
    let theirs = go::gates();
    assert!(theirs.len() > 80, "only {} gates were found", theirs.len());
    let ours: Vec<_> = GATES.iter().map(|(name, default, _)| ((*name).to_owned(), *default)).collect();
    assert_eq!(ours, theirs.iter().map(|(name, (default, _))| (name.clone(), *default)).collect::<Vec<_>>());
    for (name, default, treatment) in GATES {
        let locked = matches!(treatment, Treatment::Refused(what) if what.contains("locked"));
        assert_eq!(locked, theirs[*name].1, "{name} (by default {default})");
    }
}

#[test]
fn every_framework_of_kueue_is_known() {
    let listed = go::source("apis/config/v1beta2/configuration_types.go");
    let (_, listed) = listed.split_once("type Integrations struct {").unwrap();
    let (listed, _) = listed.split_once("Frameworks []string").unwrap();
    let names = listed.lines().filter_map(|line| line.trim().strip_prefix("//  - \"")?.strip_suffix('"'));
    let names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
    assert!(names.len() > 15, "only {} frameworks were found", names.len());
    let text = format!(
        "{{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration, integrations: {{frameworks: [{}]}}}}",
        names.join(", ")
    );
    let configuration = read(&text, "whalezen-system").unwrap();
    assert_eq!(configuration.warnings.len(), 1);
}

#[test]
fn the_defaults_are_kueues() {
    let source = go::source("apis/config/v1beta2/defaults.go");
    let seconds = |name| Duration::from_secs(go::constant(&source, name).parse().unwrap());
    let default = PodsReady::default();
    assert_eq!(go::constant(&source, "DefaultWaitForPodsReadyTimeout"), "30 * time.Minute");
    assert_eq!(default.timeout, Duration::from_mins(30));
    assert_eq!(default.recovery_timeout, Some(default.timeout));
    let Requeuing { backoff_base, backoff_max, .. } = default.requeuing;
    assert_eq!(backoff_base, seconds("DefaultRequeuingBackoffBaseSeconds"));
    assert_eq!(backoff_max, seconds("DefaultRequeuingBackoffMaxSeconds"));
    let rate = Rate::default();
    assert_eq!(
        (format!("{}.0", rate.qps.unwrap()), rate.burst.to_string()),
        (
            go::constant(&source, "DefaultClientConnectionQPS"),
            go::constant(&source, "DefaultClientConnectionBurst")
        )
    );
}

#[test]
fn the_file_that_kueue_is_installed_with_is_accepted() {
    let text = go::source("config/components/manager/controller_manager_config.yaml");
    let read = read(&text, "whalezen-system").unwrap();
    let without = Configuration::without_file("whalezen-system");
    let frameworks: Vec<_> = read.settings.frameworks.0.iter().map(|kind| kind.kind).collect();
    assert_eq!(
        frameworks,
        [
            "Job",
            "Deployment",
            "JobSet",
            "MPIJob",
            "LeaderWorkerSet",
            "Pod",
            "RayCluster",
            "RayJob",
            "StatefulSet",
            "TrainJob",
            "AppWrapper"
        ]
    );
    let settings = Settings { frameworks: Frameworks::default(), ..read.settings.clone() };
    assert_eq!(Configuration { warnings: vec![], settings, ..read.clone() }, without);
    assert_eq!(without.metrics, Exposed::default());
    let warned = read.warnings.join("\n");
    for path in [
        "webhook.port",
        "leaderElection.resourceName",
        "controller.groupKindConcurrency",
        "frameworks ray.io/rayservice",
    ] {
        assert!(warned.contains(path), "{path} is not in {warned}");
    }
}
