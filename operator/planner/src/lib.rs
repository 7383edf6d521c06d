//! What takes longer than a decision may: linear programs about the whole cluster, beside the decision path.
//!
//! [`plan`] says for each queue's jobs on which GPU models they should spend their time, and the duals of that program are
//! [prices](TimePlan::prices) for the score's heterogeneity term. [`oracle`] says what the best placement is worth on a small
//! cluster, and [`gap`] how far the search of the core is from it; no decision is made by these two.
//!
//! Everything is a function of its input: no clock is read, and limits count the solver's steps.

pub mod gap;
mod instance;
mod linear;
pub mod oracle;
mod plan;
mod pop;

pub use self::{
    instance::instance,
    linear::{Linear, LinearError, Row, Solved},
    plan::{Aim, Cap, Demand, PlanError, Problem, Supply, TimePlan, plan},
    pop::{SPLIT_ABOVE, plan_in_parts},
};
