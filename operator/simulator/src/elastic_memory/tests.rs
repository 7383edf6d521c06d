//! The experiment's laws, on paired seeds, and its policies on cases that are computed by hand.

use proptest::prelude::*;

use super::*;

fn task(arrival: f64, need: i64, duration: f64, elasticity: f64) -> Task {
    Task { arrival, need, duration, elasticity }
}

#[track_caller]
fn close(seen: &[f64], expected: &[f64]) {
    assert!(
        seen.len() == expected.len() && seen.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6),
        "{seen:?} and not {expected:?}"
    );
}

#[test]
fn the_policies_come_out_in_their_order_and_none_gains_more_than_can_be_gained() {
    for arrivals in [Arrivals::Iid, Arrivals::Poisson] {
        let experiment = Experiment::run(arrivals, 150);
        experiment.check().unwrap();
        assert!(experiment.bound() < 1.46, "{}", experiment.bound());
        assert!(experiment.summaries().iter().all(|summary| summary.gain <= experiment.bound()));
        let (grown_first, error) = experiment.paired(MemoryPolicy::GrowFirst, MemoryPolicy::StartFirst);
        assert!(grown_first > 2.0 * error, "growing first is the wrong order");
        for (policy, (summary, [_, reference, ..])) in
            MemoryPolicy::ALL.iter().zip(experiment.summaries().iter().zip(golden::answers(arrivals)))
        {
            // The reference has a standard error of its own, of at most 1.6 s.
            let off = (summary.turnaround - reference).abs();
            assert!(
                off < 2.0 * libm::hypot(summary.error, 1.6),
                "{policy:?}: {} and not {reference}",
                summary.turnaround
            );
        }
    }
}

/// Two that need 24 of 40 GB for 20 s and lose half of what they lack, and a small one that comes later.
fn three() -> [Task; 3] {
    [task(0.0, 24, 20.0, 0.5), task(0.0, 24, 20.0, 0.5), task(1.0, 8, 10.0, 0.5)]
}

#[test]
fn each_policy_does_what_its_name_says() {
    let turnaround = |policy| play(&three(), policy).turnaround;
    close(&turnaround(MemoryPolicy::StrictFcfs), &[20.0, 40.0, 29.0]);
    close(&turnaround(MemoryPolicy::FirstFit), &[20.0, 40.0, 10.0]);
    // The second starts with 16 of 24 at four fifths of its speed.
    close(&turnaround(MemoryPolicy::ElasticStart), &[20.0, 25.0, 29.0]);
    // At 20 it has 4 left and grows to 24.
    close(&turnaround(MemoryPolicy::GrowFirst), &[20.0, 24.0, 29.0]);
    // At 1 the first shrinks to 12 and the small one starts with 4; what is left over, 12, goes to the first again.
    let shrunk = turnaround(MemoryPolicy::Shrink);
    assert!(shrunk[2] < 29.0, "{shrunk:?}");
    // The small one goes first, as it has the least left.
    let srpt = turnaround(MemoryPolicy::Srpt);
    assert!(srpt[2] <= 15.0, "{srpt:?}");
}

#[test]
fn the_speed_is_the_documents_law() {
    let task = task(0.0, 32, 30.0, 0.4);
    close(&[task.speed(32), task.speed(40), task.speed(16), task.speed(15)], &[1.0, 1.0, 1.0 / 1.6, 0.0]);
    // With the least a task takes 1 - e/2 of the memory times time that it takes with all.
    close(&[task.memory_time(16) / task.memory_time(32)], &[1.0 - 0.4 / 2.0]);
}

/// The best worth by trying every allotment.
fn by_brute_force(live: &[play::Live], memory: i64, value: &dyn Fn(&play::Live) -> f64) -> f64 {
    let Some((first, rest)) = live.split_first() else { return 0.0 };
    let mut best = by_brute_force(rest, memory, value);
    for held in first.task.least()..=first.task.need.min(memory) {
        let worth = policy::worth(first, held, value(first));
        best = best.max(worth + by_brute_force(rest, memory - held, value));
    }
    best
}

fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let one =
        (0.0_f64..30.0, prop::sample::select(vec![8_i64, 16, 24, 30, 32]), 20.0_f64..60.0, 0.3_f64..0.9);
    prop::collection::vec(
        one.prop_map(|(arrival, need, duration, elasticity)| task(arrival, need, duration, elasticity)),
        1..8,
    )
    .prop_map(|mut tasks| {
        tasks.sort_by(|one, other| one.arrival.total_cmp(&other.arrival));
        tasks
    })
}

proptest! {
    #[test]
    fn every_task_ends_not_before_it_can_and_memory_is_never_given_twice(tasks in tasks()) {
        for policy in MemoryPolicy::ALL {
            let played = play(&tasks, policy);
            prop_assert!(played.most_held <= MEMORY);
            for (task, turnaround) in tasks.iter().zip(&played.turnaround) {
                prop_assert!(*turnaround >= task.duration - 1e-6, "{policy:?}");
            }
            let least: f64 = tasks.iter().map(|task| task.memory_time(task.least())).sum();
            prop_assert!(played.held >= least * (1.0 - 1e-9));
        }
    }

    #[test]
    fn no_allotment_is_worth_more_than_the_one_that_is_found(tasks in tasks(), values in prop::collection::vec(0.1_f64..5.0, 8)) {
        let live: Vec<_> = (0..).zip(tasks.iter().take(4))
            .map(|(index, &task)| play::Live { index, task, left: 1.0, held: 0, started: None }).collect();
        let value = |live: &play::Live| values[live.index];
        let found = welfare::best(&live, MEMORY, value);
        prop_assert!(found.iter().sum::<i64>() <= MEMORY);
        let worth: f64 = live.iter().zip(&found).filter(|(_, held)| **held > 0).map(|(live, &held)| policy::worth(live, held, value(live))).sum();
        prop_assert!((worth - by_brute_force(&live, MEMORY, &value)).abs() < 1e-9);
    }
}
