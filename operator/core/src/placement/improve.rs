//! What can be made better when a gang is blocked: who would move, who would stop, and where the gang would be then.
//!
//! This runs beside the decision path, on a [`Snapshot`], and changes nothing: [`improve`] hands back [`Proposal`]s, data
//! that enter as events, each to be [verified](Proposal::verify) against what is true by then.
//!
//! It is a large-neighbourhood search (Shaw, CP 1998). A step takes a domain, takes the cheapest jobs out of it until the gang has room,
//! places the gang, and puts everybody back where there is room: home first, then nearby, then anywhere. If what is placed is worth
//! more then ([`Worth`]), or as much, or not much less than at best, it stays so; else the step is undone. The best that was seen is kept, and is what
//! comes of it: more budget only appends steps, and is never worse. The budget counts nodes looked at and tasks placed, and no clock is read: the same snapshot,
//! seed and budget give the same proposals.
//!
//! | module | what it holds |
//! |---|---|
//! | `job` | who runs, who waits, and what may be done to them |
//! | `board` | all of them on a cluster, with a way back |
//! | `insert` | where a gang has room in a part of the cluster |
//! | `worth` | what a state of affairs is worth |
//! | `search`, `choose` | the steps, and what each is about |
//! | `proposal` | what comes of it, and whether it still holds |
//! | `dice` | numbers that look random and are not |

mod board;
mod choose;
mod dice;
mod insert;
mod job;
mod proposal;
mod search;
mod worth;

pub use self::{
    job::{Blocked, Job, JobId, Leave, Place, Resident, Snapshot, SnapshotError},
    proposal::{Change, Proposal, Refusal},
    search::{Budget, Improvement, improve},
    worth::Worth,
};

#[cfg(test)]
mod tests;
