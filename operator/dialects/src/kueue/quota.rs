//! Flavors, `ClusterQueues`, cohorts and `LocalQueues` as the core sees them.
//!
//! Reading never fails: what cannot be honoured stands in the result's `invalid`, and the queue is then inactive
//! with that text, so that the person who wrote it sees it where they look.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::core::v1 as api,
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
    },
};
use kube::ResourceExt;
use whalezen_core::{
    consumption::Consumed,
    flavor::{Flavor, Taint, TaintEffect, Toleration},
    labels::{Operator, Requirement, Selector},
    name::{LocalQueueKey, ResourceName},
    quantity::{Amount, parse, parse_billionths},
    queue::{
        BorrowWithinCohort, Check, CheckRule, ClusterQueue, Cohort, FlavorQuotas, Fungibility, LocalQueue,
        Preemption, Preference, Quota, Quotas, Reclaim, ResourceGroup, Stop, Strategy, Weight, WhenCanBorrow,
        WhenCanPreempt, WithinQueue,
    },
};
use whalezen_crds::kueue::{constants::condition, v1beta2 as kueue};

use super::conditions;

/// A `ResourceFlavor`.
pub fn flavor(object: &kueue::ResourceFlavor) -> Flavor {
    Flavor {
        name: object.name_any().into(),
        labels: object.spec.node_labels.clone(),
        taints: object.spec.node_taints.iter().filter_map(taint).collect(),
        tolerations: object.spec.tolerations.iter().map(toleration).collect(),
        topology: object.spec.topology_name.as_deref().map(Into::into),
    }
}

