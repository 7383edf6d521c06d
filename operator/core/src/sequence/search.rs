//! The search among candidates.

use std::cmp::Reverse;

use super::{Instance, Schedule, Task};

/// The candidate that is the best so far.
#[derive(Clone)]
struct Candidate {
    order: Vec<usize>,
    stops: Vec<bool>,
    schedule: Schedule,
}

/// The work that is left to spend, in jobs placed.
struct Budget(u64);

impl Budget {
    fn spend(&mut self, jobs: usize) -> bool {
        let cost = u64::try_from(jobs.max(1)).unwrap_or(u64::MAX);
        let enough = self.0 >= cost;
        self.0 = self.0.saturating_sub(cost);
        enough
    }
}

impl Instance {
    /// The best schedule that is found with so many jobs placed, and always the best of a few good orders. None if
    /// there is none: a job asks for more than there is.
    pub fn best(&self, budget: u64) -> Option<Schedule> {
        let mut best: Option<Candidate> = None;
        for order in self.good_orders() {
            let none = vec![false; self.tasks.len()];
            self.consider(&mut best, order, none);
        }
        let mut budget = Budget(budget);
        if self.candidates().is_some_and(|candidates| candidates <= budget.0) {
            self.try_all(&mut best);
        } else {
            while self.improve(&mut best, &mut budget) {}
        }
        best.map(|best| best.schedule)
    }

    /// Orders that are good by themselves: the least work first, the least time, the narrowest, and who came first.
    fn good_orders(&self) -> Vec<Vec<usize>> {
        let by = |key: &dyn Fn(&Task) -> i64| {
            let mut order: Vec<usize> = (0..self.tasks.len()).collect();
            order.sort_by_key(|&index| self.tasks.get(index).map(key));
            order
        };
        let time = |task: &Task| task.work / task.width.max(1);
        vec![by(&|task| task.work), by(&time), by(&|task| task.width), by(&|_| 0)]
    }

    fn consider(&self, best: &mut Option<Candidate>, order: Vec<usize>, stops: Vec<bool>) -> bool {
        let Some(schedule) = self.schedule(&order, &stops) else { return false };
        let better = best.as_ref().is_none_or(|best| schedule.cost() < best.schedule.cost());
        if better {
            *best = Some(Candidate { order, stops, schedule });
        }
        better
    }

    /// How many jobs are placed to try all candidates; none if that is past counting.
    pub(super) fn candidates(&self) -> Option<u64> {
        let jobs = u64::try_from(self.tasks.len()).ok()?;
        let on = u32::try_from(self.tasks.iter().filter(|task| task.can_stop()).count()).ok()?;
        let orders = (1..=jobs).try_fold(1_u64, u64::checked_mul)?;
        orders.checked_mul(2_u64.checked_pow(on)?)?.checked_mul(jobs)
    }

    fn try_all(&self, best: &mut Option<Candidate>) {
        let on: Vec<usize> = self.stoppable().collect();
        for choice in 0..1_u64 << on.len() {
            let mut stops = vec![false; self.tasks.len()];
            for (bit, &index) in on.iter().enumerate() {
                if let Some(stop) = stops.get_mut(index) {
                    *stop = choice >> bit & 1 == 1;
                }
            }
            let mut order: Vec<usize> = (0..self.tasks.len()).collect();
            loop {
                self.consider(best, order.clone(), stops.clone());
                if !next_permutation(&mut order) {
                    break;
                }
            }
        }
    }

    fn stoppable(&self) -> impl Iterator<Item = usize> {
        self.tasks.iter().enumerate().filter(|(_, task)| task.can_stop()).map(|(index, _)| index)
    }

    /// Tries every small change until one is better. Says whether there was one.
    fn improve(&self, best: &mut Option<Candidate>, budget: &mut Budget) -> bool {
        let Some(current) = best.clone() else { return false };
        let jobs = self.tasks.len();
        // Who holds the most and has the most left is the likeliest to be worth stopping.
        let mut on: Vec<usize> = self.stoppable().collect();
        on.sort_by_key(|&index| Reverse(self.tasks.get(index).map(|task| task.work)));
        for index in on {
            let mut stops = current.stops.clone();
            if let Some(stop) = stops.get_mut(index) {
                *stop = !*stop;
            }
            // Beside where it stands, at the end: whoever is stopped lets the others go first.
            let last: Vec<usize> =
                current.order.iter().copied().filter(|&other| other != index).chain([index]).collect();
            for order in [current.order.clone(), last] {
                if !budget.spend(jobs) {
                    return false;
                }
                if self.consider(best, order, stops.clone()) {
                    return true;
                }
            }
        }
        for from in 0..jobs {
            for to in (0..jobs).filter(|&to| to != from) {
                let mut order = current.order.clone();
                let index = order.remove(from);
                order.insert(to, index);
                if !budget.spend(jobs) {
                    return false;
                }
                if self.consider(best, order, current.stops.clone()) {
                    return true;
                }
            }
        }
        false
    }
}

/// The next order of numbers by the alphabet; false after the last.
fn next_permutation(order: &mut [usize]) -> bool {
    let Some(pivot) = order.windows(2).rposition(|pair| matches!(pair, [a, b] if a < b)) else {
        return false;
    };
    let Some(&value) = order.get(pivot) else { return false };
    let Some(other) = order.iter().rposition(|&candidate| candidate > value) else { return false };
    order.swap(pivot, other);
    if let Some(tail) = order.get_mut(pivot + 1..) {
        tail.reverse();
    }
    true
}
