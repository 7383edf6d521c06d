//! What other schedulers' objects mean to the scheduler, and what its decisions write back.
//!
//! A dialect is pure: objects go in as they were seen, the core's types come out; a decision goes in, the text of
//! an API write comes out. Nothing here has a client. [`write`] is the form of all writes; [`kueue`] is the first
//! dialect, and [`policies`] are `WhaleZEN`'s own brakes on what is decided in any of them.

pub mod kueue;
pub mod policies;
pub mod write;