/// A ClusterQueue.
pub fn cluster_queue(object: &kueue::ClusterQueue) -> ClusterQueue {
    let spec = &object.spec;
    let (groups, mut invalid) =
        match resource_groups(&spec.resource_groups).and_then(no_more_is_lent_than_there_is) {
            Ok(groups) => (groups, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
    let namespaces = match spec.namespace_selector.as_ref().map(selector) {
        None => Selector::Nothing,
        Some(Ok(selector)) => selector,
        Some(Err(problem)) => {
            invalid = invalid.or(Some(format!("spec.namespaceSelector: {problem}")));
            Selector::Nothing
        }
    };
    let checks = spec.admission_checks_strategy.iter().flat_map(|strategy| &strategy.admission_checks);
    ClusterQueue {
        name: object.name_any().into(),
        cohort: spec.cohort_name.as_deref().filter(|name| !name.is_empty()).map(Into::into),
        groups,
        strategy: match spec.queueing_strategy {
            kueue::QueueingStrategy::StrictFifo => Strategy::StrictFifo,
            kueue::QueueingStrategy::BestEffortFifo => Strategy::BestEffortFifo,
        },
        fungibility: fungibility(&spec.flavor_fungibility),
        preemption: preemption(&spec.preemption),
        weight: weight(spec.fair_sharing.as_ref()).unwrap_or_else(|problem| {
            invalid = invalid.take().or(Some(problem));
            Weight::default()
        }),
        by_consumption: spec.admission_scope.as_ref().is_some_and(|scope| {
            scope.admission_mode == kueue::AdmissionMode::UsageBasedAdmissionFairSharing
        }),
        namespaces,
        stop: stop(spec.stop_policy),
        terminating: object.metadata.deletion_timestamp.is_some(),
        admission_checks: checks.map(check_rule).collect(),
        invalid,
    }
}

fn check_rule(of: &kueue::AdmissionCheckStrategyRule) -> CheckRule {
    let flavors = of.on_flavors.iter().map(|flavor| flavor.as_str().into());
    CheckRule { check: of.name.as_str().into(), flavors: flavors.collect() }
}

/// An `AdmissionCheck`.
pub fn check(object: &kueue::AdmissionCheck) -> Check {
    let conditions = object.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    Check { name: object.name_any().into(), active: conditions::is_true(conditions, condition::ACTIVE) }
}

/// A `Cohort`.
pub fn cohort(object: &kueue::Cohort) -> Cohort {
    let (quotas, mut invalid) = match resource_groups(&object.spec.resource_groups) {
        Ok(groups) => (quotas(&groups), None),
        Err(problem) => (Quotas::new(), Some(problem)),
    };
    let weight = weight(object.spec.fair_sharing.as_ref()).unwrap_or_else(|problem| {
        invalid = invalid.take().or(Some(problem));
        Weight::default()
    });
    Cohort {
        name: object.name_any().into(),
        parent: object.spec.parent_name.as_deref().filter(|name| !name.is_empty()).map(Into::into),
        quotas,
        weight,
        invalid,
    }
}

/// A LocalQueue.
pub fn local_queue(object: &kueue::LocalQueue) -> LocalQueue {
    LocalQueue {
        key: LocalQueueKey::new(object.namespace().unwrap_or_default(), object.name_any()),
        cluster_queue: object.spec.cluster_queue.clone().unwrap_or_default().into(),
        stop: stop(object.spec.stop_policy),
        // One that cannot be read weighs what one without weighs: it changes an order, and no quota.
        weight: weight(object.spec.fair_sharing.as_ref()).unwrap_or_default(),
    }
}

/// What a LocalQueue consumed by its status. An amount that cannot be read was not written by a scheduler.
pub fn consumed(object: &kueue::LocalQueue) -> Consumed {
    let sharing = object.status.as_ref().and_then(|status| status.fair_sharing.as_ref());
    let sharing = sharing.and_then(|sharing| sharing.admission_fair_sharing_status.as_ref());
    let amounts = sharing.into_iter().flat_map(|sharing| &sharing.consumed_resources);
    amounts.filter_map(|(name, amount)| Some((name.as_str().into(), amount.0.parse().ok()?))).collect()
}

fn fungibility(of: &kueue::FlavorFungibility) -> Fungibility {
    Fungibility {
        when_can_borrow: match of.when_can_borrow {
            kueue::FlavorFungibilityPolicy::MayStopSearch => WhenCanBorrow::StopSearch,
            kueue::FlavorFungibilityPolicy::TryNextFlavor => WhenCanBorrow::TryNextFlavor,
        },
        when_can_preempt: match of.when_can_preempt {
            kueue::FlavorFungibilityPolicy::MayStopSearch => WhenCanPreempt::StopSearch,
            kueue::FlavorFungibilityPolicy::TryNextFlavor => WhenCanPreempt::TryNextFlavor,
        },
        preference: match of.preference {
            Some(kueue::FlavorFungibilityPreference::PreemptionOverBorrowing) => {
                Preference::PreemptionOverBorrowing
            }
            Some(kueue::FlavorFungibilityPreference::BorrowingOverPreemption) | None => {
                Preference::BorrowingOverPreemption
            }
        },
    }
}

fn preemption(of: &kueue::ClusterQueuePreemption) -> Preemption {
    Preemption {
        within: match of.within_cluster_queue {
            kueue::WithinClusterQueuePolicy::Never => WithinQueue::Never,
            kueue::WithinClusterQueuePolicy::LowerPriority => WithinQueue::LowerPriority,
            kueue::WithinClusterQueuePolicy::LowerOrNewerEqualPriority => {
                WithinQueue::LowerOrNewerEqualPriority
            }
        },
        reclaim: match of.reclaim_within_cohort {
            kueue::ReclaimWithinCohortPolicy::Never => Reclaim::Never,
            kueue::ReclaimWithinCohortPolicy::LowerPriority => Reclaim::LowerPriority,
            kueue::ReclaimWithinCohortPolicy::Any => Reclaim::Any,
        },
        borrow: match of.borrow_within_cohort.policy {
            kueue::BorrowWithinCohortPolicy::Never => BorrowWithinCohort::Never,
            kueue::BorrowWithinCohortPolicy::LowerPriority => BorrowWithinCohort::LowerPriority {
                threshold: of.borrow_within_cohort.max_priority_threshold,
            },
        },
    }
}

fn stop(policy: kueue::StopPolicy) -> Stop {
    match policy {
        kueue::StopPolicy::None => Stop::No,
        kueue::StopPolicy::Hold => Stop::Hold,
        kueue::StopPolicy::HoldAndDrain => Stop::HoldAndDrain,
    }
}

fn weight(of: Option<&kueue::FairSharing>) -> Result<Weight, String> {
    let Some(of) = of else { return Ok(Weight::default()) };
    parse_billionths(&of.weight.0).map(Weight).map_err(|problem| format!("fairSharing.weight: {problem}"))
}

/// A label selector.
pub fn selector(selector: &LabelSelector) -> Result<Selector, String> {
    let exact = selector.match_labels.iter().flatten().map(|(key, value)| {
        Ok(Requirement { key: key.clone(), operator: Operator::In, values: vec![value.clone()] })
    });
    let expressions = selector.match_expressions.iter().flatten().map(selector_requirement);
    exact.chain(expressions).collect::<Result<_, _>>().map(Selector::All)
}

fn selector_requirement(of: &LabelSelectorRequirement) -> Result<Requirement, String> {
    let values = of.values.clone().unwrap_or_default();
    let operator = match operator(&of.operator) {
        Some(operator @ (Operator::Exists | Operator::DoesNotExist)) if values.is_empty() => operator,
        Some(operator @ (Operator::In | Operator::NotIn)) if !values.is_empty() => operator,
        _ => return Err(format!("operator {:?} with {} values on {:?}", of.operator, values.len(), of.key)),
    };
    Ok(Requirement { key: of.key.clone(), operator, values })
}

/// The operator of this name, in label selectors and node affinity.
pub fn operator(name: &str) -> Option<Operator> {
    Some(match name {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        _ => return None,
    })
}

fn effect(name: &str) -> Option<TaintEffect> {
    Some(match name {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        _ => return None,
    })
}

/// A taint, of a flavor's nodes or of a node.
pub fn taint(of: &api::Taint) -> Option<Taint> {
    let value = of.value.clone().unwrap_or_default();
    Some(Taint { key: of.key.clone(), value, effect: effect(&of.effect)? })
}

/// A toleration, of a flavor or a pod.
pub fn toleration(of: &api::Toleration) -> Toleration {
    Toleration {
        key: of.key.clone().unwrap_or_default(),
        exists: of.operator.as_deref() == Some("Exists"),
        value: of.value.clone().unwrap_or_default(),
        effect: of.effect.as_deref().and_then(effect),
    }
}

fn resource_groups(groups: &[kueue::ResourceGroup]) -> Result<Vec<ResourceGroup>, String> {
    let mut resources = BTreeSet::new();
    let mut flavors = BTreeSet::new();
    for group in groups {
        for resource in &group.covered_resources {
            if !resources.insert(resource.as_str()) {
                return Err(format!("resource {resource} is covered by more than one resource group"));
            }
        }
        for flavor in &group.flavors {
            if !flavors.insert(flavor.name.as_str()) {
                return Err(format!("flavor {} is listed more than once", flavor.name));
            }
        }
    }
    groups.iter().map(resource_group).collect()
}

/// As Kueue's webhook asks of ClusterQueues, and not of Cohorts.
fn no_more_is_lent_than_there_is(groups: Vec<ResourceGroup>) -> Result<Vec<ResourceGroup>, String> {
    for flavor in groups.iter().flat_map(|group| &group.flavors) {
        for (resource, quota) in &flavor.quotas {
            if quota.lending_limit.is_some_and(|lent| lent > quota.nominal) {
                return Err(format!(
                    "flavor {}, {resource}: lendingLimit: must be less than or equal to the nominalQuota",
                    flavor.flavor
                ));
            }
        }
    }
    Ok(groups)
}

fn resource_group(group: &kueue::ResourceGroup) -> Result<ResourceGroup, String> {
    let resources: Vec<ResourceName> =
        group.covered_resources.iter().map(|name| name.as_str().into()).collect();
    let flavors = group.flavors.iter().map(|flavor| {
        let given: Vec<&str> = flavor.resources.iter().map(|quota| quota.name.as_str()).collect();
        let covered: Vec<&str> = group.covered_resources.iter().map(String::as_str).collect();
        if given != covered {
            return Err(format!(
                "flavor {} has quotas for {given:?}, in a group that covers {covered:?}",
                flavor.name
            ));
        }
        let quotas = flavor.resources.iter().map(|of| {
            let quota =
                quota(of).map_err(|problem| format!("flavor {}, {}: {problem}", flavor.name, of.name))?;
            Ok((of.name.as_str().into(), quota))
        });
        Ok(FlavorQuotas {
            flavor: flavor.name.as_str().into(),
            quotas: quotas.collect::<Result<_, String>>()?,
        })
    });
    Ok(ResourceGroup { resources, flavors: flavors.collect::<Result<_, String>>()? })
}

fn quota(of: &kueue::ResourceQuota) -> Result<Quota, String> {
    let read = |field: &str, quantity: &Quantity| -> Result<Amount, String> {
        parse(&of.name, &quantity.0).map_err(|problem| format!("{field}: {problem}"))
    };
    Ok(Quota {
        nominal: read("nominalQuota", &of.nominal_quota)?,
        borrowing_limit: of.borrowing_limit.as_ref().map(|q| read("borrowingLimit", q)).transpose()?,
        lending_limit: of.lending_limit.as_ref().map(|q| read("lendingLimit", q)).transpose()?,
    })
}

fn quotas(groups: &[ResourceGroup]) -> Quotas {
    let flavors = groups.iter().flat_map(|group| &group.flavors);
    flavors
        .flat_map(|f| {
            let key = |resource: &ResourceName| whalezen_core::name::FlavorResource {
                flavor: f.flavor.clone(),
                resource: resource.clone(),
            };
            f.quotas.iter().map(move |(resource, quota)| (key(resource), *quota))
        })
        .collect()
}
