//! The kinds of jobs, as data: what each calls itself, where in it things stand, and how it shows how it is.
//!
//! One file holds what one project's kinds are like, and nothing else knows them by name. Paths are JSON pointers. The
//! facts are those by which Kueue 0.19 reads these kinds.

mod apps;
mod appwrapper;
mod job;
mod jobset;
mod kubeflow;
mod lws;
mod mpi;
mod pod;
mod ray;
mod trainjob;

use std::cmp::Ordering;

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::OwnerReference};
use serde_json::Value;

pub use self::{job::JOB, pod::POD};
use crate::write::Target;

/// A kind of jobs.
#[derive(Debug)]
pub struct JobKind {
    /// Its name in Kueue's configuration.
    pub framework: &'static str,
    /// Its API group.
    pub group: &'static str,
    /// The version that is read and written.
    pub version: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// The plural, as it stands in URLs.
    pub plural: &'static str,
    /// Where it is said whether a job is suspended; empty for what waits behind a gate of its pods.
    pub suspend: &'static str,
    /// Where its pods are described, in the order of a Workload's pod sets.
    pub pods: &'static [Place],
    /// How each of the pods of a set says which of them it is.
    pub ranks: Ranks,
    /// What its controller does to the template of a pod set before it makes pods of it.
    pub completes: Option<fn(job: &Value, pod_set: &str, template: &mut Value)>,
    /// How an entry beside the templates is written, from the name of its pod set and what is added to its pods; plainly,
    /// where this is not given.
    pub wraps: Option<fn(pod_set: &str, added: &Value) -> Value>,
    /// Where the name of a `PriorityClass` may stand besides the pod templates.
    pub priority_class: Option<&'static str>,
    /// What a job shows that is not queued at all.
    pub unless: Shown,
    /// How its pods are queued, if it is there to serve: it is never over, and waits behind a gate of its pods.
    pub serves: Option<Serves>,
    /// How it shows how it is; that of a kind without this is read by code of its own.
    pub status: Option<Status>,
}

/// How each of the pods of a set says which of them it is: the labels that its controller gives to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ranks {
    /// The label that says which it is, of all or of its group.
    pub index: Option<&'static str>,
    /// The label that says in which group it is. There are as many as the first factor of the count says.
    pub group: Option<&'static str>,
}

impl Ranks {
    /// They do not say.
    pub const NONE: Self = Self { index: None, group: None };

    /// By this label.
    const fn by(index: &'static str) -> Self {
        Self { index: Some(index), group: None }
    }
}

/// How the pods of a kind are queued that serves.
#[derive(Clone, Copy, Debug)]
pub struct Serves {
    /// What of it is queued by itself.
    pub by: By,
    /// Whether its Workload has of a template the pods' spec alone.
    pub bare: bool,
}

/// What of an object that serves is queued by itself.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// Each pod.
    Pod,
    /// The whole.
    Object,
    /// Each of its groups of pods.
    Group(Groups),
}

/// Groups of pods of one object, by number.
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    /// How many there are to be.
    pub wanted: fn(object: &Value) -> u32,
    /// The name of its object, the number of its group, and whether it leads that, of a pod that says so.
    pub place: fn(pod: &Pod) -> Option<(&str, u32, bool)>,
}

/// The label by which the pods of a Job say which they are.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The same of Kubeflow's kinds.
const REPLICA_INDEX: &str = "training.kubeflow.org/replica-index";

/// How the jobs of a kind show how they are.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// How it shows that pods of it may be there.
    pub active: Active,
    /// How its controller shows that it has taken notice of the suspension.
    pub rests: Shown,
    /// How it shows that all pods are ready.
    pub ready: Ready,
    /// How it shows that it is over; the first that holds counts.
    pub endings: &'static [Ended],
    /// How it shows which of its pods have nothing to do any more.
    pub done: Option<List>,
}

