//! Decisions as a record: the lines of the decision log, who may see what of them, and how they compare with what
//! another scheduler did with the same queues.
//!
//! | module | what it holds |
//! |---|---|
//! | [`line`] | a line of the log: its fields and their names |
//! | [`view`] | what a tenant sees of a line |
//! | [`observe`] | planned decisions held against seen ones |
//!
//! Nothing here reads a clock or a file.

pub mod line;
pub mod observe;
pub mod view;
