//! What is predicted of jobs whose like is known.

use proptest::prelude::*;

use super::*;
use crate::workload::Timestamp;

const MINUTE: i64 = 60_000;

fn job(user: &str, name: &str, width: i64) -> Description {
    Description { user: user.to_owned(), name: name.to_owned(), width }
}

/// A history of a user whose jobs take 10 minutes and of one whose jobs take 10 hours.
fn two_users() -> History<usize> {
    let mut history = History::default();
    for number in 0..20 {
        let (user, run) = if number % 2 == 0 { ("ana", 10 * MINUTE) } else { ("ben", 600 * MINUTE) };
        history.submitted(number, &job(user, &format!("train-{number}"), 8), Timestamp(0));
        history.ran(number, run + i64::try_from(number).unwrap() * 1000, true);
    }
    history.submitted(100, &job("ana", "train-100", 8), Timestamp(0));
    history.submitted(101, &job("ben", "train-101", 8), Timestamp(0));
    history.submitted(102, &job("eve", "other", 8), Timestamp(0));
    history
}

#[test]
fn a_job_is_predicted_from_those_that_it_resembles() {
    let history = two_users();
    let forecast = |who| history.forecast(who).unwrap();
    let (ana, ben, eve) = (forecast(100), forecast(101), forecast(102));
    assert!((5 * MINUTE..20 * MINUTE).contains(&ana.median), "{ana:?}");
    assert!((400 * MINUTE..900 * MINUTE).contains(&ben.median), "{ben:?}");
    assert!(ana.index < ben.index && eve.index < ben.index, "{eve:?}");
    assert!(ana.median <= eve.most && eve.most >= 400 * MINUTE, "of a stranger it may be either: {eve:?}");
    assert!(ana.median <= ana.most);
}

#[test]
fn who_ran_longer_than_its_like_is_thought_to_be_of_the_other_kind() {
    let mut history = two_users();
    history.ran(102, 60 * MINUTE, false);
    let eve = history.forecast(102).unwrap();
    assert!((300 * MINUTE..900 * MINUTE).contains(&eve.median), "{eve:?}");
}

#[test]
fn of_nobody_known_there_is_no_forecast_and_of_nothing_known_there_is_one() {
    let mut history = History::default();
    assert_eq!(history.forecast(1), None);
    history.submitted(1, &job("", "", 1), Timestamp(0));
    assert!(history.forecast(1).unwrap().index.is_finite());
}

#[test]
fn those_that_run_still_are_counted_for_what_they_ran() {
    let mut history = History::default();
    for who in 0..20 {
        history.submitted(who, &job("ana", "x", 1), Timestamp(0));
        history.ran(who, if who < 4 { MINUTE } else { 500 * MINUTE }, who < 4);
    }
    history.submitted(100, &job("zoe", "y", 1), Timestamp(0));
    let forecast = history.forecast(100).unwrap();
    assert!(forecast.median > 100 * MINUTE, "only four of twenty ended early: {forecast:?}");
}

#[test]
fn the_quantiles_cover_what_they_say() {
    // Runs spread evenly over their logarithm, each predicted from those before it.
    let mut history = History::default();
    let mut dice = 1_u64;
    let (mut within_median, mut within_most, mut all) = (0, 0, 0);
    for who in 0..600_i64 {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let spread = f64::from(u32::try_from(dice >> 33).unwrap()) / f64::from(1_u32 << 31);
        #[allow(clippy::cast_possible_truncation)]
        let run = (60_000.0 * libm::exp(5.0 * spread)) as i64;
        history.submitted(who, &job("ana", "x", 1), Timestamp(who * MINUTE));
        if who >= 100 {
            let forecast = history.forecast(who).unwrap();
            all += 1;
            within_median += i32::from(run <= forecast.median);
            within_most += i32::from(run <= forecast.most);
        }
        history.ran(who, run, true);
    }
    assert!((40 * all..60 * all).contains(&(within_median * 100)), "{within_median} of {all}");
    assert!((82 * all..97 * all).contains(&(within_most * 100)), "{within_most} of {all}");
}

proptest! {
    #[test]
    fn a_forecast_is_a_number_whatever_was_seen(seen in prop::collection::vec((0_i64..i64::MAX / 4, any::<bool>(), 1_i64..9), 0..30), age in 0_i64..i64::MAX / 4) {
        let mut history = History::default();
        for (who, &(ran, ended, width)) in seen.iter().enumerate() {
            history.submitted(who, &job("ana", "x", width), Timestamp(0));
            history.ran(who, ran, ended);
        }
        history.submitted(usize::MAX, &job("ana", "x", 1), Timestamp(0));
        history.ran(usize::MAX, age, false);
        let forecast = history.forecast(usize::MAX).unwrap();
        prop_assert!(forecast.index > 0.0 && !forecast.index.is_nan());
        prop_assert!(forecast.median <= forecast.most && forecast.for_now > 0);
    }

    #[test]
    fn who_waits_long_enough_goes_before_any_rank(rank in 1.0_f64..1e12, other in 1.0_f64..1e12) {
        let mut waited = 1;
        while aged(rank, waited, 1000) >= aged(other, 0, 1000) {
            waited *= 2;
            prop_assert!(waited < i64::MAX / 4);
        }
    }
}