/// Where pods of a job are described.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// One pod set of this name.
    One {
        /// Its name.
        name: &'static str,
        /// Where it is described; if nothing is there, there is no such pod set.
        at: &'static str,
        /// The pod template, from there.
        template: &'static str,
        /// How many pods, from there.
        count: Count,
    },
    /// One for each item of a list.
    Each {
        /// The list.
        list: &'static str,
        /// The name of the pod set, from an item.
        name: &'static str,
        /// The pod template, from an item.
        template: &'static str,
        /// How many pods, from an item.
        count: Count,
    },
    /// A leader, if it has a template of its own, and its workers; otherwise one pod set of all of them.
    Led {
        /// The leader's template.
        leader: &'static str,
        /// The workers'.
        workers: &'static str,
        /// How many pods they are, the leader among them.
        size: Count,
    },
    /// One pod that the kind's controller makes by this template, or by one of its own if there is none.
    Own {
        /// Its name.
        name: &'static str,
        /// The template.
        template: &'static str,
        /// When there is such a pod.
        when: Shown,
        /// The controller's own template.
        otherwise: fn(job: &Value) -> Value,
    },
    /// Those of the objects that are wrapped in the items of a list. What an admission adds is written beside them.
    Wrapped {
        /// The list.
        list: &'static str,
        /// The pod sets of an item.
        pods: fn(item: &Value) -> Vec<Wrapped>,
        /// Where it is written, from an item, what an admission adds: a list with an entry for each of them.
        beside: &'static str,
    },
    /// Those of the job of another kind that its controller makes of it, by the same name. What an admission adds is written
    /// here, and the controller merges it.
    Made {
        /// That kind.
        of: &'static str,
        /// Where it is written.
        beside: fn(job: &Value) -> Beside,
    },
}

/// What is written beside the templates at an admission.
#[derive(Clone, PartialEq, Debug)]
pub struct Beside {
    /// The list that has an entry for each pod set.
    pub list: String,
    /// Where there has to be something new, and what, so that the list is there and empty.
    pub anew: (String, Value),
    /// What was written there before: for each pod set its name and what was added, as a pod template.
    pub entries: Vec<(String, Value)>,
}

/// A pod set of an object that is wrapped in another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrapped {
    /// The pod template, from what wraps it.
    pub template: String,
    /// How many pods.
    pub count: i64,
    /// In how many groups they are, if they say in which.
    pub groups: i64,
    /// How each of them says which it is.
    pub ranks: Ranks,
}

/// How many pods: the product of these.
pub type Count = &'static [Factor];

/// A number that a job gives.
#[derive(Clone, Copy, Debug)]
pub enum Factor {
    /// The smallest of what stands at these paths. The first counts as one where it is not given.
    Smallest(&'static [&'static str]),
    /// What stands at a path, or one, between what stands at two others.
    Within {
        /// The number.
        of: &'static str,
        /// It is at least this, if that is given.
        least: &'static str,
        /// It is at most this, if that is given.
        most: &'static str,
    },
}

