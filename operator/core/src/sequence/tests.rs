//! The rule against schedules that are found by trying every start.

use proptest::prelude::*;

use super::*;

fn rigid(width: i64, run: i64, standing: Standing) -> Task {
    Task { width, least: width, work: width * run, standing, may_stop: true }
}

fn instance(capacity: i64, costs: Costs, tasks: Vec<Task>) -> Instance {
    Instance { capacity, grid: Grid::Any, costs, tasks }
}

const ON: Standing = Standing::On { held: 4, restoring: 0 };

#[test]
fn a_running_job_is_stopped_only_for_more_waiting_than_it_costs() {
    // A wide job has 100 left and a short one of 10 comes. Stopping it costs the short one the saving, and the wide one
    // the short one's time, the saving and the restoring: 2 save + restore + 10 against the 100 that the short one waits.
    for (save, restore, stopped) in
        [(0, 0, true), (20, 20, true), (29, 31, true), (30, 31, false), (40, 40, false)]
    {
        let costs = Costs { save, restore, resize: 0 };
        let tasks = vec![rigid(4, 100, ON), rigid(1, 10, Standing::Fresh)];
        let best = instance(4, costs, tasks).best(1000).unwrap();
        assert_eq!(best.stops, [stopped, false], "save {save}, restore {restore}");
        let (sum, ..) = best.cost();
        let with = 2 * save + restore + 10 + 100 + 10;
        assert_eq!(sum, i128::from(with.min(100 + 110)));
    }
}

#[test]
fn a_job_that_can_do_with_less_takes_what_is_left_over() {
    let elastic = Task { width: 64, least: 1, work: 64 * 168, standing: Standing::Fresh, may_stop: true };
    let mut tasks = vec![elastic, rigid(8, 12, Standing::Fresh)];
    tasks.extend([rigid(2, 4, Standing::Fresh); 10]);
    let mut whale = instance(64, Costs::default(), tasks);
    for (grid, share) in [(Grid::Any, 36), (Grid::Multiples(8), 32), (Grid::PowersOfTwo, 32)] {
        whale.grid = grid;
        let best = whale.best(20_000).unwrap();
        assert_eq!(best.now[..2], [share, 8]);
        assert_eq!(best.done[1..], [12, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]);
    }
}

#[test]
fn growing_is_left_alone_where_it_costs_more_than_it_gains() {
    let grown = |work: i64| {
        let standing = Standing::On { held: 2, restoring: 0 };
        let tasks = vec![Task { width: 4, least: 1, work, standing, may_stop: true }];
        // Stopping it and starting it anew is dearer still.
        instance(4, Costs { save: 50, restore: 50, resize: 10 }, tasks).best(100).unwrap().now[0]
    };
    // On 2 it takes work/2, on 4 it takes work/4 + 10.
    assert_eq!(grown(36), 2);
    assert_eq!(grown(44), 4);
}

#[test]
fn what_asks_for_more_than_there_is_has_no_schedule() {
    assert_eq!(instance(4, Costs::default(), vec![rigid(5, 1, Standing::Fresh)]).best(100), None);
    assert_eq!(instance(4, Costs::default(), Vec::new()).best(100).unwrap().cost(), (0, 0, 0));
}

/// Every choice of start times up to the horizon, and of whom to stop: the least sum of completion times.
fn by_brute_force(instance: &Instance, horizon: i64) -> i64 {
    let on: Vec<usize> =
        (0..instance.tasks.len()).filter(|&index| instance.tasks[index].can_stop()).collect();
    let mut least = i64::MAX;
    for choice in 0..1_u32 << on.len() {
        let mut used = vec![0; usize::try_from(2 * horizon).unwrap()];
        let mut waiting = Vec::new();
        let mut sum = 0;
        for (index, task) in instance.tasks.iter().enumerate() {
            let run = task.work / task.width;
            let stop = on.iter().position(|&other| other == index).map(|bit| choice >> bit & 1 == 1);
            match (task.standing, stop) {
                (Standing::On { held, .. }, Some(false)) => {
                    add(&mut used, 0, run, held);
                    sum += run;
                }
                (Standing::On { held, .. }, _) => {
                    add(&mut used, 0, instance.costs.save, held);
                    waiting.push((task.width, instance.costs.restore + run, instance.costs.save));
                }
                (Standing::Stopped, _) => waiting.push((task.width, instance.costs.restore + run, 0)),
                _ => waiting.push((task.width, run, 0)),
            }
        }
        least = least.min(starts(&mut used, &waiting, sum, instance.capacity, horizon, least));
    }
    least
}

