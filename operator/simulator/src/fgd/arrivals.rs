//! The order in which tasks arrive.
//!
//! As in the artefact: the tasks are shuffled; then tasks drawn at random are appended until the next would bring what is
//! asked for above the wanted share of the cluster's GPUs, or, where the tasks ask for more than that from the start, tasks
//! drawn at random are taken out until they do not. And nodes are given numbers at random in front of their names: ties
//! between nodes go by name, so they go by these.

use crate::dice::Dice;

use super::trace::Task;

/// What one run of the experiment is made of.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// The tasks in the order in which they arrive, as indices of the mix.
    pub order: Vec<usize>,
    /// Of each node, its place in the order of names.
    pub ranks: Vec<usize>,
    /// What is left to chance after that.
    pub dice: Dice,
}

impl Arrivals {
    /// The arrivals of a seed: until `percent` of the GPUs (`capacity`, in thousandths) are asked for.
    pub fn new(tasks: &[Task], nodes: usize, capacity: u64, percent: u64, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        dice.shuffle(&mut order);
        let most = capacity * percent / 100;
        let total = |index: &usize| tasks.get(*index).map_or(0, |task| u64::from(task.total()));
        let mut asked: u64 = order.iter().map(total).sum();
        if asked > most {
            while asked > most {
                let removed = order.remove(dice.below(order.len()));
                asked -= total(&removed);
            }
        } else if asked > 0 {
            loop {
                let next = dice.below(tasks.len());
                let Some(task) = tasks.get(next) else { break };
                // The artefact compares with what it takes of one GPU only.
                if asked + u64::from(task.milli) > most {
                    break;
                }
                asked += u64::from(task.total());
                order.push(next);
            }
        }
        let mut ranks: Vec<usize> = (0..nodes).collect();
        dice.shuffle(&mut ranks);
        Self { order, ranks, dice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(milli: &[u32]) -> Vec<Task> {
        milli
            .iter()
            .map(|milli| Task {
                cpu: 1,
                memory: 1,
                gpus: u32::from(*milli > 0),
                milli: *milli,
                spec: String::new(),
            })
            .collect()
    }

    #[test]
    fn tasks_arrive_until_as_much_is_asked_for_as_wanted() {
        let tasks = tasks(&[500, 0, 1000, 250]);
        for seed in 0..20 {
            let arrivals = Arrivals::new(&tasks, 5, 10_000, 130, seed);
            let asked: u32 = arrivals.order.iter().map(|index| tasks[*index].total()).sum();
            assert!((12_000..=13_000).contains(&asked), "{asked}");
            let mut first = arrivals.order[..4].to_vec();
            first.sort_unstable();
            assert_eq!(first, [0, 1, 2, 3], "each once before any twice");
            let mut ranks = arrivals.ranks.clone();
            ranks.sort_unstable();
            assert_eq!(ranks, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn of_tasks_that_ask_for_too_much_some_are_left_out() {
        let tasks = tasks(&[1000; 40]);
        let arrivals = Arrivals::new(&tasks, 1, 10_000, 130, 3);
        assert_eq!(arrivals.order.len(), 13);
        let mut once = arrivals.order;
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), 13);
    }

    #[test]
    fn nothing_to_ask_for_ends_at_once() {
        assert!(Arrivals::new(&[], 3, 1000, 130, 1).order.is_empty());
        assert_eq!(Arrivals::new(&tasks(&[0, 0]), 3, 1000, 130, 1).order.len(), 2);
    }
}
