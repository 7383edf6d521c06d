//! One workload under one policy: memory is integer GB, time is real.

use super::{gigabytes, policy::MemoryPolicy, workload::Task};

/// A task that has arrived and is not done.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Its place in the order of arrival.
    pub index: usize,
    /// What was drawn for it.
    pub task: Task,
    /// The seconds that it has left with all the memory that it needs.
    pub left: f64,
    /// The memory that it has, in GB.
    pub held: i64,
    /// In which order it was started; none if it never was.
    pub started: Option<usize>,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Played {
    /// When each task was done, less when it arrived, in the order of arrival.
    pub turnaround: Vec<f64>,
    /// When each was done.
    pub done: Vec<f64>,
    /// GB times seconds that were held by [`HORIZON`].
    pub held_by_horizon: f64,
    /// GB times seconds that were held in all.
    pub held: f64,
    /// The most GB that were held at once.
    pub most_held: i64,
}

/// Until when the document looks, in seconds.
pub const HORIZON: f64 = 200.0;

/// Plays tasks until all are done.
pub fn play(tasks: &[Task], policy: MemoryPolicy) -> Played {
    let mut played =
        Played { turnaround: vec![0.0; tasks.len()], done: vec![0.0; tasks.len()], ..Played::default() };
    let mut live: Vec<Live> = Vec::new();
    let mut arrivals = tasks.iter().copied().enumerate().peekable();
    let (mut now, mut starts) = (0.0, 0);
    loop {
        let arrival = arrivals.peek().map(|(_, task)| task.arrival);
        let end =
            live.iter().filter(|live| live.held > 0).map(|live| now + live.left / live.task.speed(live.held));
        let Some(next) = end.chain(arrival).min_by(f64::total_cmp) else { break };
        let held: i64 = live.iter().map(|live| live.held).sum();
        played.held += gigabytes(held) * (next - now);
        played.held_by_horizon += gigabytes(held) * (next.min(HORIZON) - now).max(0.0);
        for live in &mut live {
            live.left -= (next - now) * live.task.speed(live.held);
        }
        now = next;
        let mut ended = false;
        live.retain(|live| {
            // What is left of a second after the last step is what rounding left.
            let done = live.held > 0 && live.left < 1e-9;
            if done {
                ended = true;
                if let Some(turnaround) = played.turnaround.get_mut(live.index) {
                    *turnaround = now - live.task.arrival;
                }
                if let Some(moment) = played.done.get_mut(live.index) {
                    *moment = now;
                }
            }
            !done
        });
        while let Some((index, task)) = arrivals.next_if(|(_, task)| task.arrival <= now) {
            live.push(Live { index, task, left: task.duration, held: 0, started: None });
        }
        policy.allot(&mut live, ended, now);
        played.most_held = played.most_held.max(live.iter().map(|live| live.held).sum());
        for live in live.iter_mut().filter(|live| live.held > 0 && live.started.is_none()) {
            live.started = Some(starts);
            starts += 1;
        }
    }
    played
}
