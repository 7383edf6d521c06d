//! Decisions as a record: the lines of the decision log, who may see what of them, what they were made from, and how
//! they compare with what another scheduler did with the same queues.
//!
//! | module | what it holds |
//! |---|---|
//! | [`line`] | a line of the log: its fields and their names |
//! | [`journal`] | what plans were made from, and whether they come out the same again |
//! | [`file`] | the names of the files of both |
//! | [`view`] | what a tenant sees of a line |
//! | [`observe`] | planned decisions held against seen ones |
//!
//! Nothing here reads a clock or a file.

pub mod file;
pub mod journal;
pub mod line;
pub mod observe;
pub mod view;
