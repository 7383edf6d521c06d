//! `LimitRange` objects: what a namespace fills into its pods, and what it does not let in.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::LimitRange, apimachinery::pkg::api::resource::Quantity};
use whalezen_core::{
    name::ResourceName,
    quantity::{Amount, Amounts, parse},
};

use super::{
    super::pods::{Asks, Template},
    keep_first,
};

/// What holds for containers and for pods, of one object or of several together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Limits {
    /// For each container.
    pub(super) container: Option<Range>,
    /// For each pod as a whole.
    pub(super) pod: Option<Range>,
}

/// The limits for one kind of thing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Range {
    max: Amounts,
    min: Amounts,
    /// The limit of what has none.
    pub(super) default: Amounts,
    /// The request of what has none.
    pub(super) default_request: Amounts,
}

impl Limits {
    /// What one object says. The API server has checked its quantities.
    pub(super) fn read(object: &LimitRange) -> Self {
        let mut limits = Self::default();
        for item in object.spec.iter().flat_map(|spec| &spec.limits) {
            let range = Range {
                max: amounts(item.max.as_ref()),
                min: amounts(item.min.as_ref()),
                default: amounts(item.default.as_ref()),
                default_request: amounts(item.default_request.as_ref()),
            };
            match item.type_.as_str() {
                "Container" => limits.container.get_or_insert_default().join(&range),
                "Pod" => limits.pod.get_or_insert_default().join(&range),
                _ => {}
            }
        }
        limits
    }

    /// What several say together: the tightest limits, and of defaults the first.
    pub(super) fn together<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let mut limits = Self::default();
        for one in all {
            for (to, from) in [(&mut limits.container, &one.container), (&mut limits.pod, &one.pod)] {
                if let Some(range) = from {
                    to.get_or_insert_default().join(range);
                }
            }
        }
        limits
    }

    /// What pods of this template, which request `total`, do not keep of it.
    pub(super) fn violations(&self, template: &Template, total: &Amounts, path: &str) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(range) = &self.container {
            let init = template.init.iter().map(|init| &init.asks);
            for (list, all) in [
                ("initContainers", init.collect::<Vec<_>>()),
                ("containers", template.containers.iter().collect()),
            ] {
                for (index, asks) in all.into_iter().enumerate() {
                    let (low, high) = span(asks);
                    range.violations(&low, &high, &format!("{path}.{list}[{index}]"), &mut found);
                }
            }
        }
        if let Some(range) = &self.pod {
            range.violations(total, total, path, &mut found);
        }
        found
    }
}

impl Range {
    fn join(&mut self, other: &Self) {
        merge(&mut self.max, &other.max, Amount::min);
        merge(&mut self.min, &other.min, Amount::max);
        keep_first(&mut self.default, &other.default);
        keep_first(&mut self.default_request, &other.default_request);
    }

    fn violations(&self, low: &Amounts, high: &Amounts, path: &str, found: &mut Vec<String>) {
        let above = greater(high, &self.max);
        found.extend(invalid(path, &above, "requests must not be above the limitRange max"));
        let below = greater(&self.min, low);
        found.extend(invalid(path, &below, "requests must not be below the limitRange min"));
    }
}

/// Where a template requests more than its own limits.
pub(super) fn excesses(template: &Template, path: &str) -> Vec<String> {
    let check = |asks: &Asks, path: String| {
        invalid(&path, &greater(&asks.requests, &asks.limits), "requests must not exceed its limits")
    };
    let init = template.init.iter().enumerate();
    let init = init.filter_map(|(index, init)| check(&init.asks, format!("{path}.initContainers[{index}]")));
    let containers = template.containers.iter().enumerate();
    let containers =
        containers.filter_map(|(index, asks)| check(asks, format!("{path}.containers[{index}]")));
    let pod = template.pod.iter().filter_map(|asks| check(asks, format!("{path}.resources")));
    init.chain(containers).chain(pod).collect()
}

/// The least and the most that requests and limits together name of each resource.
fn span(asks: &Asks) -> (Amounts, Amounts) {
    let (mut low, mut high) = (asks.requests.clone(), asks.requests.clone());
    merge(&mut low, &asks.limits, Amount::min);
    merge(&mut high, &asks.limits, Amount::max);
    (low, high)
}

fn merge(to: &mut Amounts, from: &Amounts, choose: fn(Amount, Amount) -> Amount) {
    for (resource, amount) in from {
        to.entry(resource.clone()).and_modify(|known| *known = choose(*known, *amount)).or_insert(*amount);
    }
}

/// The resources that both name and of which `a` has more.
fn greater<'a>(a: &'a Amounts, b: &Amounts) -> Vec<&'a str> {
    let more = |(resource, amount): &(&ResourceName, &Amount)| b.get(*resource).is_some_and(|b| *amount > b);
    a.iter().filter(more).map(|(resource, _)| resource.as_str()).collect()
}

/// A problem in the words of Kubernetes' validation.
fn invalid(path: &str, resources: &[&str], problem: &str) -> Option<String> {
    let names: Vec<String> = resources.iter().map(|name| format!("{name:?}")).collect();
    (!names.is_empty()).then(|| format!("{path}: Invalid value: [{}]: {problem}", names.join(",")))
}

fn amounts(quantities: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let amount = |(resource, quantity): (&String, &Quantity)| {
        Some((resource.as_str().into(), parse(resource, &quantity.0).ok()?))
    };
    quantities.into_iter().flatten().filter_map(amount).collect()
}
