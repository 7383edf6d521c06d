//! Each policy on schedules that are computed by hand, and the laws that hold for whatever is played.

use std::collections::BTreeMap;

use proptest::prelude::*;
use whalezen_core::sequence::Grid;

use super::*;
use crate::{
    engine::{Costs, JobIndex, Outcome, Phase, Pool, simulate},
    trace::{Job, Trace},
};

/// Jobs as (submit, run, gpus).
fn trace(jobs: &[(i64, i64, i64)]) -> Trace {
    let job = |&(submit, run, gpus): &(i64, i64, i64)| Job {
        name: format!("{submit}/{run}/{gpus}"),
        user: String::new(),
        queue: String::new(),
        submit,
        run,
        gpus,
        least: gpus,
    };
    Trace::new(jobs.iter().map(job).collect())
}

fn play(jobs: &[(i64, i64, i64)], pool: Pool, policy: &mut dyn Policy) -> Outcome {
    simulate(&trace(jobs), pool, policy, &mut |_| {}).unwrap()
}

/// When each job ended, in the order of arrival.
fn ends(outcome: &Outcome) -> Vec<i64> {
    let by_job: BTreeMap<JobIndex, i64> = outcome.finished.iter().map(|job| (job.index, job.end)).collect();
    by_job.into_values().collect()
}

fn ends_under(kind: Kind, jobs: &[(i64, i64, i64)]) -> Vec<i64> {
    let pool = Pool::of(4);
    ends(&play(jobs, pool, kind.policy(pool).as_mut()))
}

/// A wide job waits behind a narrow one, with short and long narrow ones behind it.
const QUEUE: [(i64, i64, i64); 5] = [(0, 10, 3), (1, 10, 4), (2, 9, 1), (3, 9, 1), (4, 2, 1)];

#[test]
fn fcfs_lets_nobody_pass() {
    assert_eq!(ends_under(Kind::Fcfs, &QUEUE), [10, 20, 29, 29, 22]);
}

#[test]
fn first_fit_starts_whoever_fits_however_long_the_wide_one_waits() {
    // The third takes the last GPU at 2 until 11; the fourth and the fifth take what is free at 10.
    assert_eq!(ends_under(Kind::FirstFit, &QUEUE), [10, 29, 11, 19, 12]);
}

#[test]
fn easy_lets_pass_who_ends_before_the_head_can_start() {
    // The head can start at 10: who would be over by then goes before it, and who would not waits.
    assert_eq!(ends_under(Kind::Easy, &QUEUE), [10, 20, 29, 29, 6]);
}

#[test]
fn conservative_puts_off_nobody_who_came_before() {
    assert_eq!(ends_under(Kind::Conservative, &QUEUE), [10, 20, 29, 29, 6]);
    // EASY lets the last pass the third, which is not the head; conservative does not.
    let jobs = [(0, 10, 3), (0, 10, 2), (0, 10, 4), (1, 20, 1)];
    assert_eq!(ends_under(Kind::Easy, &jobs), [10, 20, 31, 21]);
    assert_eq!(ends_under(Kind::Conservative, &jobs), [10, 20, 30, 50]);
}

#[test]
fn sjf_takes_the_shortest_and_waits_for_it() {
    // At 2 the third is the shortest, at 10 the fifth and then the fourth; the wide one is last.
    assert_eq!(ends_under(Kind::Sjf, &QUEUE), [10, 29, 11, 19, 12]);
    // Nobody passes the shortest, though it does not fit.
    assert_eq!(ends_under(Kind::Sjf, &[(0, 10, 3), (1, 2, 4), (1, 5, 1)]), [10, 12, 17]);
}

#[test]
fn srtf_stops_whoever_has_more_left() {
    assert_eq!(ends_under(Kind::Srtf, &[(0, 10, 4), (2, 3, 4), (3, 20, 1)]), [13, 5, 33]);
}

