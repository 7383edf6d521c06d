//! Small schedules computed by hand, and the laws of both kinds.

use proptest::prelude::*;

use super::{Asks, Held, Promises, Reservation, Timeline, easy};
use crate::workload::Timestamp;

const NOW: Timestamp = Timestamp(0);

fn held(width: i64, until: i64) -> Held {
    Held { width, until: Timestamp(until) }
}

fn asks(width: i64, run: i64) -> Asks {
    Asks { width, run }
}

#[test]
fn who_ends_before_the_head_could_start_goes_before_it() {
    // 8 in all, 6 held until 10; the head needs 4 and can start at 10, when 4 more are spare.
    let plan = easy(NOW, 2, &[held(6, 10)], &[asks(4, 50), asks(2, 10), asks(2, 11)]);
    assert_eq!(plan.start, [1]);
    assert_eq!(plan.reserved, Some(Reservation { head: 0, at: Some(Timestamp(10)), spare: 4 }));
}

#[test]
fn who_needs_no_more_than_is_spare_goes_before_the_head_for_any_time() {
    let plan = easy(NOW, 2, &[held(6, 10)], &[asks(6, 50), asks(1, 999), asks(1, 999), asks(1, 5)]);
    assert_eq!(plan.start, [1, 2], "two are spare beside the head, and then none is free");
    let plan = easy(NOW, 2, &[held(6, 10)], &[asks(7, 50), asks(1, 999), asks(1, 999), asks(1, 5)]);
    assert_eq!(plan.start, [1, 3]);
}

#[test]
fn nobody_is_held_up_by_one_that_never_fits() {
    let plan = easy(NOW, 2, &[held(6, 10)], &[asks(9, 50), asks(2, 999)]);
    assert_eq!(plan.start, [1]);
    assert_eq!(plan.reserved.and_then(|reserved| reserved.at), None);
}

#[test]
fn everybody_is_promised_the_first_moment_beside_those_before() {
    let mut promises = Promises::new(8);
    assert_eq!(promises.ask(NOW, 0, 6, 10), Some(NOW));
    assert_eq!(promises.ask(NOW, 1, 4, 20), Some(Timestamp(10)));
    assert_eq!(promises.ask(NOW, 2, 2, 10), Some(NOW), "it is over when 1 starts");
    assert_eq!(promises.ask(NOW, 3, 5, 5), Some(Timestamp(30)), "4 are free beside 1");
    assert_eq!(promises.ask(NOW, 4, 4, 20), Some(Timestamp(10)), "beside 1, over when 3 starts");
    assert_eq!(promises.ask(NOW, 5, 9, 1), None);
}

#[test]
fn who_ends_early_lets_others_forward_in_their_order() {
    let mut promises = Promises::new(8);
    for (who, width, run) in [(0, 8, 100), (1, 8, 10), (2, 4, 10)] {
        promises.ask(NOW, who, width, run);
    }
    assert_eq!(promises.start_due(NOW), [0]);
    promises.end(Timestamp(40), 0);
    assert_eq!(promises.start_due(Timestamp(40)), [1]);
    assert_eq!(promises.promised(2).map(|promise| promise.at), Some(Timestamp(50)));
}

#[test]
fn who_runs_past_its_estimate_keeps_what_it_has_and_others_are_promised_anew() {
    let mut promises = Promises::new(8);
    promises.ask(NOW, 0, 8, 10);
    promises.ask(NOW, 1, 8, 10);
    promises.start_due(NOW);
    assert!(promises.extend_overrun(Timestamp(10)));
    assert!(promises.start_due(Timestamp(10)).is_empty());
    assert_eq!(promises.promised(1).map(|promise| promise.at), Some(Timestamp(20)));
}

/// The timeline as a list of moments.
fn naive(capacity: i64, taken: &[(i64, i64, i64)], at: i64) -> i64 {
    capacity - taken.iter().filter(|&&(from, until, _)| (from..until).contains(&at)).map(|t| t.2).sum::<i64>()
}

