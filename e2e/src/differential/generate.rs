//! Random problems. The same seed gives the same problem.

mod quota;
mod script;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use whalezen_crds::kueue::v1beta2::{ClusterQueue, Cohort, CohortSpec, ResourceFlavor, ResourceFlavorSpec};

use self::quota::Layout;
use super::problem::{Family, Problem, SHARED, Seed};

/// The label by which flavors and workloads choose each other.
const ZONE: &str = "zone";
/// The taint that some flavors have.
const TAINT: &str = "spot";
/// How many flavors all problems share.
const SHARED_FLAVORS: usize = 2;

/// The problem of this seed.
pub fn generate(seed: Seed) -> Problem {
    let family = seed.family as u64;
    let mut draw = Draw {
        rng: StdRng::seed_from_u64(seed.number.wrapping_mul(8).wrapping_add(family)),
        family: seed.family,
    };
    draw.problem(seed)
}

/// The flavors that all problems share.
pub fn shared_flavors() -> Vec<ResourceFlavor> {
    (0..SHARED_FLAVORS)
        .map(|index| ResourceFlavor::new(&format!("{SHARED}{index}"), ResourceFlavorSpec::default()))
        .collect()
}

/// Where everything random comes from.
struct Draw {
    rng: StdRng,
    family: Family,
}

impl Draw {
    /// Whether something of this chance in percent happens.
    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    /// A number up to and with `most`.
    fn up_to(&mut self, most: u32) -> u32 {
        self.rng.random_range(0..=most)
    }

    /// One of these; there is always one.
    fn one_of<T: Copy + Default>(&mut self, choices: &[T]) -> T {
        choices.choose(&mut self.rng).copied().unwrap_or_default()
    }

    fn problem(&mut self, seed: Seed) -> Problem {
        let layout = Layout::draw(self);
        let cohorts = self.cohorts(&layout);
        let queues = self.queues(&layout, &cohorts);
        let flavors = self.flavors(&layout);
        let acts = self.script(&layout, &cohorts, &queues);
        let declared = cohorts.into_iter().filter(|cohort| !is_implicit(cohort)).collect();
        Problem { seed, flavors, cohorts: declared, queues, acts }
    }

    /// None; one that exists only in the queues' words; or a tree of objects.
    fn cohorts(&mut self, layout: &Layout) -> Vec<Cohort> {
        match self.up_to(9) {
            0 => Vec::new(),
            1..=4 => vec![Cohort::new("all", CohortSpec::default())],
            _ => {
                let mut cohorts = vec![self.cohort(layout, "root", None)];
                for child in ["left", "right"].into_iter().take(self.rng.random_range(1..=2)) {
                    let parent = if cohorts.len() == 2 && self.chance(25) { "left" } else { "root" };
                    cohorts.push(self.cohort(layout, child, Some(parent)));
                }
                cohorts
            }
        }
    }

    fn cohort(&mut self, layout: &Layout, name: &str, parent: Option<&str>) -> Cohort {
        let mut spec = CohortSpec { parent_name: parent.map(str::to_owned), ..CohortSpec::default() };
        if self.chance(40) {
            spec.resource_groups = layout.groups(self, 6, parent.is_some());
        }
        spec.fair_sharing = parent.and_then(|_| self.weight());
        Cohort::new(name, spec)
    }

    fn queues(&mut self, layout: &Layout, cohorts: &[Cohort]) -> Vec<ClusterQueue> {
        let count = if cohorts.is_empty() { 1 } else { self.rng.random_range(2..=4) };
        // One strategy in a tree: see the report's remark on Kueue's batches.
        let strict = self.chance(30);
        ["a", "b", "c", "d"]
            .into_iter()
            .take(count)
            .map(|name| {
                let cohort = cohorts.choose(&mut self.rng).and_then(|cohort| cohort.metadata.name.clone());
                self.queue(layout, name, cohort, strict)
            })
            .collect()
    }

    fn flavors(&mut self, layout: &Layout) -> Vec<ResourceFlavor> {
        layout
            .flavors()
            .enumerate()
            .map(|(index, (name, zoned))| {
                let mut spec = ResourceFlavorSpec::default();
                if zoned {
                    spec.node_labels.insert(ZONE.to_owned(), format!("z{index}"));
                    if self.chance(20) {
                        spec.node_taints.push(script::taint());
                    }
                }
                ResourceFlavor::new(name, spec)
            })
            .filter(|flavor| !flavor.metadata.name.as_deref().unwrap_or_default().starts_with(SHARED))
            .collect()
    }
}

/// A cohort without an object: it says nothing.
fn is_implicit(cohort: &Cohort) -> bool {
    cohort.metadata.name.as_deref() == Some("all")
}
