//! A quota problem: one tree of queues, and what happens to it. Names in it are its own; [`Problem::placed`] makes
//! them unique in a cluster that holds many problems.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use whalezen_crds::kueue::v1beta2::{
    ClusterQueue, Cohort, ResourceFlavor, ResourceGroup, StopPolicy, Workload,
};

/// Flavors whose name begins so are the same for all problems.
pub const SHARED: &str = "shared-";

/// What a problem is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Order, borrowing and flavors; nobody is preempted.
    Borrowing,
    /// The same with every policy of preemption.
    Preemption,
    /// The same with fair sharing between queues and cohorts.
    Fairness,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 3] = [Self::Borrowing, Self::Preemption, Self::Fairness];

    fn as_str(self) -> &'static str {
        match self {
            Self::Borrowing => "borrowing",
            Self::Preemption => "preemption",
            Self::Fairness => "fairness",
        }
    }
}

/// A problem's name, such as `preemption-17`: it says how to make the problem again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seed {
    /// What it is about.
    pub family: Family,
    /// The number from which everything in it is drawn.
    pub number: u64,
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.family.as_str(), self.number)
    }
}

impl FromStr for Seed {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (word, number) = text.split_once('-').context("a problem is named as in preemption-17")?;
        let number = number.parse().with_context(|| format!("{number:?} is no number"))?;
        match Family::ALL.into_iter().find(|family| family.as_str() == word) {
            Some(family) => Ok(Self { family, number }),
            None => bail!("there are problems of borrowing, preemption and fairness, and none of {word}"),
        }
    }
}

/// A tree of queues and what happens to it, one thing after another.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Its name.
    pub seed: Seed,
    /// Its own flavors, and those that it shares.
    pub flavors: Vec<ResourceFlavor>,
    /// Its cohorts, as far as there is an object for them.
    pub cohorts: Vec<Cohort>,
    /// Its queues. Each has a LocalQueue of the same name in the problem's namespace.
    pub queues: Vec<ClusterQueue>,
    /// What happens.
    pub acts: Vec<Act>,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A workload arrives.
    Submit(Box<Workload>),
    /// One of those that hold quota ends: of n in the order of their names, the one at this number modulo n.
    Finish(usize),
    /// A queue gets another spec.
    Edit(Box<ClusterQueue>),
    /// A cohort gets another spec.
    EditCohort(Box<Cohort>),
    /// The LocalQueue of this name gets another stop policy.
    StopLocalQueue(String, StopPolicy),
}

impl Act {
    /// The act in a few words.
    pub fn words(&self) -> String {
        match self {
            Self::Submit(workload) => format!("submit {}", name(workload.metadata.name.as_ref())),
            Self::Finish(index) => format!("finish the holder at {index}"),
            Self::Edit(queue) => format!("edit queue {}", name(queue.metadata.name.as_ref())),
            Self::EditCohort(cohort) => format!("edit cohort {}", name(cohort.metadata.name.as_ref())),
            Self::StopLocalQueue(queue, policy) => format!("local queue {queue}: {policy:?}"),
        }
    }
}

/// A name that an object of a problem always has.
pub fn name(name: Option<&String>) -> &str {
    name.map_or("", String::as_str)
}

impl Problem {
    /// The same with `prefix` before every name that is not in a namespace.
    pub fn placed(&self, prefix: &str) -> Self {
        let mut placed = self.clone();
        for flavor in &mut placed.flavors {
            move_to(prefix, flavor.metadata.name.as_mut());
        }
        for cohort in &mut placed.cohorts {
            place_cohort(prefix, cohort);
        }
        for queue in &mut placed.queues {
            place_queue(prefix, queue);
        }
        for act in &mut placed.acts {
            match act {
                Act::Edit(queue) => place_queue(prefix, queue),
                Act::EditCohort(cohort) => place_cohort(prefix, cohort),
                Act::Submit(_) | Act::Finish(_) | Act::StopLocalQueue(..) => {}
            }
        }
        placed
    }

    /// All of it as YAML, for a person who wants to play it by hand.
    pub fn yaml(&self) -> Result<String> {
        let mut text = String::new();
        let mut add = |comment: &str, object: String| {
            text.push_str("---\n");
            if !comment.is_empty() {
                text.push_str("# ");
                text.push_str(comment);
                text.push('\n');
            }
            text.push_str(&object);
        };
        for flavor in &self.flavors {
            add("", yaml(flavor)?);
        }
        for cohort in &self.cohorts {
            add("", yaml(cohort)?);
        }
        for queue in &self.queues {
            add("", yaml(queue)?);
        }
        for act in &self.acts {
            let object = match act {
                Act::Submit(workload) => yaml(workload)?,
                Act::Edit(queue) => yaml(queue)?,
                Act::EditCohort(cohort) => yaml(cohort)?,
                Act::Finish(_) | Act::StopLocalQueue(..) => String::new(),
            };
            add(&act.words(), object);
        }
        Ok(text)
    }
}

fn yaml(object: &impl Serialize) -> Result<String> {
    Ok(serde_saphyr::to_string(object)?)
}

fn move_to(prefix: &str, name: Option<&mut String>) {
    if let Some(name) = name.filter(|name| !name.starts_with(SHARED)) {
        *name = format!("{prefix}-{name}");
    }
}

fn place_groups(prefix: &str, groups: &mut [ResourceGroup]) {
    for flavor in groups.iter_mut().flat_map(|group| &mut group.flavors) {
        move_to(prefix, Some(&mut flavor.name));
    }
}

fn place_cohort(prefix: &str, cohort: &mut Cohort) {
    move_to(prefix, cohort.metadata.name.as_mut());
    move_to(prefix, cohort.spec.parent_name.as_mut());
    place_groups(prefix, &mut cohort.spec.resource_groups);
}

fn place_queue(prefix: &str, queue: &mut ClusterQueue) {
    move_to(prefix, queue.metadata.name.as_mut());
    move_to(prefix, queue.spec.cohort_name.as_mut());
    place_groups(prefix, &mut queue.spec.resource_groups);
}
