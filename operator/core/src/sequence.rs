//! In what order jobs run, and who is worth stopping: the least sum of completion times, with what a checkpoint costs.
//!
//! An [`Instance`] is what there is at a moment: capacity, and jobs with their widths and the work that they have left.
//! A *candidate* is an order of the jobs and a choice of those that run and are to stop. [`Instance::schedule`] places
//! one job after another at the first moment that there is for it, which among rigid jobs leads to the best schedule
//! for some order (it is the serial scheme of project scheduling: Kelley 1963); [`Instance::best`] searches the
//! candidates, all of them where they are few and from good ones by small changes where they are many, within a budget
//! that counts work and not time. Nothing that is not known yet is counted on: when jobs arrive it is asked again.

mod instance;
mod schedule;
mod search;

pub use instance::{Costs, Grid, Instance, Standing, Task};
pub use schedule::Schedule;

#[cfg(test)]
mod tests;
