//! Waiting for a manager, for as long as it does anything at all.
//!
//! Time says nothing on a busy machine. How often a manager has handed the [probe](super::probe)'s quota over says
//! how much it has done meanwhile, so that is what is counted.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::sync::watch;
use tokio::time::timeout;

use super::board::Board;

/// What has not happened after so many hand-overs will never happen.
const MOST: u64 = 300;
/// A manager that takes longer for one of them has stopped.
const STOPPED: Duration = Duration::from_mins(5);

/// One wait.
pub struct Patience {
    rounds: watch::Receiver<u64>,
    started: u64,
}

impl Patience {
    /// Begins to wait.
    pub fn new(board: &Board) -> Self {
        let mut rounds = board.rounds();
        let started = *rounds.borrow_and_update();
        Self { rounds, started }
    }

    /// How many hand-overs there have been since the cluster's start.
    pub fn round(&self) -> u64 {
        *self.rounds.borrow()
    }

    /// Waits for the next hand-over and says how many there were in this wait. Fails when it makes no sense to go on
    /// waiting; `what` says for what.
    pub async fn next(&mut self, what: impl FnOnce() -> String) -> Result<u64> {
        match timeout(STOPPED, self.rounds.changed()).await {
            Ok(changed) => changed?,
            Err(_) => bail!("the manager hands no quota over any more; waited for {}", what()),
        }
        let passed = self.rounds.borrow_and_update().saturating_sub(self.started);
        if passed > MOST {
            bail!("waited {passed} hand-overs for {}", what());
        }
        Ok(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_ends_by_what_the_manager_has_done() {
        let board = Board::default();
        let mut patience = Patience::new(&board);
        for passed in 1..=MOST {
            board.round_done();
            assert_eq!(patience.next(String::new).await.unwrap(), passed);
        }
        board.round_done();
        let error = patience.next(|| "a queue".to_owned()).await.unwrap_err();
        assert_eq!(error.to_string(), "waited 301 hand-overs for a queue");
    }
}
