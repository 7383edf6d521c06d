//! The one thing that goes wrong when asked for: the leading replica dies while a job runs.

use std::time::Duration;

use anyhow::Result;
use whalezen_e2e::Replicas;

use crate::row::{Row, State};

/// How far the fault has come.
pub enum Fault {
    None,
    /// As soon as a job runs.
    Armed,
    Killed {
        leader: String,
        at: Duration,
    },
}

impl Fault {
    /// Does what is due at `at` and says what happened.
    pub async fn step(
        &mut self,
        replicas: &mut Replicas,
        rows: &[Row],
        at: Duration,
    ) -> Result<Option<String>> {
        match self {
            Self::None => Ok(None),
            Self::Armed => {
                if !rows.iter().any(|row| matches!(row.state, State::Running(_))) {
                    return Ok(None);
                }
                let leader = replicas.kill_leader().await?;
                let told = format!("{leader}, which leads, is killed");
                *self = Self::Killed { leader, at };
                Ok(Some(told))
            }
            Self::Killed { leader, at: killed } => {
                let Some(successor) = replicas.leader().await? else { return Ok(None) };
                let after = at.saturating_sub(*killed).as_secs_f64();
                let told = format!("{successor} has taken over from {leader} after {after:.1} s");
                *self = Self::None;
                Ok(Some(told))
            }
        }
    }
}
