//! Monte-Carlo workload inflation over the openb trace: how much of a cluster's GPUs each placement policy gets allocated.
//!
//! The experiment, the trace and six of the policies are those of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023) and its
//! artefact. Tasks [arrive](arrivals) in a random order, and more of the same kinds after them, until 130 % of the cluster's
//! GPUs were asked for; nobody leaves; who does not fit is dropped. What is measured is how much is allocated.
//!
//! | module | what it holds |
//! |---|---|
//! | [`trace`] | the files: nodes and tasks |
//! | [`arrivals`] | the order in which tasks arrive, and under which names nodes stand |
//! | [`field`] | the cluster as the published policies see it |
//! | [`published`] | those policies |
//! | [`policy`] | all policies, ours among them |
//! | [`experiment`] | one run, and many at once |
//! | [`reference`] | the published figures |
//! | [`report`] | tables and JSON |
//! | [`timing`] | how long a decision takes |

pub mod arrivals;
pub mod command;
pub mod experiment;
pub mod field;
pub mod policy;
pub mod published;
pub mod reference;
pub mod report;
pub mod timing;
pub mod trace;
