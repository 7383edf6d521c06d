//! Planned decisions held against those that another scheduler made with the same queues.
//!
//! A planned act is open until the other scheduler does something of the same kind to the same Workload, until the
//! Workload is none for it any more, or until [patience](Ledger::new) is at its end: the other one decides in its own
//! time. An act that is seen is judged at once: whoever tells the ledger has planned with all that was known before it.
//! One difference leads to others: a Workload that is admitted against the plan holds quota that the plan gave to
//! somebody else.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use whalezen_core::{
    name::{ClusterQueueName, WorkloadKey},
    preempt::Ground,
    workload::Timestamp,
};

use crate::line::Given;

/// How many differences are remembered.
const REMEMBERED: usize = 100;

/// Something that a scheduler does to a Workload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Act {
    /// It gives it quota.
    Admission {
        /// Whose.
        cluster_queue: ClusterQueueName,
        /// What each pod set gets.
        pod_sets: Vec<Given>,
    },
    /// It tells it to stop so that another fits.
    Preemption {
        /// On what ground, if that is known.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        ground: Option<Ground>,
        /// For whom, if that is known and may be shown.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        preemptor: Option<WorkloadKey>,
    },
}

/// The kind of an act.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// [`Act::Admission`].
    Admission,
    /// [`Act::Preemption`].
    Preemption,
}

/// How what was planned and what was seen compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// They are the same.
    Agreed,
    /// They are the same, but it was seen when it was not waited for any more.
    Late,
    /// It was done in another way: other flavors, another number of pods, another ground.
    Otherwise,
    /// It was planned and not done while it was waited for.
    NotFollowed,
    /// It was done and not planned.
    Unplanned,
    /// It was planned, and before it was done the Workload was none for it any more. Nobody is right or wrong.
    Overtaken,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Admission, Self::Preemption];

    /// The word for it in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Preemption => "preemption",
        }
    }
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 6] =
        [Self::Agreed, Self::Late, Self::Otherwise, Self::NotFollowed, Self::Unplanned, Self::Overtaken];

    /// The word for it in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agreed => "agreed",
            Self::Late => "late",
            Self::Otherwise => "otherwise",
            Self::NotFollowed => "notFollowed",
            Self::Unplanned => "unplanned",
            Self::Overtaken => "overtaken",
        }
    }

    /// Whether a person should look at it.
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Otherwise | Self::NotFollowed | Self::Unplanned)
    }
}

impl Act {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Admission { .. } => Kind::Admission,
            Self::Preemption { .. } => Kind::Preemption,
        }
    }

    /// Whether both come to the same: the same ClusterQueue, and for each pod set the same number of pods and the same
    /// flavors; the same ground. What is not known differs from nothing.
    fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Admission { cluster_queue, pod_sets },
                Self::Admission { cluster_queue: other_queue, pod_sets: others },
            ) => {
                let of = |pod_sets: &[Given]| -> BTreeMap<_, _> {
                    let each = pod_sets.iter().map(|of| (of.name.clone(), (of.count, of.flavors.clone())));
                    each.collect()
                };
                cluster_queue == other_queue && of(pod_sets) == of(others)
            }
            (Self::Preemption { ground, .. }, Self::Preemption { ground: other, .. }) => {
                ground.is_none() || other.is_none() || ground == other
            }
            _ => false,
        }
    }
}

/// What came of an act.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// When it was known.
    pub at: Timestamp,
    /// The Workload.
    pub workload: WorkloadKey,
    /// The kind of the act.
    pub kind: Kind,
    /// How they compare.
    pub outcome: Outcome,
    /// What was planned.
    pub planned: Option<Act>,
    /// What was seen.
    pub seen: Option<Act>,
}

/// How many comparisons came out how, and the last differences, the newest first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Planned, and waited for.
    pub open: usize,
    /// By kind and outcome.
    pub counts: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// The last differences.
    pub differences: Vec<Comparison>,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ledger {
    /// How long a planned act is waited for, in milliseconds.
    patience: i64,
    open: BTreeMap<(WorkloadKey, Kind), (Timestamp, Act)>,
    /// What was waited for long enough. It is not counted again if it is planned again.
    given_up: BTreeMap<(WorkloadKey, Kind), Act>,
    counts: BTreeMap<(Kind, Outcome), u64>,
    differences: VecDeque<Comparison>,
}

