//! Sharing, on small traces.

use proptest::prelude::*;

use super::*;
use crate::trace::Job;

fn job(queue: &str, submit: i64, run: i64, gpus: i64) -> Job {
    Job { name: String::new(), user: String::new(), queue: queue.to_owned(), submit, run, gpus, least: gpus }
}

/// Two tenants with a node each, in one rack.
fn shared(jobs: Vec<Job>) -> Tenants {
    let quota = Quota { racks: 0, nodes: 1 };
    Tenants::new(&Trace::new(jobs), &["a", "b"], vec![quota, quota], 2)
}

fn played(tenants: &Tenants) -> [Played; 3] {
    Sharing::ALL.map(|sharing| play(tenants, sharing, &mut |_| {}).unwrap())
}

#[test]
fn a_gang_is_lost_to_one_that_borrows_unless_that_is_stopped() {
    // One of a borrows the node of b, which b wants soon after.
    let tenants = shared(vec![job("a", 0, 100, 8), job("a", 0, 100, 8), job("b", 10, 50, 8)]);
    let [counted, stopping, cells] = played(&tenants);
    assert_eq!((counted.lost, counted.longest_lost, counted.lost_work), (1, 90, 720));
    assert_eq!((stopping.lost, stopping.stops), (0, 1));
    assert_eq!((cells.lost, cells.stops, cells.jobs), (0, 1, 3));
    assert_eq!(cells.waited, 0);
    // All that the second of a did it did on what it borrowed, before it was stopped and after.
    assert_eq!((cells.worked, cells.borrowed), (8 * 250, 8 * 100));
}

#[test]
fn stopping_those_who_borrow_does_not_help_where_quota_lies_in_pieces() {
    // Each tenant runs two halves, one on each node. Those of a end, and it wants its node as a whole.
    let jobs = vec![
        job("a", 0, 100, 4),
        job("b", 1, 1000, 4),
        job("a", 2, 100, 4),
        job("b", 3, 1000, 4),
        job("a", 200, 10, 8),
    ];
    let [counted, stopping, cells] = played(&shared(jobs));
    assert_eq!((counted.lost, stopping.lost, stopping.longest_lost), (1, 1, 801));
    assert_eq!((cells.lost, cells.stops), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn with_cells_no_gang_is_lost_and_all_work_is_done(
        jobs in prop::collection::vec((any::<bool>(), 0_i64..200, 1_i64..60, prop::sample::select(vec![1_i64, 2, 3, 4, 8, 16])), 1..60),
    ) {
        let jobs: Vec<Job> = jobs
            .into_iter()
            .map(|(first, submit, run, gpus)| job(if first { "a" } else { "b" }, submit, run, gpus))
            .collect();
        let work: i64 = jobs.iter().map(|job| job.run * job.gpus).sum();
        let count = i64::try_from(jobs.len()).unwrap();
        let quotas = vec![Quota { racks: 1, nodes: 0 }, Quota { racks: 0, nodes: 3 }];
        let tenants = Tenants::new(&Trace::new(jobs), &["a", "b"], quotas, 2);
        for (sharing, played) in Sharing::ALL.iter().zip(played(&tenants)) {
            prop_assert_eq!((played.jobs, played.worked), (count, work), "{:?}", sharing);
            prop_assert!(*sharing != Sharing::Cells || played.lost == 0, "{:?}", played);
        }
    }
}
