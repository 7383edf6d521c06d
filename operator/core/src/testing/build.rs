//! Builders of what people declare. Each starts from a name and ends as what the core is fed with, by `into`.

use std::sync::Arc;

use crate::{
    flavor::{Flavor, Taint, TaintEffect},
    labels::{Labels, Operator, Requirement, Selector},
    name::{FlavorResource, LocalQueueKey, ResourceName, WorkloadKey},
    quantity::Amount,
    queue::{
        BorrowWithinCohort, CheckRule, ClusterQueue, Cohort, FlavorQuotas, Fungibility, LocalQueue,
        Preemption, Quota, Quotas, Reclaim, ResourceGroup, Stop, Strategy, Weight, WhenCanBorrow,
        WithinQueue,
    },
};

/// `units` of a resource: cores, bytes, devices.
pub fn amount(resource: &str, units: i64) -> Amount {
    Amount(if resource == ResourceName::CPU { units.saturating_mul(1000) } else { units })
}

/// The key of the workload `namespace/name`.
pub fn key(text: &str) -> WorkloadKey {
    let (namespace, name) = split(text);
    WorkloadKey::new(namespace, name)
}

/// The key of the LocalQueue `namespace/name`.
pub fn local_key(text: &str) -> LocalQueueKey {
    let (namespace, name) = split(text);
    LocalQueueKey::new(namespace, name)
}

fn split(text: &str) -> (&str, &str) {
    text.split_once('/').unwrap_or(("default", text))
}

/// A flavor in the making.
#[derive(Clone, Debug)]
pub struct FlavorBuilder(Flavor);

/// A flavor without labels and taints.
pub fn flavor(name: &str) -> FlavorBuilder {
    let (labels, taints, tolerations) = (Labels::new(), Vec::new(), Vec::new());
    FlavorBuilder(Flavor { name: name.into(), labels, taints, tolerations, topology: None })
}

impl FlavorBuilder {
    /// Its nodes carry this label.
    pub fn label(mut self, label: &str, value: &str) -> Self {
        self.0.labels.insert(label.into(), value.into());
        self
    }

    /// Its nodes carry this `NoSchedule` taint.
    pub fn taint(mut self, taint: &str, value: &str) -> Self {
        self.0.taints.push(Taint { key: taint.into(), value: value.into(), effect: TaintEffect::NoSchedule });
        self
    }

    /// Its nodes stand together as this topology says.
    pub fn topology(mut self, name: &str) -> Self {
        self.0.topology = Some(name.into());
        self
    }
}

impl From<FlavorBuilder> for Flavor {
    fn from(FlavorBuilder(flavor): FlavorBuilder) -> Self {
        flavor
    }
}

/// A cohort in the making.
#[derive(Clone, Debug)]
pub struct CohortBuilder(Cohort);

/// A cohort without a parent and quota of its own.
pub fn cohort(name: &str) -> CohortBuilder {
    CohortBuilder(Cohort {
        name: name.into(),
        parent: None,
        quotas: Quotas::new(),
        weight: Weight::default(),
        invalid: None,
    })
}

impl CohortBuilder {
    /// It hangs below this cohort.
    pub fn parent(mut self, name: &str) -> Self {
        self.0.parent = Some(name.into());
        self
    }

    /// It owns this much itself.
    pub fn quota(mut self, flavor: &str, resource: &str, units: i64) -> Self {
        self.entry(flavor, resource).nominal = amount(resource, units);
        self
    }

    /// It may borrow no more than this from its parent.
    pub fn borrow(mut self, flavor: &str, resource: &str, units: i64) -> Self {
        self.entry(flavor, resource).borrowing_limit = Some(amount(resource, units));
        self
    }

    /// It lends no more than this to its parent.
    pub fn lend(mut self, flavor: &str, resource: &str, units: i64) -> Self {
        self.entry(flavor, resource).lending_limit = Some(amount(resource, units));
        self
    }

    /// Its declaration cannot be honoured.
    pub fn invalid(mut self, problem: &str) -> Self {
        self.0.invalid = Some(problem.into());
        self
    }

    fn entry(&mut self, flavor: &str, resource: &str) -> &mut Quota {
        self.0.quotas.entry(FlavorResource::new(flavor, resource)).or_default()
    }
}

impl From<CohortBuilder> for Cohort {
    fn from(CohortBuilder(cohort): CohortBuilder) -> Self {
        cohort
    }
}

/// A ClusterQueue in the making.
#[derive(Clone, Debug)]
pub struct QueueBuilder(ClusterQueue);

/// A ClusterQueue without quota, open to every namespace.
pub fn queue(name: &str) -> QueueBuilder {
    QueueBuilder(ClusterQueue {
        name: name.into(),
        cohort: None,
        groups: Vec::new(),
        strategy: Strategy::BestEffortFifo,
        fungibility: Fungibility::default(),
        preemption: Preemption::default(),
        weight: Weight::default(),
        by_consumption: false,
        namespaces: Selector::All(Vec::new()),
        stop: Stop::No,
        terminating: false,
        admission_checks: Vec::new(),
        invalid: None,
    })
}

impl QueueBuilder {
    /// It shares unused quota in this cohort.
    pub fn cohort(mut self, name: &str) -> Self {
        self.0.cohort = Some(name.into());
        self
    }

    /// Another resource group.
    pub fn group<const N: usize>(mut self, resources: [&str; N]) -> Self {
        let resources = resources.into_iter().map(ResourceName::from).collect();
        self.0.groups.push(ResourceGroup { resources, flavors: Vec::new() });
        self
    }

