//! Amounts of resources: how they are counted, read and written.
//!
//! An [`Amount`] is an `i64` in the resource's own unit: thousandths of a core for `cpu`, whole units (bytes,
//! devices) for everything else, rounded up. Those are the units that Kueue counts in, so both round alike; a
//! quota of more than 9.2e15 cores or 9.2e18 bytes is refused when it is read.
//!
//! The grammar is Kubernetes' `resource.Quantity`: a decimal number with a decimal (`m`, `k`, `M`, …), binary
//! (`Ki`, `Mi`, …) or exponent (`e3`) suffix.

use std::{
    collections::BTreeMap,
    ops::{Add, AddAssign, Sub, SubAssign},
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::name::{FlavorResource, ResourceName};

/// An amount of one resource, in the resource's unit (see the module). Sums and differences saturate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Amount(pub i64);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// This amount `count` times; `None` past the range of `i64`.
    pub fn times(self, count: u32) -> Option<Self> {
        self.0.checked_mul(i64::from(count)).map(Self)
    }

    /// The sum; `None` past the range of `i64`.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
}

impl Add for Amount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Amount {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Amount {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// Amounts by resource.
pub type Amounts = BTreeMap<ResourceName, Amount>;

/// Amounts by flavor and resource: what a workload uses of a ClusterQueue.
pub type Usage = BTreeMap<FlavorResource, Amount>;

/// A running sum by flavor and resource. It is kept in 128 bits, so that what was added can be taken away again
/// exactly, whatever was added in between: a sum that saturates would turn into a credit when it shrinks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sums(BTreeMap<FlavorResource, i128>);

impl Sums {
    /// The sum for `key`; the nearest amount that can be written if it is past the range of `i64`.
    pub fn get(&self, key: &FlavorResource) -> Amount {
        saturated(self.exact(key))
    }

    /// The sum for `key`.
    pub(crate) fn exact(&self, key: &FlavorResource) -> i128 {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// Adds `amount`, which may be negative. What comes to nothing is forgotten.
    pub(crate) fn add(&mut self, key: &FlavorResource, amount: i128) {
        if let Some(sum) = self.0.get_mut(key) {
            *sum += amount;
            if *sum == 0 {
                self.0.remove(key);
            }
        } else if amount != 0 {
            self.0.insert(key.clone(), amount);
        }
    }

    /// All sums that are not zero.
    pub fn usage(&self) -> Usage {
        self.0.iter().map(|(key, sum)| (key.clone(), saturated(*sum))).collect()
    }
}

fn saturated(sum: i128) -> Amount {
    Amount(i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX }))
}

/// Why a text is not an amount.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum QuantityError {
    /// The text does not follow the grammar.
    #[error("{0:?} is not a quantity")]
    Malformed(String),
    /// The value does not fit in 64 bits in the resource's unit.
    #[error("{0:?} is too large")]
    TooLarge(String),
    /// A request or a quota below zero.
    #[error("{0:?} is negative")]
    Negative(String),
}

/// Reads `text` as an amount of `resource`; negative values are refused.
pub fn parse(resource: &str, text: &str) -> Result<Amount, QuantityError> {
    scaled(text, if resource == ResourceName::CPU { 1000 } else { 1 }).map(Amount)
}

/// Reads `text` as a plain number, in billionths; negative values are refused.
pub fn parse_billionths(text: &str) -> Result<u64, QuantityError> {
    scaled(text, 1_000_000_000).map(i64::unsigned_abs)
}

/// Reads `text` as a factor, in billionths; it may be negative.
pub fn parse_factor(text: &str) -> Result<i128, QuantityError> {
    match text.strip_prefix('-') {
        Some(rest) if !rest.starts_with('+') => exact(rest, 1_000_000_000).map(|factor| -factor),
        _ => exact(text, 1_000_000_000),
    }
}

/// Reads `text` in billionths, whatever its size; negative values are refused.
pub fn parse_fine(text: &str) -> Result<i128, QuantityError> {
    exact(text, 1_000_000_000)
}

/// `text` times `scale`, rounded up.
fn scaled(text: &str, scale: i128) -> Result<i64, QuantityError> {
    i64::try_from(exact(text, scale)?).map_err(|_| QuantityError::TooLarge(text.to_owned()))
}

/// The same, whatever its size.
fn exact(text: &str, scale: i128) -> Result<i128, QuantityError> {
    let malformed = || QuantityError::Malformed(text.to_owned());
    let too_large = || QuantityError::TooLarge(text.to_owned());
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(malformed());
    }
    let (mut numerator, mut denominator) = multiplier(suffix).ok_or_else(malformed)?;
    numerator = numerator.checked_mul(scale).ok_or_else(too_large)?;
    // Digits after the point that are all zero, and zeros before it, carry no value.
    let fraction = fraction.trim_end_matches('0');
    let digits: String = format!("{whole}{fraction}").trim_start_matches('0').to_owned();
    if digits.is_empty() {
        return Ok(0);
    }
    if negative {
        return Err(QuantityError::Negative(text.to_owned()));
    }
    let digits: i128 = digits.parse().map_err(|_| too_large())?;
    let scale = u32::try_from(fraction.len()).ok().and_then(|exponent| 10_i128.checked_pow(exponent));
    denominator = scale.and_then(|scale| denominator.checked_mul(scale)).ok_or_else(too_large)?;
    let scaled = digits.checked_mul(numerator).ok_or_else(too_large)?;
    Ok(scaled.checked_add(denominator - 1).ok_or_else(too_large)? / denominator)
}

