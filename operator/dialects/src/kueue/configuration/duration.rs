//! Durations as Go writes them: `90s`, `1h30m`, `1.5h`.

use std::time::Duration;

/// Reads a duration; negative ones are told apart from what is none at all.
pub fn parse(text: &str) -> Result<Duration, String> {
    if text.strip_prefix('-').is_some_and(|size| nanoseconds(size).is_some()) {
        return Err(format!("{text:?} is negative"));
    }
    nanoseconds(text).map(Duration::from_nanos).ok_or_else(|| {
        format!("{text:?} is not a duration: write a number and a unit (h, m, s, ms), as in \"1h30m\"")
    })
}

fn nanoseconds(text: &str) -> Option<u64> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(0);
    }
    let mut sum: u64 = 0;
    loop {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let unit = unit_of(unit)?;
        sum = sum.checked_add(digits(whole)?.checked_mul(unit)?)?;
        if !fraction.is_empty() {
            // Digits beyond a billionth of the unit do not count.
            let fraction = fraction.get(..9).unwrap_or(fraction);
            let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
            let part = u128::from(digits(fraction)?) * u128::from(unit) / scale;
            sum = sum.checked_add(u64::try_from(part).ok()?)?;
        } else if whole.is_empty() {
            return None;
        }
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    i64::try_from(sum).is_ok().then_some(sum)
}

fn digits(text: &str) -> Option<u64> {
    if text.is_empty() { Some(0) } else { text.parse().ok() }
}

fn unit_of(name: &str) -> Option<u64> {
    Some(match name {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_grammar_is_read() {
        for (text, want) in [
            ("0", 0),
            ("0s", 0),
            ("+5m", 300_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("30m1h", 5_400_000),
            ("250ms", 250),
            ("168h", 604_800_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(want)), "{text}");
        }
        assert_eq!(parse("1µs"), Ok(Duration::from_micros(1)));
    }

    #[test]
    fn what_is_no_duration_is_told_apart_from_a_negative_one() {
        for text in ["", "5", "m", "5 m", "5min", "1d", "1..5s", "-", "--5s", "999999999h", "."] {
            assert!(parse(text).unwrap_err().contains("is not a duration"), "{text}");
        }
        assert_eq!(parse("-5m"), Err("\"-5m\" is negative".to_owned()));
    }
}
