//! The scheduler's decisions, away from the cluster: what it decides is a function of its state, so a state that was
//! kept gives the same decision again, and so does one that was kept with all that happened since.

pub mod journal;
pub mod replay;