impl Ledger {
    /// A ledger that waits so many milliseconds for what was planned.
    pub fn new(patience: i64) -> Self {
        Self {
            patience,
            open: BTreeMap::new(),
            given_up: BTreeMap::new(),
            counts: BTreeMap::new(),
            differences: VecDeque::new(),
        }
    }

    /// Something was planned. What was planned before in its place is not any more.
    pub fn planned(&mut self, workload: &WorkloadKey, act: Act, now: Timestamp) {
        let at = (workload.clone(), act.kind());
        if self.given_up.get(&at).is_some_and(|known| known.agrees(&act)) {
            return;
        }
        let since = self.open.get(&at).filter(|(_, known)| known.agrees(&act)).map(|(since, _)| *since);
        self.open.insert(at, (since.unwrap_or(now), act));
    }

    /// The other scheduler did something.
    pub fn seen(&mut self, workload: &WorkloadKey, act: Act, now: Timestamp) -> Comparison {
        let at = (workload.clone(), act.kind());
        let given_up = self.given_up.remove(&at);
        let waited_for = self.open.remove(&at).map(|(_, planned)| planned);
        let agrees = |planned: &Option<Act>| planned.as_ref().is_some_and(|planned| planned.agrees(&act));
        let outcome = match (&waited_for, &given_up) {
            _ if agrees(&waited_for) => Outcome::Agreed,
            _ if agrees(&given_up) => Outcome::Late,
            (None, None) => Outcome::Unplanned,
            _ => Outcome::Otherwise,
        };
        self.note(now, at, outcome, waited_for.or(given_up), Some(act))
    }

    /// What was planned for those of whom this does not hold is not planned any more.
    pub fn keep(
        &mut self,
        now: Timestamp,
        mut is_planned: impl FnMut(&WorkloadKey, Kind) -> bool,
    ) -> Vec<Comparison> {
        let over: Vec<_> =
            self.open.keys().filter(|(workload, kind)| !is_planned(workload, *kind)).cloned().collect();
        let close = |at| {
            let planned = self.open.remove(&at).map(|(_, planned)| planned);
            self.note(now, at, Outcome::Overtaken, planned, None)
        };
        over.into_iter().map(close).collect()
    }

    /// What has been waited for long enough.
    pub fn due(&mut self, now: Timestamp) -> Vec<Comparison> {
        let late = |(since, _): &(Timestamp, Act)| now.0.saturating_sub(since.0) >= self.patience;
        let over: Vec<_> =
            self.open.iter().filter(|(_, open)| late(open)).map(|(at, _)| at.clone()).collect();
        let close = |at: (WorkloadKey, Kind)| {
            let planned = self.open.remove(&at).map(|(_, planned)| planned);
            self.given_up.extend(planned.clone().map(|planned| (at.clone(), planned)));
            self.note(now, at, Outcome::NotFollowed, planned, None)
        };
        over.into_iter().map(close).collect()
    }

    /// A Workload is gone: another of its name is another one.
    pub fn forget(&mut self, workload: &WorkloadKey) {
        for kind in Kind::ALL {
            self.given_up.remove(&(workload.clone(), kind));
        }
    }

    fn note(
        &mut self,
        at: Timestamp,
        (workload, kind): (WorkloadKey, Kind),
        outcome: Outcome,
        planned: Option<Act>,
        seen: Option<Act>,
    ) -> Comparison {
        *self.counts.entry((kind, outcome)).or_default() += 1;
        let comparison = Comparison { at, workload, kind, outcome, planned, seen };
        if outcome.is_difference() {
            self.differences.push_front(comparison.clone());
            self.differences.truncate(REMEMBERED);
        }
        comparison
    }

    /// How it stands.
    pub fn summary(&self) -> Summary {
        let count = |kind, outcome: Outcome| {
            (outcome.as_str(), self.counts.get(&(kind, outcome)).copied().unwrap_or_default())
        };
        let of_kind = |kind: Kind| {
            (kind.as_str(), Outcome::ALL.into_iter().map(|outcome| count(kind, outcome)).collect())
        };
        Summary {
            open: self.open.len(),
            counts: Kind::ALL.into_iter().map(of_kind).collect(),
            differences: self.differences.iter().cloned().collect(),
        }
    }
}
