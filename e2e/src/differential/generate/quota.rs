//! Random quota: which resources and flavors there are, and how much of each a queue or cohort has.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rand::Rng as _;
use rand::seq::SliceRandom as _;
use whalezen_crds::kueue::v1beta2::{
    BorrowWithinCohort, BorrowWithinCohortPolicy, ClusterQueue, ClusterQueuePreemption, ClusterQueueSpec,
    FairSharing, FlavorFungibility, FlavorFungibilityPolicy, FlavorFungibilityPreference, FlavorQuotas,
    QueueingStrategy, ReclaimWithinCohortPolicy, ResourceGroup, ResourceQuota, WithinClusterQueuePolicy,
};

use super::super::problem::{Family, SHARED};
use super::{Draw, SHARED_FLAVORS};

/// The resources and flavors of a problem.
pub struct Layout {
    groups: Vec<(Vec<&'static str>, Vec<String>)>,
    zoned: bool,
}

impl Layout {
    pub fn draw(draw: &mut Draw) -> Self {
        let zoned = draw.chance(50);
        let shared = !zoned && draw.chance(40);
        let mut flavors = |prefix: &str, most: usize| -> Vec<String> {
            let count = draw.rng.random_range(1..=most);
            let own = |index: usize| format!("{prefix}{index}");
            let common = |index: usize| format!("{SHARED}{index}");
            (0..count)
                .map(|index| if shared && index < SHARED_FLAVORS { common(index) } else { own(index) })
                .collect()
        };
        let (mut three, mut two, mut one) = (flavors("f", 3), flavors("f", 2), flavors("g", 2));
        one.retain(|name| !name.starts_with(SHARED));
        if one.is_empty() {
            one.push("g0".to_owned());
        }
        let groups = match draw.up_to(9) {
            0..=4 => vec![(vec!["cpu"], std::mem::take(&mut three))],
            5..=7 => vec![(vec!["cpu", "memory"], std::mem::take(&mut two))],
            _ => vec![(vec!["cpu"], std::mem::take(&mut two)), (vec!["nvidia.com/gpu"], one)],
        };
        Self { groups, zoned }
    }

    /// Every resource.
    pub fn resources(&self) -> impl Iterator<Item = &'static str> {
        self.groups.iter().flat_map(|(resources, _)| resources.iter().copied())
    }

    /// Every flavor, and whether it has a zone.
    pub fn flavors(&self) -> impl Iterator<Item = (&str, bool)> {
        let zoned = self.zoned;
        self.groups.iter().flat_map(|(_, flavors)| flavors).map(move |name| (name.as_str(), zoned))
    }

    /// Quota in everything, up to `most` units. Limits only for those who have somebody to borrow from.
    pub fn groups(&self, draw: &mut Draw, most: u32, limits: bool) -> Vec<ResourceGroup> {
        let group = |(resources, flavors): &(Vec<&'static str>, Vec<String>)| {
            let mut flavors = flavors.clone();
            if draw.chance(15) {
                flavors.shuffle(&mut draw.rng);
            }
            if flavors.len() > 1 && draw.chance(10) {
                flavors.pop();
            }
            let mut quotas = |name: String| FlavorQuotas {
                name,
                resources: resources.iter().map(|resource| draw.quota(resource, most, limits)).collect(),
            };
            ResourceGroup {
                covered_resources: resources.iter().map(|&resource| resource.to_owned()).collect(),
                flavors: flavors.into_iter().map(&mut quotas).collect(),
            }
        };
        self.groups.iter().map(group).collect()
    }
}

/// A number of units in the way people write this resource.
pub fn quantity(resource: &str, units: u32) -> Quantity {
    Quantity(if resource == "memory" { format!("{units}Gi") } else { units.to_string() })
}

impl Draw {
    pub fn quota(&mut self, resource: &str, most: u32, limits: bool) -> ResourceQuota {
        let nominal = self.up_to(most);
        let borrowing = (limits && self.chance(25)).then(|| self.up_to(6));
        let lending = (limits && self.chance(25)).then(|| self.up_to(nominal));
        ResourceQuota {
            name: resource.to_owned(),
            nominal_quota: quantity(resource, nominal),
            borrowing_limit: borrowing.map(|units| quantity(resource, units)),
            lending_limit: lending.map(|units| quantity(resource, units)),
        }
    }

    pub fn queue(
        &mut self,
        layout: &Layout,
        name: &str,
        cohort: Option<String>,
        strict: bool,
    ) -> ClusterQueue {
        let in_cohort = cohort.is_some();
        let spec = ClusterQueueSpec {
            resource_groups: layout.groups(self, 10, in_cohort),
            cohort_name: cohort,
            queueing_strategy: if strict {
                QueueingStrategy::StrictFifo
            } else {
                QueueingStrategy::BestEffortFifo
            },
            namespace_selector: Some(LabelSelector::default()),
            flavor_fungibility: self.fungibility(),
            preemption: if self.family == Family::Borrowing {
                ClusterQueuePreemption::default()
            } else {
                self.preemption()
            },
            fair_sharing: if in_cohort { self.weight() } else { None },
            ..ClusterQueueSpec::default()
        };
        ClusterQueue::new(name, spec)
    }

    fn fungibility(&mut self) -> FlavorFungibility {
        use FlavorFungibilityPolicy::{MayStopSearch, TryNextFlavor};
        use FlavorFungibilityPreference::{BorrowingOverPreemption, PreemptionOverBorrowing};
        if self.chance(40) {
            return FlavorFungibility::default();
        }
        let mut policy = || if self.chance(50) { MayStopSearch } else { TryNextFlavor };
        let (when_can_borrow, when_can_preempt) = (policy(), policy());
        let free = when_can_borrow == TryNextFlavor && when_can_preempt == TryNextFlavor;
        let preference = (free && self.chance(60))
            .then(|| if self.chance(50) { BorrowingOverPreemption } else { PreemptionOverBorrowing });
        FlavorFungibility { when_can_borrow, when_can_preempt, preference }
    }

    fn preemption(&mut self) -> ClusterQueuePreemption {
        use ReclaimWithinCohortPolicy as Reclaim;
        use WithinClusterQueuePolicy as Within;
        let reclaim_within_cohort =
            self.one_of(&[Reclaim::Never, Reclaim::LowerPriority, Reclaim::Any, Reclaim::Any]);
        let within_cluster_queue = self.one_of(&[
            Within::Never,
            Within::LowerPriority,
            Within::LowerPriority,
            Within::LowerOrNewerEqualPriority,
        ]);
        let may_borrow = self.family == Family::Preemption && reclaim_within_cohort != Reclaim::Never;
        let borrow_within_cohort = if may_borrow && self.chance(40) {
            BorrowWithinCohort {
                policy: BorrowWithinCohortPolicy::LowerPriority,
                max_priority_threshold: self.chance(60).then(|| self.up_to(100).cast_signed()),
            }
        } else {
            BorrowWithinCohort::default()
        };
        ClusterQueuePreemption { reclaim_within_cohort, borrow_within_cohort, within_cluster_queue }
    }

    /// A weight, where shares are looked at.
    pub fn weight(&mut self) -> Option<FairSharing> {
        let weighted = self.family == Family::Fairness && self.chance(60);
        weighted
            .then(|| FairSharing { weight: Quantity(self.one_of(&["0", "500m", "1", "2", "3"]).to_owned()) })
    }
}
