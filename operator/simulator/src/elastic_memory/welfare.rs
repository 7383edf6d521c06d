//! The allotment of memory that is worth the most: a knapsack in which every item has several sizes.

use super::{play::Live, policy::worth};

/// How much memory each task has in the best allotment; `value` is what a task's full speed is worth.
pub fn best(live: &[Live], memory: i64, value: impl Fn(&Live) -> f64) -> Vec<i64> {
    let sizes = usize::try_from(memory).unwrap_or_default() + 1;
    // What the tasks so far are worth at most in so much memory, and what each of them has then.
    let mut most = vec![0.0_f64; sizes];
    let mut chosen: Vec<Vec<i64>> = Vec::with_capacity(live.len());
    for task in live {
        let value = value(task);
        let options: Vec<(i64, f64)> =
            (task.task.least()..=task.task.need).map(|held| (held, worth(task, held, value))).collect();
        let mut choices = vec![0; sizes];
        let mut next = most.clone();
        for (room, (next, choice)) in (0..).zip(next.iter_mut().zip(&mut choices)) {
            for &(held, worth) in options.iter().take_while(|(held, _)| *held <= room) {
                let rest = usize::try_from(room - held).ok().and_then(|rest| most.get(rest));
                if let Some(total) = rest.map(|rest| rest + worth)
                    && total > *next
                {
                    *next = total;
                    *choice = held;
                }
            }
        }
        most = next;
        chosen.push(choices);
    }
    let mut room = memory;
    let mut held: Vec<i64> = chosen
        .iter()
        .rev()
        .map(|choices| {
            let held = usize::try_from(room).ok().and_then(|room| choices.get(room)).copied().unwrap_or(0);
            room -= held;
            held
        })
        .collect();
    held.reverse();
    held
}
