//! What `LocalQueues` consumed lately, by which admission fair sharing orders their workloads (KEP-4136).
//!
//! What is remembered decays: of what was consumed half is left after a half-life, and what is used moves it towards
//! itself at the same rate. Who gets quota is charged an *entry penalty* at once, what it will have consumed after the
//! first sampling interval, so that one LocalQueue cannot take everything between two samples. Amounts are exact, in
//! billionths of a unit, and rounded down as Kueue rounds them.

use std::{
    collections::{BTreeMap, btree_map},
    fmt,
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use crate::{
    name::{ResourceName, WorkloadKey},
    quantity::{Amount, QuantityError, parse_fine},
    queue::Weight,
    workload::Timestamp,
};

/// Billionths of a unit of a resource: of a core, a byte, a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Fine(i128);

impl Fine {
    /// An amount of a resource.
    pub fn of(resource: &ResourceName, amount: Amount) -> Self {
        let billionths = if resource.as_str() == ResourceName::CPU { 1_000_000 } else { 1_000_000_000 };
        Self(i128::from(amount.0).max(0) * billionths)
    }

    /// As many times as `factor` says, which is from 0 to 1; rounded down.
    fn scaled(self, factor: f64) -> Self {
        const CUT: u128 = 10_u128.pow(19);
        // The shortest decimal number that stands for the factor, as Kueue multiplies by it.
        let text = factor.clamp(0.0, 1.0).to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let digits: u128 = format!("{whole}{fraction}").parse().unwrap_or_default();
        let decimals = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
        let value = self.0.unsigned_abs();
        // The product in two parts: it may be past the range of 128 bits.
        let low = value % CUT * digits;
        let (high, low) = (value / CUT * digits + low / CUT, low % CUT);
        let scaled = match decimals.checked_sub(19) {
            Some(more) => 10_u128.checked_pow(more).map_or(0, |power| high / power),
            None => {
                high.saturating_mul(10_u128.pow(19 - decimals)).saturating_add(low / 10_u128.pow(decimals))
            }
        };
        Self(i128::try_from(scaled).unwrap_or(i128::MAX))
    }

    /// In whole units.
    #[allow(clippy::cast_precision_loss, reason = "it is compared as a float, as in Kueue")]
    fn units(self) -> f64 {
        self.0 as f64 * 1e-9
    }
}

/// As Kubernetes writes a quantity: `2`, `1500m`, `687527n`.
impl fmt::Display for Fine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        let (mut value, mut index) = (self.0, 0);
        if value == 0 {
            return f.write_str("0");
        }
        while value % 1000 == 0 && index + 1 < SUFFIXES.len() {
            value /= 1000;
            index += 1;
        }
        write!(f, "{value}{}", SUFFIXES.get(index).copied().unwrap_or_default())
    }
}

impl FromStr for Fine {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse_fine(text).map(Self)
    }
}

impl From<Fine> for String {
    fn from(fine: Fine) -> Self {
        fine.to_string()
    }
}

impl TryFrom<String> for Fine {
    type Error = QuantityError;

    fn try_from(text: String) -> Result<Self, QuantityError> {
        text.parse()
    }
}

/// What was consumed of each resource.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Consumed(BTreeMap<ResourceName, Fine>);

impl Consumed {
    /// Adds what somebody else consumed.
    pub fn add(&mut self, other: &Self) {
        for (resource, amount) in &other.0 {
            let sum = self.0.entry(resource.clone()).or_default();
            sum.0 = sum.0.saturating_add(amount.0);
        }
    }

    /// Takes away what was added before.
    fn subtract(&mut self, other: &Self) {
        for (resource, amount) in &other.0 {
            if let btree_map::Entry::Occupied(mut sum) = self.0.entry(resource.clone()) {
                sum.get_mut().0 = sum.get().0.saturating_sub(amount.0);
                if sum.get().0 == 0 {
                    sum.remove();
                }
            }
        }
    }

    /// Each resource with its amount.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, Fine)> {
        self.0.iter().map(|(resource, amount)| (resource, *amount))
    }

    fn scaled(&self, factor: f64) -> Self {
        self.iter().map(|(resource, amount)| (resource.clone(), amount.scaled(factor))).collect()
    }
}

/// Amounts of the same resource are added up.
impl FromIterator<(ResourceName, Fine)> for Consumed {
    fn from_iter<I: IntoIterator<Item = (ResourceName, Fine)>>(amounts: I) -> Self {
        let mut consumed = Self::default();
        for (resource, amount) in amounts {
            let sum = consumed.0.entry(resource).or_default();
            sum.0 = sum.0.saturating_add(amount.0);
        }
        consumed
    }
}

/// How much a unit of a resource counts; finite and not negative.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Factor(f64);

/// It is never no number.
impl Eq for Factor {}

impl Factor {
    /// The factor of this value, if it is finite and not negative.
    pub fn new(value: f64) -> Option<Self> {
        (value.is_finite() && value >= 0.0).then_some(Self(value))
    }
}

/// As text, because not every reader of JSON reads the same float as was written.
impl From<Factor> for String {
    fn from(factor: Factor) -> Self {
        factor.0.to_string()
    }
}

impl TryFrom<String> for Factor {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let value = text.parse().ok().and_then(Self::new);
        value.ok_or_else(|| format!("{text:?} is no weight"))
    }
}