    /// Another flavor of the last group, with its nominal quotas.
    pub fn flavor<const N: usize>(mut self, name: &str, quotas: [(&str, i64); N]) -> Self {
        let quota = |units: Amount| Quota { nominal: units, ..Quota::default() };
        let quotas = quotas.into_iter().map(|(r, units)| (r.into(), quota(amount(r, units)))).collect();
        if let Some(group) = self.0.groups.last_mut() {
            group.flavors.push(FlavorQuotas { flavor: name.into(), quotas });
        }
        self
    }

    /// It may borrow no more than this from its cohort.
    pub fn borrow(mut self, flavor: &str, resource: &str, units: i64) -> Self {
        self.each(flavor, resource, |quota| quota.borrowing_limit = Some(amount(resource, units)));
        self
    }

    /// It lends no more than this to its cohort.
    pub fn lend(mut self, flavor: &str, resource: &str, units: i64) -> Self {
        self.each(flavor, resource, |quota| quota.lending_limit = Some(amount(resource, units)));
        self
    }

    fn each(&mut self, flavor: &str, resource: &str, change: impl Fn(&mut Quota)) {
        let flavors = self.0.groups.iter_mut().flat_map(|group| &mut group.flavors);
        for of in flavors.filter(|of| of.flavor.as_str() == flavor) {
            of.quotas.iter_mut().filter(|(name, _)| name.as_str() == resource).for_each(|(_, q)| change(q));
        }
    }

    /// Strictly in order.
    pub fn strict(mut self) -> Self {
        self.0.strategy = Strategy::StrictFifo;
        self
    }

    /// A flavor that would have to borrow is only taken if no later one would do without.
    pub fn rather_next_flavor(mut self) -> Self {
        self.0.fungibility.when_can_borrow = WhenCanBorrow::TryNextFlavor;
        self
    }

    /// Its workloads may preempt in it those whom this allows.
    pub fn preempts(mut self, within: WithinQueue) -> Self {
        self.0.preemption.within = within;
        self
    }

    /// Its workloads may take back from others of the cohort those whom this allows.
    pub fn reclaims(mut self, reclaim: Reclaim) -> Self {
        self.0.preemption.reclaim = reclaim;
        self
    }

    /// Its workloads may preempt in the cohort while it borrows those whom this allows.
    pub fn borrows_by_priority(mut self, threshold: Option<i32>) -> Self {
        self.0.preemption.borrow = BorrowWithinCohort::LowerPriority { threshold };
        self
    }

    /// How flavors are chosen among.
    pub fn fungibility(mut self, fungibility: Fungibility) -> Self {
        self.0.fungibility = fungibility;
        self
    }

    /// Its weight, in billionths.
    pub fn weight(mut self, billionths: u64) -> Self {
        self.0.weight = Weight(billionths);
        self
    }

    /// Workloads of `LocalQueues` that consumed less lately go first.
    pub fn by_consumption(mut self) -> Self {
        self.0.by_consumption = true;
        self
    }

    /// Only namespaces with this label may use it.
    pub fn only_namespaces(mut self, label: &str, value: &str) -> Self {
        self.0.namespaces = Selector::All(vec![is(label, value)]);
        self
    }

    /// A person stopped it.
    pub fn stopped(mut self) -> Self {
        self.0.stop = Stop::Hold;
        self
    }

    /// It is being deleted.
    pub fn terminating(mut self) -> Self {
        self.0.terminating = true;
        self
    }

    /// It demands this admission check.
    pub fn check(mut self, name: &str) -> Self {
        self.0.admission_checks.push(CheckRule { check: name.into(), flavors: Vec::new() });
        self
    }

    /// It demands this admission check of whoever gets this flavor.
    pub fn check_on(mut self, name: &str, flavor: &str) -> Self {
        self.0.admission_checks.push(CheckRule { check: name.into(), flavors: vec![flavor.into()] });
        self
    }

    /// Its declaration cannot be honoured.
    pub fn invalid(mut self, problem: &str) -> Self {
        self.0.invalid = Some(problem.into());
        self
    }
}

impl From<QueueBuilder> for ClusterQueue {
    fn from(QueueBuilder(queue): QueueBuilder) -> Self {
        queue
    }
}

/// A LocalQueue in the making.
#[derive(Clone, Debug)]
pub struct LocalQueueBuilder(LocalQueue);

/// The LocalQueue `namespace/name` that leads to `cluster_queue`.
pub fn local_queue(text: &str, cluster_queue: &str) -> LocalQueueBuilder {
    LocalQueueBuilder(LocalQueue {
        key: local_key(text),
        cluster_queue: cluster_queue.into(),
        stop: Stop::No,
        weight: Weight::default(),
    })
}

impl LocalQueueBuilder {
    /// A person stopped it.
    pub fn stopped(mut self) -> Self {
        self.0.stop = Stop::Hold;
        self
    }

    /// Its weight, in billionths.
    pub fn weight(mut self, billionths: u64) -> Self {
        self.0.weight = Weight(billionths);
        self
    }
}

impl From<LocalQueueBuilder> for LocalQueue {
    fn from(LocalQueueBuilder(queue): LocalQueueBuilder) -> Self {
        queue
    }
}

/// A namespace in the making.
#[derive(Clone, Debug)]
pub struct NamespaceBuilder {
    pub(super) name: Arc<str>,
    pub(super) labels: Labels,
}

/// A namespace without labels.
pub fn namespace(name: &str) -> NamespaceBuilder {
    NamespaceBuilder { name: name.into(), labels: Labels::new() }
}

impl NamespaceBuilder {
    /// It carries this label.
    pub fn label(mut self, label: &str, value: &str) -> Self {
        self.labels.insert(label.into(), value.into());
        self
    }
}

pub(super) fn is(label: &str, value: &str) -> Requirement {
    Requirement { key: label.into(), operator: Operator::In, values: vec![value.into()] }
}