proptest! {
    #[test]
    fn a_timeline_is_what_was_taken_at_each_moment(
        taken in prop::collection::vec((0_i64..20, 0_i64..20, -3_i64..4), 0..12),
        forgotten in 0_i64..20,
    ) {
        let mut timeline = Timeline::new(8);
        for &(from, until, amount) in &taken {
            timeline.take(Timestamp(from), Timestamp(until), amount);
        }
        timeline.forget_before(Timestamp(forgotten));
        for at in forgotten..25 {
            prop_assert_eq!(timeline.free_at(Timestamp(at)), naive(8, &taken, at));
        }
    }

    #[test]
    fn the_earliest_moment_fits_and_no_earlier_one_does(
        taken in prop::collection::vec((0_i64..20, 0_i64..20, 0_i64..4), 0..12),
        from in 0_i64..20, run in 1_i64..8, width in 0_i64..9,
    ) {
        let mut timeline = Timeline::new(8);
        for &(from, until, amount) in &taken {
            timeline.take(Timestamp(from), Timestamp(until), amount);
        }
        let fits = |at: i64| (at..at + run).all(|moment| naive(8, &taken, moment) >= width);
        let expected = (from..40).find(|&at| fits(at));
        prop_assert_eq!(timeline.earliest(Timestamp(from), run, width), expected.map(Timestamp));
    }

    /// With the backfilled jobs started, the head can still start when it could without them.
    #[test]
    fn easy_never_puts_off_the_head(
        running in prop::collection::vec((1_i64..5, 1_i64..30), 0..6),
        queue in prop::collection::vec((1_i64..12, 1_i64..30), 1..12),
    ) {
        let held: Vec<_> = running.iter().map(|&(width, until)| held(width, until)).collect();
        let queue: Vec<_> = queue.iter().map(|&(width, run)| asks(width, run)).collect();
        let capacity = 12.max(held.iter().map(|held| held.width).sum());
        let free = capacity - held.iter().map(|held| held.width).sum::<i64>();
        let plan = easy(NOW, free, &held, &queue);
        let used: i64 = plan.start.iter().map(|&place| queue[place].width).sum();
        prop_assert!(used <= free);
        if let Some(Reservation { head, at: Some(at), .. }) = plan.reserved {
            // Whoever is ahead of the head started; the head starts at the reserved moment.
            prop_assert!((0..head).all(|place| plan.start.contains(&place)));
            let mut timeline = Timeline::new(capacity);
            for held in &held {
                timeline.take(NOW, held.until, held.width);
            }
            let mut alone = timeline.clone();
            for &place in &plan.start {
                timeline.take(NOW, Timestamp(queue[place].run), queue[place].width);
                if place < head {
                    alone.take(NOW, Timestamp(queue[place].run), queue[place].width);
                }
            }
            let Asks { width, run } = queue[head];
            prop_assert_eq!(alone.earliest(NOW, run, width), Some(at));
            prop_assert_eq!(timeline.earliest(NOW, run, width), Some(at));
        }
    }

    /// Whatever ends early, nobody's promise is put off, and never is more held than there is.
    #[test]
    fn conservative_backfilling_puts_nobody_off(
        jobs in prop::collection::vec((0_i64..4, 1_i64..9, 1_i64..30, 0_i64..30), 1..25),
    ) {
        let mut promises = Promises::new(8);
        let mut promised = Vec::new();
        let mut running: Vec<(usize, i64)> = Vec::new();
        let mut now = 0;
        let mut arrivals = jobs.iter().enumerate();
        let mut next_arrival = arrivals.next();
        let mut due_in = next_arrival.map_or(0, |(_, job)| job.0);
        loop {
            running.retain(|&(who, end)| {
                if end == now {
                    promises.end(Timestamp(now), who);
                }
                end != now
            });
            while let Some((who, &(_, width, run, _))) = next_arrival && due_in == 0 {
                promised.push(promises.ask(Timestamp(now), who, width, run).unwrap());
                next_arrival = arrivals.next();
                due_in = next_arrival.map_or(0, |(_, job)| job.0);
            }
            for (who, at) in promised.iter_mut().enumerate() {
                if let Some(promise) = promises.promised(who) {
                    prop_assert!(promise.at <= *at, "{who} was promised {at:?} and then {promise:?}");
                    *at = promise.at;
                }
            }
            for who in promises.start_due(Timestamp(now)) {
                prop_assert_eq!(promised[who], Timestamp(now));
                let (_, _, run, early) = jobs[who];
                running.push((who, now + (run - early).max(1)));
            }
            prop_assert!(running.iter().map(|&(who, _)| jobs[who].1).sum::<i64>() <= 8);
            if next_arrival.is_none() && running.is_empty() {
                prop_assert!(promises.next().is_none());
                break;
            }
            now += 1;
            due_in = (due_in - 1).max(0);
            prop_assert!(now < 2000);
        }
    }
}
