//! Random scripts: who arrives, who ends, what administrators change.

use k8s_openapi::api::core::v1::{
    Container, PodSpec, PodTemplateSpec, ResourceRequirements, Taint, Toleration,
};
use rand::Rng as _;
use rand::seq::{IndexedMutRandom as _, IndexedRandom as _};
use whalezen_crds::kueue::v1beta2::{
    ClusterQueue, Cohort, PodSet, ResourceGroup, StopPolicy, Workload, WorkloadSpec,
};

use super::super::problem::{Act, name};
use super::quota::{Layout, quantity};
use super::{Draw, TAINT, ZONE, is_implicit};

/// The taint of flavors that have one.
pub fn taint() -> Taint {
    Taint {
        key: TAINT.to_owned(),
        value: Some("true".to_owned()),
        effect: "NoSchedule".to_owned(),
        time_added: None,
    }
}

/// How workloads get their priorities.
#[derive(Clone, Copy)]
enum Priorities {
    /// All the same.
    None,
    /// Two levels.
    Levels,
    /// Hardly ever twice the same.
    Many,
}

impl Draw {
    /// What happens, given how things are in the beginning.
    pub fn script(&mut self, layout: &Layout, cohorts: &[Cohort], queues: &[ClusterQueue]) -> Vec<Act> {
        let priorities = match self.up_to(9) {
            0 => Priorities::None,
            1..=3 => Priorities::Levels,
            _ => Priorities::Many,
        };
        let mut cohorts: Vec<Cohort> = cohorts
            .iter()
            .filter(|cohort| !is_implicit(cohort) && !cohort.spec.resource_groups.is_empty())
            .cloned()
            .collect();
        let mut queues = queues.to_vec();
        let mut submitted = 0;
        let mut acts = Vec::new();
        let length = self.rng.random_range(10..=18);
        while acts.len() < length {
            let act = match self.up_to(99) {
                _ if submitted < 3 => None,
                0..=24 => Some(Act::Finish(self.rng.random_range(0..8))),
                25..=31 => {
                    self.other_quota(&mut queues, |queue| &mut queue.spec.resource_groups).map(Act::Edit)
                }
                32..=34 => self
                    .other_quota(&mut cohorts, |cohort| &mut cohort.spec.resource_groups)
                    .map(Act::EditCohort),
                35..=39 => self.stopped(&mut queues).map(Act::Edit),
                40..=42 => queues.choose(&mut self.rng).map(|queue| {
                    let policy = if self.chance(60) { StopPolicy::Hold } else { StopPolicy::None };
                    Act::StopLocalQueue(name(queue.metadata.name.as_ref()).to_owned(), policy)
                }),
                _ => None,
            };
            acts.push(act.unwrap_or_else(|| {
                submitted += 1;
                Act::Submit(Box::new(self.workload(layout, &queues, submitted, priorities)))
            }));
        }
        acts
    }

    /// One of these objects with another nominal quota.
    fn other_quota<T: Clone>(
        &mut self,
        objects: &mut [T],
        groups: impl Fn(&mut T) -> &mut Vec<ResourceGroup>,
    ) -> Option<Box<T>> {
        let object = objects.choose_mut(&mut self.rng)?;
        let flavor = groups(object).choose_mut(&mut self.rng)?.flavors.choose_mut(&mut self.rng)?;
        let quota = flavor.resources.choose_mut(&mut self.rng)?;
        quota.nominal_quota = quantity(&quota.name, self.up_to(12));
        // What may be lent is part of what there is.
        quota.lending_limit = None;
        Some(Box::new(object.clone()))
    }

    /// One of the queues stopped, or let go again.
    fn stopped(&mut self, queues: &mut [ClusterQueue]) -> Option<Box<ClusterQueue>> {
        let queue = queues.choose_mut(&mut self.rng)?;
        let stopped = queue.spec.stop_policy != StopPolicy::None;
        queue.spec.stop_policy = if stopped { StopPolicy::None } else { StopPolicy::Hold };
        Some(Box::new(queue.clone()))
    }

    fn workload(
        &mut self,
        layout: &Layout,
        queues: &[ClusterQueue],
        number: u32,
        priorities: Priorities,
    ) -> Workload {
        let queue = queues.choose(&mut self.rng).and_then(|queue| queue.metadata.name.clone());
        let names: &[&str] = if self.chance(25) { &["driver", "worker"] } else { &["main"] };
        let priority = match priorities {
            Priorities::None => 0,
            Priorities::Levels => self.one_of(&[0, 100]),
            Priorities::Many => self.up_to(100).cast_signed(),
        };
        let spec = WorkloadSpec {
            queue_name: queue,
            priority: Some(priority),
            pod_sets: names.iter().map(|name| self.pod_set(layout, name)).collect(),
            ..WorkloadSpec::default()
        };
        Workload::new(&format!("w{number:02}"), spec)
    }

    fn pod_set(&mut self, layout: &Layout, name: &str) -> PodSet {
        let resources: Vec<_> = layout.resources().collect();
        let first = resources.first().copied();
        // Everybody asks for the first of the resources, most for the others too.
        let requests = resources
            .into_iter()
            .filter(|resource| Some(*resource) == first || self.chance(80))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|resource| (resource.to_owned(), quantity(resource, self.rng.random_range(1..=4))))
            .collect();
        let zone = self.chance(15).then(|| format!("z{}", self.up_to(1)));
        let selects = layout.flavors().any(|(_, zoned)| zoned);
        let tolerations = self.chance(50).then(|| {
            vec![Toleration {
                key: Some(TAINT.to_owned()),
                operator: Some("Exists".to_owned()),
                ..Toleration::default()
            }]
        });
        let container = Container {
            name: "main".to_owned(),
            image: Some("main".to_owned()),
            resources: Some(ResourceRequirements {
                requests: Some(requests),
                ..ResourceRequirements::default()
            }),
            ..Container::default()
        };
        PodSet {
            name: name.to_owned(),
            count: self.rng.random_range(1..=3),
            template: PodTemplateSpec {
                spec: Some(PodSpec {
                    containers: vec![container],
                    node_selector: zone.filter(|_| selects).map(|zone| [(ZONE.to_owned(), zone)].into()),
                    tolerations: tolerations.filter(|_| selects),
                    restart_policy: Some("Never".to_owned()),
                    ..PodSpec::default()
                }),
                ..PodTemplateSpec::default()
            },
            ..PodSet::default()
        }
    }
}
