//! The planner against every layout that a GPU can have.

#[cfg(test)]
mod laws;
#[cfg(test)]
mod world;
