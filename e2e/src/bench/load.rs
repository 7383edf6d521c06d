//! How busy the machine was while something was measured, and how much of it was somebody else's
//! doing.
//!
//! On a few shared cores a stranger's compiler is worth a minute of wall time, so a figure
//! without this one beside it says little.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Linux shows user space its clocks at this rate whatever the kernel ticks at (proc(5)).
const USER_HZ: u64 = 100;

/// The machine's CPU time since boot, at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    at: Instant,
    busy: Duration,
}

impl Moment {
    /// Reads the kernel's counters.
    pub fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        let ticks = busy_ticks(&text).context("/proc/stat has no line for all CPUs")?;
        Ok(Self { at: Instant::now(), busy: Duration::from_millis(ticks.saturating_mul(1000 / USER_HZ)) })
    }

    /// Cores kept busy on average since this moment by all but the processes that used `own` CPU
    /// seconds of it.
    pub fn others_since(&self, own: f64) -> Result<f64> {
        let now = Self::now()?;
        let wall = now.at.duration_since(self.at).as_secs_f64();
        let busy = now.busy.saturating_sub(self.busy).as_secs_f64();
        Ok(if wall > 0.0 { ((busy - own) / wall).max(0.0) } else { 0.0 })
    }
}

/// user, nice, system, irq, softirq and steal of the first line. Idle and iowait are not busy;
/// guest time is in user already.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    let idle: u64 = fields.iter().skip(3).take(2).sum();
    let all: u64 = fields.iter().take(8).sum();
    (fields.len() >= 4).then(|| all - idle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_waiting_and_guests_are_not_counted_as_busy() {
        let stat = "cpu  100 10 50 1000 200 5 6 7 90 9\ncpu0 1 2 3 4\n";
        assert_eq!(busy_ticks(stat), Some(100 + 10 + 50 + 5 + 6 + 7));
    }

    #[test]
    fn a_page_without_the_line_gives_nothing() {
        assert_eq!(busy_ticks("intr 1 2 3\n"), None);
    }

    #[test]
    fn an_idle_process_leaves_the_load_to_the_others() {
        let moment = Moment::now().unwrap();
        assert!(moment.others_since(1e9).unwrap().abs() < f64::EPSILON);
    }
}