/// What a suffix multiplies by, as a fraction.
fn multiplier(suffix: &str) -> Option<(i128, i128)> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    const SMALL: [&str; 3] = ["m", "u", "n"];
    if suffix.is_empty() {
        return Some((1, 1));
    }
    let power = |base: i128, index: usize| base.checked_pow(u32::try_from(index + 1).ok()?);
    if let Some(index) = BINARY.iter().position(|s| *s == suffix) {
        return Some((power(1024, index)?, 1));
    }
    if let Some(index) = DECIMAL.iter().position(|s| *s == suffix) {
        return Some((power(1000, index)?, 1));
    }
    if let Some(index) = SMALL.iter().position(|s| *s == suffix) {
        return Some((1, power(1000, index)?));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let size = 10_i128.checked_pow(exponent.unsigned_abs())?;
    Some(if exponent < 0 { (1, size) } else { (size, 1) })
}

/// The canonical text of `amount`, as the API server would print it: `2`, `1500m`, `64Gi`.
pub fn format(resource: &str, amount: Amount) -> String {
    let value = amount.0;
    if resource == ResourceName::CPU {
        return if value % 1000 == 0 {
            with_suffix(value / 1000, 1000, &["", "k", "M", "G", "T", "P"])
        } else {
            format!("{value}m")
        };
    }
    // Below 1024 there is no binary suffix to use, and the API server falls back to the decimal ones.
    if is_binary(resource) && value.unsigned_abs() >= 1024 {
        with_suffix(value, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
    } else {
        with_suffix(value, 1000, &["", "k", "M", "G", "T", "P", "E"])
    }
}

fn is_binary(resource: &str) -> bool {
    matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-")
}

/// Divides by `base` while nothing is lost, and appends the suffix reached.
fn with_suffix(mut value: i64, base: i64, suffixes: &[&str]) -> String {
    let mut suffixes = suffixes.iter().copied().peekable();
    let mut suffix = suffixes.next().unwrap_or_default();
    while value != 0 && value % base == 0 && suffixes.peek().is_some() {
        value /= base;
        suffix = suffixes.next().unwrap_or_default();
    }
    format!("{value}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_may_be_a_fraction_huge_or_negative() {
        for (text, billionths) in
            [("0.5", 500_000_000), ("-1", -1_000_000_000), ("80Gi", (80 << 30) * 1_000_000_000)]
        {
            assert_eq!(parse_factor(text), Ok(billionths), "{text}");
        }
        assert!(parse_factor("--1").is_err() && parse_factor("-+1").is_err() && parse_factor("").is_err());
    }

    #[test]
    fn every_form_of_the_grammar_is_read_and_rounded_up() {
        for (resource, text, want) in [
            ("cpu", "1", 1000),
            ("cpu", "1500m", 1500),
            ("cpu", "0.5", 500),
            ("cpu", "1n", 1),
            ("cpu", "0", 0),
            ("cpu", "2k", 2_000_000),
            ("memory", "1Gi", 1 << 30),
            ("memory", "1.5Gi", 3 << 29),
            ("memory", "128M", 128_000_000),
            ("memory", "100m", 1),
            ("memory", "1e3", 1000),
            ("memory", "1E3", 1000),
            ("memory", "1E", 1_000_000_000_000_000_000),
            ("nvidia.com/gpu", "8", 8),
            ("nvidia.com/gpu", "+8", 8),
            ("nvidia.com/gpu", "-0", 0),
            ("nvidia.com/gpu", "00008.000", 8),
            ("nvidia.com/gpu", "1e-1", 1),
            ("x", ".5", 1),
            ("x", "5.", 5),
        ] {
            assert_eq!(parse(resource, text), Ok(Amount(want)), "{resource} {text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused_with_its_text() {
        for text in ["", "x", "1x", "1.2.3", "1 ", "Gi", "1e", "1e1.5", "--1", "0x10", "NaN", "."] {
            assert_eq!(parse("x", text), Err(QuantityError::Malformed(text.into())), "{text:?}");
        }
        assert_eq!(parse("x", "-1"), Err(QuantityError::Negative("-1".into())));
        for text in ["9223372036854775808", "8Ei", "1e30", "99999999999999999999999999999999999999999"] {
            assert_eq!(parse("x", text), Err(QuantityError::TooLarge(text.into())), "{text}");
        }
        assert_eq!(parse("x", "9223372036854775807"), Ok(Amount(i64::MAX)));
    }

    #[test]
    fn amounts_are_written_as_the_api_server_writes_them() {
        for (resource, amount, want) in [
            ("cpu", 2000, "2"),
            ("cpu", 1500, "1500m"),
            ("cpu", 2_000_000, "2k"),
            ("cpu", 0, "0"),
            ("memory", 1 << 30, "1Gi"),
            ("memory", 1000, "1k"),
            ("memory", 2000, "2000"),
            ("hugepages-2Mi", 4 << 20, "4Mi"),
            ("nvidia.com/gpu", 64, "64"),
            ("nvidia.com/gpu", 1000, "1k"),
        ] {
            assert_eq!(format(resource, Amount(amount)), want);
        }
    }
}
