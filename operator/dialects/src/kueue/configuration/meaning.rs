//! What the fields of a file mean: Kueue's defaults where they are left out, and Kueue's checks.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use whalezen_core::{
    consumption::{Factor, Rules},
    labels::{Labels, Operator, Requirement, Selector},
    name::ResourceName,
    plan::FairStrategy,
    quantity::parse_factor,
    topology::Profile,
};

use super::{Configuration, Exposed, Gates, Problem, Rate, Version, Warnings, duration, file};
use crate::kueue::{
    jobs::kinds,
    quota::selector,
    settings::{
        Frameworks, LostAfter, ManagedNamespaces, PodsReady, Requeuing, RequeuingTimestamp, Resources,
        Settings, StuckAfter, Transformation, Undeclared,
    },
};

/// The label that every namespace has with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
const KUBE_SYSTEM: &str = "kube-system";
/// Every how many milliseconds usage is looked at where nothing else is said.
const SAMPLING_BY_DEFAULT: i64 = 300_000;
/// The kinds that Kueue 0.19 can manage and that are not managed here.
pub(super) const OTHER_FRAMEWORKS: &[&str] = &["ray.io/rayservice", "sparkoperator.k8s.io/sparkapplication"];

/// What a file means, as far as it has a meaning; the rest is in `problems`.
pub(super) fn of(
    file: file::File,
    version: Version,
    namespace: &str,
    problems: &mut Vec<Problem>,
    warnings: &mut Warnings,
) -> Configuration {
    let gates = Gates::new(file.feature_gates.unwrap_or_default(), problems, warnings);
    let mut check = Check { problems, version };
    let frameworks = check.integrations(&file.integrations.unwrap_or_default(), warnings);
    let metrics = file.metrics.unwrap_or_default();
    Configuration {
        rate: rate(&file.client_connection.unwrap_or_default()),
        metrics: Exposed {
            cluster_queue_resources: metrics.enable_cluster_queue_resources.unwrap_or_default(),
            local_queues: check.local_queues(metrics.local_queue_metrics, &gates),
            cohorts: gates.is_on("MetricsForCohorts"),
            unadmitted: gates.is_on("UnadmittedWorkloadsObservability"),
        },
        settings: Settings {
            pods_ready: check
                .pods_ready(file.wait_for_pods_ready)
                .filter(|_| !gates.is_on("DisableWaitForPodsReady")),
            fair_sharing: file.fair_sharing.and_then(|sharing| check.fair_sharing(sharing)),
            admission_fair_sharing: file
                .admission_fair_sharing
                .map(|sharing| check.admission_fair_sharing(sharing))
                .filter(|_| gates.is_on("AdmissionFairSharing")),
            resources: check.resources(file.resources.unwrap_or_default()),
            priority_boost: gates.is_on("PriorityBoost"),
            frameworks,
            managed_namespaces: ManagedNamespaces(check.managed(
                file.managed_jobs_namespace_selector.as_ref(),
                file.namespace.as_deref(),
                namespace,
            )),
            keep_finished: check.keep_finished(file.object_retention_policies),
            granular_reasons: gates.is_on("UnadmittedWorkloadsObservability"),
            placement: Profile {
                fills_up_the_unconstrained: gates.is_on("TASProfileMixed"),
                balances: gates.is_on("TASBalancedPlacement"),
            },
            // No fields of the file say these.
            lost_after: LostAfter::default(),
            stuck_after: StuckAfter::default(),
        },
        warnings: vec![],
    }
}

/// The namespaces in which jobs are managed where nothing else is said: all but the system's and the operator's own.
pub(super) fn managed_by_default(namespace: &str) -> Selector {
    Selector::All(vec![not_in(&[KUBE_SYSTEM, namespace])])
}

fn not_in(names: &[&str]) -> Requirement {
    let values = names.iter().map(|&name| name.to_owned()).collect();
    Requirement { key: NAMESPACE_NAME.to_owned(), operator: Operator::NotIn, values }
}

