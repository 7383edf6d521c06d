//! What a tenant could run on its own it can run, whatever the others do.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn cells() -> Cells {
    // Three racks of two nodes: one tenant has a rack, the others three and one nodes.
    let quotas = [Quota { racks: 1, nodes: 0 }, Quota { racks: 0, nodes: 3 }, Quota { racks: 0, nodes: 1 }];
    Cells::new(3, 2, &quotas).unwrap()
}

#[test]
fn a_gang_that_has_cells_starts_and_one_that_has_none_does_not() {
    let mut cells = cells();
    assert_eq!(cells.start(2, 1, 8), Ok(Start::Started(Vec::new())));
    assert_eq!(cells.start(2, 2, 1), Ok(Start::NoRoom));
    assert!(cells.has_room(0, 16) && !cells.has_room(0, 17) && !cells.has_room(9, 1));
    assert_eq!(cells.start(2, 1, 1), Err(CellsError::Twice(1)));
    assert_eq!(cells.start(9, 3, 1), Err(CellsError::Tenant(9)));
    cells.end(1);
    assert_eq!(cells.start(2, 2, 1), Ok(Start::Started(Vec::new())));
}

#[test]
fn who_borrows_stops_when_it_is_wanted_and_nobody_else_does() {
    let mut cells = cells();
    assert!(cells.lend(1, 16) && cells.lend(2, 16) && cells.lend(3, 8) && cells.lend(4, 4));
    assert!(!cells.lend(5, 5), "four are left");
    let Start::Started(stopped) = cells.start(2, 6, 1).unwrap() else { panic!() };
    assert_eq!(stopped, [] as [u64; 0], "one of the four that are idle");
    let Start::Started(stopped) = cells.start(0, 7, 16).unwrap() else { panic!() };
    assert_eq!(stopped, [2], "of two racks that cost as much the first");
}

#[test]
fn more_than_there_is_cannot_be_promised() {
    let quotas = [Quota { racks: 2, nodes: 1 }, Quota { racks: 0, nodes: 2 }];
    assert_eq!(Cells::new(3, 2, &quotas).unwrap_err(), CellsError::Promised(2, 3, 3, 2));
    assert!(Cells::new(4, 2, &quotas).is_ok());
}

#[test]
fn a_quota_of_gpus_is_the_fewest_cells() {
    assert_eq!(Quota::of_gpus(0, 8), Quota::default());
    assert_eq!(Quota::of_gpus(9, 8), Quota { racks: 0, nodes: 2 });
    assert_eq!(Quota::of_gpus(64 + 1, 8), Quota { racks: 1, nodes: 1 });
    assert_eq!(levels(21), [NODE, NODE, NODE], "five GPUs are a node");
    assert_eq!(levels(11), [NODE, 2]);
}

#[derive(Clone, Debug)]
enum Step {
    Start(usize, u32),
    Lend(u32),
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let gpus = prop_oneof![1_u32..9, 1_u32..25];
    prop_oneof![
        3 => (0_usize..3, gpus.clone()).prop_map(|(tenant, gpus)| Step::Start(tenant, gpus)),
        1 => gpus.prop_map(Step::Lend),
        2 => (0_usize..40).prop_map(Step::End),
    ]
}

proptest! {
    #[test]
    fn what_a_tenants_own_cells_have_room_for_starts_whatever_happened(steps in prop::collection::vec(step(), 1..120)) {
        let mut cells = cells();
        let mut running: BTreeMap<JobNumber, u32> = BTreeMap::new();
        for (job, step) in (0..).zip(steps) {
            match step {
                Step::Start(tenant, gpus) => {
                    let had_room = cells.has_room(tenant, gpus);
                    match cells.start(tenant, job, gpus) {
                        Ok(Start::Started(stopped)) => {
                            prop_assert!(had_room);
                            for borrower in stopped {
                                prop_assert!(running.remove(&borrower).is_some());
                            }
                            running.insert(job, levels(gpus).iter().map(|level| 1 << level).sum());
                        }
                        Ok(Start::NoRoom) => prop_assert!(!had_room),
                        Err(problem) => prop_assert!(false, "{problem}"),
                    }
                }
                Step::Lend(gpus) => {
                    if cells.lend(job, gpus) {
                        running.insert(job, gpus);
                    }
                }
                Step::End(which) => {
                    let job = running.keys().nth(which).copied();
                    if let Some(job) = job {
                        cells.end(job);
                        running.remove(&job);
                    }
                }
            }
            // Everybody has what it was given, and no more.
            for (job, gpus) in &running {
                prop_assert_eq!(cells.gpus_of(*job).len(), index(*gpus));
            }
            prop_assert_eq!(cells.idle(), 48 - running.values().sum::<u32>());
        }
        for job in running.keys() {
            cells.end(*job);
        }
        prop_assert_eq!(cells.shared, private(Quota { racks: 3, nodes: 0 }, 2), "and all is whole again");
    }

    #[test]
    fn what_is_taken_and_given_back_is_as_it_was(levels in prop::collection::vec(0_usize..5, 0..12)) {
        let mut buddies = private(Quota { racks: 2, nodes: 3 }, 2);
        let before = buddies.clone();
        let taken: Vec<Cell> = levels.iter().filter_map(|level| buddies.take(*level)).collect();
        let mut gpus: Vec<u32> = taken.iter().flat_map(|cell| buddies.leaves(*cell)).collect();
        let count = gpus.len();
        gpus.sort_unstable();
        gpus.dedup();
        prop_assert_eq!(gpus.len(), count, "nothing is given twice");
        prop_assert!(gpus.iter().all(|gpu| *gpu < 2 * 16 + 3 * 8));
        for cell in taken {
            buddies.give(cell);
        }
        prop_assert_eq!(buddies, before);
    }
}