#[test]
fn srsf_counts_gpus_as_well() {
    // 4 GPUs for 4 are more than 1 for 10, though less time.
    let jobs = [(0, 10, 1), (1, 4, 4)];
    assert_eq!(ends_under(Kind::Srsf, &jobs), [10, 14]);
    assert_eq!(ends_under(Kind::Srtf, &jobs), [14, 5]);
}

#[test]
fn las_puts_behind_whoever_got_its_share_and_knows_no_sizes() {
    let pool = Pool::of(4);
    let mut policy = TwoDimensionalLas { until: vec![8, 40] };
    // The first falls behind at 2, when it got 8, and the second at 4. Then the first, as it came first, until it got
    // 40 at 12; the second, until it did at 20; and the first again until its end.
    let outcome = play(&[(0, 20, 4), (1, 11, 4)], pool, &mut policy);
    assert_eq!(ends(&outcome), [30, 31]);
    let stops: Vec<_> = outcome.finished.iter().map(|job| (job.index.0, job.stops)).collect();
    assert_eq!(stops, [(0, 2), (1, 2)]);
}

#[test]
fn who_is_stopped_holds_its_gpus_while_it_saves_and_while_it_restores() {
    let costs = Costs { save: 2, restore: 3, resize: 0 };
    let outcome =
        play(&[(0, 10, 4), (4, 3, 4)], Pool::of(4).with_costs(costs), &mut Remaining(Measure::Time));
    // Stopped at 4, saved at 6, the other runs until 9, restored at 12, and 6 are left.
    assert_eq!(ends(&outcome), [18, 9]);
    assert_eq!((outcome.worked, outcome.held), (13 * 4, 18 * 4));
    let phases: Vec<_> =
        outcome.segments.iter().map(|part| (part.index.0, part.from, part.until, part.phase)).collect();
    assert_eq!(
        phases,
        [
            (0, 0, 4, Phase::Running),
            (0, 4, 6, Phase::Saving),
            (1, 6, 9, Phase::Running),
            (0, 9, 12, Phase::Restoring),
            (0, 12, 18, Phase::Running),
        ]
    );
}

#[test]
fn a_job_that_never_fits_is_refused_and_not_played_for_ever() {
    let problem = simulate(&trace(&[(0, 1, 5)]), Pool::of(4), &mut Easy, &mut |_| {}).unwrap_err();
    assert!(problem.to_string().contains("asks for 5 GPUs and the cluster has 4"), "{problem}");
}

/// A policy that says the same whatever there is.
struct Says(Vec<(JobIndex, i64)>);

impl Policy for Says {
    fn name(&self) -> &'static str {
        "says"
    }

    fn decide(&mut self, _: &Cluster<'_>, decision: &mut Decision) {
        decision.run.clone_from(&self.0);
    }
}

#[test]
fn a_policy_that_decides_what_cannot_be_is_told_so() {
    for (run, part) in [
        (vec![], "waiting for ever"),
        (vec![(JobIndex(0), 5)], "1 jobs on 5 GPUs"),
        (vec![(JobIndex(0), 1)], "1 GPUs for"),
        (vec![(JobIndex(7), 1)], "job 7 is not there"),
        (vec![(JobIndex(0), 2), (JobIndex(0), 2)], "2 jobs"),
    ] {
        let problem = simulate(&trace(&[(0, 1, 2)]), Pool::of(4), &mut Says(run), &mut |_| {}).unwrap_err();
        assert!(problem.to_string().contains(part), "{problem}");
    }
}

const ALL: [Kind; 8] = [
    Kind::Fcfs,
    Kind::FirstFit,
    Kind::Easy,
    Kind::Conservative,
    Kind::Sjf,
    Kind::Srtf,
    Kind::Srsf,
    Kind::Las,
];

fn jobs() -> impl Strategy<Value = Vec<(i64, i64, i64)>> {
    prop::collection::vec((0_i64..40, 1_i64..30, 1_i64..5), 1..25)
}