fn rate(of: &file::ClientConnection) -> Rate {
    let default = Rate::default();
    let qps = of.qps.map_or(default.qps, |qps| {
        let whole = || format!("{:.0}", qps.ceil()).parse::<u32>().unwrap_or(u32::MAX);
        (qps >= 0.0).then(|| whole().max(1))
    });
    let burst = of.burst.map_or(default.burst, |burst| u32::try_from(burst).unwrap_or_default().max(1));
    Rate { qps, burst }
}

struct Check<'a> {
    problems: &'a mut Vec<Problem>,
    version: Version,
}

impl Check<'_> {
    fn problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem::new(path, message));
    }

    /// A value that was read, or what stands for it while there is a problem.
    fn read<T: Default>(&mut self, path: &str, read: Result<T, String>) -> T {
        read.unwrap_or_else(|problem| {
            self.problem(path, problem);
            T::default()
        })
    }

    fn duration(&mut self, path: &str, text: Option<&str>) -> Option<Duration> {
        text.map(|text| {
            let read = duration::parse(text);
            self.read(path, read)
        })
    }

    fn count(&mut self, path: &str, number: Option<i32>) -> Option<u32> {
        number.map(|number| {
            let read = u32::try_from(number).map_err(|_| format!("{number} is negative"));
            self.read(path, read)
        })
    }

    fn pods_ready(&mut self, of: Option<file::WaitForPodsReady>) -> Option<PodsReady> {
        const PATH: &str = "waitForPodsReady";
        let old = self.version == Version::V1Beta1;
        if old && of.as_ref().is_none_or(|of| of.enable != Some(true)) {
            return None;
        }
        let of = of.unwrap_or_default();
        let default = PodsReady::default();
        let default_timeout = if old { Duration::from_mins(5) } else { default.timeout };
        let timeout = self.duration(&format!("{PATH}.timeout"), of.timeout.as_deref());
        let timeout = match timeout {
            Some(Duration::ZERO) if old => {
                self.problem(format!("{PATH}.timeout"), "must be more than 0");
                default_timeout
            }
            None | Some(Duration::ZERO) => default_timeout,
            Some(timeout) => timeout,
        };
        let recovery = self.duration(&format!("{PATH}.recoveryTimeout"), of.recovery_timeout.as_deref());
        let requeuing = self.requeuing(&of.requeuing_strategy.unwrap_or_default());
        Some(PodsReady {
            timeout,
            recovery_timeout: Some(recovery.unwrap_or(timeout)).filter(|timeout| !timeout.is_zero()),
            block_admission: of.block_admission.unwrap_or(old),
            requeuing,
        })
    }

    fn requeuing(&mut self, of: &file::RequeuingStrategy) -> Requeuing {
        const PATH: &str = "waitForPodsReady.requeuingStrategy";
        let default = Requeuing::default();
        let timestamp = match of.timestamp.as_deref() {
            None | Some("Eviction") => RequeuingTimestamp::Eviction,
            Some("Creation") => RequeuingTimestamp::Creation,
            Some(other) => {
                self.problem(
                    format!("{PATH}.timestamp"),
                    format!("{other:?} is neither Eviction nor Creation"),
                );
                default.timestamp
            }
        };
        let mut pause = |name: &str, seconds, default| {
            let seconds = self.count(&format!("{PATH}.{name}"), seconds);
            seconds.map_or(default, |seconds| Duration::from_secs(seconds.into()))
        };
        Requeuing {
            timestamp,
            backoff_base: pause("backoffBaseSeconds", of.backoff_base_seconds, default.backoff_base),
            backoff_max: pause("backoffMaxSeconds", of.backoff_max_seconds, default.backoff_max),
            backoff_limit_count: self.count(&format!("{PATH}.backoffLimitCount"), of.backoff_limit_count),
        }
    }

    fn fair_sharing(&mut self, of: file::FairSharing) -> Option<Vec<FairStrategy>> {
        const FINAL: &str = "LessThanOrEqualToFinalShare";
        const INITIAL: &str = "LessThanInitialShare";
        let old = self.version == Version::V1Beta1;
        if old && of.enable != Some(true) {
            return None;
        }
        let strategies = of.preemption_strategies.unwrap_or_default();
        match strategies.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [FINAL] => Some(vec![FairStrategy::LessThanOrEqualToFinalShare]),
            [INITIAL] => Some(vec![FairStrategy::LessThanInitialShare]),
            list if list == [FINAL, INITIAL] || old && list.is_empty() => {
                Some(vec![FairStrategy::LessThanOrEqualToFinalShare, FairStrategy::LessThanInitialShare])
            }
            _ => {
                let message = format!("must be [{FINAL}], [{INITIAL}] or [{FINAL}, {INITIAL}]");
                self.problem("fairSharing.preemptionStrategies", message);
                None
            }
        }
    }

    fn admission_fair_sharing(&mut self, of: file::AdmissionFairSharing) -> Rules {
        const PATH: &str = "admissionFairSharing";
        let mut time = |name: &str, text: Option<String>| {
            let time = self.duration(&format!("{PATH}.{name}"), text.as_deref()).unwrap_or_default();
            // A part of a millisecond is not nothing, which would mean something else.
            i64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
        };
        let half_life = time("usageHalfLifeTime", of.usage_half_life_time);
        let sampling = match time("usageSamplingInterval", of.usage_sampling_interval) {
            0 => SAMPLING_BY_DEFAULT,
            sampling => sampling,
        };
        let mut weights = BTreeMap::new();
        for (resource, weight) in of.resource_weights.unwrap_or_default() {
            match Factor::new(weight) {
                Some(factor) => {
                    weights.insert(resource.as_str().into(), factor);
                }
                None => self.problem(
                    format!("{PATH}.resourceWeights[{resource}]"),
                    format!("{weight} is not a number from 0 up"),
                ),
            }
        }
        Rules { half_life, sampling, weights }
    }

    fn resources(&mut self, of: file::Resources) -> Resources {
        const STRATEGY: &str = "resources.quotaCheckStrategy";
        let excluded_prefixes = of.exclude_resource_prefixes.unwrap_or_default();
        let undeclared = match of.quota_check_strategy.as_deref() {
            None | Some("BlockUndeclared") => Undeclared::Block,
            Some("IgnoreUndeclared") => {
                if !excluded_prefixes.is_empty() {
                    self.problem(STRATEGY, "IgnoreUndeclared and excludeResourcePrefixes exclude each other");
                }
                Undeclared::Ignore
            }
            Some(other) => {
                let message = format!("{other:?} is neither BlockUndeclared nor IgnoreUndeclared");
                self.problem(STRATEGY, message);
                Undeclared::default()
            }
        };
        let mut transformations: BTreeMap<ResourceName, Transformation> = BTreeMap::new();
        for (index, of) in of.transformations.unwrap_or_default().into_iter().enumerate() {
            let path = format!("resources.transformations[{index}]");
            let (input, transformation) = self.transformation(&path, of);
            if transformations.insert(input.clone(), transformation).is_some() {
                self.problem(format!("{path}.input"), format!("there is another transformation of {input}"));
            }
        }
        Resources { excluded_prefixes, transformations, undeclared }
    }

    fn transformation(&mut self, path: &str, of: file::Transformation) -> (ResourceName, Transformation) {
        let retained = match of.strategy.as_deref() {
            None | Some("" | "Retain") => true,
            Some("Replace") => false,
            Some(other) => {
                self.problem(format!("{path}.strategy"), format!("{other:?} is neither Retain nor Replace"));
                true
            }
        };
        let outputs = of.outputs.unwrap_or_default().into_iter().map(|(resource, quantity)| {
            let factor = parse_factor(&quantity.0).map_err(|problem| problem.to_string());
            (ResourceName::from(resource.as_str()), self.read(&format!("{path}.outputs.{resource}"), factor))
        });
        let outputs = outputs.collect();
        let multiply_by = of.multiply_by.filter(|name| !name.is_empty()).map(Into::into);
        (of.input.into(), Transformation { retained, multiply_by, outputs })
    }

    fn keep_finished(&mut self, of: Option<file::ObjectRetentionPolicies>) -> Option<Duration> {
        let after = of?.workloads?.after_finished;
        self.duration("objectRetentionPolicies.workloads.afterFinished", after.as_deref())
    }

    /// `theirs` is the namespace in the file, `own` the operator's.
    fn managed(&mut self, of: Option<&LabelSelector>, theirs: Option<&str>, own: &str) -> Selector {
        const PATH: &str = "managedJobsNamespaceSelector";
        let Some(of) = of else {
            let mut excluded = vec![KUBE_SYSTEM, own];
            excluded.extend(theirs);
            return Selector::All(vec![not_in(&excluded)]);
        };
        let read = selector(of);
        let selector = self.read(PATH, read);
        for name in [KUBE_SYSTEM].into_iter().chain(theirs) {
            let labels = Labels::from([(NAMESPACE_NAME.to_owned(), name.to_owned())]);
            if selector.matches(&labels) {
                self.problem(PATH, format!("must not match the namespace {name}"));
            }
        }
        match selector {
            Selector::Nothing => Selector::Nothing,
            Selector::All(mut requirements) => {
                requirements.push(not_in(&[own]));
                Selector::All(requirements)
            }
        }
    }

    fn local_queues(&mut self, of: Option<file::LocalQueueMetrics>, gates: &Gates) -> Option<Selector> {
        const PATH: &str = "metrics.localQueueMetrics.localQueueSelector";
        // A section that does not say so does not enable them; no section does.
        let enabled = of.as_ref().is_none_or(|of| of.enable == Some(true));
        let chosen = of.and_then(|of| of.local_queue_selector);
        let selector = match &chosen {
            Some(chosen) => {
                let read = selector(chosen);
                self.read(PATH, read)
            }
            None => Selector::All(vec![]),
        };
        (enabled && gates.is_on("LocalQueueMetrics")).then_some(selector)
    }

    fn integrations(&mut self, of: &file::Integrations, warnings: &mut Warnings) -> Frameworks {
        let none = Vec::new();
        let frameworks = of.frameworks.as_ref().unwrap_or(&none);
        let mut seen = BTreeSet::new();
        let mut managed = Frameworks::default();
        for (index, name) in frameworks.iter().enumerate() {
            let path = format!("integrations.frameworks[{index}]");
            if !seen.insert(name) {
                self.problem(path, format!("{name} is listed twice"));
            } else if OTHER_FRAMEWORKS.contains(&name.as_str()) {
                let why = "jobs of these kinds are not managed yet: they run without quota";
                warnings.add(why, format!("integrations.frameworks {name}"));
            } else if let Some(kind) = kinds::of_framework(name) {
                managed.0.insert(kind);
            } else {
                self.problem(path, format!("Kueue 0.19 has no framework {name:?}"));
            }
        }
        let always = kinds::JOB.framework;
        if !frameworks.is_empty() && !seen.contains(&always.to_owned()) {
            let message = format!("{always} is always managed here: add it, or give no Job a queue name");
            self.problem("integrations.frameworks", message);
        }
        for (index, name) in of.external_frameworks.iter().flatten().enumerate() {
            let path = format!("integrations.externalFrameworks[{index}]");
            if name.matches('.').count() < 2 {
                self.problem(path, format!("{name:?} is not of the form Kind.version.group"));
            } else if !seen.insert(name) {
                self.problem(path, format!("{name} is listed twice"));
            }
        }
        managed.0.into_iter().collect()
    }
}