/// The rules of admission fair sharing; Kueue's `admissionFairSharing`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rules {
    /// After how many milliseconds half of what was consumed is forgotten. 0: all of it is, at once.
    pub half_life: i64,
    /// Every how many milliseconds what is used is looked at; more than 0.
    pub sampling: i64,
    /// How much a unit of each resource counts; of one that is not here 1.
    pub weights: BTreeMap<ResourceName, Factor>,
}

impl Rules {
    /// What part is forgotten in so many milliseconds.
    fn rate(&self, elapsed: i64) -> f64 {
        if self.half_life == 0 {
            return 0.0;
        }
        1.0 - libm::exp2(-(seconds(elapsed) / seconds(self.half_life)))
    }

    /// What somebody who asks for this much is charged when it gets it.
    pub fn penalty(&self, requests: &Consumed) -> Consumed {
        requests.scaled(self.rate(self.sampling))
    }

    /// What is remembered of `before` after so many milliseconds in which `used` was used.
    pub fn decayed(&self, before: &Consumed, used: &Consumed, elapsed: i64) -> Consumed {
        let rate = self.rate(elapsed);
        let mut consumed = before.scaled(1.0 - rate);
        consumed.add(&used.scaled(rate));
        consumed
    }

    /// Where a LocalQueue stands that consumed this much.
    pub fn rank(&self, consumed: &Consumed, weight: Weight) -> Rank {
        if weight.0 == 0 {
            return Rank(f64::INFINITY);
        }
        let mut sum = 0.0;
        for (resource, amount) in consumed.iter() {
            sum += self.weights.get(resource).map_or(1.0, |weight| weight.0) * amount.units();
        }
        Rank(sum / weight.as_f64())
    }
}

#[allow(clippy::cast_precision_loss, reason = "a time in milliseconds is a float without loss for ages")]
fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1000.0
}

/// What a LocalQueue consumed, weighted: the one with the lowest goes first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rank(f64);

impl Rank {
    /// As a number; infinite where the LocalQueue goes last whatever it consumes.
    pub fn as_f64(self) -> f64 {
        self.0
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rank {}

/// What is remembered of a LocalQueue.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Memory {
    /// What it consumed, as of `at`.
    consumed: Consumed,
    /// When that was worked out; none if it was only read from the LocalQueue's status.
    at: Option<Timestamp>,
    /// The penalties of those who were admitted since. They are folded in when it is worked out again.
    settled: Consumed,
    /// The penalties of those who have quota, or are about to, and are not admitted.
    penalties: BTreeMap<WorkloadKey, Consumed>,
    /// The sum of those.
    pending: Consumed,
}

impl Memory {
    /// What it consumed, and as of when, if that was worked out since the start.
    pub fn consumed(&self) -> Option<(&Consumed, Timestamp)> {
        Some((&self.consumed, self.at?))
    }

    /// What counts: what it consumed, and the penalties.
    pub fn total(&self) -> Consumed {
        let mut total = self.consumed.clone();
        total.add(&self.settled);
        total.add(&self.pending);
        total
    }

    /// What its status says, unless more is known.
    pub(crate) fn recall(&mut self, consumed: Consumed) {
        if self.at.is_none() {
            self.consumed = consumed;
        }
    }

    /// Forgets what only the one who admits can know, and takes the status for what it says.
    pub(crate) fn start_over(&mut self) {
        *self = Self { consumed: std::mem::take(&mut self.consumed), ..Self::default() };
    }

    /// A workload gets quota. What it was charged before it is charged no more.
    pub(crate) fn charge(&mut self, workload: &WorkloadKey, penalty: Consumed) {
        self.discharge(workload);
        self.pending.add(&penalty);
        self.penalties.insert(workload.clone(), penalty);
    }

    /// A workload is charged nothing any more. Gives what it was charged, if it was.
    pub(crate) fn discharge(&mut self, workload: &WorkloadKey) -> Option<Consumed> {
        let penalty = self.penalties.remove(workload)?;
        self.pending.subtract(&penalty);
        Some(penalty)
    }

    /// A workload is admitted: its penalty becomes part of what was consumed.
    pub(crate) fn settle(&mut self, workload: &WorkloadKey) {
        if let Some(penalty) = self.discharge(workload) {
            self.settled.add(&penalty);
        }
    }

    /// Whether it is to be worked out again.
    pub(crate) fn is_due(&self, rules: &Rules, now: Timestamp) -> bool {
        self.at.is_none_or(|at| now.0.saturating_sub(at.0) >= rules.sampling) || self.has_settled()
    }

    /// Whether somebody was admitted since it was worked out.
    pub(crate) fn has_settled(&self) -> bool {
        !self.settled.0.is_empty()
    }

    /// Works it out, where this much is used.
    pub(crate) fn work_out(&mut self, rules: &Rules, used: &Consumed, now: Timestamp) {
        let at = self.at.unwrap_or(now);
        let settled = std::mem::take(&mut self.settled);
        self.at = Some(now.max(at));
        if rules.half_life == 0 {
            self.consumed = Consumed::default();
            return;
        }
        self.consumed = rules.decayed(&self.consumed, used, now.0.saturating_sub(at.0).max(0));
        self.consumed.add(&settled);
    }
}