/// Something that a job shows.
#[derive(Clone, Copy, Debug)]
pub enum Shown {
    /// A condition of this type is `True`.
    Condition(&'static str),
    /// A field has one of these values. One that is absent is empty.
    Field(&'static str, &'static [&'static str]),
    /// An object or a list is there and is not empty.
    There(&'static str),
    /// All of these.
    All(&'static [Self]),
    /// Not this.
    Not(&'static Self),
    /// It is never shown.
    Never,
}

/// A list, or a map of which the values are meant, with what is said of each pod set.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// Where it is.
    pub at: &'static str,
    /// The fields of each item that are added up.
    pub fields: &'static [&'static str],
}

/// How a job shows that pods of it may be there.
#[derive(Clone, Copy, Debug)]
pub enum Active {
    /// As long as this sum is not zero.
    Sum(List),
    /// As long as this is shown.
    While(Shown),
}

/// How a job shows that all of its pods are ready.
#[derive(Clone, Copy, Debug)]
pub enum Ready {
    /// So many replicas of all pod sets are.
    Sum(List),
    /// This is shown.
    When(Shown),
}

/// How a job shows that it is over.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// By this.
    pub when: Shown,
    /// Whether it ended well then.
    pub succeeded: bool,
    /// What is said about it.
    pub message: Message,
}

/// Where the message about an ending is from.
#[derive(Clone, Copy, Debug)]
pub enum Message {
    /// The condition of this type.
    Condition(&'static str),
    /// A field.
    Field(&'static str),
    /// It is always this.
    Text(&'static str),
}

/// All kinds.
pub const ALL: [&JobKind; 16] = [
    &JOB,
    &POD,
    &jobset::JOB_SET,
    &kubeflow::PYTORCH_JOB,
    &kubeflow::TF_JOB,
    &kubeflow::XGBOOST_JOB,
    &kubeflow::PADDLE_JOB,
    &kubeflow::JAX_JOB,
    &mpi::MPI_JOB,
    &trainjob::TRAIN_JOB,
    &ray::RAY_JOB,
    &ray::RAY_CLUSTER,
    &appwrapper::APP_WRAPPER,
    &apps::DEPLOYMENT,
    &apps::STATEFUL_SET,
    &lws::LEADER_WORKER_SET,
];

/// The kind of this name.
pub fn find(kind: &str) -> Option<&'static JobKind> {
    ALL.into_iter().find(|known| known.kind == kind)
}

/// The kind that Kueue's configuration calls so.
pub fn of_framework(framework: &str) -> Option<&'static JobKind> {
    ALL.into_iter().find(|known| known.framework == framework)
}

/// The kind of these objects, of whatever version.
pub fn of_object(api_version: &str, kind: &str) -> Option<&'static JobKind> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    find(kind).filter(|known| known.group == group)
}

/// The kind of an owner.
pub fn of_owner(owner: &OwnerReference) -> Option<&'static JobKind> {
    of_object(&owner.api_version, &owner.kind)
}

impl Place {
    /// The pod sets of a job of which this describes some: where each template is, and how many pods are made of it that say so
    /// which they are.
    pub(super) fn found(&self, job: &Value, ranks: Ranks) -> Vec<Wrapped> {
        let found = |at: String, template: &str, factors: Count| {
            let there = job.pointer(&at)?;
            let groups = count(there, factors.get(..1).unwrap_or_default());
            Some(Wrapped { count: count(there, factors), template: at + template, groups, ranks })
        };
        match *self {
            Self::One { at, template, count, .. } => {
                found(at.to_owned(), template, count).into_iter().collect()
            }
            Self::Each { list, template, count, .. } => {
                let items = job.pointer(list).and_then(Value::as_array).map_or(0, Vec::len);
                (0..items).filter_map(|index| found(format!("{list}/{index}"), template, count)).collect()
            }
            Self::Led { .. } | Self::Own { .. } | Self::Wrapped { .. } | Self::Made { .. } => vec![],
        }
    }
}

/// How many pods an object asks for that is described there.
pub(super) fn count(at: &Value, count: Count) -> i64 {
    let number = |path: &str| at.pointer(path).and_then(Value::as_i64);
    let factor = |factor: &Factor| match *factor {
        Factor::Smallest(paths) => {
            let first = paths.first().and_then(|path| number(path)).unwrap_or(1);
            paths.iter().skip(1).filter_map(|path| number(path)).fold(first, i64::min)
        }
        Factor::Within { of, least, most } => {
            let number_or = |path, other| number(path).unwrap_or(other);
            number_or(of, 1).max(number_or(least, 0)).min(number_or(most, i64::MAX))
        }
    };
    let negative = count.iter().map(factor).find(|factor| *factor < 0);
    // Two of them would be a number of pods again.
    negative.unwrap_or_else(|| count.iter().map(factor).fold(1, i64::saturating_mul))
}

impl JobKind {
    /// The address of a job of this kind.
    pub fn target(&self, namespace: &str, name: &str) -> Target {
        Target {
            group: self.group,
            version: self.version,
            kind: self.kind,
            plural: self.plural,
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
        }
    }

    /// The kind of which its controller makes a job that describes the pods, if this one does not.
    pub fn makes(&self) -> Option<&'static Self> {
        let made = self.pods.iter().find_map(|place| match place {
            Place::Made { of, .. } => Some(*of),
            _ => None,
        });
        made.and_then(find)
    }

    /// Whether its objects have to be seen. Where each of their pods is queued by itself, these say all there is to know.
    pub fn is_seen(&self) -> bool {
        !self.serves.is_some_and(|serves| matches!(serves.by, By::Pod))
    }

    /// Whether its jobs wait behind a gate of their pods.
    pub fn is_gated(&self) -> bool {
        self.suspend.is_empty()
    }

    /// The `apiVersion` of its jobs.
    pub fn api_version(&self) -> String {
        self.target("", "").api_version()
    }
}

impl PartialEq for JobKind {
    fn eq(&self, other: &Self) -> bool {
        self.framework == other.framework
    }
}

impl Eq for JobKind {}

impl PartialOrd for JobKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for JobKind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.framework.cmp(other.framework)
    }
}
