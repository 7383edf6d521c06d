//! Numbers for people: conversions, means, quantiles, and a measured number beside the one it is compared with.

use serde::Serialize;

use crate::engine::{HOUR, Millis, SECOND};

/// A whole number as a float. Those here are far below 2^53.
#[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
pub fn float(value: i64) -> f64 {
    value as f64
}

/// A count as a float.
pub fn count(value: usize) -> f64 {
    float(i64::try_from(value).unwrap_or(i64::MAX))
}

/// In hours.
pub fn in_hours(time: Millis) -> f64 {
    float(time) / float(HOUR)
}

/// In seconds.
pub fn in_seconds(time: Millis) -> f64 {
    float(time) / float(SECOND)
}

/// The mean; zero of nothing.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut number) = (0.0, 0_i64);
    for value in values {
        sum += value;
        number += 1;
    }
    if number == 0 { 0.0 } else { sum / float(number) }
}

/// The mean, and its standard error; both zero of nothing, and no error is known of one.
pub fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let centre = mean(values.iter().copied());
    let spread = mean(values.iter().map(|value| (value - centre) * (value - centre)));
    let degrees = count(values.len()) - 1.0;
    (centre, if degrees > 0.0 { libm::sqrt(spread / degrees) } else { 0.0 })
}

/// The value that this part of sorted values, in thousandths, are not above; zero of nothing.
pub fn quantile(sorted: &[f64], thousandths: usize) -> f64 {
    let place = (sorted.len() * thousandths).div_ceil(1000).max(1) - 1;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// A measured number beside the one that it is compared with, as benchmarks record it.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// What was measured, such as `sim/philly/103959/srsf/mean_jct_h`.
    pub name: String,
    /// What came out.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// What was expected.
    pub reference: Option<f64>,
    /// Who says so.
    pub reference_name: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_that_is_there() {
        let values = [1.0, 2.0, 3.0, 4.0];
        assert!((quantile(&values, 500) - 2.0).abs() < f64::EPSILON);
        assert!((quantile(&values, 501) - 3.0).abs() < f64::EPSILON);
        assert!((quantile(&values, 0) - 1.0).abs() < f64::EPSILON);
        assert!((quantile(&values, 1000) - 4.0).abs() < f64::EPSILON);
        assert!(quantile(&[], 500).abs() < f64::EPSILON);
        assert!(mean([]).abs() < f64::EPSILON);
    }
}
