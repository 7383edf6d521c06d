//! A quantity over time: how busy a GPU is, how much memory is taken, how much crosses a link.
//!
//! All of it is whole numbers, so that a value and its integral (what a counter shows) are exact and the same in
//! every process.

use serde::{Deserialize, Serialize};

/// The most that a quantity may be, and the longest that its period may last: beyond, the one and the other are as
/// these. They keep every product below within 128 bits.
const MOST: u64 = 1 << 40;
const LONGEST: u64 = 1 << 40;

/// The course of a quantity. In TOML it is a number, or a table with `shape`, `low`, `high` and `period_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Wave {
    /// Always the same.
    Steady(u64),
    /// Comes and goes.
    Periodic(Period),
}

/// A quantity that comes and goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Period {
    /// How it gets from one to the other.
    pub shape: Shape,
    /// The least.
    pub low: u64,
    /// The most.
    pub high: u64,
    /// How long until it begins anew, in milliseconds.
    pub period_ms: u64,
}

/// How a quantity gets from its least to its most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// The least for half of the period, the most for the other half.
    Square,
    /// Rises for half of the period, and falls for the other half.
    Triangle,
    /// Rises, and falls at once.
    Saw,
}

impl Default for Wave {
    fn default() -> Self {
        Self::Steady(0)
    }
}

impl Wave {
    /// What is wrong with it where it may be `most` at most.
    pub fn impossible(self, most: u64) -> Option<String> {
        let (high, period) = match self {
            Self::Steady(value) => (value, 1),
            Self::Periodic(period) => (period.low.max(period.high), period.period_ms),
        };
        if high > most.min(MOST) {
            return Some(format!("{high} is more than {}", most.min(MOST)));
        }
        (!(1..=LONGEST).contains(&period)).then(|| format!("a period of {period} ms is none"))
    }

    /// The value `at` milliseconds after the beginning.
    pub fn at(self, at: u64) -> u64 {
        let period = match self {
            Self::Steady(value) => return value,
            Self::Periodic(period) => period,
        };
        let (low, high) = period.bounds();
        let (whole, into) = (period.length(), at % period.length());
        let part =
            |done: u64, of: u64| low + narrow(u128::from(high - low) * u128::from(done) / u128::from(of));
        match period.shape {
            Shape::Square if into * 2 < whole => low,
            Shape::Square => high,
            Shape::Saw => part(into, whole),
            Shape::Triangle => part(2 * into.min(whole - into), whole),
        }
    }

    /// The sum from the beginning until `until` milliseconds after it, in the wave's unit times milliseconds.
    /// It never falls with time.
    pub fn integral(self, until: u64) -> u64 {
        let period = match self {
            Self::Steady(value) => return value.saturating_mul(until),
            Self::Periodic(period) => period,
        };
        let whole = period.length();
        let cycles = u128::from(until / whole).saturating_mul(period.area(whole));
        narrow(cycles.saturating_add(period.area(until % whole)))
    }
}

impl Period {
    fn length(self) -> u64 {
        self.period_ms.clamp(1, LONGEST)
    }

    fn bounds(self) -> (u64, u64) {
        (self.low.min(self.high).min(MOST), self.low.max(self.high).min(MOST))
    }

    /// The area of the first `until` milliseconds of one period.
    fn area(self, until: u64) -> u128 {
        let (low, high) = self.bounds();
        let (swing, whole, into) = (u128::from(high - low), u128::from(self.length()), u128::from(until));
        let above = match self.shape {
            // Twice the area first, so that the half of an odd period is not cut off.
            Shape::Square => swing * (2 * into).saturating_sub(whole) / 2,
            Shape::Saw => swing * into * into / (2 * whole),
            Shape::Triangle if 2 * into <= whole => swing * into * into / whole,
            Shape::Triangle => swing * whole / 2 - swing * (whole - into) * (whole - into) / whole,
        };
        u128::from(low) * into + above
    }
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wave(shape: Shape) -> Wave {
        Wave::Periodic(Period { shape, low: 10, high: 90, period_ms: 1_000 })
    }

    #[test]
    fn a_wave_is_at_its_ends_when_its_shape_says_so() {
        let table = [
            (Wave::Steady(7), [7, 7, 7, 7]),
            (wave(Shape::Square), [10, 10, 90, 90]),
            (wave(Shape::Triangle), [10, 50, 90, 50]),
            (wave(Shape::Saw), [10, 30, 50, 70]),
        ];
        for (wave, values) in table {
            let seen = [0, 250, 500, 750].map(|at| wave.at(at));
            assert_eq!(seen, values, "{wave:?}");
            assert_eq!(
                [1_000, 1_250, 1_500, 1_750].map(|at| wave.at(at)),
                values,
                "{wave:?}, a period later"
            );
        }
    }

    #[test]
    fn over_whole_periods_the_integral_is_the_mean() {
        for shape in [Shape::Square, Shape::Triangle, Shape::Saw] {
            assert_eq!(wave(shape).integral(10_000), 50 * 10_000, "{shape:?}");
        }
    }

    fn any_wave() -> impl Strategy<Value = Wave> {
        let shape = prop_oneof![Just(Shape::Square), Just(Shape::Triangle), Just(Shape::Saw)];
        let periodic = (shape, 0..1_000_u64, 0..1_000_u64, 0..5_000_u64)
            .prop_map(|(shape, low, high, period_ms)| Wave::Periodic(Period { shape, low, high, period_ms }));
        prop_oneof![(0..1_000_u64).prop_map(Wave::Steady), periodic]
    }

    proptest! {
        #[test]
        fn an_integral_never_falls_and_grows_between_the_least_and_the_most(
            wave in any_wave(), from in 0..20_000_u64, over in 0..5_000_u64,
        ) {
            let grown = wave.integral(from + over) - wave.integral(from);
            let (low, high) = match wave {
                Wave::Steady(value) => (value, value),
                Wave::Periodic(period) => period.bounds(),
            };
            // Each end of the interval is rounded down by less than two units.
            prop_assert!(grown + 2 >= low * over && grown <= high * over + 2, "{grown}");
        }

        #[test]
        fn a_value_is_between_the_least_and_the_most(wave in any_wave(), at in any::<u64>()) {
            if let Wave::Periodic(period) = wave {
                let (low, high) = period.bounds();
                prop_assert!((low..=high).contains(&wave.at(at)));
            }
        }

        #[test]
        fn nonsense_overflows_nothing(low in any::<u64>(), high in any::<u64>(), period_ms in any::<u64>(), at in any::<u64>()) {
            for shape in [Shape::Square, Shape::Triangle, Shape::Saw] {
                let wave = Wave::Periodic(Period { shape, low, high, period_ms });
                let _ = (wave.at(at), wave.integral(at));
            }
        }
    }
}