/// Every job got its work done once, and no GPU was held twice.
fn conserved(outcome: &Outcome, jobs: &[(i64, i64, i64)]) -> Result<(), TestCaseError> {
    prop_assert_eq!(outcome.finished.len(), jobs.len());
    prop_assert_eq!(outcome.worked, jobs.iter().map(|&(_, run, gpus)| run * gpus).sum::<i64>());
    let held: i64 = outcome.segments.iter().map(|part| (part.until - part.from) * part.gpus).sum();
    prop_assert_eq!(outcome.held, held);
    prop_assert!(outcome.levels.iter().all(|level| (0..=4).contains(&level.held)));
    for job in &outcome.finished {
        prop_assert!(job.start >= job.submit && job.completion() >= job.run);
        let mine =
            outcome.segments.iter().filter(|part| part.index == job.index && part.phase == Phase::Running);
        prop_assert_eq!(
            mine.map(|part| (part.until - part.from) * part.gpus).sum::<i64>(),
            job.run * job.gpus
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// Ours is asked with a small budget: whatever it finds can be carried out, and costs are seen as they are.
    #[test]
    fn what_the_search_finds_is_carried_out(jobs in jobs(), save in 0_i64..3, restore in 0_i64..3) {
        let pool = Pool::of(4).with_costs(Costs { save, restore, resize: 0 });
        let mut policy = Optimised { grid: Grid::Any, budget: 200 };
        let outcome = play(&jobs, pool, &mut policy);
        conserved(&outcome, &jobs)?;
        prop_assert_eq!(outcome, play(&jobs, pool, &mut policy));
    }

    #[test]
    fn what_is_predicted_is_carried_out(jobs in jobs(), save in 0_i64..3, restore in 0_i64..3) {
        let pool = Pool::of(4).with_costs(Costs { save, restore, resize: 0 });
        let outcome = play(&jobs, pool, &mut Predicted::default());
        conserved(&outcome, &jobs)?;
        prop_assert_eq!(outcome, play(&jobs, pool, &mut Predicted::default()));
    }
}

proptest! {
    #[test]
    fn every_job_gets_its_work_done_once_and_no_gpu_is_held_twice(jobs in jobs(), save in 0_i64..3, restore in 0_i64..3) {
        for kind in ALL {
            let pool = Pool::of(4).with_costs(Costs { save, restore, resize: 0 });
            let outcome = play(&jobs, pool, kind.policy(pool).as_mut());
            conserved(&outcome, &jobs)?;
        }
    }

    #[test]
    fn a_run_is_the_same_whenever_it_is_made(jobs in jobs()) {
        for kind in ALL {
            let pool = Pool::of(4);
            prop_assert_eq!(play(&jobs, pool, kind.policy(pool).as_mut()), play(&jobs, pool, kind.policy(pool).as_mut()));
        }
    }

    /// Under conservative backfilling a job starts no later for those that come after it: leave those out, and it
    /// starts at the same moment.
    #[test]
    fn conservative_backfilling_delays_nobody_for_those_behind(jobs in jobs(), keep in 1_usize..25) {
        let pool = Pool::of(4);
        let mut sorted = jobs;
        sorted.sort_by_key(|job| job.0);
        let all = ends(&play(&sorted, pool, Kind::Conservative.policy(pool).as_mut()));
        sorted.truncate(keep);
        let fewer = ends(&play(&sorted, pool, Kind::Conservative.policy(pool).as_mut()));
        prop_assert_eq!(all.get(..fewer.len()).unwrap(), fewer.as_slice());
    }

    /// Where all are one GPU wide, no order without preemption beats the shortest first for jobs that come at once.
    #[test]
    fn the_shortest_first_is_the_best_order_of_narrow_jobs_that_come_at_once(runs in prop::collection::vec(1_i64..30, 1..12)) {
        let jobs: Vec<_> = runs.iter().map(|&run| (0, run, 1)).collect();
        let sum = |kind| ends_under(kind, &jobs).iter().sum::<i64>();
        let best = sum(Kind::Sjf);
        for kind in ALL {
            prop_assert!(best <= sum(kind), "{kind:?}");
        }
    }
}