fn add(used: &mut [i64], from: i64, run: i64, width: i64) {
    for at in from..from + run {
        used[usize::try_from(at).unwrap()] += width;
    }
}

fn starts(
    used: &mut [i64],
    waiting: &[(i64, i64, i64)],
    sum: i64,
    capacity: i64,
    horizon: i64,
    least: i64,
) -> i64 {
    let Some((&(width, run, from), rest)) = waiting.split_first() else { return sum };
    let mut least = least;
    for start in from..horizon {
        let span = usize::try_from(start).unwrap()..usize::try_from(start + run).unwrap();
        if sum + start + run < least && used[span].iter().all(|&used| used + width <= capacity) {
            add(used, start, run, width);
            least = least.min(starts(used, rest, sum + start + run, capacity, horizon, least));
            add(used, start, run, -width);
        }
    }
    least
}

fn small() -> impl Strategy<Value = Instance> {
    let task = (1_i64..5, 1_i64..6, 0_u8..4);
    (prop::collection::vec(task, 1..5), 0_i64..3, 0_i64..3).prop_map(|(tasks, save, restore)| {
        let mut free = 4;
        let tasks = tasks.into_iter().map(|(width, run, kind)| {
            let standing = match kind {
                0 => Standing::Stopped,
                1 | 2 if width <= free => {
                    free -= width;
                    Standing::On { held: width, restoring: 0 }
                }
                _ => Standing::Fresh,
            };
            rigid(width, run, standing)
        });
        let tasks = tasks.collect();
        instance(4, Costs { save, restore, resize: 0 }, tasks)
    })
}

proptest! {
    #[test]
    fn where_all_candidates_are_tried_no_schedule_is_better(instance in small()) {
        let (sum, ..) = instance.best(1_000_000).unwrap().cost();
        prop_assert_eq!(sum, i128::from(by_brute_force(&instance, 34)));
    }

    #[test]
    fn small_changes_lead_to_the_best_or_close_to_it(instance in small()) {
        // Too small a budget to try all of them, and enough for small changes.
        let all = instance.best(1_000_000).unwrap().cost().0;
        let few = instance.best(instance.candidates().unwrap().saturating_sub(1)).unwrap().cost().0;
        prop_assert!(all <= few && few * 10 <= all * 13, "{few} and not {all}");
    }

    #[test]
    fn nothing_is_held_twice_and_the_schedule_says_who_starts_now(
        instance in small(), elastic in prop::collection::vec((1_i64..5, 1_i64..40), 0..3), resize in 0_i64..3,
    ) {
        let mut instance = instance;
        instance.costs.resize = resize;
        instance.tasks.extend(elastic.iter().map(|&(width, work)| Task { width, least: 1, work, standing: Standing::Fresh, may_stop: true }));
        let best = instance.best(2_000).unwrap();
        let held: i64 = best.now.iter().sum();
        let saving: i64 = instance.tasks.iter().zip(&best.stops).filter(|(_, stop)| **stop && instance.costs.save > 0)
            .map(|(task, _)| task.width).sum();
        prop_assert!(held + saving <= 4);
        for (task, done) in instance.tasks.iter().zip(&best.done) {
            prop_assert!(*done >= (task.work + task.width - 1) / task.width);
        }
    }
}
