//! Why something waits: as data for programs, in words for people.
//!
//! Reasons are Kueue's (`QuotaReserved=False` of a Workload, since 0.19), and so are the words of the quota
//! messages: users have alerts and scripts on both.

use std::{
    collections::BTreeSet,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde::{Deserialize, Serialize};

use crate::{
    assign::Progress,
    name::{FlavorName, FlavorResource},
    quantity::{Amount, Usage},
};

/// The kind of obstacle. A condition is rewritten when this changes, not when the numbers do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Reason {
    /// Nobody has looked at it yet.
    PendingEvaluation,
    /// It fits, but not now.
    WaitingForQuota,
    /// It fits as soon as those have stopped who were told to on its account.
    WaitingForPreemptedWorkloads,
    /// It asks for more than its ClusterQueue could ever have.
    ExceedsMaxQuota,
    /// No flavor will take its pods.
    NoMatchingFlavor,
    /// Its pods would find no place on the nodes, whoever stopped.
    TopologyPlacementFailed,
    /// Something that it refers to is missing or wrong.
    Misconfigured,
    /// Something on its way was stopped by a person, or is not ready.
    Suspended,
    /// It was deactivated.
    Deactivated,
    /// Another controller has not let it queue yet.
    AdmissionGated,
    /// It gave its quota up on purpose, and is not to be tried again.
    OnHold,
    /// The pods of those that were admitted before it are not ready yet.
    WaitingForPodsReady,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::PendingEvaluation,
        Self::WaitingForQuota,
        Self::WaitingForPreemptedWorkloads,
        Self::ExceedsMaxQuota,
        Self::NoMatchingFlavor,
        Self::TopologyPlacementFailed,
        Self::Misconfigured,
        Self::Suspended,
        Self::Deactivated,
        Self::AdmissionGated,
        Self::OnHold,
        Self::WaitingForPodsReady,
    ];

    /// The word used in conditions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PendingEvaluation => "PendingEvaluation",
            Self::WaitingForQuota => "WaitingForQuota",
            Self::WaitingForPreemptedWorkloads => "WaitingForPreemptedWorkloads",
            Self::ExceedsMaxQuota => "ExceedsMaxQuota",
            Self::NoMatchingFlavor => "NoMatchingFlavor",
            Self::TopologyPlacementFailed => "TopologyPlacementFailed",
            Self::Misconfigured => "Misconfigured",
            Self::Suspended => "Suspended",
            Self::Deactivated => "Deactivated",
            Self::AdmissionGated => "AdmissionGated",
            Self::OnHold => "OnHold",
            Self::WaitingForPodsReady => "WaitingForPodsReady",
        }
    }

    /// Whether quota is what is missing, or may be.
    pub fn is_of_quota(self) -> bool {
        matches!(self, Self::PendingEvaluation | Self::WaitingForQuota | Self::ExceedsMaxQuota)
    }

    /// The reason of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a workload waits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The kind of obstacle.
    pub reason: Reason,
    /// What a person can act on.
    pub message: String,
}

/// What a waiting workload was told, as far as it decides whether it has to be told anew: the reason and its words.
/// They name what is missing or wrong, and must not outlive it. Where a person has to act, each of them counts; in the
/// others the numbers do not, which change all the time; nor does it count behind whom it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Told {
    reason: Reason,
    words: u64,
}

/// Why a workload does not get its quota now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// In words.
    pub verdict: Verdict,
    /// What it takes to change it.
    pub until: Until,
    /// What the search for flavors that came to it went on behind.
    pub behind: Progress,
}

/// When a workload may preempt in other `ClusterQueues`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reclaims {
    /// Never.
    Never,
    /// While its own ClusterQueue uses less than its nominal quota.
    BelowNominal,
    /// It depends on the others.
    Always,
}

/// What has to happen before a verdict can be another one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Until {
    /// A declaration changes.
    Redeclared,
    /// One of these amounts becomes available to the ClusterQueue.
    Available(Vec<(FlavorResource, Amount)>),
    /// All of this is available to the ClusterQueue.
    Fits(Usage),
    /// One of these amounts becomes available, or something is given back while there may be somebody to preempt.
    Chance {
        /// The amounts.
        missing: Vec<(FlavorResource, Amount)>,
        /// Who has a lower priority than this may be preempted in the ClusterQueue; nobody, if there is none.
        below: Option<i64>,
        /// When somebody may be preempted in another.
        reclaims: Reclaims,
    },
    /// Anything at all is given back in the tree.
    Freed,
    /// There is more room on the nodes of one of these flavors: they changed, or pods that no placement accounts for.
    Nodes(BTreeSet<FlavorName>),
    /// The same, or workloads gave back room there.
    Room(BTreeSet<FlavorName>),
    /// The brakes are looked at again.
    Released,
    /// The pods of everybody who holds quota are ready.
    AllReady,
    /// One of these.
    Any(Vec<Self>),
}

impl Until {
    /// This or that. A change of a declaration counts always, and is no alternative.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let mut any = Vec::new();
        for one in self.alternatives().iter().chain(other.alternatives()) {
            if *one != Self::Redeclared && !any.contains(one) {
                any.push(one.clone());
            }
        }
        match any.len() {
            0 => Self::Redeclared,
            1 => any.remove(0),
            _ => Self::Any(any),
        }
    }

    /// Whether this is enough.
    pub fn includes(&self, one: &Self) -> bool {
        self.alternatives().contains(one)
    }

    /// What it may be.
    pub fn alternatives(&self) -> &[Self] {
        match self {
            Self::Any(any) => any,
            one => std::slice::from_ref(one),
        }
    }
}

/// The words that do not begin with a digit, whatever stands before it.
fn without_numbers(message: &str) -> impl Iterator<Item = &str> {
    let is_number = |word: &str| {
        let first = word.chars().find(|letter| letter.is_alphanumeric());
        first.is_some_and(|first| first.is_ascii_digit())
    };
    message.split_whitespace().filter(move |word| !is_number(word))
}

impl Verdict {
    /// A verdict.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// This, once it was told.
    pub fn told(&self) -> Told {
        let mut words = DefaultHasher::new();
        match self.reason {
            // Whoever it is that stands before.
            Reason::PendingEvaluation => {}
            Reason::Misconfigured | Reason::Suspended | Reason::AdmissionGated => {
                self.message.hash(&mut words);
            }
            _ => without_numbers(&self.message).for_each(|word| word.hash(&mut words)),
        }
        Told { reason: self.reason, words: words.finish() }
    }
}
