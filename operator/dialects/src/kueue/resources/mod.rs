//! How much the pods of a workload count for: what their namespace and their runtime class add to the template,
//! and what the administrator's settings make of it. The rules are Kueue's, so that both charge the same.

mod limits;
mod transform;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{core::v1::LimitRange, node::v1::RuntimeClass};
use kube::ResourceExt;
use whalezen_core::{
    quantity::{Amounts, parse},
    workload::{PodSet, check_totals},
};

use self::limits::{Limits, Range};
use super::{
    pods::{Asks, Template},
    settings::Resources,
    workload::WorkloadView,
};

/// What pods are counted by.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rules {
    /// The `LimitRange` objects, by namespace and name.
    limit_ranges: BTreeMap<Arc<str>, BTreeMap<String, Limits>>,
    /// What each `RuntimeClass` takes beside the containers.
    overheads: BTreeMap<String, Amounts>,
}

/// The pods of a workload, counted.
#[derive(Clone, PartialEq, Debug)]
pub struct Counted {
    /// The pod sets, or why they cannot be counted.
    pub pod_sets: Result<Arc<[PodSet]>, String>,
    /// Why the API server would refuse the pods, if it would.
    pub inadmissible: Option<String>,
}

impl Counted {
    fn impossible(problem: String) -> Self {
        Self { pod_sets: Err(problem), inadmissible: None }
    }
}

/// Events.
impl Rules {
    /// A `LimitRange` was seen. Says whether anything in its namespace may count for another amount now.
    pub fn apply_limit_range(&mut self, object: &LimitRange) -> bool {
        let namespace = object.namespace().unwrap_or_default();
        let limits = Limits::read(object);
        let known = self.limit_ranges.entry(namespace.into()).or_default();
        known.insert(object.name_any(), limits.clone()) != Some(limits)
    }

    /// A `LimitRange` is gone. Says whether it was known.
    pub fn delete_limit_range(&mut self, namespace: &str, name: &str) -> bool {
        self.limit_ranges.get_mut(namespace).is_some_and(|known| known.remove(name).is_some())
    }

    /// A `RuntimeClass` was seen. Says whether its pods may count for another amount now.
    pub fn apply_runtime_class(&mut self, object: &RuntimeClass) -> bool {
        let fixed = object.overhead.as_ref().and_then(|overhead| overhead.pod_fixed.as_ref());
        let amount = |(resource, quantity): (&String, &_)| {
            let k8s_openapi::apimachinery::pkg::api::resource::Quantity(text) = quantity;
            Some((resource.as_str().into(), parse(resource, text).ok()?))
        };
        let overhead: Amounts = fixed.into_iter().flatten().filter_map(amount).collect();
        self.overheads.insert(object.name_any(), overhead.clone()) != Some(overhead)
    }

    /// A `RuntimeClass` is gone. Says whether it was known.
    pub fn delete_runtime_class(&mut self, name: &str) -> bool {
        self.overheads.remove(name).is_some()
    }
}

/// Counting.
impl Rules {
    /// Counts the pods of a workload of this namespace.
    pub fn count(&self, namespace: &str, view: &WorkloadView, settings: &Resources) -> Counted {
        let pods = match &view.pods {
            Ok(pods) => pods,
            Err(problem) => return Counted::impossible(problem.clone()),
        };
        let limits = self.limit_ranges.get(namespace).map(|ranges| Limits::together(ranges.values()));
        let limits = limits.unwrap_or_default();
        let mut excesses = Vec::new();
        let mut violations = Vec::new();
        let mut sets = Vec::with_capacity(pods.len());
        for (index, of) in pods.iter().enumerate() {
            let template = self.completed(&of.template, &limits);
            let path = format!("spec.podSets[{index}].template.spec");
            let problem = |problem: String| format!("pod set {}: {problem}", of.name);
            let total = template.total();
            let of_node = total.clone().ok();
            let per_pod = match total {
                Ok(total) => {
                    excesses.extend(limits::excesses(&template, &path));
                    violations.extend(limits.violations(&template, &total, &path));
                    transform::transformed(total, settings)
                }
                Err(problem) => Err(problem),
            };
            match per_pod {
                Ok(per_pod) => {
                    let count = view.left(&of.name, of.count);
                    sets.push(PodSet {
                        name: Arc::clone(&of.name),
                        count,
                        min_count: of.min_count.map(|least| least.min(count)),
                        of_node: of_node.filter(|of_node| *of_node != per_pod),
                        per_pod,
                        demand: template.demand,
                        topology: of.topology.clone(),
                    });
                }
                Err(about) => return Counted::impossible(problem(about)),
            }
        }
        if let Err(problem) = check_totals(&sets) {
            return Counted::impossible(problem);
        }
        let inadmissible = listed("resources validation failed", excesses)
            .or_else(|| listed("resources didn't satisfy LimitRange constraints", violations));
        Counted { pod_sets: Ok(sets.into()), inadmissible }
    }

    /// A template with all that is added to its pods when they are made.
    fn completed(&self, template: &Template, limits: &Limits) -> Template {
        let mut template = template.clone();
        if template.overhead.is_empty()
            && let Some(overhead) = template.runtime_class.as_ref().and_then(|name| self.overheads.get(name))
        {
            template.overhead.clone_from(overhead);
        }
        let init = template.init.iter_mut().map(|init| &mut init.asks);
        for asks in template.containers.iter_mut().chain(init) {
            complete(asks, limits.container.as_ref());
        }
        if let Some(asks) = &mut template.pod {
            complete(asks, limits.pod.as_ref());
        }
        template
    }
}

/// Fills in what is not said: defaults first, and then limits as requests, in Kueue's order.
fn complete(asks: &mut Asks, range: Option<&Range>) {
    if let Some(range) = range {
        keep_first(&mut asks.limits, &range.default);
        keep_first(&mut asks.requests, &range.default_request);
    }
    keep_first(&mut asks.requests, &asks.limits);
}

/// Adds what is not there.
fn keep_first(to: &mut Amounts, from: &Amounts) {
    for (resource, amount) in from {
        if !to.contains_key(resource) {
            to.insert(resource.clone(), *amount);
        }
    }
}

/// Problems in the form in which Go joins errors, which is what users of Kueue see.
fn listed(what: &str, mut problems: Vec<String>) -> Option<String> {
    let first = problems.first()?.clone();
    let mut seen = Vec::new();
    problems.retain(|problem| {
        let new = !seen.contains(problem);
        seen.push(problem.clone());
        new
    });
    Some(if problems.len() == 1 {
        format!("{what}: {first}")
    } else {
        format!("{what}: [{}]", problems.join(", "))
    })
}
